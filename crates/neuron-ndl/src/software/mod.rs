//! A machine with Neuron devices and no hardware: the driver runs in this process, over
//! software devices whose engines really move the bytes.
//!
//! | module | what lives there |
//! |---|---|
//! | `host` | the machine's physical memory |
//! | `hardware` | a device's registers and memory as the driver sees them |
//! | `machine` | an instance type with its devices |
//! | `file` | an open device file: ioctls, mappings, exported buffers |
//! | `place` | where in the machine's files mapped bytes are |
//! | `user` | the caller's memory, by address |
//! | `served` | an open device file for other processes |
//! | `peer` | another process's memory |
//! | `iommu` | which host addresses lead a device where |
//! | `populate` | pages of device memory, many at a time |
//!
//! ```
//! use neuron_ndl::{Device, software::Machine};
//!
//! let machine = Machine::new("trn1.2xlarge")?;
//! let device = Device::open(&machine, 0)?;
//! assert_eq!(device.geometry().cores, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod file;
mod hardware;
mod host;
mod iommu;
mod machine;
mod peer;
mod place;
mod populate;
mod runs;
mod served;
mod user;

pub use host::HostMemory;
pub(crate) use host::map as map_shared;
pub use neuron_driver::sysfs::{File as SysfsFile, Link as SysfsLink};
pub use neuron_softdev::{Execution, FaultPlan, INSTANCES, Instance};

pub use hardware::SoftHardware;
pub use machine::{Machine, MachineError, MachineOptions, Sysfs};
pub use peer::PeerMemory;
pub use served::{ProcessMemory, ServedFile, ServedMapping};
