//! Memory of a session's process: one run of bytes that keeps what steps put and the
//! driver writes, and remembers where it was written.

use std::cell::RefCell;
use std::ops::Range;

use neuron_abi::errno::Errno;
use neuron_driver::UserMemory;
use vm_memory::{Bytes, VolatileSlice};

use crate::vectors::Mismatch;

/// The memory. Everything outside faults, and so does null.
#[derive(Debug)]
pub struct Memory {
    start: u64,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    written: Vec<Range<u64>>,
}

impl Memory {
    /// Zeroes at these addresses.
    ///
    /// # Errors
    /// If there is no room for so many.
    pub fn new(addresses: Range<u64>) -> Result<Self, Mismatch> {
        let len = addresses.end.saturating_sub(addresses.start);
        if len > isize::MAX as u64 / 2 {
            return Err(Mismatch::new(format!("a process with {len:#x} bytes")));
        }
        let state = State { bytes: vec![0; len as usize], written: Vec::new() };
        Ok(Self { start: addresses.start, state: RefCell::new(state) })
    }

    fn place(&self, address: u64, len: usize) -> Option<Range<usize>> {
        let start = usize::try_from(address.checked_sub(self.start)?).ok()?;
        Some(start..start.checked_add(len)?)
    }

    /// The `len` bytes at an address.
    ///
    /// # Errors
    /// If they are not all there.
    pub fn bytes(&self, address: u64, len: usize) -> Result<Vec<u8>, Mismatch> {
        let state = self.state.borrow();
        self.place(address, len)
            .and_then(|place| state.bytes.get(place))
            .map(<[u8]>::to_vec)
            .ok_or_else(|| Mismatch::new(format!("the process has no {len} bytes at {address:#x}")))
    }

    /// Puts bytes, as the process itself does.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn put(&self, address: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        let mut state = self.state.borrow_mut();
        let place = self.place(address, bytes.len()).and_then(|place| state.bytes.get_mut(place));
        place
            .map(|place| place.copy_from_slice(bytes))
            .ok_or_else(|| Mismatch::new(format!("the process has no memory at {address:#x}")))
    }

    /// Where the driver has written since the last call.
    pub fn take_written(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.state.borrow_mut().written)
    }
}

impl UserMemory for Memory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        let state = self.state.borrow();
        let place = self.place(address, into.len()).and_then(|place| state.bytes.get(place));
        into.write_slice(place.ok_or(Errno::EFAULT)?, 0).map_err(|_| Errno::EFAULT)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        let state = &mut *self.state.borrow_mut();
        let place = self.place(address, from.len()).and_then(|place| state.bytes.get_mut(place));
        from.read_slice(place.ok_or(Errno::EFAULT)?, 0).map_err(|_| Errno::EFAULT)?;
        state.written.push(address..address + from.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_reaches_what_there_is_and_its_writes_are_remembered() {
        let memory = Memory::new(0x1000..0x1010).unwrap();
        memory.put(0x1004, &[1, 2, 3, 4]).unwrap();
        let mut bytes = [0; 4];
        memory.read(0x1006, VolatileSlice::from(&mut bytes[..])).unwrap();
        assert_eq!(bytes, [3, 4, 0, 0]);
        assert_eq!(memory.take_written(), []);
        for address in [0x100c, 0x1000] {
            memory.write(address, VolatileSlice::from(&mut bytes[..])).unwrap();
        }
        assert_eq!(memory.take_written(), [0x100c..0x1010, 0x1000..0x1004]);
        assert_eq!(memory.take_written(), []);
        for address in [0, 0xfff, 0x100d, u64::MAX - 1] {
            assert_eq!(memory.write(address, VolatileSlice::from(&mut bytes[..])), Err(Errno::EFAULT));
            assert_eq!(memory.read(address, VolatileSlice::from(&mut bytes[..])), Err(Errno::EFAULT));
            assert!(memory.put(address, &bytes).is_err() && memory.bytes(address, 4).is_err());
        }
        assert_eq!(memory.bytes(0x100a, 6), Ok(vec![0, 0, 3, 4, 0, 0]));
    }
}
