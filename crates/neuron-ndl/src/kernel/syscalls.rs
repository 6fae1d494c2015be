//! What the kernel backend asks of the operating system, so that tests can answer instead.

use std::path::Path;

use neuron_abi::errno::Errno;

use crate::backend::{Lane, Mapping};

/// Opening nodes.
pub(crate) trait Syscalls: Send + Sync {
    /// Whether something is at `path` (`access(2)` with `F_OK`).
    fn exists(&self, path: &Path) -> bool;

    /// `open(2)` in the mode of the lane, closed on exec.
    fn open(&self, path: &Path, lane: Lane) -> Result<Box<dyn Node>, Errno>;
}

/// An open node. Closing it is dropping it.
pub(crate) trait Node: Send + Sync {
    /// `ioctl(2)`: what it returned, or the errno if that was -1.
    ///
    /// # Safety
    /// As [`DeviceFile::ioctl`](crate::DeviceFile::ioctl).
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<i32, Errno>;

    /// `mmap(2)`, shared, of whole pages that are more than none.
    fn mmap(&self, offset: u64, bytes: usize, writable: bool) -> Result<Mapping, Errno>;
}
