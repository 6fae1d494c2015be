//! The device's bus: where a DMA address leads, and moving bytes between two such places.
//!
//! An address is host memory (tagged, found in the DMA table), HBM, an on-chip block, or nowhere
//! (`spec/udma.md` 10.8). A [`Span`] is the whole of a descriptor's range, checked before its first byte
//! moves: a range that is not mapped to its end is refused whole and touches nothing.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};

use vm_memory::{AtomicAccess, Bytes, VolatileSlice};

use crate::dma_table::DmaTable;
use crate::geometry::Geometry;
use crate::hbm::Hbm;
use crate::onchip::{OnChip, Place};
use crate::pages::Populate;
use crate::sync;

/// All memory a device can address.
#[derive(Debug)]
pub(crate) struct Bus {
    geometry: Arc<Geometry>,
    pub(crate) hbm: Hbm,
    pub(crate) on_chip: OnChip,
    table: RwLock<Arc<DmaTable>>,
}

/// An address with nothing behind it: an AXI error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unmapped {
    pub(crate) address: u64,
}

/// What the bytes are wanted for. Semaphore registers are memory to a read and act on a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Bus {
    pub(crate) fn new(geometry: Arc<Geometry>, populate: Option<Populate>, ahead: bool) -> io::Result<Self> {
        let hbm = Hbm::new(&geometry, populate, ahead)?;
        let on_chip = OnChip::new(&geometry)?;
        Ok(Self { geometry, hbm, on_chip, table: RwLock::default() })
    }

    pub(crate) fn set_table(&self, table: DmaTable) {
        let table = Arc::new(table);
        let old = std::mem::replace(&mut *sync::write(&self.table), table);
        // Unmapping may take long: not under the lock.
        drop(old);
    }

    /// The bus with today's DMA table.
    pub(crate) fn view(&self) -> View<'_> {
        View { bus: self, table: sync::read(&self.table).clone() }
    }
}

/// The bus as one batch of work sees it: a DMA table that does not change meanwhile.
#[derive(Debug)]
pub(crate) struct View<'a> {
    bus: &'a Bus,
    table: Arc<DmaTable>,
}

/// Contiguous bytes of one kind.
#[derive(Debug, Clone, Copy)]
enum Piece<'v> {
    Memory(VolatileSlice<'v>),
    Registers(Place<'v>, u64),
}

impl Piece<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(slice) => slice.len() as u64,
            Self::Registers(_, len) => *len,
        }
    }
}

impl View<'_> {
    /// The longest contiguous piece at `address`, at most `len` bytes.
    #[inline]
    fn piece(&self, access: Access, address: u64, len: u64, hint: &mut usize) -> Option<Piece<'_>> {
        if let Some(host) = self.bus.geometry.host_address(address) {
            let mapping = self.table.find(host, hint)?;
            if access == Access::Write && !mapping.is_writable() {
                return None;
            }
            return mapping.slice(host, len).map(Piece::Memory);
        }
        if let Some(slice) = self.bus.hbm.at_address(address, len) {
            if access == Access::Write {
                self.bus.hbm.before_write(address, slice.len() as u64);
            }
            return Some(Piece::Memory(slice));
        }
        let place = self.bus.on_chip.at_bus(address)?;
        if access == Access::Read {
            return place.memory(len).map(Piece::Memory);
        }
        match place.plain_len(len) {
            0 => {
                let len = place.register_len(len);
                (place.is_word() && len.is_multiple_of(4)).then_some(Piece::Registers(place, len))
            }
            len => place.memory(len).map(Piece::Memory),
        }
    }

    /// The range of `len` bytes at `address`, if it is mapped from end to end. `hint` is any number and comes
    /// back as one that makes the next nearby call cheaper.
    #[inline]
    pub(crate) fn span(
        &self,
        access: Access,
        address: u64,
        len: u64,
        hint: &mut usize,
    ) -> Result<Span<'_>, Unmapped> {
        let first = self.piece(access, address, len, hint).ok_or(Unmapped { address })?;
        if first.len() < len {
            self.check(access, address, len)?;
        }
        Ok(Span { view: self, access, address, left: len, piece: first })
    }

    #[cold]
    fn check(&self, access: Access, address: u64, len: u64) -> Result<(), Unmapped> {
        let (mut at, mut left, mut hint) = (address, len, 0);
        while left > 0 {
            let piece = self.piece(access, at, left, &mut hint).ok_or(Unmapped { address: at })?;
            left -= piece.len();
            at = at.checked_add(piece.len()).ok_or(Unmapped { address })?;
        }
        Ok(())
    }

    /// The first of `len` bytes at `address`, as many as lie in one piece of memory.
    pub(crate) fn memory_from(&self, address: u64, len: u64) -> Option<VolatileSlice<'_>> {
        match self.piece(Access::Read, address, len, &mut 0) {
            Some(Piece::Memory(slice)) => Some(slice),
            _ => None,
        }
    }

    /// Reads 16 bytes, wherever they are, as two little-endian words: a descriptor.
    pub(crate) fn read_pair(&self, address: u64) -> Result<[u64; 2], Unmapped> {
        let mut bytes = [0; 16];
        self.read(address, &mut bytes)?;
        let value = u128::from_le_bytes(bytes);
        Ok([value as u64, (value >> 64) as u64])
    }

    /// Fills `bytes` from `address`; leaves them alone if the range is not mapped whole.
    pub(crate) fn read(&self, address: u64, mut bytes: &mut [u8]) -> Result<(), Unmapped> {
        self.check(Access::Read, address, bytes.len() as u64)?;
        let (mut at, mut hint) = (address, 0);
        while !bytes.is_empty() {
            let slice = self.memory(Access::Read, at, bytes.len() as u64, &mut hint)?;
            let (part, rest) = bytes.split_at_mut(slice.len());
            slice.read_slice(part, 0).map_err(|_| Unmapped { address: at })?;
            at += part.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Writes `bytes` to host memory at `address`, the first byte last and with release ordering: who sees it
    /// sees the others. Anything but host memory is refused, and so is a range not mapped whole.
    pub(crate) fn publish_to_host(&self, address: u64, bytes: &[u8]) -> Result<(), Unmapped> {
        let Some((&first, mut rest)) = bytes.split_first() else { return Ok(()) };
        if self.bus.geometry.host_address(address).is_none() {
            return Err(Unmapped { address });
        }
        self.check(Access::Write, address, bytes.len() as u64)?;
        let (mut at, mut hint) = (address + 1, 0);
        while !rest.is_empty() {
            let slice = self.memory(Access::Write, at, rest.len() as u64, &mut hint)?;
            let (part, tail) = rest.split_at(slice.len());
            slice.write_slice(part, 0).map_err(|_| Unmapped { address: at })?;
            at += part.len() as u64;
            rest = tail;
        }
        let slice = self.memory(Access::Write, address, 1, &mut hint)?;
        slice.store(first, 0, Ordering::Release).map_err(|_| Unmapped { address })
    }

    /// As [`piece`](Self::piece), where it must be memory.
    fn memory(
        &self,
        access: Access,
        address: u64,
        len: u64,
        hint: &mut usize,
    ) -> Result<VolatileSlice<'_>, Unmapped> {
        match self.piece(access, address, len, hint) {
            Some(Piece::Memory(slice)) => Ok(slice),
            _ => Err(Unmapped { address }),
        }
    }
}

/// The two little-endian words at `offset`, if both are inside and aligned.
#[inline]
pub(crate) fn pair_at(memory: &VolatileSlice<'_>, offset: u64) -> Option<[u64; 2]> {
    let at = usize::try_from(offset).ok()?;
    let low = memory.load(at, Ordering::Relaxed).ok()?;
    let high = memory.load(at.checked_add(8)?, Ordering::Relaxed).ok()?;
    Some([low, high].map(u64::from_le))
}

/// What is left of a descriptor's range.
#[derive(Debug)]
pub(crate) struct Span<'v> {
    view: &'v View<'v>,
    access: Access,
    address: u64,
    left: u64,
    piece: Piece<'v>,
}

impl Span<'_> {
    /// Address of the next byte.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Bytes left.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Moves on by `len` bytes, at most the piece at hand.
    #[inline]
    pub(crate) fn advance(&mut self, len: u64) -> Result<(), Unmapped> {
        self.address = self.address.wrapping_add(len);
        self.left -= len;
        if self.left == 0 {
            return Ok(());
        }
        let next = match self.piece {
            Piece::Memory(slice) if (slice.len() as u64) > len => {
                slice.offset(len as usize).ok().map(Piece::Memory)
            }
            Piece::Registers(place, rest) if rest > len => {
                Some(Piece::Registers(place.advanced(len), rest - len))
            }
            _ => self.view.piece(self.access, self.address, self.left, &mut 0),
        };
        self.piece = next.ok_or(Unmapped { address: self.address })?;
        Ok(())
    }

    /// Bytes that [`copy_to`](Self::copy_to) will move.
    #[inline]
    pub(crate) fn step(&self, target: &Span<'_>) -> u64 {
        self.piece.len().min(target.piece.len())
    }

    /// Copies the next [`step`](Self::step) bytes to `target`; advances neither. An aligned write of 4 or 8
    /// bytes is one atomic store with release ordering: it is what a poller may wait for.
    #[inline]
    pub(crate) fn copy_to(&self, target: &Span<'_>) -> Result<(), Unmapped> {
        let Piece::Memory(source) = self.piece else { return Err(Unmapped { address: self.address }) };
        let len = self.step(target);
        match target.piece {
            Piece::Memory(memory) => {
                let stored = match len {
                    4 => store_word::<u32>(&source, &memory),
                    8 => store_word::<u64>(&source, &memory),
                    _ => false,
                };
                if !stored {
                    let source = source.subslice(0, len as usize);
                    source.map_err(|_| Unmapped { address: self.address })?.copy_to_volatile_slice(memory);
                }
                Ok(())
            }
            Piece::Registers(place, _) => {
                copy_to_registers(&source, place, len).ok_or(Unmapped { address: target.address })
            }
        }
    }

    /// Inverts one bit in the middle of the next `len` bytes: an injected fault.
    #[cold]
    pub(crate) fn flip_bit(&self, len: u64) {
        let at = (len / 2) as usize;
        if let Piece::Memory(memory) = self.piece
            && let Ok(byte) = memory.read_obj::<u8>(at)
        {
            // Can't fail where the read did not.
            let _ = memory.store(byte ^ 1, at, Ordering::Release);
        }
    }
}

/// One word by an atomic store. `false` if the target is not aligned.
#[inline]
fn store_word<T: AtomicAccess>(source: &VolatileSlice<'_>, target: &VolatileSlice<'_>) -> bool {
    let Ok(value) = source.load::<T>(0, Ordering::Relaxed).or_else(|_| source.read_obj::<T>(0)) else {
        return false;
    };
    target.store(value, 0, Ordering::Release).is_ok()
}

/// Whole words into semaphore registers. `None` if there are odd bytes.
fn copy_to_registers(source: &VolatileSlice<'_>, place: Place<'_>, len: u64) -> Option<()> {
    if !len.is_multiple_of(4) {
        return None;
    }
    for at in (0..len).step_by(4) {
        let word = source.read_obj::<u32>(at as usize).ok()?;
        place.advanced(at).write_word(u32::from_le(word));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dma_table::DmaMapping;
    use crate::geometry::Product;
    use vm_memory::{MmapRegion, VolatileMemory};

    const TAG: u64 = 1 << 44;

    fn bus() -> (Bus, Arc<MmapRegion>) {
        let bus = Bus::new(Arc::new(Geometry::new(Product::Trn1, 1, 0).unwrap()), None, false).unwrap();
        let region = Arc::new(MmapRegion::new(0x3000).unwrap());
        let map = |address, offset| DmaMapping { address, len: 0x1000, region: region.clone(), offset };
        // Adjacent addresses, memory the other way round; then a hole.
        bus.set_table(DmaTable::new([map(0x10000, 0x1000), map(0x11000, 0), map(0x13000, 0x2000)]).unwrap());
        (bus, region)
    }

    fn copy(view: &View<'_>, from: u64, to: u64, len: u64) -> Result<(), Unmapped> {
        let mut source = view.span(Access::Read, from, len, &mut 0)?;
        let mut target = view.span(Access::Write, to, len, &mut 0)?;
        while source.left() > 0 {
            let step = source.step(&target);
            source.copy_to(&target)?;
            source.advance(step)?;
            target.advance(step)?;
        }
        Ok(())
    }

    #[test]
    fn a_span_crosses_adjacent_mappings() {
        let (bus, region) = bus();
        region.get_slice(0x1ff8, 8).unwrap().write_slice(b"end of a", 0).unwrap();
        region.get_slice(0, 8).unwrap().write_slice(b"start b ", 0).unwrap();
        let view = bus.view();
        copy(&view, TAG | 0x10ff8, 0x4000, 16).unwrap();
        let mut bytes = [0; 16];
        view.read(0x4000, &mut bytes).unwrap();
        assert_eq!(&bytes, b"end of astart b ");
        assert_eq!(view.read_pair(TAG | 0x10ff8).unwrap()[1], u64::from_le_bytes(*b"start b "));
    }

    #[test]
    fn a_range_with_a_hole_is_refused_where_the_hole_starts() {
        let (bus, _) = bus();
        let view = bus.view();
        for (address, len, hole) in [
            (TAG | 0x11ff0, 0x20, TAG | 0x12000),
            (TAG | 0x10000, 0x10000, TAG | 0x12000),
            (TAG | 0x12000, 1, TAG | 0x12000),
            (0x10000, 1 << 40, 16 << 30),
            ((16 << 30) - 1, 2, 16 << 30),
            (0xfff_c800_0000, 4, 0xfff_c800_0000),
            (u64::MAX, 4, u64::MAX),
        ] {
            let error = view.span(Access::Write, address, len, &mut 0).unwrap_err();
            assert_eq!(error, Unmapped { address: hole }, "{address:#x}");
        }
    }

    #[test]
    fn a_dma_write_to_semaphore_words_acts_as_register_writes() {
        let (bus, region) = bus();
        let semaphores = 0xfff_c270_0000;
        region.get_slice(0x1000, 8).unwrap().write_obj(5u32, 0).unwrap();
        region.get_slice(0x1000, 8).unwrap().write_obj(9u32, 4).unwrap();
        let view = bus.view();
        copy(&view, TAG | 0x10000, semaphores + 0x1800, 8).unwrap();
        copy(&view, TAG | 0x10000, semaphores + 0x1c00 + 4, 4).unwrap();
        assert_eq!(bus.on_chip.at_window(0x270_1000).unwrap().read_word(), 5);
        assert_eq!(bus.on_chip.at_window(0x270_1004).unwrap().read_word(), 4);
        copy(&view, semaphores + 0x1000, 0x100, 8).unwrap();
        assert_eq!(view.read_pair(0x100).unwrap()[0], 5 | 4 << 32);
        assert!(copy(&view, TAG | 0x10000, semaphores + 0x1402, 4).is_err(), "not a word");
        assert!(copy(&view, TAG | 0x10000, semaphores + 0x1400, 6).is_err(), "odd bytes");
        copy(&view, TAG | 0x10000, semaphores + 4 * 3, 4).unwrap();
        assert_eq!(bus.on_chip.at_window(0x270_000c).unwrap().read_word(), 5, "an event is a word");
    }

    #[test]
    fn read_only_host_memory_can_be_read_but_not_written() {
        use rustix::mm::{MapFlags, ProtFlags};
        let (bus, _) = bus();
        let file = crate::memory::sparse_file("read-only", 0x1000).unwrap();
        let (prot, flags) = (ProtFlags::READ.bits() as i32, MapFlags::SHARED.bits() as i32);
        let region = MmapRegion::build(Some(vm_memory::FileOffset::from_arc(file, 0)), 0x1000, prot, flags);
        let mapping =
            DmaMapping { address: 0x10000, len: 0x1000, region: Arc::new(region.unwrap()), offset: 0 };
        bus.set_table(DmaTable::new([mapping]).unwrap());
        let view = bus.view();
        assert_eq!(copy(&view, TAG | 0x10000, 0, 64), Ok(()));
        assert_eq!(copy(&view, 0, TAG | 0x10000, 64), Err(Unmapped { address: TAG | 0x10000 }));
    }

    #[test]
    fn a_view_keeps_the_table_it_was_made_with() {
        let (bus, _) = bus();
        let before = bus.view();
        bus.set_table(DmaTable::default());
        assert!(before.span(Access::Read, TAG | 0x10000, 4, &mut 0).is_ok());
        assert!(bus.view().span(Access::Read, TAG | 0x10000, 4, &mut 0).is_err());
    }

    #[test]
    fn a_response_goes_to_host_memory_only_and_whole() {
        let (bus, region) = bus();
        let view = bus.view();
        view.publish_to_host(TAG | 0x10ffe, &[1, 2, 3, 4]).unwrap();
        let mut bytes = [0; 2];
        region.get_slice(0x1ffe, 2).unwrap().read_slice(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [1, 2]);
        region.get_slice(0, 2).unwrap().read_slice(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [3, 4]);
        assert!(view.publish_to_host(0x1000, &[1]).is_err());
        assert!(view.publish_to_host(TAG | 0x11fff, &[9, 9]).is_err());
        region.get_slice(0xfff, 1).unwrap().read_slice(&mut bytes[..1], 0).unwrap();
        assert_eq!(bytes[0], 0);
    }
}
