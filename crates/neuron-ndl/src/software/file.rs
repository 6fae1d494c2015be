//! An open device file of the software machine, and what its process gets from it: memory
//! mapped from the machine's files, and descriptors of exported buffers.
//!
//! # What a mapping of registers can do
//!
//! On-chip memory is mapped for real: a state buffer can be read and written, and the
//! registers of semaphores and TopSPs can be read. Nobody would see a store into those
//! registers, though: a mapping of them for writing is ENODEV (our choice), and who wants to
//! write uses the semaphore commands or `BAR_WRITE`.
//!
//! # What a descriptor of an exported buffer is
//!
//! A kernel gives a dma-buf. Here it is a descriptor of the file that the device's memory is
//! in, opened anew, for reading only if the mapping was so (our choice). The buffer begins
//! at the descriptor's position (`lseek(fd, 0, SEEK_CUR)`) and is as long as was asked for:
//! `pread` and `mmap` there reach the exported bytes, in this process and in any that is
//! given the descriptor. The file does not end with the buffer; other devices' memory is not
//! in it, other memory of this device is.
//!
//! The exported memory stays taken until the device file is closed, since nothing tells when
//! the last copy of a descriptor is.

use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use neuron_driver::dmabuf::DmaBuf;
use neuron_driver::user::{Access, UserBuffer};
use neuron_driver::{OpenFile, UserMemory};
use vm_memory::VolatileSlice;

use super::hardware::{Devices, SoftHardware};
use super::host::map;
use super::place::Place;
use super::user::CallerMemory;
use crate::backend::{DeviceFile, Mapping};
use crate::introspect::Introspection;

/// An open device file of the software machine.
pub(super) struct SoftFile {
    file: OpenFile,
    hardware: Arc<SoftHardware>,
    devices: Arc<Devices>,
    /// Show nothing beyond the ABI.
    abi_only: bool,
    /// Exported buffers by descriptor. Behind `file`: its process's memory is swept first.
    exports: Mutex<Vec<(i32, Arc<DmaBuf>)>>,
}

impl SoftFile {
    pub(super) fn new(
        file: OpenFile,
        hardware: Arc<SoftHardware>,
        devices: Arc<Devices>,
        abi_only: bool,
    ) -> Self {
        Self { file, hardware, devices, abi_only, exports: Mutex::default() }
    }

    fn exports(&self) -> MutexGuard<'_, Vec<(i32, Arc<DmaBuf>)>> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceFile for SoftFile {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno> {
        // SAFETY: our caller promises that `argument` is as long as the command's
        // structure and that addresses inside are valid, those of an asynchronous request
        // until its end is told; the driver reaches no others.
        let memory = unsafe { CallerMemory::new(Arc::clone(&self.hardware.iommu)) };
        let caller = Caller { memory, file: self };
        self.file.ioctl(word, argument.as_mut_ptr() as u64, &caller)
    }

    fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno> {
        let mut mapped = self.file.mmap(offset, bytes)?;
        if writable && !mapped.writable {
            return Err(Errno::EACCES);
        }
        mapped.writable = writable;
        let place = Place::of(&self.hardware, &mapped.window, writable)?;
        let region = map(&place.file, place.offset, bytes, writable).map_err(|_| Errno::ENOMEM)?;
        mapped.place(region.as_ptr() as u64);
        let hold = Some(Box::new(mapped) as _);
        Ok(if writable { Mapping::new(region, hold) } else { Mapping::read_only(region, hold) })
    }

    fn introspect(&self) -> Option<Introspection> {
        if self.abi_only {
            return None;
        }
        let queues = self.file.device().introspect();
        Some(Introspection { queues, doorbells: self.hardware.device.doorbells() })
    }
}

/// The calling process: its memory by address, and its descriptors.
struct Caller<'a> {
    memory: CallerMemory,
    file: &'a SoftFile,
}

impl UserMemory for Caller<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        self.memory.read(address, into)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        self.memory.write(address, from)
    }

    fn buffer(&self, address: u64, bytes: u64, access: Access) -> Result<Arc<dyn UserBuffer>, Errno> {
        self.memory.buffer(address, bytes, access)
    }

    fn install(&self, buffer: Arc<DmaBuf>) -> Result<i32, Errno> {
        let fd = Place::of_export(&self.file.devices, &buffer)?.reopened(buffer.is_writable())?.into_raw_fd();
        self.file.exports().push((fd, buffer));
        Ok(fd)
    }

    fn uninstall(&self, fd: i32) {
        let mut exports = self.file.exports();
        let Some(place) = exports.iter().rposition(|(open, _)| *open == fd) else { return };
        let buffer = exports.swap_remove(place);
        drop(exports);
        // SAFETY: `install` opened it in this call, and its number was told to nobody.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        drop(buffer);
    }
}
