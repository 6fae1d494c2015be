//! What is left on an HBM: by pool, and in one piece. Asked of the driver, so it counts
//! the firmware's reserve, rounding, and other processes, which this layer's own
//! counters do not see.

use std::ops::Range;

use neuron_abi::arch::HbmRange;
use neuron_abi::arg::MemChunkEntry;
use neuron_ndl::{Device, NdlError};
use serde::{Deserialize, Serialize};

use crate::report::Chunk;

/// One pool of an HBM, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRoom {
    /// Size of the pool.
    pub size: u64,
    /// In use.
    pub used: u64,
    /// Largest run that is free.
    pub largest_hole: u64,
    /// Largest free run from a multiple of the alignment that was asked for; `largest_hole`
    /// where none was.
    pub largest_aligned_hole: u64,
}

impl PoolRoom {
    /// Bytes left, in how many pieces ever.
    pub const fn left(&self) -> u64 {
        self.size.saturating_sub(self.used)
    }

    fn hole(&mut self, hole: Range<u64>, align: u64) {
        let from = |start: u64| hole.end.saturating_sub(start);
        self.largest_hole = self.largest_hole.max(from(hole.start));
        let aligned = hole.start.checked_next_multiple_of(align.max(1)).map_or(0, from);
        self.largest_aligned_hole = self.largest_aligned_hole.max(aligned);
    }
}

/// Room on an HBM. Blocks above 512 KiB look in the main pool first, the others in the
/// small one; each falls back to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// HBM.
    pub hbm: u32,
    /// Main pool, the firmware's reserve counted as used.
    pub main: PoolRoom,
    /// Small pool.
    pub small: PoolRoom,
}

impl Room {
    /// Asks the driver.
    ///
    /// # Errors
    /// The driver's.
    pub fn of(device: &Device, hbm: u32) -> Result<Option<Self>, NdlError> {
        Self::aligned(device, hbm, 0)
    }

    /// As [`of`](Self::of), looking for holes at an alignment, 0 for none.
    ///
    /// # Errors
    /// The driver's.
    pub fn aligned(device: &Device, hbm: u32, align: u64) -> Result<Option<Self>, NdlError> {
        let Some(range) = device.geometry().hbm(hbm) else { return Ok(None) };
        Ok(Some(Self::from_chunks(hbm, range, &device.chunks(hbm)?, align)))
    }

    /// From what lives on an HBM, ascending; `align` is the alignment to look for, 0 for none.
    pub(crate) fn from_chunks(hbm: u32, range: &HbmRange, chunks: &[MemChunkEntry], align: u64) -> Self {
        let block = |chunk: &MemChunkEntry| chunk.pa..chunk.pa.saturating_add(chunk.size);
        Self::from_blocks(hbm, range, &chunks.iter().map(block).collect::<Vec<_>>(), align)
    }

    /// From the chunks of a dump file, in any order; `align` as in the request, 0 for none.
    /// What lies on no address of `range` does not count.
    pub fn from_dump(hbm: u32, range: &HbmRange, chunks: &[Chunk], align: u64) -> Self {
        let block = |chunk: &Chunk| chunk.pa..chunk.pa.saturating_add(chunk.size);
        let mut blocks: Vec<_> = chunks.iter().map(block).collect();
        blocks.sort_unstable_by_key(|block| block.start);
        Self::from_blocks(hbm, range, &blocks, align)
    }

    fn from_blocks(hbm: u32, range: &HbmRange, blocks: &[Range<u64>], align: u64) -> Self {
        let pool = |pool: Range<u64>| {
            let mut room = PoolRoom { size: pool.end - pool.start, ..PoolRoom::default() };
            let mut free_from = pool.start;
            for block in blocks {
                let (start, end) = (block.start.max(pool.start), block.end.min(pool.end));
                if start < end {
                    room.used += end - start;
                    room.hole(free_from..start, align);
                    free_from = end;
                }
            }
            room.hole(free_from..pool.end, align);
            room
        };
        Self { hbm, main: pool(range.main_pool()), small: pool(range.small_pool()) }
    }
}

impl std::fmt::Display for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} bytes used, main pool left {} bytes (largest hole {}), small pool left {} bytes (largest hole {})",
            self.main.used + self.small.used,
            self.main.left(),
            self.main.largest_hole,
            self.small.left(),
            self.small.largest_hole,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_abi::arch::Generation;

    #[test]
    fn holes_are_counted_per_pool_even_under_a_block_that_spans_none() {
        let range = Generation::V2.geometry().hbm(0).unwrap();
        let (main, small) = (range.main_pool(), range.small_pool());
        let mib = 1 << 20;
        let blocks = [
            main.start..main.start + 16 * mib,
            main.start + 32 * mib..main.end - 8 * mib,
            small.start + 4 * mib..small.start + 5 * mib,
        ];
        let room = Room::from_blocks(0, range, &blocks, 0);
        assert_eq!((room.main.left(), room.main.largest_hole), (24 * mib, 16 * mib));
        assert_eq!((room.small.left(), room.small.largest_hole), (1023 * mib, 1019 * mib));
        assert_eq!(room.small.largest_aligned_hole, room.small.largest_hole);
    }

    #[test]
    fn a_hole_counts_from_its_first_aligned_address() {
        let range = Generation::V2.geometry().hbm(0).unwrap();
        let (main, small) = (range.main_pool(), range.small_pool());
        let mib = 1 << 20;
        // Free: 3..10 and 20..22 MiB of the main pool; of the small one all.
        let blocks = [main.start..3 * mib, 10 * mib..20 * mib, 22 * mib..main.end];
        let aligned = |align| {
            let room = Room::from_blocks(0, range, &blocks, align);
            (room.main.largest_aligned_hole / mib, room.small.largest_aligned_hole / mib)
        };
        let all = (small.end - small.start) / mib;
        assert_eq!([aligned(4096), aligned(4 * mib), aligned(16 * mib)], [(7, all), (6, all), (0, all)]);
        assert_eq!(aligned(1 << 63), (0, 0));
    }
}
