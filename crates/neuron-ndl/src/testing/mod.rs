//! For tests, of this crate and of those above: backends around a backend.
//!
//! | you want | use |
//! |---|---|
//! | every call that was made, as text | [`Recorder`] |
//! | a driver that lacks what older ones lack | [`OldDriver`] |
//! | the kernel backend, without a kernel | [`kernel_over`] |
//!
//! They stack: `kernel_over(Recorder::new(OldDriver::new(machine, Age::V2_24_7)).0)` is the
//! kernel backend on an old driver, with a record of what it sent.
//!
//! ```
//! use neuron_ndl::testing::{Age, OldDriver};
//! use neuron_ndl::{Device, software::Machine};
//!
//! let old = OldDriver::new(Machine::new("trn1.2xlarge")?, Age::BeforeAsync);
//! let device = Device::open(&old, 0)?;
//! assert!(!device.offers_zero_copy());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod nodes;
mod old;
mod tape;

pub use nodes::kernel_over;
pub use old::{Age, OldDriver};
pub use tape::{Recorder, Tape};
