//! Memory of the calling process, reached by address, length and chance: every access
//! can fault, and the caller may live in another process.

use neuron_abi::errno::Errno;
use vm_memory::VolatileSlice;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The caller's memory.
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
