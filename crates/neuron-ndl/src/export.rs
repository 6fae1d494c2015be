//! Handing mapped memory to other programs and drivers (`nrt_get_dmabuf_fd`).

use std::os::fd::{FromRawFd, OwnedFd};

use neuron_abi::{arg, cmd};

use crate::backend::Mapping;
use crate::device::Device;
use crate::error::NdlError;

impl Device {
    /// A descriptor of `bytes` of a mapping from `offset`, a multiple of the page, on. From a
    /// kernel it is a dma-buf, which a network adapter can import; from the software machine
    /// a descriptor of the device's memory, positioned at the first byte.
    ///
    /// # Errors
    /// EINVAL outside the mapping, EMFILE when the process has too many files.
    pub fn export(&self, mapping: &Mapping, offset: usize, bytes: u64) -> Result<OwnedFd, NdlError> {
        let mut fd = -1_i32;
        let va = mapping.slice().ptr_guard().as_ptr() as u64;
        let argument =
            arg::DmabufFd { va: va.wrapping_add(offset as u64), size: bytes, fd: &raw mut fd as u64 };
        // SAFETY: `fd` is where the number goes and outlives the call; the other address is
        // looked up, not reached.
        unsafe { self.opened().call("exporting memory", cmd::DMABUF_FD, argument) }?;
        // SAFETY: the driver opened it for this call.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}
