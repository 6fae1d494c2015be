//! The memory of a process that exists only here: areas at addresses, and faults
//! everywhere else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use neuron_driver::UserMemory;
use vm_memory::{Bytes, VolatileSlice};

/// A process's memory: the areas that were mapped, and nothing else.
#[derive(Debug, Default)]
pub struct Space {
    areas: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Space {
    /// Puts bytes at an address, in place of what was mapped from exactly there.
    pub fn map(&self, address: u64, bytes: Vec<u8>) {
        self.areas().insert(address, bytes);
    }

    /// The `len` bytes at an address.
    ///
    /// # Errors
    /// EFAULT if they are not all mapped.
    pub fn bytes(&self, address: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        self.read(address, VolatileSlice::from(&mut bytes[..]))?;
        Ok(bytes)
    }

    fn areas(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.areas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `part` with each mapped piece of `[address, address + len)` in order, and
    /// the piece's offset in it.
    fn walk(
        &self,
        address: u64,
        len: usize,
        mut part: impl FnMut(usize, &mut [u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut areas = self.areas();
        let mut done = 0;
        while done < len {
            let at = address.checked_add(done as u64).ok_or(Errno::EFAULT)?;
            let (start, area) = areas.range_mut(..=at).next_back().ok_or(Errno::EFAULT)?;
            let within = usize::try_from(at - *start).map_err(|_| Errno::EFAULT)?;
            let end = area.len().min(within.saturating_add(len - done));
            let piece = area.get_mut(within..end).filter(|piece| !piece.is_empty()).ok_or(Errno::EFAULT)?;
            let taken = piece.len();
            part(done, piece)?;
            done += taken;
        }
        Ok(())
    }
}

impl UserMemory for Space {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        self.walk(address, into.len(), |offset, piece| {
            into.write_slice(piece, offset).map_err(|_| Errno::EFAULT)
        })
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        self.walk(address, from.len(), |offset, piece| {
            from.read_slice(piece, offset).map_err(|_| Errno::EFAULT)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_was_mapped_and_no_more() {
        let space = Space::default();
        space.map(0x1000, vec![1; 16]);
        space.map(0x1010, vec![2; 16]);
        assert_eq!(space.bytes(0x100e, 4), Ok(vec![1, 1, 2, 2]), "areas side by side are one");
        assert_eq!(space.bytes(0x101f, 2), Err(Errno::EFAULT));
        assert_eq!(space.bytes(0xfff, 2), Err(Errno::EFAULT));
        assert_eq!(space.bytes(u64::MAX, 2), Err(Errno::EFAULT));
        assert_eq!(space.bytes(8, 0), Ok(vec![]));
        let mut bytes = [9; 4];
        space.write(0x100e, VolatileSlice::from(&mut bytes[..])).unwrap();
        assert_eq!(space.bytes(0x100d, 6), Ok(vec![1, 9, 9, 9, 9, 2]));
    }
}
