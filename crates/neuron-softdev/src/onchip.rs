//! On-chip memory: NeuronCore windows, TopSPs and the DMA-only regions, with events and semaphores.
//!
//! A block is plain sparse memory but for its semaphore registers (`spec/device.md` 2): four windows of 256
//! words, read at +0x1000, set at +0x1400, add at +0x1800, subtract at +0x1c00, all acting on one counter.
//! The counter lives in the read window's words. Events, at +0, are plain words. On V2 a DMA write of whole
//! words acts like register writes (`spec/arch.md` 9).
//!
//! Our choices: counters are 32 bits and wrap; the read window can't be written; the other three read 0;
//! semaphore registers take whole aligned words only.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

use crate::geometry::{Geometry, OnChipBlock, ResetScope};
use crate::hbm::FileRange;
use crate::memory;

/// Events and semaphore registers together.
const REGISTERS_SIZE: u64 = 0x2000;
const READ_WINDOW: u64 = 0x1000;
const SET_WINDOW: u64 = 0x1400;
const ADD_WINDOW: u64 = 0x1800;
const SUBTRACT_WINDOW: u64 = 0x1c00;
const WINDOW_SIZE: u64 = 0x400;

/// All on-chip blocks of a device.
#[derive(Debug)]
pub(crate) struct OnChip {
    file: Arc<File>,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    layout: OnChipBlock,
    /// Place of the block in the file.
    start: u64,
    /// Mapped at the first access; `None` if the host has no room for the mapping.
    region: OnceLock<Option<MmapRegion>>,
}

/// On-chip memory as part of a file, for owners that map a window of the register BAR.
///
/// Reading the mapping is the same as reading registers. Writing it is where there are none: a store into a
/// semaphore's registers would only change bytes.
#[derive(Debug, Clone)]
pub struct OnChipRange {
    /// What to map.
    pub file: FileRange,
    /// Whether semaphore registers are inside, so that it must not be written.
    pub registers: bool,
}

/// A place in a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    block: &'a Block,
    region: &'a MmapRegion,
    offset: u64,
}

impl OnChip {
    pub(crate) fn new(geometry: &Geometry) -> io::Result<Self> {
        let mut start = 0;
        let mut blocks = Vec::with_capacity(geometry.on_chip.len());
        for &layout in &geometry.on_chip {
            blocks.push(Block { layout, start, region: OnceLock::new() });
            start += layout.size;
        }
        Ok(Self { file: memory::sparse_file("neuron-onchip", start)?, blocks })
    }

    /// The block whose window in the register BAR holds `offset`.
    pub(crate) fn at_window(&self, offset: u64) -> Option<Place<'_>> {
        self.place(offset, |layout| layout.window)
    }

    /// The block whose DMA region holds `address`.
    pub(crate) fn at_bus(&self, address: u64) -> Option<Place<'_>> {
        self.place(address, |layout| layout.bus)
    }

    fn place(&self, at: u64, base: impl Fn(&OnChipBlock) -> Option<u64>) -> Option<Place<'_>> {
        let (block, offset) = self.blocks.iter().find_map(|block| {
            let offset = at.checked_sub(base(&block.layout)?)?;
            (offset < block.layout.size).then_some((block, offset))
        })?;
        let region = block
            .region
            .get_or_init(|| memory::map(&self.file, block.start, block.layout.size).ok())
            .as_ref()?;
        Some(Place { block, region, offset })
    }

    /// The file behind `len` bytes of a block's window.
    pub(crate) fn window_range(&self, offset: u64, len: u64) -> Option<OnChipRange> {
        self.blocks.iter().find_map(|block| {
            let within = offset.checked_sub(block.layout.window?)?;
            let fits = len <= block.layout.size && within <= block.layout.size - len;
            let registers = block.layout.semaphores.is_some_and(|at| {
                within < at + REGISTERS_SIZE && at + READ_WINDOW < within.saturating_add(len)
            });
            let file = FileRange { file: self.file.clone(), offset: block.start + within, len };
            fits.then_some(OnChipRange { file, registers })
        })
    }

    /// Clears the events and semaphores of the blocks in `scope`. Their memory keeps its content, as HBM
    /// does (our choice).
    pub(crate) fn reset(&self, scope: ResetScope) {
        for block in self.blocks.iter().filter(|block| scope.covers_block(block.layout.kind)) {
            let (Some(registers), Some(Some(region))) = (block.layout.semaphores, block.region.get()) else {
                continue;
            };
            for offset in (0..READ_WINDOW + WINDOW_SIZE).step_by(4) {
                if let Ok(word) = region.get_atomic_ref::<AtomicU32>((registers + offset) as usize) {
                    word.store(0, Ordering::Release);
                }
            }
        }
    }
}

impl<'a> Place<'a> {
    /// Offset in the block's event and semaphore registers, if the place is there.
    fn register(&self) -> Option<u64> {
        let offset = self.offset.checked_sub(self.block.layout.semaphores?)?;
        (offset < REGISTERS_SIZE).then_some(offset)
    }

    /// Memory from here on, at most `len` bytes: what a read sees.
    pub(crate) fn memory(&self, len: u64) -> Option<VolatileSlice<'a>> {
        let len = len.min(self.block.layout.size - self.offset);
        self.region.get_slice(self.offset as usize, len as usize).ok()
    }

    /// Bytes from here on, at most `len`, that are all plain memory to a write; 0 at a semaphore register.
    pub(crate) fn plain_len(&self, len: u64) -> u64 {
        let first = self.block.layout.semaphores.map(|at| at + READ_WINDOW);
        let end = self.block.layout.semaphores.map(|at| at + REGISTERS_SIZE);
        let limit = match (first, end) {
            (Some(first), _) if self.offset < first => first,
            (_, Some(end)) if self.offset < end => return 0,
            _ => self.block.layout.size,
        };
        len.min(limit - self.offset)
    }

    /// Semaphore registers from here on, at most `len` bytes.
    pub(crate) fn register_len(&self, len: u64) -> u64 {
        self.register().map_or(0, |offset| len.min(REGISTERS_SIZE - offset))
    }

    /// The place `distance` further on in the same block.
    pub(crate) fn advanced(self, distance: u64) -> Self {
        Self { offset: self.offset + distance, ..self }
    }

    /// Whether a 32-bit access fits here.
    pub(crate) fn is_word(&self) -> bool {
        self.offset.is_multiple_of(4)
    }

    /// Reads the aligned word here, as a register.
    pub(crate) fn read_word(&self) -> u32 {
        // Words of the set, add and subtract windows are never written, so they read 0 by themselves.
        let word = self.region.get_atomic_ref::<AtomicU32>(self.offset as usize);
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Writes the aligned word here, as a register.
    pub(crate) fn write_word(&self, value: u32) {
        let word = |offset: u64| self.region.get_atomic_ref::<AtomicU32>(offset as usize);
        let Some(register) = self.register().filter(|&offset| offset >= READ_WINDOW) else {
            if let Ok(word) = word(self.offset) {
                word.store(value, Ordering::Release);
            }
            return;
        };
        let counter = self.offset - register + READ_WINDOW + register % WINDOW_SIZE;
        let Ok(counter) = word(counter) else { return };
        match register - register % WINDOW_SIZE {
            SET_WINDOW => counter.store(value, Ordering::Release),
            ADD_WINDOW => {
                counter.fetch_add(value, Ordering::AcqRel);
            }
            SUBTRACT_WINDOW => {
                counter.fetch_sub(value, Ordering::AcqRel);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Product;

    fn onchip(product: Product) -> OnChip {
        OnChip::new(&Geometry::new(product, 1, 0).unwrap()).unwrap()
    }

    fn write(onchip: &OnChip, offset: u64, value: u32) {
        onchip.at_window(offset).unwrap().write_word(value);
    }

    fn read(onchip: &OnChip, offset: u64) -> u32 {
        onchip.at_window(offset).unwrap().read_word()
    }

    #[test]
    fn the_four_semaphore_windows_act_on_one_counter() {
        for (product, base) in [
            (Product::Trn1, 0x400_0000 + 0x270_0000),
            (Product::Trn2, 0xd270_0000),
            (Product::Trn2, 0xf280_0000),
        ] {
            let chip = onchip(product);
            let index = 4 * 255;
            write(&chip, base + SET_WINDOW + index, 10);
            write(&chip, base + ADD_WINDOW + index, 5);
            write(&chip, base + SUBTRACT_WINDOW + index, 3);
            assert_eq!(read(&chip, base + READ_WINDOW + index), 12);
            assert_eq!(read(&chip, base + READ_WINDOW), 0, "others keep still");
            write(&chip, base + READ_WINDOW + index, 99);
            assert_eq!(read(&chip, base + READ_WINDOW + index), 12, "the read window can't be written");
            assert_eq!(read(&chip, base + SET_WINDOW + index), 0);
        }
    }

    #[test]
    fn a_mapped_window_shows_registers_and_takes_writes_where_there_are_none() {
        let chip = onchip(Product::Trn2);
        let semaphores = 0xd270_0000;
        write(&chip, semaphores + SET_WINDOW + 8, 77);
        let range = chip.window_range(semaphores, 0x2000).unwrap();
        assert!(range.registers);
        let mapping = memory::map(&range.file.file, range.file.offset, range.file.len).unwrap();
        let word = |at| mapping.get_atomic_ref::<AtomicU32>(at).unwrap();
        assert_eq!(word(READ_WINDOW as usize + 8).load(Ordering::Acquire), 77);
        let sbuf = chip.window_range(0xd400_0000, 0x200_0000).unwrap();
        assert!(!sbuf.registers);
        let mapping = memory::map(&sbuf.file.file, sbuf.file.offset, sbuf.file.len).unwrap();
        mapping.get_atomic_ref::<AtomicU32>(0x40).unwrap().store(5, Ordering::Release);
        assert_eq!(read(&chip, 0xd400_0040), 5);
        assert!(!chip.window_range(semaphores, 0x1000).unwrap().registers, "events are memory");
        assert!(chip.window_range(0xd000_0000, 0x400_0001).is_none());
        assert!(chip.window_range(0x1000, 0x1000).is_none());
    }

    #[test]
    fn subtracting_below_zero_wraps() {
        let chip = onchip(Product::Trn1);
        write(&chip, 0x270_0000 + SUBTRACT_WINDOW, 1);
        assert_eq!(read(&chip, 0x270_0000 + READ_WINDOW), u32::MAX);
    }

    #[test]
    fn an_event_is_a_plain_word() {
        let chip = onchip(Product::Trn1);
        write(&chip, 0x270_0000 + 4 * 7, 1);
        assert_eq!(read(&chip, 0x270_0000 + 4 * 7), 1);
    }

    #[test]
    fn a_v2_block_is_one_memory_under_two_addresses() {
        let chip = onchip(Product::Trn1);
        write(&chip, 0x1040_0100, 0x1234);
        assert_eq!(chip.at_bus(0xfff_d040_0100).unwrap().read_word(), 0x1234);
    }

    #[test]
    fn plain_memory_ends_where_semaphores_begin() {
        let chip = onchip(Product::Trn1);
        let place = chip.at_bus(0xfff_c000_0000 + 0x270_0ff0).unwrap();
        assert_eq!((place.plain_len(64), place.advanced(16).plain_len(64)), (16, 0));
        assert_eq!(place.advanced(16).register_len(1 << 20), 0x1000);
        assert_eq!(place.advanced(16 + 0x1000).plain_len(64), 64);
    }

    #[test]
    fn a_core_reset_clears_its_semaphores_and_no_others() {
        let geometry = Geometry::new(Product::Trn1, 1, 0).unwrap();
        let chip = OnChip::new(&geometry).unwrap();
        for core in 0..2 {
            write(&chip, core * 0x400_0000 + 0x270_0000 + SET_WINDOW, 7);
            write(&chip, core * 0x400_0000 + 0x100, 8);
        }
        chip.reset(geometry.reset_scope(0x701));
        assert_eq!(read(&chip, 0x270_0000 + READ_WINDOW), 0);
        assert_eq!(read(&chip, 0x400_0000 + 0x270_0000 + READ_WINDOW), 7);
        assert_eq!(read(&chip, 0x100), 8, "memory stays");
    }
}
