//! One HBM channel: which part of it serves a request, and where.

use super::space::Space;
use super::{GRANULE, PoolParams};

/// Which pool a block came from, and so goes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Large blocks, from the channel's start.
    Main,
    /// Blocks up to the small limit, the channel's last bytes.
    Small,
}

/// How a device block is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Lowest free address.
    FirstFit,
    /// Lowest free address without these granule bits (`spec/mempool.md` 3.1).
    Aligned {
        /// Alignment in granules, less one.
        mask: u64,
    },
    /// Directly under the contiguous scratchpad, which grows down from the main pool's end.
    Scratchpad,
}

impl Placement {
    /// The placement an alignment in bytes asks for.
    pub const fn aligned(align: u64) -> Self {
        if align <= GRANULE { Self::FirstFit } else { Self::Aligned { mask: align.div_ceil(GRANULE) - 1 } }
    }
}

/// Where a block went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Device physical address.
    pub pa: u64,
    /// Pool.
    pub part: Part,
}

/// Both pools of one channel.
#[derive(Debug)]
pub struct Channel {
    main: Space,
    small: Option<Space>,
    small_alloc_max: u64,
    main_end: u64,
    /// Sizes of living scratchpad chunks by address.
    scratchpad: std::collections::BTreeMap<u64, u64>,
    allocated: u64,
}

impl Channel {
    /// The channel at `base` of `size` bytes, cut as `params` say.
    pub fn new(base: u64, size: u64, params: &PoolParams) -> Self {
        let small = match params.small_pool_size {
            small if small < size && small.is_multiple_of(GRANULE) => small,
            _ => 0,
        };
        let main_end = base + size - small;
        Self {
            main: Space::new(base / GRANULE, (size - small) / GRANULE),
            small: (small > 0).then(|| Space::new(main_end / GRANULE, small / GRANULE)),
            small_alloc_max: params.small_alloc_max,
            main_end,
            scratchpad: std::collections::BTreeMap::new(),
            allocated: 0,
        }
    }

    /// Places `size` bytes, a multiple of the granule. The pool that suits the size is
    /// tried first, then the other one; a scratchpad page has one place only.
    pub fn allocate(&mut self, size: u64, placement: Placement) -> Option<Placed> {
        let granules = size / GRANULE;
        if placement == Placement::Scratchpad {
            let pa = self.scratchpad_floor().checked_sub(size)?;
            if !self.main.take(pa / GRANULE, granules) {
                return None;
            }
            self.scratchpad.insert(pa, size);
            self.allocated += size;
            return Some(Placed { pa, part: Part::Main });
        }
        let order =
            if size <= self.small_alloc_max { [Part::Small, Part::Main] } else { [Part::Main, Part::Small] };
        order.into_iter().find_map(|part| {
            let space = self.space(part)?;
            let at = match placement {
                Placement::Aligned { mask } => space.aligned_fit(granules, mask),
                Placement::FirstFit | Placement::Scratchpad => space.first_fit(granules),
            }?;
            self.allocated += size;
            Some(Placed { pa: at * GRANULE, part })
        })
    }

    /// Takes the block back. False if it was not taken: nothing changed.
    pub fn free(&mut self, placed: Placed, size: u64) -> bool {
        let given =
            self.space(placed.part).is_some_and(|space| space.give(placed.pa / GRANULE, size / GRANULE));
        if given {
            self.scratchpad.remove(&placed.pa);
            self.allocated -= size;
        }
        given
    }

    fn space(&mut self, part: Part) -> Option<&mut Space> {
        match part {
            Part::Main => Some(&mut self.main),
            Part::Small => self.small.as_mut(),
        }
    }

    /// Lowest address of a living scratchpad chunk, or the main pool's end.
    fn scratchpad_floor(&self) -> u64 {
        self.scratchpad.keys().next().copied().unwrap_or(self.main_end)
    }

    /// Bytes between the main pool's end and the lowest living scratchpad chunk.
    pub fn scratchpad_size(&self) -> u64 {
        self.main_end - self.scratchpad_floor()
    }

    /// Address where the main pool ends.
    pub const fn main_end(&self) -> u64 {
        self.main_end
    }

    /// Bytes in use, page-rounded.
    pub const fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Largest request that (main, small) have room for, placed like this; a scratchpad page's room
    /// is not told.
    pub fn largest_hole_at(&self, placement: Placement) -> [u64; 2] {
        let mask = match placement {
            Placement::Aligned { mask } => mask,
            Placement::FirstFit | Placement::Scratchpad => 0,
        };
        let largest = |space: &Space| space.largest_hole_at(mask) * GRANULE;
        [largest(&self.main), self.small.as_ref().map_or(0, largest)]
    }

    /// Free bytes and the largest hole of (main, small).
    pub fn room(&self) -> [(u64, u64); 2] {
        let room = |space: &Space| (space.free_granules() * GRANULE, space.largest_hole() * GRANULE);
        [room(&self.main), self.small.as_ref().map_or((0, 0), room)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn channel() -> Channel {
        let params = PoolParams { small_pool_size: 16 * MIB, ..PoolParams::default() };
        Channel::new(64 * MIB, 64 * MIB, &params)
    }

    #[test]
    fn size_decides_the_pool_and_each_falls_back_to_the_other() {
        let mut channel = channel();
        let at_limit = channel.allocate(524_288, Placement::FirstFit).unwrap();
        assert_eq!(at_limit, Placed { pa: 112 * MIB, part: Part::Small });
        let above = channel.allocate(524_288 + GRANULE, Placement::FirstFit).unwrap();
        assert_eq!(above, Placed { pa: 64 * MIB, part: Part::Main });
        channel.allocate(46 * MIB, Placement::FirstFit).unwrap();
        let large = channel.allocate(15 * MIB, Placement::FirstFit).unwrap();
        assert_eq!(large.part, Part::Small);
        assert!(channel.free(large, 15 * MIB));
        assert!(!channel.free(large, 15 * MIB));
    }

    #[test]
    fn scratchpad_grows_down_and_survives_frees_out_of_order() {
        let mut channel = channel();
        let top = channel.allocate(MIB, Placement::Scratchpad).unwrap();
        let low = channel.allocate(2 * MIB, Placement::Scratchpad).unwrap();
        assert_eq!((top.pa, low.pa), (111 * MIB, 109 * MIB));
        assert!(channel.free(top, MIB));
        assert_eq!(channel.scratchpad_size(), 3 * MIB);
        let next = channel.allocate(MIB, Placement::Scratchpad).unwrap();
        assert_eq!(next.pa, 108 * MIB);
        assert!(channel.free(next, MIB) && channel.free(low, 2 * MIB));
        assert_eq!((channel.scratchpad_size(), channel.allocated()), (0, 0));
    }
}
