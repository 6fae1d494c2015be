//! Both placements against a list of intervals.

use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
const RANGE: HbmRange = HbmRange { base: 64 * MIB, size: 48 * MIB };

/// Taken intervals of both pools, looked through one by one.
struct Naive {
    fit: Fit,
    page: u64,
    /// (start, end) of main and small.
    parts: [(u64, u64); 2],
    taken: Vec<(u64, u64)>,
}

impl Naive {
    fn new(fit: Fit, small: u64, page: u64) -> Self {
        let end = RANGE.base + RANGE.size;
        let main = (RANGE.base, end - small);
        let taken = vec![(RANGE.base, RANGE.base + FIRMWARE_RESERVE)];
        Self { fit, page, parts: [main, (end - small, end)], taken }
    }

    fn holes(&self, (start, end): (u64, u64)) -> Vec<(u64, u64)> {
        let mut taken: Vec<_> =
            self.taken.iter().copied().filter(|block| block.0 >= start && block.1 <= end).collect();
        taken.sort_unstable();
        let mut holes = Vec::new();
        let mut at = start;
        for (from, to) in taken {
            if from > at {
                holes.push((at, from));
            }
            at = to;
        }
        if end > at {
            holes.push((at, end));
        }
        holes
    }

    fn allocate(&mut self, size: u64, align: u64) -> Option<u64> {
        let bytes = size.next_multiple_of(self.page);
        let align = align.max(self.page);
        let order = if bytes <= 524_288 { [1, 0] } else { [0, 1] };
        for part in order {
            let holes = self.holes(self.parts[part]);
            let fits = |&(from, to): &(u64, u64)| {
                let at = from.next_multiple_of(align);
                (at + bytes <= to).then_some((to - from, at))
            };
            let found = match self.fit {
                Fit::First => holes.iter().find_map(fits),
                Fit::Best => holes.iter().filter_map(fits).min(),
            };
            if let Some((_, at)) = found {
                self.taken.push((at, at + bytes));
                return Some(at);
            }
        }
        None
    }

    fn largest_at(&self, align: u64) -> u64 {
        let align = align.max(self.page);
        let offers = self.parts.iter().flat_map(|&part| self.holes(part));
        let offer = |(from, to): (u64, u64)| to.saturating_sub(from.next_multiple_of(align));
        let largest = offers.map(offer).max().unwrap_or(0);
        largest - largest % self.page
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { size: u64, align: u64 },
    Free(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![1u64..600_000, 1u64..6_000_000, Just(524_288), Just(524_289)];
    let align = prop_oneof![Just(0u64), (12u32..22).prop_map(|shift| 1 << shift)];
    prop_oneof![
        3 => (size, align).prop_map(|(size, align)| Step::Allocate { size, align }),
        2 => any::<prop::sample::Index>().prop_map(Step::Free),
    ]
}

proptest! {
    #[test]
    fn a_channel_places_as_a_list_of_intervals_does(
        steps in prop::collection::vec(step(), 1..120),
        best: bool,
        small in prop::sample::select(vec![0, 8 * MIB]),
        page in prop::sample::select(vec![PAGE, 16 * PAGE, MIB]),
    ) {
        let fit = if best { Fit::Best } else { Fit::First };
        let params = PoolParams { small_pool_size: small, ..PoolParams::default() };
        let mut hbm = Hbm::new(RANGE, &params, fit, page);
        let mut naive = Naive::new(fit, small, page);
        let mut living: Vec<Block> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate { size, align } => {
                    prop_assert_eq!(hbm.largest_at(align), naive.largest_at(align));
                    let fits = hbm.taken(size) <= hbm.largest_at(align);
                    let block = hbm.allocate(size, align);
                    prop_assert_eq!(block.map(Block::pa), naive.allocate(size, align));
                    prop_assert_eq!(block.is_some(), fits, "the largest hole tells what is served");
                    living.extend(block);
                }
                Step::Free(index) if !living.is_empty() => {
                    let block = living.swap_remove(index.index(living.len()));
                    hbm.free(block);
                    naive.taken.retain(|taken| taken.0 != block.pa());
                }
                Step::Free(_) => {}
            }
            let free: u64 = hbm.room().iter().map(|part| part.0).sum();
            let taken: u64 = naive.taken.iter().map(|(from, to)| to - from).sum();
            prop_assert_eq!(free + taken, RANGE.size);
        }
    }
}

#[test]
fn best_fit_takes_the_smallest_hole_and_first_fit_the_lowest() {
    let params = PoolParams { small_pool_size: 0, ..PoolParams::default() };
    for (fit, expected) in [(Fit::First, 0), (Fit::Best, 2)] {
        let mut hbm = Hbm::new(RANGE, &params, fit, PAGE);
        let blocks = [4, 1, 1, 1].map(|mib| hbm.allocate(mib * MIB, 0).unwrap());
        hbm.free(blocks[0]);
        hbm.free(blocks[2]);
        assert_eq!(hbm.allocate(MIB, 0).unwrap().pa(), blocks[expected].pa(), "{fit:?}");
    }
}
