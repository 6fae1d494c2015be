//! A process that uses the driver through its ioctls: an open file and memory of its own
//! that exists only here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::arg;
use neuron_abi::cmd::{self, Command};
use neuron_abi::errno::Errno;
use neuron_abi::memory::Category;
use neuron_driver::{Device, OpenFile, OpenMode, UserMemory};
use vm_memory::{Bytes, VolatileSlice};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::vectors::Mismatch;

/// Process id that the recorded sessions open the device with.
pub const PID: i32 = 1000;
/// User address of arguments.
const ARGUMENT: u64 = 0x7000_0000_0000;
/// User address of what an argument points to: handles and addresses.
const RESULT: u64 = 0x7000_0001_0000;

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

/// Memory that a client allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The driver's number for it.
    pub handle: u64,
    /// Bus address.
    pub pa: u64,
}

/// An open file and the process behind it. Dropping it is the process's exit.
pub struct Client {
    file: OpenFile,
    space: Space,
}

impl Client {
    /// Opens the device as [`PID`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn open(device: &Arc<Device>) -> Result<Self, Mismatch> {
        Self::open_as(device, PID)
    }

    /// Opens the device as another process.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn open_as(device: &Arc<Device>, pid: i32) -> Result<Self, Mismatch> {
        let file = OpenFile::open(device, pid, OpenMode::Full)
            .map_err(|errno| Mismatch::new(format!("open: {errno}")))?;
        Ok(Self { file, space: Space::default() })
    }

    /// The open file.
    pub const fn file(&self) -> &OpenFile {
        &self.file
    }

    /// The process's memory.
    pub const fn space(&self) -> &Space {
        &self.space
    }

    /// One ioctl: the word and an argument address. Returns 0 or a negative errno.
    pub fn ioctl(&self, word: u32, argument: u64) -> i64 {
        match self.file.ioctl(word, argument, &self.space) {
            Ok(()) => 0,
            Err(errno) => errno.negated().into(),
        }
    }

    /// One command with its argument structure, which shows afterwards what the driver
    /// wrote into it.
    pub fn call<T: IntoBytes + Immutable + FromBytes>(&self, command: &Command, argument: &mut T) -> i64 {
        self.space.map(ARGUMENT, argument.as_bytes().to_vec());
        let ret = self.ioctl(command.word, ARGUMENT);
        if let Ok(bytes) = self.space.bytes(ARGUMENT, size_of::<T>())
            && let Ok(after) = T::read_from_bytes(&bytes)
        {
            *argument = after;
        }
        ret
    }

    /// The 8 bytes that a command wrote where its argument pointed.
    fn result(&self) -> Result<u64, Mismatch> {
        let bytes = self.space.bytes(RESULT, 8).map_err(|errno| Mismatch::new(errno.to_string()))?;
        u64::read_from_bytes(&bytes).map_err(|_| Mismatch::new("no result"))
    }

    /// Allocates memory for a core, on an HBM or, if `hbm` is `None`, on the host.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn allocate(&self, hbm: Option<u32>, size: u64, core: u32) -> Result<Chunk, Mismatch> {
        self.space.map(RESULT, vec![0; 8]);
        let mut wanted = arg::MemAllocV2MemType64 {
            size,
            host_memory: hbm.is_none().into(),
            dram_channel: hbm.unwrap_or(0),
            nc_id: core,
            mem_type: if hbm.is_none() { Category::TensorsHost } else { Category::TensorsDevice }.raw(),
            mem_handle: RESULT,
            ..Default::default()
        };
        let refused = |step, ret| Mismatch::new(format!("{step} {size:#x} bytes for core {core}: {ret}"));
        match self.call(&cmd::MEM_ALLOC_V2MT64, &mut wanted) {
            0 => {}
            ret => return Err(refused("allocating", ret)),
        }
        let handle = self.result()?;
        match self.call(&cmd::MEM_GET_PA, &mut arg::MemGetPa { mem_handle: handle, pa: RESULT }) {
            0 => Ok(Chunk { handle, pa: self.result()? }),
            ret => Err(refused("asking for the address of", ret)),
        }
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
