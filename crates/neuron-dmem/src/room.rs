//! What is left on an HBM: by pool, and in one piece. Asked of the driver, so it counts
//! the firmware's reserve, rounding, and other processes, which this layer's own
//! counters do not see.

use std::ops::Range;

use neuron_abi::arch::HbmRange;
use neuron_ndl::{Device, NdlError};

/// One pool of an HBM, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolRoom {
    /// Size of the pool.
    pub size: u64,
    /// In use.
    pub used: u64,
    /// Largest run that is free.
    pub largest_hole: u64,
}

impl PoolRoom {
    /// Bytes left, in how many pieces ever.
    pub const fn left(&self) -> u64 {
        self.size - self.used
    }
}

/// Room on an HBM. Blocks above 512 KiB look in the main pool first, the others in the
/// small one; each falls back to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let Some(range) = device.geometry().hbm(hbm) else { return Ok(None) };
        let blocks: Vec<_> =
            device.chunks(hbm)?.iter().map(|chunk| chunk.pa..chunk.pa + chunk.size).collect();
        Ok(Some(Self::from_blocks(hbm, range, &blocks)))
    }

    /// From the living blocks of an HBM, ascending.
    fn from_blocks(hbm: u32, range: &HbmRange, blocks: &[Range<u64>]) -> Self {
        let pool = |pool: Range<u64>| {
            let mut room = PoolRoom { size: pool.end - pool.start, ..PoolRoom::default() };
            let mut free_from = pool.start;
            for block in blocks {
                let (start, end) = (block.start.max(pool.start), block.end.min(pool.end));
                if start < end {
                    room.used += end - start;
                    room.largest_hole = room.largest_hole.max(start.saturating_sub(free_from));
                    free_from = end;
                }
            }
            room.largest_hole = room.largest_hole.max(pool.end - free_from);
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
        let room = Room::from_blocks(0, range, &blocks);
        assert_eq!((room.main.left(), room.main.largest_hole), (24 * mib, 16 * mib));
        assert_eq!((room.small.left(), room.small.largest_hole), (1023 * mib, 1019 * mib));
    }
}
