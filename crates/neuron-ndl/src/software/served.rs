//! An open device file for other processes, whose memory is elsewhere.
//!
//! What a process in this one gets from [`Backend`](crate::Backend), another one gets from here,
//! by way of whoever serves it: the same driver, the same command words, and argument addresses
//! in its own memory. A zero-copy transfer goes by pages of the machine that stand for the
//! process's: no device can be given another process's pages.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_abi::arch::PAGE_SIZE;
use neuron_abi::errno::Errno;
use neuron_driver::dmabuf::DmaBuf;
use neuron_driver::hw::DmaMemory;
use neuron_driver::ioctl::mmap::Mapped;
use neuron_driver::user::{Access, Landing, PageRun, Pinned, UserBuffer};
use neuron_driver::{OpenFile, UserMemory};
use vm_memory::VolatileSlice;

use super::hardware::{Devices, SoftHardware};
use super::host::HostMemory;
use super::place::Place;
use super::user::{LOWEST_USER_ADDRESS, USER_ADDRESS_END};

/// The memory of a process, by its own addresses. It may be gone at any time.
pub trait ProcessMemory: Send + Sync {
    /// Copies from `address` into `into`.
    ///
    /// # Errors
    /// EFAULT if any byte cannot be read; what came before it may have been copied.
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno>;

    /// Copies `from` to `address`.
    ///
    /// # Errors
    /// EFAULT if any byte cannot be written; what came before it may have been.
    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno>;
}

/// An open device file for other processes. Dropping it closes it.
pub struct ServedFile {
    file: OpenFile,
    hardware: Arc<SoftHardware>,
    devices: Arc<Devices>,
    /// What was exported stays taken until the file is closed, as of a file in this process.
    exports: Mutex<Vec<Arc<DmaBuf>>>,
}

impl ServedFile {
    pub(super) fn new(file: OpenFile, hardware: Arc<SoftHardware>, devices: Arc<Devices>) -> Self {
        Self { file, hardware, devices, exports: Mutex::default() }
    }

    /// The driver's side of it.
    pub const fn driver(&self) -> &OpenFile {
        &self.file
    }

    /// Serves one ioctl of process `pid`; `argument` is an address in its memory. Of a command
    /// that opens a descriptor, it comes back, and the process's number of it is still to be put
    /// where the argument wants it.
    ///
    /// # Errors
    /// As [`OpenFile::ioctl_as`].
    pub fn ioctl(
        &self,
        pid: i32,
        word: u32,
        argument: u64,
        memory: &Arc<dyn ProcessMemory>,
    ) -> Result<Option<OwnedFd>, Errno> {
        let caller = Caller { memory, file: self, installed: RefCell::default() };
        self.file.ioctl_as(pid, word, argument, &caller)?;
        let Some((descriptor, buffer)) = caller.installed.into_inner() else { return Ok(None) };
        self.exports.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        Ok(Some(descriptor))
    }

    /// Resolves an mmap by process `pid` of `bytes` at the cookie `offset`.
    ///
    /// # Errors
    /// As [`OpenFile::mmap_as`]; EACCES to write what is only to be read.
    pub fn mmap(&self, pid: i32, offset: u64, bytes: u64, writable: bool) -> Result<ServedMapping, Errno> {
        let mut mapped = self.file.mmap_as(pid, offset, bytes)?;
        if writable && !mapped.writable {
            return Err(Errno::EACCES);
        }
        let place = Place::of(&self.hardware, &mapped.window, writable)?;
        let memory = place.reopened(mapped.writable)?;
        mapped.writable = writable;
        Ok(ServedMapping { memory, offset: place.offset, mapped })
    }
}

impl std::fmt::Debug for ServedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "neuron{} of process {}", self.file.device().index(), self.file.pid())
    }
}

/// What a process is to map. Hold `mapped` as long as it does.
#[derive(Debug)]
pub struct ServedMapping {
    /// The file of memory, to read only if the process may not write there.
    pub memory: OwnedFd,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Keeps what is mapped from being used again; tell it where the mapping went.
    pub mapped: Mapped,
}

/// A process during a call.
struct Caller<'a> {
    memory: &'a Arc<dyn ProcessMemory>,
    file: &'a ServedFile,
    /// The descriptor that the call opened.
    installed: RefCell<Option<(OwnedFd, Arc<DmaBuf>)>>,
}

impl UserMemory for Caller<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        match into.is_empty() {
            true => Ok(()),
            false => self.memory.read(in_user_space(address, into.len() as u64)?, into),
        }
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        match from.is_empty() {
            true => Ok(()),
            false => self.memory.write(in_user_space(address, from.len() as u64)?, from),
        }
    }

    fn buffer(&self, address: u64, bytes: u64, access: Access) -> Result<Arc<dyn UserBuffer>, Errno> {
        if bytes > 0 {
            in_user_space(address, bytes)?;
        }
        let host = Arc::clone(&self.file.hardware.host);
        Ok(Arc::new(StandIn { memory: Arc::clone(self.memory), host, address, bytes, access }))
    }

    /// The number is the process's to give: 0 stands for it.
    fn install(&self, buffer: Arc<DmaBuf>) -> Result<i32, Errno> {
        let descriptor = Place::of_export(&self.file.devices, &buffer)?.reopened(buffer.is_writable())?;
        self.installed.replace(Some((descriptor, buffer)));
        Ok(0)
    }

    fn uninstall(&self, _fd: i32) {
        self.installed.take();
    }
}

/// The address, if what begins there can be a process's.
fn in_user_space(address: u64, bytes: u64) -> Result<u64, Errno> {
    let end = address.checked_add(bytes).ok_or(Errno::EFAULT)?;
    match address < LOWEST_USER_ADDRESS || end > USER_ADDRESS_END {
        true => Err(Errno::EFAULT),
        false => Ok(address),
    }
}

/// A range of a process's memory, for which pages of the machine stand while a device copies.
struct StandIn {
    memory: Arc<dyn ProcessMemory>,
    host: Arc<HostMemory>,
    address: u64,
    bytes: u64,
    access: Access,
}

impl UserBuffer for StandIn {
    /// Pages that lie side by side, filled with the bytes that a device is to read.
    fn pin(&self, offset: u64, bytes: u64) -> Result<Pinned, Errno> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(Errno::EFAULT);
        }
        let address = self.address + offset;
        let lead = address % PAGE_SIZE;
        let pages = (lead + bytes).div_ceil(PAGE_SIZE).max(1);
        let run = self.host.allocate(pages * PAGE_SIZE).ok_or(Errno::ENOMEM)?;
        let held = Arc::new(Held { run, host: Arc::clone(&self.host) });
        let runs = vec![PageRun { address: held.run.address(), pages: pages as u32 }];
        let part = held.run.part(lead as usize, bytes as usize).ok_or(Errno::EFAULT)?;
        let pinned = Pinned::new(runs, held);
        Ok(match self.access {
            Access::Read => {
                self.memory.read(address, part.slice())?;
                pinned
            }
            Access::Write => {
                pinned.landing(Box::new(Arrival { memory: Arc::clone(&self.memory), part, address }))
            }
        })
    }
}

/// Pages of the machine that are taken.
struct Held {
    run: DmaMemory,
    host: Arc<HostMemory>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.host.free(&self.run);
    }
}

/// Bytes that a device writes, on their way to a process.
struct Arrival {
    memory: Arc<dyn ProcessMemory>,
    part: DmaMemory,
    address: u64,
}

impl Landing for Arrival {
    fn land(&self) -> Result<(), Errno> {
        self.memory.write(self.address, self.part.slice())
    }
}
