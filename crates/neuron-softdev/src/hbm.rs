//! HBM: one sparse file laid out like BAR4, and the device's own mappings of its live parts.
//!
//! [`Bar4`] is the owner's view: which part of which file to map for a BAR4 access, or a slice of the
//! device's mapping. Engines reach the same bytes by device address.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

use crate::error::AccessError;
use crate::geometry::{Geometry, HbmChannel};
use crate::memory;
use crate::pages::{Ahead, Pages, Populate};

/// The memory of all channels.
#[derive(Debug)]
pub(crate) struct Hbm {
    file: Arc<File>,
    bar4_size: u64,
    channels: Vec<HbmChannel>,
    /// Live parts of BAR4, ascending: adjacent channels share one.
    spans: Vec<LiveSpan>,
    ahead: Option<Ahead>,
}

#[derive(Debug)]
struct LiveSpan {
    bar4: u64,
    region: Arc<MmapRegion>,
    pages: Option<Arc<Pages>>,
}

impl Hbm {
    /// Pages are made by `populate`, if it is there; `ahead` of writes too, on a thread.
    pub(crate) fn new(geometry: &Geometry, populate: Option<Populate>, ahead: bool) -> io::Result<Self> {
        let file = memory::sparse_file("neuron-hbm", geometry.bar4_size)?;
        let mut live: Vec<(u64, u64)> = Vec::new();
        for channel in &geometry.hbm {
            match live.last_mut() {
                Some((start, size)) if *start + *size == channel.bar4 => *size += channel.size,
                _ => live.push((channel.bar4, channel.size)),
            }
        }
        let spans = live
            .into_iter()
            .map(|(bar4, size)| {
                let region = Arc::new(memory::map(&file, bar4, size)?);
                let pages = populate.map(|populate| Arc::new(Pages::new(&region, populate)));
                Ok(LiveSpan { bar4, region, pages })
            })
            .collect::<io::Result<_>>()?;
        let ahead = (ahead && populate.is_some()).then(Ahead::start).transpose()?;
        Ok(Self { file, bar4_size: geometry.bar4_size, channels: geometry.hbm.clone(), spans, ahead })
    }

    /// The memory at a device address, at most `len` bytes and never past its channel's end.
    pub(crate) fn at_address(&self, address: u64, len: u64) -> Option<VolatileSlice<'_>> {
        let (span, offset, rest) = self.locate(address)?;
        span.region.get_slice(offset as usize, len.min(rest) as usize).ok()
    }

    /// Before `bytes` bytes are written at a device address.
    pub(crate) fn before_write(&self, address: u64, bytes: u64) {
        if let Some((LiveSpan { pages: Some(pages), .. }, offset, _)) = self.locate(address) {
            pages.before_write(offset, bytes, self.ahead.as_ref());
        }
    }

    /// The live part of a device address, where in it that is, and bytes from there to the channel's end.
    fn locate(&self, address: u64) -> Option<(&LiveSpan, u64, u64)> {
        let channel =
            self.channels.iter().find(|c| address.checked_sub(c.address).is_some_and(|d| d < c.size))?;
        let within = address - channel.address;
        let (span, offset) = self.live(channel.bar4 + within)?;
        Some((span, offset, channel.size - within))
    }

    pub(crate) fn bar4(&self) -> Bar4<'_> {
        Bar4 { hbm: self }
    }

    fn live(&self, bar4: u64) -> Option<(&LiveSpan, u64)> {
        self.spans.iter().find_map(|span| {
            let offset = bar4.checked_sub(span.bar4)?;
            (offset < span.region.size() as u64).then_some((span, offset))
        })
    }
}

/// Part of a file: what to hand to mmap.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The file. Its size is that of BAR4, it is sparse, and it can't be resized.
    pub file: Arc<File>,
    /// Offset of the first byte in the file: the BAR4 offset.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// BAR4: the HBM window.
///
/// Offsets are BAR4's. Ranges must lie in live memory, whole: on V3 and later there is a gap after each
/// channel, inside the BAR but with nothing behind it.
#[derive(Debug, Clone, Copy)]
pub struct Bar4<'a> {
    hbm: &'a Hbm,
}

impl<'a> Bar4<'a> {
    /// Bytes of the BAR, gaps included.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.hbm.bar4_size
    }

    /// Live parts of the BAR as (offset, bytes), ascending. What a virtual machine monitor announces as
    /// mappable.
    pub fn live_ranges(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.hbm.spans.iter().map(|span| (span.bar4, span.region.size() as u64))
    }

    /// The file and file offset to map for `len` bytes at `offset`.
    ///
    /// # Errors
    /// [`AccessError::OutOfRange`] past the BAR's end, [`AccessError::Gap`] where there is no HBM.
    pub fn file_range(&self, offset: u64, len: u64) -> Result<FileRange, AccessError> {
        self.locate(offset, len)?;
        Ok(FileRange { file: self.hbm.file.clone(), offset, len })
    }

    /// The device's own mapping of `len` bytes at `offset`.
    ///
    /// # Errors
    /// As [`file_range`](Self::file_range).
    pub fn slice(&self, offset: u64, len: u64) -> Result<VolatileSlice<'a>, AccessError> {
        let (span, within) = self.locate(offset, len)?;
        span.region.get_slice(within as usize, len as usize).map_err(|_| AccessError::Gap { bar: 4, offset })
    }

    /// The mapping that holds `len` bytes at `offset`, and their offset in it: for owners that keep it.
    ///
    /// # Errors
    /// As [`file_range`](Self::file_range).
    pub fn region(&self, offset: u64, len: u64) -> Result<(Arc<MmapRegion>, u64), AccessError> {
        self.locate(offset, len).map(|(span, within)| (span.region.clone(), within))
    }

    fn locate(&self, offset: u64, len: u64) -> Result<(&'a LiveSpan, u64), AccessError> {
        let size = self.hbm.bar4_size;
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(AccessError::OutOfRange { bar: 4, offset, size });
        }
        self.hbm
            .live(offset)
            .filter(|(span, within)| len <= span.region.size() as u64 - within)
            .ok_or(AccessError::Gap { bar: 4, offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Product;
    use vm_memory::Bytes;

    const GIB: u64 = 1 << 30;

    fn hbm(product: Product) -> Hbm {
        Hbm::new(&Geometry::new(product, 1, 0).unwrap(), None, false).unwrap()
    }

    #[test]
    fn a_device_address_and_its_bar4_offset_are_the_same_bytes() {
        for (product, address, bar4) in [
            (Product::Trn1, 0x1000, 0x1000),
            (Product::Trn1, (1 << 36) + 0x1000, 16 * GIB + 0x1000),
            (Product::Trn2, (1 << 47) + (1 << 38) + 0x40, 192 * GIB + 0x40),
        ] {
            let hbm = hbm(product);
            hbm.at_address(address, 8).unwrap().write_slice(b"neuron!!", 0).unwrap();
            let mut bytes = [0; 8];
            hbm.bar4().slice(bar4, 8).unwrap().read_slice(&mut bytes, 0).unwrap();
            assert_eq!(&bytes, b"neuron!!");
        }
    }

    #[test]
    fn a_span_is_cut_at_its_channels_end_and_gaps_hold_nothing() {
        let v2 = hbm(Product::Trn1);
        assert_eq!(v2.at_address(16 * GIB - 4, 64).unwrap().len(), 4, "HBM1 follows in BAR4, not on the bus");
        assert!(v2.at_address(16 * GIB, 1).is_none());
        assert!(v2.bar4().slice(16 * GIB - 4, 8).is_ok());
        let v3 = hbm(Product::Trn2);
        assert_eq!(
            v3.bar4().live_ranges().collect::<Vec<_>>(),
            [0, 64, 128, 192].map(|s| (s * GIB, 24 * GIB))
        );
        assert!(matches!(v3.bar4().slice(24 * GIB - 4, 8), Err(AccessError::Gap { .. })));
        assert!(matches!(v3.bar4().slice(256 * GIB - 4, 8), Err(AccessError::OutOfRange { .. })));
        assert!(matches!(v3.bar4().slice(u64::MAX, 8), Err(AccessError::OutOfRange { .. })));
    }

    #[test]
    fn a_second_mapping_of_the_file_sees_the_devices_bytes() {
        let hbm = hbm(Product::Trn1);
        let range = hbm.bar4().file_range(1 << 20, 4096).unwrap();
        let mapping = memory::map(&range.file, range.offset, range.len).unwrap();
        hbm.at_address(1 << 20, 4).unwrap().write_obj(0xabcd_ef01u32, 0).unwrap();
        assert_eq!(mapping.get_slice(0, 4).unwrap().read_obj::<u32>(0).unwrap(), 0xabcd_ef01);
    }

    #[test]
    fn the_file_cannot_be_resized_by_who_holds_it() {
        let hbm = hbm(Product::Trn1);
        let range = hbm.bar4().file_range(0, 4096).unwrap();
        assert!(range.file.set_len(0).is_err());
        assert!(range.file.set_len(64 * GIB).is_err());
    }
}
