//! The calling process's memory, for a driver that runs in the same process.

use neuron_abi::errno::Errno;
use neuron_driver::UserMemory;
use vm_memory::VolatileSlice;

/// Addresses below this are never mapped; a null pointer with an offset lands here.
const LOWEST_USER_ADDRESS: u64 = 4096;

/// User memory reached by plain addresses.
///
/// Only the backend's `ioctl` makes one, under whose contract every address that a
/// command reaches is valid; null and what is next to it faults instead.
#[derive(Debug)]
pub struct CallerMemory {
    _private: (),
}

impl CallerMemory {
    /// Access to this process's memory.
    ///
    /// # Safety
    /// Until it is dropped, every range that is read or written through it is valid for
    /// that, and no Rust reference that would forbid it is in use.
    pub const unsafe fn new() -> Self {
        Self { _private: () }
    }

    fn range(address: u64, len: usize) -> Result<*mut u8, Errno> {
        if address < LOWEST_USER_ADDRESS || address.checked_add(len as u64).is_none() {
            return Err(Errno::EFAULT);
        }
        Ok(address as *mut u8)
    }
}

impl UserMemory for CallerMemory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        if into.is_empty() {
            return Ok(());
        }
        let start = Self::range(address, into.len())?;
        // SAFETY: valid for reads by the contract of `new`; only read from here.
        unsafe { VolatileSlice::new(start, into.len()) }.copy_to_volatile_slice(into);
        Ok(())
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        if from.is_empty() {
            return Ok(());
        }
        let start = Self::range(address, from.len())?;
        // SAFETY: valid for writes by the contract of `new`.
        from.copy_to_volatile_slice(unsafe { VolatileSlice::new(start, from.len()) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_wrapping_addresses_fault() {
        // SAFETY: no valid range is used.
        let memory = unsafe { CallerMemory::new() };
        let mut buffer = [0; 8];
        for address in [0, 8, 4095, u64::MAX - 3] {
            assert_eq!(memory.read(address, VolatileSlice::from(&mut buffer[..])), Err(Errno::EFAULT));
            assert_eq!(memory.write(address, VolatileSlice::from(&mut buffer[..])), Err(Errno::EFAULT));
        }
        assert_eq!(memory.read(0, VolatileSlice::from(&mut [][..])), Ok(()));
    }
}
