//! Physical memory of the software machine: one sparse file, handed out by the page,
//! lowest address first. Pages cost nothing until they are touched.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_driver::hw::DmaMemory;
use neuron_softdev::DmaMapping;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vm_memory::{FileOffset, MmapRegion};

use super::runs::Runs;

const PAGE: u64 = 4096;
/// First host physical address. Devices have memory at low addresses too, but they tell
/// the two apart by the host tag, never by number.
const START: u64 = 0x1000_0000;
/// Host DMA memory lies below 4 GiB (`spec/mempool.md` 3.2).
pub(super) const END: u64 = 1 << 32;

/// The machine's memory.
#[derive(Debug)]
pub struct HostMemory {
    file: Arc<File>,
    region: Arc<MmapRegion>,
    free: Mutex<Runs>,
}

impl HostMemory {
    /// All of it, untouched.
    ///
    /// # Errors
    /// What `memfd_create`, `ftruncate` or `mmap` said.
    pub fn new() -> io::Result<Self> {
        let bytes = END - START;
        let file = File::from(memfd_create("neuron-host-memory", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, bytes)?;
        let file = Arc::new(file);
        let region = map(&file, 0, bytes, true)?;
        let free = Mutex::new(Runs::new(START, bytes));
        Ok(Self { file, region: Arc::new(region), free })
    }

    /// What a device needs to reach it.
    pub fn dma_mapping(&self) -> DmaMapping {
        DmaMapping { address: START, len: END - START, region: Arc::clone(&self.region), offset: 0 }
    }

    /// Takes the lowest run of `bytes`, a multiple of the page.
    pub fn allocate(&self, bytes: u64) -> Option<DmaMemory> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return None;
        }
        let at = self.free.lock().unwrap_or_else(PoisonError::into_inner).take(bytes)?;
        DmaMemory::new(Arc::clone(&self.region), (at - START) as usize, bytes as usize, at)
    }

    /// Gives a run back.
    pub fn free(&self, memory: &DmaMemory) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.give(memory.address(), memory.len() as u64);
    }

    /// Bytes that are handed out.
    pub fn in_use(&self) -> u64 {
        END - START - self.free.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }

    /// The file behind it, and where in the file a part is.
    pub(super) fn place(&self, memory: &DmaMemory) -> (Arc<File>, u64) {
        (Arc::clone(&self.file), memory.address() - START)
    }
}

/// Maps part of a file of memory, shared, without reserving anything for it.
pub(crate) fn map(file: &Arc<File>, offset: u64, bytes: u64, writable: bool) -> io::Result<MmapRegion> {
    let write = if writable { libc::PROT_WRITE } else { libc::PROT_NONE };
    MmapRegion::build(
        Some(FileOffset::from_arc(Arc::clone(file), offset)),
        usize::try_from(bytes).map_err(io::Error::other)?,
        libc::PROT_READ | write,
        libc::MAP_SHARED | libc::MAP_NORESERVE,
    )
    .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm_memory::VolatileMemory;

    #[test]
    fn lowest_address_first_and_neighbours_join_again() {
        let memory = HostMemory::new().unwrap();
        let [a, b, c] = [4096, 8192, 4096].map(|bytes| memory.allocate(bytes).unwrap());
        assert_eq!([a.address(), b.address(), c.address()], [START, START + 4096, START + 3 * 4096]);
        memory.free(&a);
        memory.free(&b);
        assert_eq!(memory.allocate(12288).unwrap().address(), START);
        assert_eq!(memory.in_use(), 16384);
        assert!(memory.allocate(END - START).is_none());
        assert!(memory.allocate(100).is_none());
    }

    #[test]
    fn two_mappings_show_the_same_bytes() {
        let memory = HostMemory::new().unwrap();
        let block = memory.allocate(4096).unwrap();
        let (file, offset) = memory.place(&block);
        let second = map(&file, offset, 4096, true).unwrap();
        block.fill(0x5a);
        let mut bytes = [0_u8; 4096];
        second.as_volatile_slice().copy_to(&mut bytes);
        assert_eq!(bytes, [0x5a; 4096]);
    }
}
