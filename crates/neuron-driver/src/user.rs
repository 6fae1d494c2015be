//! Memory of the calling process, reached by address, length and chance: every access
//! can fault, and the caller may live in another process.

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
