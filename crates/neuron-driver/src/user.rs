//! Memory of the calling process, reached by address, length and chance: every access
//! can fault, and the caller may live in another process.
//!
//! A zero-copy transfer needs more: pages that the device reaches while the caller goes on.
//! [`UserMemory::buffer`] gives a range that outlives the call, [`UserBuffer::pin`] pages of it.

use std::any::Any;
use std::sync::Arc;

use neuron_abi::errno::Errno;
use vm_memory::VolatileSlice;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::dmabuf::DmaBuf;

/// The caller's memory, and its table of open files.
pub trait UserMemory {
    /// Copies user memory from `address` into `into`.
    ///
    /// # Errors
    /// EFAULT if any byte cannot be read; what came before it may have been copied.
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno>;

    /// Copies `from` to user memory at `address`.
    ///
    /// # Errors
    /// EFAULT if any byte cannot be written; what came before it may have been.
    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno>;

    /// A buffer that a device is to reach. It keeps what it needs of the caller's address
    /// space, so it may be pinned after the call returned.
    ///
    /// Memory that no device can be given, the default, is refused with ENOMEM, as a pin
    /// that fails.
    ///
    /// # Errors
    /// EFAULT for a range that is no user memory; ENOMEM.
    fn buffer(&self, address: u64, bytes: u64, access: Access) -> Result<Arc<dyn UserBuffer>, Errno> {
        let _unused = (address, bytes, access);
        Err(Errno::ENOMEM)
    }

    /// Opens an exported buffer as a file of the caller and returns its number. Who cannot
    /// do that refuses, as the provided method does.
    ///
    /// # Errors
    /// EMFILE when the caller has too many files, ENOMEM, EINVAL.
    fn install(&self, buffer: Arc<DmaBuf>) -> Result<i32, Errno> {
        let _refused = buffer;
        Err(Errno::EINVAL)
    }

    /// Closes a file that was just opened: its number could not be told.
    fn uninstall(&self, fd: i32) {
        let _never_opened = fd;
    }
}

/// What a device does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
}

/// A range of a process's memory that transfers go to or come from.
pub trait UserBuffer: Send + Sync {
    /// Pins the pages that hold bytes `[offset, offset + bytes)` of the buffer.
    ///
    /// # Errors
    /// ENOMEM, or the errno of the fault that a page met.
    fn pin(&self, offset: u64, bytes: u64) -> Result<Pinned, Errno>;
}

/// Consecutive physical pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// Host physical address of the first, without the host tag.
    pub address: u64,
    /// How many.
    pub pages: u32,
}

/// Pages that stay where they are, and whose they are, until this is dropped: not before
/// the device is done with them.
pub struct Pinned {
    /// In the order of the buffer.
    pub runs: Vec<PageRun>,
    _hold: Arc<dyn Any + Send + Sync>,
    landing: Option<Box<dyn Landing>>,
}

/// Pages that stand for the caller's, which another process has: what a device wrote has to be
/// carried there.
pub trait Landing: Send + Sync {
    /// The device is done. The caller is told of the transfer's end only afterwards.
    ///
    /// # Errors
    /// EFAULT if the caller has no such memory any more.
    fn land(&self) -> Result<(), Errno>;
}

impl Pinned {
    /// Pages that `hold` keeps pinned.
    pub fn new(runs: Vec<PageRun>, hold: Arc<dyn Any + Send + Sync>) -> Self {
        Self { runs, _hold: hold, landing: None }
    }

    /// Pages that stand for others.
    #[must_use]
    pub fn landing(self, landing: Box<dyn Landing>) -> Self {
        Self { landing: Some(landing), ..self }
    }

    /// What the device wrote becomes the caller's.
    pub(crate) fn land(&self) -> Result<(), Errno> {
        self.landing.as_ref().map_or(Ok(()), |landing| landing.land())
    }
}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pinned").field("runs", &self.runs).finish_non_exhaustive()
    }
}

/// Reads a plain structure.
///
/// # Errors
/// EFAULT.
pub fn read_struct<T: FromBytes + IntoBytes>(user: &dyn UserMemory, address: u64) -> Result<T, Errno> {
    let mut value = T::new_zeroed();
    user.read(address, VolatileSlice::from(value.as_mut_bytes()))?;
    Ok(value)
}

/// Writes a plain structure.
///
/// # Errors
/// EFAULT.
pub fn write_struct<T: IntoBytes + Immutable>(
    user: &dyn UserMemory,
    address: u64,
    value: &T,
) -> Result<(), Errno> {
    let mut bytes = value.as_bytes().to_vec();
    user.write(address, VolatileSlice::from(&mut bytes[..]))
}
