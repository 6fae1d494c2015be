//! Memory that the engine reaches: blocks that the driver allocated, and pages of processes.
//! Addresses are used once only, so whatever is reached after its end is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use neuron_abi::arch::PAGE_SIZE;
use neuron_driver::hw::DmaMemory;
use vm_memory::{Bytes, MmapRegion, VolatileMemory, VolatileSlice};

/// First host physical address.
const START: u64 = 0x1000_0000;
/// Bytes there are; untouched ones cost nothing.
const BYTES: usize = 64 << 20;

/// All memory of a machine, by host physical address.
pub(crate) struct Memory {
    region: Arc<MmapRegion>,
    next: u64,
    blocks: BTreeMap<u64, Block>,
}

struct Block {
    bytes: u64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Allocated,
    Freed,
    /// Of a process, pinned so many times.
    User(u32),
}

impl Memory {
    pub(crate) fn new() -> Self {
        let region = Arc::new(MmapRegion::new(BYTES).unwrap());
        Self { region, next: START, blocks: BTreeMap::new() }
    }

    fn add(&mut self, bytes: u64, kind: Kind) -> u64 {
        let address = self.next;
        self.next += bytes.next_multiple_of(PAGE_SIZE);
        assert!(self.next - START <= BYTES as u64, "the model needs more memory");
        self.blocks.insert(address, Block { bytes, kind });
        address
    }

    pub(crate) fn allocate(&mut self, bytes: u64) -> DmaMemory {
        let address = self.add(bytes, Kind::Allocated);
        let offset = (address - START) as usize;
        DmaMemory::new(Arc::clone(&self.region), offset, bytes as usize, address).unwrap()
    }

    pub(crate) fn free(&mut self, address: u64) {
        let block = self.blocks.get_mut(&address).expect("freed what was never allocated");
        assert!(block.kind == Kind::Allocated, "{address:#x} freed twice");
        block.kind = Kind::Freed;
    }

    /// A page of a process.
    pub(crate) fn user_page(&mut self) -> u64 {
        self.add(PAGE_SIZE, Kind::User(0))
    }

    /// Pins or unpins a page of a process.
    pub(crate) fn pin(&mut self, page: u64, pinned: bool) {
        let block = self.blocks.get_mut(&page).expect("a page of a process");
        let Kind::User(pins) = &mut block.kind else { panic!("{page:#x} is no page of a process") };
        *pins = if pinned { *pins + 1 } else { pins.checked_sub(1).expect("unpinned twice") };
    }

    /// Bytes that are allocated, and pages that are pinned.
    pub(crate) fn in_use(&self) -> (u64, usize) {
        let allocated = self.blocks.values().filter(|block| block.kind == Kind::Allocated);
        let pinned = self.blocks.values().filter(|block| matches!(block.kind, Kind::User(pins) if pins > 0));
        (allocated.map(|block| block.bytes).sum(), pinned.count())
    }

    /// Whether this is the address of a block that is allocated.
    pub(crate) fn is_allocated(&self, address: u64) -> bool {
        self.blocks.get(&address).is_some_and(|block| block.kind == Kind::Allocated)
    }

    /// The bytes at an address, as a processor reaches them: whatever their state.
    pub(crate) fn bytes(&self, address: u64, len: usize) -> VolatileSlice<'_> {
        self.region.get_slice((address - START) as usize, len).unwrap()
    }

    /// The bytes at an address, as the engine reaches them.
    fn reach(&self, address: u64, len: usize) -> VolatileSlice<'_> {
        let (start, block) =
            self.blocks.range(..=address).next_back().unwrap_or_else(|| panic!("nothing at {address:#x}"));
        assert!(address + len as u64 <= start + block.bytes, "the engine runs over at {address:#x}");
        match block.kind {
            Kind::Freed => panic!("the engine reaches {address:#x}, which was freed"),
            Kind::User(0) => panic!("the engine reaches {address:#x}, which is not pinned"),
            Kind::Allocated | Kind::User(_) => self.bytes(address, len),
        }
    }

    /// The engine reads a descriptor.
    pub(crate) fn descriptor(&self, ring: u64, index: u32) -> [u8; 16] {
        let mut descriptor = [0; 16];
        self.reach(ring + u64::from(index) * 16, 16).copy_to(&mut descriptor);
        descriptor
    }

    /// The engine moves bytes; a single word at once.
    pub(crate) fn copy(&self, source: u64, destination: u64, len: usize) {
        let (from, to) = (self.reach(source, len), self.reach(destination, len));
        if len == 4 {
            let word: u32 = from.load(0, Ordering::Acquire).unwrap();
            to.store(word, 0, Ordering::Release).unwrap();
        } else {
            from.copy_to_volatile_slice(to);
        }
    }
}
