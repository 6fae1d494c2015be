//! One HBM channel: the driver's own pools, or ours with another placement.
//!
//! | module | what lives there |
//! |---|---|
//! | here | [`Hbm`]: either of them, with whole pages and the firmware's reserve |
//! | `best_fit` | `BestFitChannel`: the driver's pools with the smallest hole that fits; no driver does that |

mod best_fit;

use neuron_abi::arch::{FIRMWARE_RESERVE, HbmRange};
use neuron_driver::pool::PoolParams;
use neuron_driver::pool::device::{Channel, Placed, Placement};

use best_fit::BestFitChannel;

/// Which hole a request goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// The lowest that is large enough: the driver's.
    #[default]
    First,
    /// The smallest that is large enough, the lowest of those. Not the driver's.
    Best,
}

/// A channel with its firmware's reserve taken.
#[derive(Debug)]
pub struct Hbm {
    pools: Pools,
    page: u64,
}

#[derive(Debug)]
enum Pools {
    Driver(Box<Channel>),
    BestFit(BestFitChannel),
}

/// A block that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    placed: Placed,
    bytes: u64,
}

impl Block {
    /// Device physical address.
    pub const fn pa(self) -> u64 {
        self.placed.pa
    }

    /// Bytes, whole pages.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Free bytes and the largest hole of (main, small).
pub type Room = [(u64, u64); 2];

impl Hbm {
    /// The channel of `range`, cut as `params` say. `page` is what sizes and addresses are
    /// multiples of: the driver's own page is 4096, and anything below counts as that.
    pub fn new(range: HbmRange, params: &PoolParams, fit: Fit, page: u64) -> Self {
        let pools = match fit {
            Fit::First => Pools::Driver(Box::new(Channel::new(range.base, range.size, params))),
            Fit::Best => Pools::BestFit(BestFitChannel::new(range.base, range.size, params)),
        };
        let mut hbm = Self { pools, page: page.max(neuron_abi::arch::PAGE_SIZE) };
        // At the channel's start, as nothing else is there yet.
        let _reserve = hbm.place(FIRMWARE_RESERVE, Placement::FirstFit);
        hbm
    }

    /// Bytes that a request takes: whole pages.
    pub const fn taken(&self, size: u64) -> u64 {
        size.div_ceil(self.page).saturating_mul(self.page)
    }

    /// Places `size` bytes, rounded to pages, at this alignment.
    pub fn allocate(&mut self, size: u64, align: u64) -> Option<Block> {
        let bytes = self.taken(size);
        let placed = self.place(bytes, self.placement(align))?;
        Some(Block { placed, bytes })
    }

    fn place(&mut self, bytes: u64, placement: Placement) -> Option<Placed> {
        match &mut self.pools {
            Pools::Driver(channel) => channel.allocate(bytes, placement),
            Pools::BestFit(channel) => channel.allocate(bytes, placement),
        }
    }

    /// Takes a block back.
    pub fn free(&mut self, block: Block) {
        match &mut self.pools {
            Pools::Driver(channel) => drop(channel.free(block.placed, block.bytes)),
            Pools::BestFit(channel) => channel.free(block.placed, block.bytes),
        }
    }

    fn placement(&self, align: u64) -> Placement {
        Placement::aligned(align.max(self.page))
    }

    /// Free bytes and largest holes.
    pub fn room(&self) -> Room {
        match &self.pools {
            Pools::Driver(channel) => channel.room(),
            Pools::BestFit(channel) => channel.room(),
        }
    }

    /// Bytes of the largest request that would be served at this alignment.
    pub fn largest_at(&self, align: u64) -> u64 {
        let placement = self.placement(align);
        let [main, small] = match &self.pools {
            Pools::Driver(channel) => channel.largest_hole_at(placement),
            Pools::BestFit(channel) => channel.largest_hole_at(placement),
        };
        let largest = main.max(small);
        largest - largest % self.page
    }
}

#[cfg(test)]
mod tests;
