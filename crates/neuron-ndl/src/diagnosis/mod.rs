//! What stands between a program and a device, and what to do about it: one look at the PCI
//! bus, the module, the nodes, their permissions, the driver's answers, limits, folders and
//! the environment (`spec/ndl.md` 2, 3.2, 5, 7; `spec/sysfs.md` 1).
//!
//! | module | what lives there |
//! |---|---|
//! | `check` | [`Check`], [`Status`]: one finding, as a sentence with advice |
//! | `roots` | [`Roots`]: where `/dev`, `/sys` and `/proc` are, read so that nothing in them can hurt |
//! | `hardware` | the PCI bus and the kernel module |
//! | `nodes` | the device nodes, and whether this process may open them |
//! | `container` | the signs of a container |
//! | `opening` | what the driver answers: [`explain_open_error`], versions, features |
//! | `holders` | who has a node open |
//! | `surroundings` | limits, memory, folders, variables |
//! | `examine` | [`Subject`], [`examine`]: all of it in order |
//!
//! Nothing is changed and no memory is allocated on a device. A file that is not there, not
//! text, or not to be read is a finding or is passed over; it is never a panic.
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuron_ndl::diagnosis::{Roots, Subject, examine};
//! use neuron_ndl::environment::{BackendName, Environment};
//! use neuron_ndl::software::Machine;
//!
//! let machine = Arc::new(Machine::new("trn1.2xlarge")?);
//! let subject = Subject::new(machine, BackendName::Software, vec![0])
//!     .environment(Environment::read(|_| None));
//! let diagnosis = examine(&subject, &Roots::system());
//! assert!(diagnosis.usable(), "{diagnosis:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod container;
mod examine;
mod hardware;
mod holders;
mod nodes;
mod opening;
mod roots;
mod surroundings;

pub use check::{Check, Diagnosis, Status};
pub use examine::{Subject, examine};
pub use opening::{device_facts, explain_failed_open, explain_open_error, generation};
pub use roots::Roots;
pub use surroundings::Folder;
