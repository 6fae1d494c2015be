//! An open node as a device file: return values, interrupted calls, mapping rules.

use std::sync::Arc;

use neuron_abi::arch::PAGE_SIZE;
use neuron_abi::errno::Errno;

use super::answer::{answer, may_repeat};
use super::syscalls::Node;
use crate::backend::{DeviceFile, Mapping};

/// A node of the running kernel. Shared by the files of a lane that the process has one node
/// for; closed with the last.
pub(super) struct KernelFile {
    node: Arc<dyn Node>,
}

impl KernelFile {
    pub(super) const fn new(node: Arc<dyn Node>) -> Self {
        Self { node }
    }
}

impl DeviceFile for KernelFile {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno> {
        loop {
            // SAFETY: passed on to the caller.
            match unsafe { self.node.ioctl(word, argument) } {
                Err(Errno::EINTR) if may_repeat(word) => {}
                returned => return answer(word, returned?),
            }
        }
    }

    /// Whole pages of a whole block (`spec/ndl.md` 6); the driver tells a part of one by EPERM.
    fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno> {
        let pages = |value: u64| value.is_multiple_of(PAGE_SIZE);
        if bytes == 0 || !pages(bytes) || !pages(offset) {
            return Err(Errno::EINVAL);
        }
        self.node.mmap(offset, usize::try_from(bytes).map_err(|_| Errno::ENOMEM)?, writable)
    }
}
