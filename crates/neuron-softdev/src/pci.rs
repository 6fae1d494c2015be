//! Configuration space of the function: ids, command, status, six BAR registers with sizing.
//!
//! No capabilities and no interrupt: the driver uses none (`spec/device.md` 1). Where the BARs are mapped is
//! the owner's affair; this only answers what configuration software reads and writes. Turning memory
//! decoding or bus mastering off in the command register is remembered but stops nothing: the owner decides
//! what to forward (our choice).

use crate::geometry::{Geometry, VENDOR_ID};

const WORDS: usize = 64;
const COMMAND: usize = word(0x04);
const BAR0: usize = word(0x10);

/// Command bits that can be written: memory space, bus master, parity, SERR#, interrupt disable.
const COMMAND_WRITABLE: u32 = 0x0546;
/// Base class 12 (processing accelerator), subclass 0, programming interface 0.
const CLASS: u32 = 0x12_0000;
/// A 64-bit memory BAR; bit 3 says prefetchable.
const MEMORY_64: u32 = 0x4;
const PREFETCHABLE: u32 = 0x8;

/// Index of the 32-bit word at a byte offset.
const fn word(offset: usize) -> usize {
    offset / 4
}

/// The first 256 bytes, as values and as masks of the bits that software can write.
#[derive(Debug)]
pub(crate) struct ConfigSpace {
    values: [u32; WORDS],
    writable: [u32; WORDS],
}

impl ConfigSpace {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let mut space = Self { values: [0; WORDS], writable: [0; WORDS] };
        let device_id = u32::from(geometry.product.device_id());
        space.values[0] = device_id << 16 | u32::from(VENDOR_ID);
        space.values[word(0x08)] = CLASS << 8 | u32::from(geometry.revision);
        space.values[word(0x2c)] = space.values[0];
        space.writable[COMMAND] = COMMAND_WRITABLE;
        space.writable[word(0x0c)] = 0xff; // cache line size
        space.writable[word(0x3c)] = 0xff; // interrupt line
        space.bar(geometry.register_bar, geometry.register_bar_size, MEMORY_64);
        space.bar(4, geometry.bar4_size, MEMORY_64 | PREFETCHABLE);
        space
    }

    /// Declares a 64-bit memory BAR in registers `index` and `index` + 1. The low four bits are its type.
    fn bar(&mut self, index: u8, size: u64, flags: u32) {
        let at = BAR0 + usize::from(index);
        let mask = !(size - 1);
        self.values[at] = flags;
        self.writable[at] = mask as u32;
        self.writable[at + 1] = (mask >> 32) as u32;
    }

    /// Reads `width` (1, 2, 4) bytes at a naturally aligned offset. All ones otherwise, as a bus that nobody
    /// answers; the extended space past 256 bytes is empty and reads 0.
    pub(crate) fn read(&self, offset: u16, width: u8) -> u32 {
        let Some(mask) = lane(offset, width) else { return u32::MAX };
        let value = self.values.get(usize::from(offset / 4)).copied().unwrap_or(0);
        value >> (u32::from(offset % 4) * 8) & mask
    }

    /// Writes `width` bytes at a naturally aligned offset; ignored otherwise, and where nothing is writable.
    pub(crate) fn write(&mut self, offset: u16, width: u8, value: u32) {
        let Some(mask) = lane(offset, width) else { return };
        let shift = u32::from(offset % 4) * 8;
        let at = usize::from(offset / 4);
        if let (Some(word), Some(writable)) = (self.values.get_mut(at), self.writable.get(at)) {
            let writable = writable & mask << shift;
            *word = *word & !writable | value << shift & writable;
        }
    }
}

/// Mask of the bytes accessed, if the access is one that configuration space knows.
fn lane(offset: u16, width: u8) -> Option<u32> {
    let mask = match width {
        1 => 0xff,
        2 => 0xffff,
        4 => u32::MAX,
        _ => return None,
    };
    offset.is_multiple_of(u16::from(width)).then_some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Product, REVISION_QEMU};

    fn space(product: Product, revision: u8) -> ConfigSpace {
        ConfigSpace::new(&Geometry::new(product, revision, 4 << 30).unwrap())
    }

    fn sized(space: &mut ConfigSpace, bar: u16) -> u64 {
        let at = 0x10 + bar * 4;
        space.write(at, 4, u32::MAX);
        space.write(at + 4, 4, u32::MAX);
        let mask = u64::from(space.read(at, 4) & !0xf) | u64::from(space.read(at + 4, 4)) << 32;
        mask.wrapping_neg()
    }

    #[test]
    fn sizing_a_bar_tells_its_size_and_keeps_its_type() {
        let mut trn1 = space(Product::Trn1, 1);
        assert_eq!(sized(&mut trn1, 0), 1 << 30);
        assert_eq!(sized(&mut trn1, 4), 32 << 30);
        assert_eq!(trn1.read(0x10, 4) & 0xf, 0x4);
        assert_eq!(trn1.read(0x20, 4) & 0xf, 0xc);
        let mut trn2 = space(Product::Trn2, 1);
        assert_eq!((sized(&mut trn2, 0), sized(&mut trn2, 4)), (4 << 30, 256 << 30));
        assert_eq!(sized(&mut trn2, 2), 0, "BAR2 is absent");
        let mut qemu = space(Product::Trn1, REVISION_QEMU);
        assert_eq!((sized(&mut qemu, 0), sized(&mut qemu, 2)), (0, 1 << 30));
    }

    #[test]
    fn an_address_written_to_a_bar_reads_back() {
        let mut space = space(Product::Trn2, 1);
        space.write(0x20, 4, 0x1234_5678);
        space.write(0x24, 4, 0x41);
        assert_eq!((space.read(0x20, 4), space.read(0x24, 4)), (0xc, 0x40), "aligned down to 256 GiB");
    }

    #[test]
    fn ids_and_revision_are_read_only() {
        let mut space = space(Product::Inf2, 1);
        space.write(0, 4, 0);
        space.write(8, 4, 0);
        assert_eq!(space.read(0, 4), 0x7264_1d0f);
        assert_eq!((space.read(2, 2), space.read(8, 1), space.read(0x0a, 2)), (0x7264, 1, 0x1200));
    }

    #[test]
    fn bytes_and_words_reach_their_lane_and_odd_accesses_reach_nothing() {
        let mut space = space(Product::Trn1, 1);
        space.write(4, 2, 0xffff);
        assert_eq!(space.read(4, 4), COMMAND_WRITABLE, "status stays clear");
        space.write(5, 1, 0);
        assert_eq!(space.read(4, 2), 0x46);
        space.write(5, 2, 0);
        space.write(4, 3, 0);
        assert_eq!(space.read(4, 2), 0x46);
        assert_eq!((space.read(5, 2), space.read(4, 8), space.read(0x100, 4)), (u32::MAX, u32::MAX, 0));
    }
}
