//! A machine with Neuron devices and no hardware: the driver runs in this process, over
//! software devices whose engines really move the bytes.
//!
//! | module | what lives there |
//! |---|---|
//! | `host` | the machine's physical memory |
//! | `machine` | a device's registers and memory as the driver sees them |
//! | `file` | an open device file: ioctls, mappings, exported buffers |
//! | `user` | the caller's memory, by address |
//! | `iommu` | which host addresses lead a device where |
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
mod host;
mod iommu;
mod machine;
mod runs;
mod user;

pub use host::HostMemory;
pub use neuron_driver::sysfs::{File as SysfsFile, Link as SysfsLink};
pub use neuron_softdev::{Execution, FaultPlan, Instance};

pub use machine::{Machine, MachineError, MachineOptions, SoftHardware, Sysfs};
