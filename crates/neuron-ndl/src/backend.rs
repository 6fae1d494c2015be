//! What stands behind a device: something that takes a command word and argument bytes.

use std::any::Any;
use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_abi::limits::MAX_DEVICES;
use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

use crate::introspect::Introspection;

/// How a device file is opened; the kernel tells the lanes apart by `O_WRONLY`
/// (`spec/ndl.md` 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// To read and write: all commands, and what memory is allocated and mapped through.
    /// Attaches the process to the device.
    Full,
    /// To read: the same commands, for what needs no file of its own. Attaches too.
    ReadOnly,
    /// To write: discovery only, attaches nothing.
    Misc,
}

/// A place where devices are.
pub trait Backend: Send + Sync {
    /// What users know it by: `software`, `kernel`.
    fn name(&self) -> &'static str;

    /// Opens device `index`.
    ///
    /// # Errors
    /// The errno of `open(2)` on the device node: ENOENT if there is no such device.
    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno>;

    /// The misc lane of the machine, for questions that any device answers: the lowest number
    /// that opens (our choice, `spec/ndl.md` 8.3).
    ///
    /// # Errors
    /// If none opens, why one that is there does not; ENOENT if there is none.
    fn misc(&self) -> Result<Box<dyn DeviceFile>, Errno> {
        lowest(|index| self.open(index, Lane::Misc))
    }
}

/// The first of all device numbers that opens.
pub(crate) fn lowest<T>(open: impl Fn(u8) -> Result<T, Errno>) -> Result<T, Errno> {
    let mut refused = Errno::ENOENT;
    for index in 0..MAX_DEVICES as u8 {
        match open(index) {
            Ok(opened) => return Ok(opened),
            Err(errno) if refused == Errno::ENOENT => refused = errno,
            Err(_) => {}
        }
    }
    Err(refused)
}

impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
        (**self).open(index, lane)
    }

    fn misc(&self) -> Result<Box<dyn DeviceFile>, Errno> {
        (**self).misc()
    }
}

/// An open device file. Closing it is dropping it.
pub trait DeviceFile: Send + Sync {
    /// Issues a command with its argument structure, which is read and written in place.
    ///
    /// # Errors
    /// The driver's errno.
    ///
    /// # Safety
    /// `argument` is at least as long as the command's structure, and every address
    /// inside it is valid for what the command reads or writes there, for as long as the
    /// command runs; the buffers of an asynchronous request, until its end is told.
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno>;

    /// Maps `bytes` at the cookie `offset`.
    ///
    /// # Errors
    /// The errno of `mmap(2)`; EACCES to write what is only to be read.
    fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno>;

    /// A look at what no ioctl shows, if this backend can: see [`introspect`](crate::introspect).
    fn introspect(&self) -> Option<Introspection> {
        None
    }
}

/// Mapped device or host memory. A device writes it at any time, so the bytes are only
/// reached volatile. Dropping unmaps.
pub struct Mapping {
    region: MmapRegion,
    writable: bool,
    /// What the backend keeps alive as long as the mapping; dropped after it.
    _hold: Option<Box<dyn Any + Send + Sync>>,
}

impl Mapping {
    /// Wraps a mapping; `hold` is dropped after it is unmapped.
    pub fn new(region: MmapRegion, hold: Option<Box<dyn Any + Send + Sync>>) -> Self {
        Self { region, writable: true, _hold: hold }
    }

    /// As [`new`](Self::new), of pages that can only be read.
    pub fn read_only(region: MmapRegion, hold: Option<Box<dyn Any + Send + Sync>>) -> Self {
        Self { region, writable: false, _hold: hold }
    }

    /// The same, with one thing more to drop after it is unmapped.
    pub(crate) fn holding(self, more: Box<dyn Any + Send + Sync>) -> Self {
        let Self { region, writable, _hold } = self;
        Self { region, writable, _hold: Some(Box::new((_hold, more))) }
    }

    /// Whether the pages can be written.
    pub const fn is_writable(&self) -> bool {
        self.writable
    }

    /// The bytes. A write to pages that can only be read ends the process, as any write to
    /// such memory does.
    pub fn slice(&self) -> VolatileSlice<'_> {
        self.region.as_volatile_slice()
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapping").field("bytes", &self.region.size()).finish()
    }
}
