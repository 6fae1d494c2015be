//! The one door to a Neuron device (the runtime's "driver layer", NDL): ioctl argument
//! bytes in, result out, and mmap.
//!
//! [`Device`] is what layers above use: it fills argument structs, keeps the bounce
//! buffers, and owns what it allocates. Behind it a [`Backend`] takes the bytes. The
//! same bytes go to every backend, so what is tested on one runs on the other.
//!
//! | you look for | go to |
//! |---|---|
//! | opening a device, allocating, copying | [`Device`] |
//! | memory that frees itself | [`Memory`] |
//! | the bounce buffer of a core | [`CopyBuffer`] |
//! | copies without a bounce | [`Device::zero_copy`], [`CompletionReader`] |
//! | state of engines and queues, descriptors in a ring | [`Device::queue_state`] and its neighbours |
//! | what no ioctl shows | [`introspect`] |
//! | a machine with no hardware in it | [`software`] |
//! | writing a backend | [`backend`] |
//! | watching calls, and refusing some | [`intercept`] |
//!
//! `unsafe` lives in two places: [`backend`]'s contract that pointers inside argument
//! bytes are valid and descriptors are the caller's, which [`Device`] fulfils, and the
//! software backend's access to the caller's memory and descriptors.

pub mod backend;
mod device;
mod engine;
mod error;
mod export;
pub mod intercept;
pub mod introspect;
mod memory;
mod open;
pub mod software;
mod zero_copy;

pub use backend::{Backend, DeviceFile, Lane, Mapping};
pub use device::{CopyRequest, Device, DeviceFacts, WaitHandle};
pub use engine::QueueState;
pub use error::NdlError;
pub use memory::{AllocRequest, COPY_BUFFER_BYTES, CopyBuffer, Memory};
pub use neuron_udma::descriptor::{self, DecodedRx, DecodedTx, Descriptor};
pub use zero_copy::{Batch, BatchOperation, Completion, CompletionReader, Direction, ZeroCopyOptions};
