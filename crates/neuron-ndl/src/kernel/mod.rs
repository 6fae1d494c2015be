//! The devices of the running kernel: `/dev/neuronN` of the AWS Neuron driver.
//!
//! | module | what lives there |
//! |---|---|
//! | `syscalls` | what is asked of the operating system |
//! | `system` | the system calls |
//! | `file` | an open node: return values, interrupted calls, mapping rules |
//! | `answer` | what a return value means, what may be made again |
//!
//! # Lanes
//!
//! Three files lead to a device (`spec/ndl.md` 2), all closed on exec:
//!
//! | lane | mode | how many |
//! |---|---|---|
//! | [`Lane::Full`] | `O_RDWR` | one for each [`Device`](crate::Device): memory lives as long as it |
//! | [`Lane::ReadOnly`] | `O_RDONLY` | one for each device, in a table of 64 |
//! | [`Backend::misc`] | `O_WRONLY` | one, of the lowest number that opens |
//!
//! The runtime keeps table and misc file for the process and closes them at exit, with calls in
//! flight or not. Here they belong to the [`Kernel`] value, so a process makes one and shares
//! it; a file is closed with its last user (our choice). [`Lane::Misc`] of one device opens that
//! device's node anew: its answers are about that device.
//!
//! # Interrupted calls (our choice)
//!
//! An open that says EINTR was waiting for a reset when the process was told to end (`spec/abi.md`
//! 2.1): it is not made again, or nothing could end the process. An ioctl is only made again
//! if it just tells. mmap and close are never.
//!
//! ```no_run
//! use neuron_ndl::{Device, kernel::Kernel};
//!
//! let kernel = Kernel::new();
//! for index in kernel.devices() {
//!     let device = Device::open(&kernel, index)?;
//!     println!("neuron{index}: {:?}", device.facts());
//! }
//! # Ok::<(), neuron_ndl::NdlError>(())
//! ```
//!
//! What it needs, and what older drivers make it do: `docs/kernel.md`.

mod answer;
mod file;
pub(crate) mod syscalls;
mod system;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use neuron_abi::errno::Errno;
use neuron_abi::limits::MAX_DEVICES;

use self::file::KernelFile;
use self::syscalls::{Node, Syscalls};
use self::system::System;
use crate::backend::{Backend, DeviceFile, Lane, lowest};

/// The devices of the running kernel. Make one for a process: see the module's page.
pub struct Kernel {
    root: PathBuf,
    syscalls: Box<dyn Syscalls>,
    /// The read-only lane, by device.
    read_only: [OnceLock<Arc<dyn Node>>; MAX_DEVICES],
    misc: OnceLock<Arc<dyn Node>>,
}

impl Kernel {
    /// Nodes in `/dev`.
    pub fn new() -> Self {
        Self::at("/dev")
    }

    /// Nodes in another directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self::with(root, Box::new(System))
    }

    pub(crate) fn with(root: impl Into<PathBuf>, syscalls: Box<dyn Syscalls>) -> Self {
        let read_only = [const { OnceLock::new() }; MAX_DEVICES];
        Self { root: root.into(), syscalls, read_only, misc: OnceLock::new() }
    }

    /// Path of a device's node.
    pub fn node(&self, index: u8) -> PathBuf {
        self.root.join(format!("neuron{index}"))
    }

    /// Devices that have a node, by number. Opens none.
    pub fn devices(&self) -> Vec<u8> {
        (0..MAX_DEVICES as u8).filter(|&index| self.syscalls.exists(&self.node(index))).collect()
    }

    fn open_node(&self, index: u8, lane: Lane) -> Result<Arc<dyn Node>, Errno> {
        self.syscalls.open(&self.node(index), lane).map(Arc::from)
    }
}

impl Default for Kernel {
    fn default() -> Self {
        Self::new()
    }
}

/// The node that a place keeps, opened if there is none. Of two that open one at once, the
/// first keeps it and the other closes its own.
fn kept(
    place: &OnceLock<Arc<dyn Node>>,
    open: impl FnOnce() -> Result<Arc<dyn Node>, Errno>,
) -> Result<Box<dyn DeviceFile>, Errno> {
    let node = match place.get() {
        Some(node) => node,
        None => {
            let opened = open()?;
            place.get_or_init(|| opened)
        }
    };
    Ok(Box::new(KernelFile::new(Arc::clone(node))))
}

impl Backend for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
        match lane {
            Lane::Full | Lane::Misc => Ok(Box::new(KernelFile::new(self.open_node(index, lane)?))),
            Lane::ReadOnly => {
                let place = self.read_only.get(usize::from(index)).ok_or(Errno::EINVAL)?;
                kept(place, || self.open_node(index, lane))
            }
        }
    }

    fn misc(&self) -> Result<Box<dyn DeviceFile>, Errno> {
        kept(&self.misc, || lowest(|index| self.open_node(index, Lane::Misc)))
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("root", &self.root).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
