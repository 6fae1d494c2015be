//! The host memory a device may reach: host physical ranges and the mappings that back them.
//!
//! The owner of a device builds a table and hands it over ([`crate::Device::set_dma_table`]); a new table
//! replaces the old one while engines run. A table is immutable, so an engine that works from a snapshot
//! can't see half a change, and it holds its mappings by reference count, so none disappears under a copy.

use std::sync::Arc;

use rustix::mm::ProtFlags;
use thiserror::Error;
use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

/// Descriptors and markers are accessed in units of at most this, atomically: a mapping must keep them
/// aligned.
const ALIGNMENT: u64 = 16;

/// One range of host physical memory.
#[derive(Debug, Clone)]
pub struct DmaMapping {
    /// Host physical address of the first byte, **without** the generation's host tag.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// The mapping that holds the bytes. If it is mapped for reading only, a device's write to it is an
    /// address error.
    pub region: Arc<MmapRegion>,
    /// Offset of the first byte in `region`.
    pub offset: u64,
}

impl DmaMapping {
    /// Whether the device may write here: the owner may have mapped the memory for reading only.
    pub(crate) fn is_writable(&self) -> bool {
        self.region.prot() & ProtFlags::WRITE.bits() as i32 != 0
    }

    fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|within| within < self.len)
    }

    /// The memory at `address`, at most `len` bytes and never past the mapping's end.
    #[inline]
    pub(crate) fn slice(&self, address: u64, len: u64) -> Option<VolatileSlice<'_>> {
        let within = address.checked_sub(self.address)?;
        let len = len.min(self.len.checked_sub(within)?);
        self.region.get_slice((self.offset + within) as usize, len as usize).ok()
    }
}

/// Why a table was refused. Numbers are those of the mapping in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DmaTableError {
    /// Two mappings share addresses.
    #[error("DMA mapping at {address:#x} overlaps the one at {previous:#x}, which ends at {previous_end:#x}")]
    Overlap {
        /// Start of the later mapping.
        address: u64,
        /// Start of the earlier one.
        previous: u64,
        /// Its end.
        previous_end: u64,
    },
    /// A mapping without bytes.
    #[error("DMA mapping at {address:#x} is empty")]
    Empty {
        /// Start of the mapping.
        address: u64,
    },
    /// Address and length exceed 64 bits.
    #[error("DMA mapping at {address:#x} of {len:#x} bytes passes the end of the address space")]
    AddressOverflow {
        /// Start of the mapping.
        address: u64,
        /// Its length.
        len: u64,
    },
    /// The region is shorter than the mapping says.
    #[error("DMA mapping at {address:#x}: {len:#x} bytes at offset {offset:#x} exceed a region of {size:#x}")]
    OutsideRegion {
        /// Start of the mapping.
        address: u64,
        /// Its length.
        len: u64,
        /// Its offset in the region.
        offset: u64,
        /// Bytes in the region.
        size: u64,
    },
    /// Address and memory are not aligned alike, so an aligned word could not be written in one piece.
    #[error("DMA mapping at {address:#x} lies at offset {offset:#x}: the two must agree modulo 16")]
    Misaligned {
        /// Start of the mapping.
        address: u64,
        /// Its offset in the region.
        offset: u64,
    },
}

/// Sorted, non-overlapping host memory mappings. The default table is empty: every host address is an error.
#[derive(Debug, Default)]
pub struct DmaTable {
    mappings: Box<[DmaMapping]>,
}

impl DmaTable {
    /// A table of `mappings`, in any order.
    ///
    /// # Errors
    /// An overlap, an empty mapping, one that leaves its region or the address space, or one whose address
    /// and region offset differ modulo 16.
    pub fn new(mappings: impl IntoIterator<Item = DmaMapping>) -> Result<Self, DmaTableError> {
        let mut mappings: Box<[_]> = mappings.into_iter().collect();
        mappings.sort_unstable_by_key(|mapping| mapping.address);
        for &DmaMapping { address, len, ref region, offset } in &mappings {
            let size = region.size() as u64;
            if len == 0 {
                return Err(DmaTableError::Empty { address });
            }
            if address.checked_add(len).is_none() {
                return Err(DmaTableError::AddressOverflow { address, len });
            }
            if offset.checked_add(len).is_none_or(|end| end > size) {
                return Err(DmaTableError::OutsideRegion { address, len, offset, size });
            }
            if address % ALIGNMENT != offset % ALIGNMENT {
                return Err(DmaTableError::Misaligned { address, offset });
            }
        }
        for pair in mappings.windows(2) {
            if let [a, b] = pair
                && a.address + a.len > b.address
            {
                return Err(DmaTableError::Overlap {
                    address: b.address,
                    previous: a.address,
                    previous_end: a.address + a.len,
                });
            }
        }
        Ok(Self { mappings })
    }

    /// The mappings, ascending by address.
    #[must_use]
    pub fn mappings(&self) -> &[DmaMapping] {
        &self.mappings
    }

    /// The memory at a host physical address (without tag), at most `len` bytes and never past its mapping.
    #[must_use]
    pub fn lookup(&self, address: u64, len: u64) -> Option<VolatileSlice<'_>> {
        self.find(address, &mut 0)?.slice(address, len)
    }

    /// The mapping that holds `address`, trying number `hint` first and leaving the one found there.
    #[inline]
    pub(crate) fn find(&self, address: u64, hint: &mut usize) -> Option<&DmaMapping> {
        if let Some(mapping) = self.mappings.get(*hint).filter(|mapping| mapping.holds(address)) {
            return Some(mapping);
        }
        let index = self.mappings.partition_point(|mapping| mapping.address <= address).checked_sub(1)?;
        *hint = index;
        self.mappings.get(index).filter(|mapping| mapping.holds(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm_memory::Bytes;

    fn region(size: usize) -> Arc<MmapRegion> {
        Arc::new(MmapRegion::new(size).unwrap())
    }

    fn mapping(address: u64, len: u64, region: &Arc<MmapRegion>, offset: u64) -> DmaMapping {
        DmaMapping { address, len, region: region.clone(), offset }
    }

    #[test]
    fn mappings_given_in_any_order_are_found_by_address() {
        let memory = region(0x3000);
        let table = DmaTable::new([
            mapping(0x9000, 0x1000, &memory, 0x2000),
            mapping(0x1000, 0x1000, &memory, 0),
            mapping(0x5000, 0x1000, &memory, 0x1000),
        ])
        .unwrap();
        memory.get_slice(0x1010, 4).unwrap().write_obj(42u32, 0).unwrap();
        assert_eq!(table.lookup(0x5010, 4).unwrap().read_obj::<u32>(0).unwrap(), 42);
        assert_eq!(table.lookup(0x1ff0, 0x100).unwrap().len(), 0x10, "cut at the mapping's end");
        for outside in [0, 0xfff, 0x2000, 0x4fff, 0xa000, u64::MAX] {
            assert!(table.lookup(outside, 1).is_none(), "{outside:#x}");
        }
        assert!(DmaTable::default().lookup(0, 1).is_none());
    }

    #[test]
    fn a_stale_hint_is_only_a_hint() {
        let memory = region(0x2000);
        let table = DmaTable::new([mapping(0, 0x1000, &memory, 0), mapping(0x8000, 0x1000, &memory, 0x1000)])
            .unwrap();
        for start in [0, 1, 7, usize::MAX] {
            let mut hint = start;
            assert!(table.find(0x8000, &mut hint).is_some());
            assert_eq!(hint, 1);
            assert!(table.find(0x10, &mut hint).is_some());
            assert_eq!(hint, 0);
        }
    }

    #[test]
    fn bad_tables_are_refused_with_the_numbers() {
        let memory = region(0x2000);
        let error = |mappings: Vec<DmaMapping>| DmaTable::new(mappings).unwrap_err();
        assert_eq!(
            error(vec![mapping(0x1000, 0x1000, &memory, 0), mapping(0x1ff0, 0x1000, &memory, 0x1000)]),
            DmaTableError::Overlap { address: 0x1ff0, previous: 0x1000, previous_end: 0x2000 }
        );
        assert_eq!(
            error(vec![mapping(0x1000, 0x10, &memory, 0), mapping(0x1000, 0x10, &memory, 0)]),
            DmaTableError::Overlap { address: 0x1000, previous: 0x1000, previous_end: 0x1010 }
        );
        assert_eq!(error(vec![mapping(0, 0, &memory, 0)]), DmaTableError::Empty { address: 0 });
        assert!(matches!(error(vec![mapping(0, 0x2001, &memory, 0)]), DmaTableError::OutsideRegion { .. }));
        assert!(matches!(error(vec![mapping(0, 1, &memory, u64::MAX)]), DmaTableError::OutsideRegion { .. }));
        assert!(matches!(
            error(vec![mapping(u64::MAX, 1, &memory, 0)]),
            DmaTableError::AddressOverflow { .. }
        ));
        assert!(matches!(error(vec![mapping(8, 16, &memory, 0)]), DmaTableError::Misaligned { .. }));
    }
}
