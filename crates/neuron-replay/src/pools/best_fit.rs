//! The driver's two pools with another placement: the smallest hole that is large enough, and the
//! lowest of those. A what-if only; `spec/mempool.md` 3.1: "there is no best fit anywhere".

use std::collections::{BTreeMap, BTreeSet};

use neuron_driver::pool::device::{Part, Placed, Placement};
use neuron_driver::pool::{GRANULE, PoolParams};

/// Both pools of a channel.
#[derive(Debug)]
pub(super) struct BestFitChannel {
    main: Holes,
    small: Holes,
    small_alloc_max: u64,
}

/// Free extents of a range, bytes.
#[derive(Debug, Default)]
struct Holes {
    by_start: BTreeMap<u64, u64>,
    /// (length, start).
    by_length: BTreeSet<(u64, u64)>,
    free: u64,
}

impl BestFitChannel {
    /// Cut as [`Channel::new`](neuron_driver::pool::device::Channel::new) cuts.
    pub(super) fn new(base: u64, size: u64, params: &PoolParams) -> Self {
        let small = match params.small_pool_size {
            small if small < size && small.is_multiple_of(GRANULE) => small,
            _ => 0,
        };
        let main_end = base + size - small;
        Self {
            main: Holes::new(base, size - small),
            small: Holes::new(main_end, small),
            small_alloc_max: params.small_alloc_max,
        }
    }

    pub(super) fn allocate(&mut self, bytes: u64, placement: Placement) -> Option<Placed> {
        let mask = mask(placement);
        let order =
            if bytes <= self.small_alloc_max { [Part::Small, Part::Main] } else { [Part::Main, Part::Small] };
        order.into_iter().find_map(|part| Some(Placed { pa: self.holes(part).take(bytes, mask)?, part }))
    }

    pub(super) fn free(&mut self, placed: Placed, bytes: u64) {
        self.holes(placed.part).give(placed.pa, bytes);
    }

    pub(super) fn room(&self) -> [(u64, u64); 2] {
        [&self.main, &self.small].map(|holes| (holes.free, holes.largest(0)))
    }

    pub(super) fn largest_hole_at(&self, placement: Placement) -> [u64; 2] {
        [&self.main, &self.small].map(|holes| holes.largest(mask(placement)))
    }

    fn holes(&mut self, part: Part) -> &mut Holes {
        match part {
            Part::Main => &mut self.main,
            Part::Small => &mut self.small,
        }
    }
}

/// The address bits that an alignment wants clear.
fn mask(placement: Placement) -> u64 {
    match placement {
        Placement::Aligned { mask } => mask.saturating_mul(GRANULE),
        Placement::FirstFit | Placement::Scratchpad => 0,
    }
}

/// First address from `start` on without these bits, by the driver's rule: add and clear.
fn aligned(start: u64, mask: u64) -> Option<u64> {
    Some(start.checked_add(mask)? & !mask)
}

impl Holes {
    fn new(start: u64, length: u64) -> Self {
        let mut holes = Self::default();
        if length > 0 {
            holes.add(start, length);
        }
        holes
    }

    fn add(&mut self, start: u64, length: u64) {
        self.by_start.insert(start, length);
        self.by_length.insert((length, start));
        self.free += length;
    }

    fn remove(&mut self, start: u64, length: u64) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
        self.free -= length;
    }

    fn take(&mut self, bytes: u64, mask: u64) -> Option<u64> {
        if bytes == 0 {
            return None;
        }
        let fits = |&(length, start): &(u64, u64)| {
            let at = aligned(start, mask)?;
            (at.checked_add(bytes)? <= start + length).then_some((start, length, at))
        };
        let (start, length, at) = self.by_length.range((bytes, 0)..).find_map(fits)?;
        self.remove(start, length);
        if at > start {
            self.add(start, at - start);
        }
        let (end, taken) = (start + length, at + bytes);
        if end > taken {
            self.add(taken, end - taken);
        }
        Some(at)
    }

    fn give(&mut self, start: u64, bytes: u64) {
        let (mut from, mut to) = (start, start + bytes);
        if let Some((&before, &length)) = self.by_start.range(..start).next_back()
            && before + length == start
        {
            self.remove(before, length);
            from = before;
        }
        if let Some(&length) = self.by_start.get(&to) {
            self.remove(to, length);
            to += length;
        }
        self.add(from, to - from);
    }

    fn largest(&self, mask: u64) -> u64 {
        let offer = |&(length, start): &(u64, u64)| {
            let lost = aligned(start, mask).map_or(length, |at| at - start);
            length.saturating_sub(lost)
        };
        match mask {
            0 => self.by_length.last().map_or(0, |&(length, _)| length),
            _ => self.by_length.iter().map(offer).max().unwrap_or(0),
        }
    }
}
