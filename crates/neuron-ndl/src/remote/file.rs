//! An open device file of a server.

use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_abi::{arg, cmd};
use neuron_wire::{Answer, CallError, Calls};
use zerocopy::FromBytes;

use crate::backend::{DeviceFile, Mapping};
use crate::software::map_shared;

/// An open device file of a server. The file is open as long as the socket is.
pub(super) struct RemoteFile {
    _socket: OwnedFd,
    file: u64,
    calls: Arc<Calls>,
}

impl RemoteFile {
    pub(super) const fn new(socket: OwnedFd, file: u64, calls: Arc<Calls>) -> Self {
        Self { _socket: socket, file, calls }
    }
}

/// The errno of a call; that there is no server any more is told to whoever listens.
fn errno(error: CallError) -> Errno {
    if error.is_about_server() {
        tracing::error!(%error, "a call to the server of the devices failed");
    }
    error.errno()
}

impl DeviceFile for RemoteFile {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno> {
        // The server writes the argument, so its address is all that leaves here.
        let address = argument.as_mut_ptr() as u64;
        let Answer { descriptor, .. } = self.calls.ioctl(self.file, word, address).map_err(errno)?;
        let Some(descriptor) = descriptor else { return Ok(()) };
        if word != cmd::DMABUF_FD.word {
            return Ok(());
        }
        let (told, _) = arg::DmabufFd::read_from_prefix(argument).map_err(|_| Errno::EFAULT)?;
        let place = told.fd as *mut i32;
        // SAFETY: our caller promises that the address is valid for the number, and the driver
        // has just written there.
        unsafe { place.write_unaligned(descriptor.into_raw_fd()) };
        Ok(())
    }

    fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno> {
        let answer = self.calls.mmap(self.file, offset, bytes, writable).map_err(errno)?;
        let hold = Unmap { calls: Arc::clone(&self.calls), mapping: answer.b };
        let memory = Arc::new(answer.descriptor.ok_or(Errno::EIO)?.into());
        let region = map_shared(&memory, answer.a, bytes, writable).map_err(|_| Errno::ENOMEM)?;
        self.calls.place(self.file, answer.b, region.as_ptr() as u64).map_err(errno)?;
        let hold = Some(Box::new(hold) as _);
        Ok(if writable { Mapping::new(region, hold) } else { Mapping::read_only(region, hold) })
    }
}

/// Tells the server that a mapping is gone: dropped after it.
struct Unmap {
    calls: Arc<Calls>,
    mapping: u64,
}

impl Drop for Unmap {
    fn drop(&mut self) {
        // Without a server there is nothing left to tell.
        let _told = self.calls.unmap(self.mapping);
    }
}
