//! A space against a plain bitmap of the same range, and the tree's own promises.

use super::*;
use proptest::prelude::*;

/// The plain bitmap search that a space must equal.
struct Bitmap {
    start: u64,
    taken: Vec<bool>,
}

impl Bitmap {
    fn range(&mut self, start: u64, len: u64) -> &mut [bool] {
        let at = (start - self.start) as usize;
        &mut self.taken[at..at + len as usize]
    }

    fn fit(&mut self, len: u64, mask: u64) -> Option<u64> {
        let end = self.taken.len() as u64;
        let mut from = 0;
        loop {
            let lowest = (from..end).find(|&at| !self.taken[at as usize])?;
            let at = ((self.start + lowest + mask) & !mask) - self.start;
            if len == 0 || at + len > end {
                return None;
            }
            match (at..at + len).find(|&at| self.taken[at as usize]) {
                None => {
                    self.range(self.start + at, len).fill(true);
                    return Some(self.start + at);
                }
                Some(busy) => from = busy + 1,
            }
        }
    }

    fn holes(&self) -> Vec<Extent> {
        let mut at = self.start;
        let runs = self.taken.chunk_by(|a, b| a == b).map(|run| {
            let extent = Extent { start: at, len: run.len() as u64 };
            at = extent.end();
            (run[0], extent)
        });
        runs.filter_map(|(taken, extent)| (!taken).then_some(extent)).collect()
    }

    fn largest_at(&self, mask: u64) -> u64 {
        let offer = |hole: Extent| {
            let first = (hole.start..hole.end()).find(|&at| at & mask == 0)?;
            Some(hole.end() - first)
        };
        self.holes().into_iter().filter_map(offer).max().unwrap_or(0)
    }
}

#[test]
fn lowest_address_wins_even_where_a_tighter_hole_exists() {
    let mut space = Space::new(0, 100);
    let blocks: Vec<_> = (0..10).map(|_| space.first_fit(10).unwrap()).collect();
    space.give(blocks[1], 10);
    space.give(blocks[2], 10);
    space.give(blocks[5], 10);
    assert_eq!(space.first_fit(10), Some(10));
    assert_eq!(space.largest_hole(), 10);
    assert_eq!(space.first_fit(11), None);
}

#[test]
fn giving_back_twice_changes_nothing() {
    let mut space = Space::new(5, 10);
    let at = space.first_fit(4).unwrap();
    assert!(space.give(at, 4));
    assert!(!space.give(at, 4));
    assert!(!space.give(0, 1));
    assert_eq!(space.holes(), [Extent { start: 5, len: 10 }]);
}

#[test]
fn a_run_outside_the_space_is_neither_taken_nor_given() {
    let mut space = Space::new(100, 50);
    for (start, len) in [(99, 1), (149, 2), (0, 1), (150, 1), (u64::MAX, 2), (120, u64::MAX), (120, 0)] {
        assert!(!space.take(start, len) && !space.give(start, len), "{start}+{len}");
    }
    assert_eq!((space.first_fit(0), space.first_fit(51), space.first_fit(u64::MAX)), (None, None, None));
    assert_eq!((space.aligned_fit(0, 7), space.aligned_fit(1, u64::MAX)), (None, None));
    assert_eq!(space.first_fit(50), Some(100));
    assert_eq!((space.holes(), space.largest_hole(), space.largest_hole_at(7)), (vec![], 0, 0));
    let mut empty = Space::new(7, 0);
    assert_eq!((empty.first_fit(1), empty.free_granules()), (None, 0));
}

#[test]
fn alignment_counts_from_address_zero_wherever_the_space_starts() {
    const LIMIT: u64 = super::LIMIT as u64;
    let mut space = Space::new((5 << 30) + 3, u64::MAX);
    assert_eq!(space.free_granules(), LIMIT);
    assert_eq!(space.aligned_fit(2, (1 << 20) - 1), Some((5 << 30) + (1 << 20)));
    assert_eq!(space.aligned_fit(3, (1 << 29) - 1), Some((5 << 30) + (1 << 29)));
    // Masks as wide as the space and wider.
    assert_eq!(space.aligned_fit(1, LIMIT), Some(6 << 30));
    assert_eq!(space.aligned_fit(1, LIMIT), None);
    assert_eq!(space.aligned_fit(1, (1 << 31) - 1), None);
    assert!(space.give(6 << 30, 1));
    assert_eq!(space.aligned_fit(1, (1 << 31) - 1), Some(6 << 30));
    assert_eq!(space.largest_hole_at((1 << 31) - 1), 0);
}

/// The pattern that costs a search by length everything: each hole is long enough and
/// none of them holds an aligned run, but the last.
#[test]
fn holes_that_all_miss_the_alignment_are_passed_over() {
    const HOLES: u64 = 20_000;
    for mask in [1, 3, 15, 255] {
        let period = 4 * (mask + 1);
        let mut space = Space::new(0, HOLES * period);
        assert_eq!(space.first_fit(HOLES * period), Some(0));
        for hole in 0..HOLES - 1 {
            // From just behind an aligned granule to just before the second next.
            assert!(space.give(hole * period + 1, 2 * mask + 1));
        }
        assert_eq!((space.largest_hole(), space.largest_hole_at(mask)), (2 * mask + 1, mask + 1));
        assert_eq!(space.aligned_fit(mask + 2, mask), None);
        assert!(space.give((HOLES - 1) * period, mask + 2));
        assert_eq!(space.largest_hole_at(mask), mask + 2);
        assert_eq!(space.aligned_fit(mask + 2, mask), Some((HOLES - 1) * period));
        space.extents.check();
    }
}

/// Every order of growing and shrinking passes through all heights.
#[test]
fn the_tree_keeps_its_promises_while_it_grows_and_shrinks() {
    const HOLES: u64 = 10_007;
    for stride in [1, HOLES - 1, 4_999, 7] {
        let order = (0..HOLES).map(|index| index * stride % HOLES);
        let mut space = Space::new(0, 2 * HOLES);
        space.aligned_fit(1, 3).unwrap();
        assert!(space.take(1, 2 * HOLES - 1));
        for (count, hole) in order.clone().enumerate() {
            assert!(space.give(2 * hole, 1));
            if count % 997 == 0 {
                space.extents.check();
            }
        }
        space.extents.check();
        assert_eq!((space.free_granules(), space.largest_hole()), (HOLES, 1));
        for (count, hole) in order.enumerate() {
            // Half vanish, half grow.
            if hole % 2 == 0 {
                assert!(space.take(2 * hole, 1));
            } else {
                assert!(space.give(2 * hole + 1, 1));
            }
            if count % 997 == 0 {
                space.extents.check();
            }
        }
        space.extents.check();
        assert_eq!(space.largest_hole(), 2);
        assert!(space.holes().iter().all(|hole| hole.len == 2 && hole.start % 4 == 2));
    }
}

/// What a space looks like before the steps of a case.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    Free,
    Taken,
    /// `free` granules in each `period`, the first of them `shift` behind its start.
    Comb {
        period: u64,
        shift: u64,
        free: u64,
    },
}

#[derive(Clone, Copy, Debug)]
enum Action {
    First(u64),
    Aligned { len: u64, mask: u64 },
    Take { at: u64, len: u64 },
    Give { at: u64, len: u64 },
    Free { pick: usize },
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let comb = (1u32..8).prop_flat_map(|log| {
        let period = 1 << log;
        (0..period, 1..period).prop_map(move |(shift, free)| Pattern::Comb {
            period,
            shift,
            free: free.min(period - shift),
        })
    });
    prop_oneof![1 => Just(Pattern::Free), 1 => Just(Pattern::Taken), 6 => comb]
}

/// Lengths of all magnitudes up to `limit`.
fn len(limit: u64) -> impl Strategy<Value = u64> {
    (0..=limit.ilog2()).prop_flat_map(|log| 1u64..=(1 << log))
}

/// Powers of two less one up to twice `limit`, and now and then any mask.
fn mask(limit: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (0..=limit.ilog2() + 1).prop_map(|log| (1u64 << log) - 1),
        1 => 0..limit,
    ]
}

fn action(limit: u64) -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => len(limit / 8).prop_map(Action::First),
        3 => (len(limit / 8), mask(limit)).prop_map(|(len, mask)| Action::Aligned { len, mask }),
        1 => (0..limit, len(16)).prop_map(|(at, len)| Action::Take { at, len }),
        1 => (0..limit, len(16)).prop_map(|(at, len)| Action::Give { at, len }),
        3 => any::<usize>().prop_map(|pick| Action::Free { pick }),
    ]
}

fn prepared(start: u64, len: u64, pattern: Pattern) -> (Space, Bitmap) {
    let mut space = Space::new(start, len);
    let mut bitmap = Bitmap { start, taken: vec![false; len as usize] };
    if let Pattern::Free = pattern {
        return (space, bitmap);
    }
    assert!(space.take(start, len));
    bitmap.taken.fill(true);
    if let Pattern::Comb { period, shift, free } = pattern {
        for at in (start + shift..).step_by(period as usize).take_while(|at| at + free <= start + len) {
            assert!(space.give(at, free));
            bitmap.range(at, free).fill(false);
        }
    }
    (space, bitmap)
}

fn equals_a_bitmap(
    start: u64,
    size: u64,
    pattern: Pattern,
    actions: Vec<Action>,
) -> Result<(), TestCaseError> {
    let (mut space, mut bitmap) = prepared(start, size, pattern);
    let mut live: Vec<(u64, u64)> = Vec::new();
    for action in actions {
        match action {
            Action::First(len) => {
                let got = space.first_fit(len);
                prop_assert_eq!(got, bitmap.fit(len, 0));
                live.extend(got.map(|at| (at, len)));
            }
            Action::Aligned { len, mask } => {
                let got = space.aligned_fit(len, mask);
                prop_assert_eq!(got, bitmap.fit(len, mask));
                live.extend(got.map(|at| (at, len)));
                prop_assert_eq!(space.largest_hole_at(mask), bitmap.largest_at(mask));
            }
            // What is taken this way stays, as a scratchpad page might.
            Action::Take { at, len } => {
                let len = len.min(size - at);
                let free = bitmap.range(start + at, len).iter().all(|taken| !taken);
                prop_assert_eq!(space.take(start + at, len), free);
                if free {
                    bitmap.range(start + at, len).fill(true);
                }
            }
            // A stray free must fail if any granule of it is free. One that is all
            // taken would tear a live block, so only the failure is tried.
            Action::Give { at, len } => {
                let len = len.min(size - at);
                if bitmap.range(start + at, len).contains(&false) {
                    prop_assert!(!space.give(start + at, len));
                }
            }
            Action::Free { .. } if live.is_empty() => {}
            Action::Free { pick } => {
                let (at, len) = live.swap_remove(pick % live.len());
                prop_assert!(space.give(at, len));
                bitmap.range(at, len).fill(false);
            }
        }
    }
    let holes = bitmap.holes();
    prop_assert_eq!(space.free_granules(), holes.iter().map(|hole| hole.len).sum::<u64>());
    prop_assert_eq!(space.largest_hole(), holes.iter().map(|hole| hole.len).max().unwrap_or(0));
    prop_assert_eq!(space.holes(), holes);
    space.extents.check();
    Ok(())
}

proptest! {
    #[test]
    fn placement_equals_a_bitmap_scan(
        start in 0u64..40,
        pattern in pattern(),
        actions in prop::collection::vec(action(120), 1..200),
    ) {
        equals_a_bitmap(start, 120, pattern, actions)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn placement_equals_a_bitmap_scan_across_a_tall_tree(
        start in 0u64..5_000,
        size in 2_000u64..30_000,
        pattern in pattern(),
        actions in prop::collection::vec(action(2_000), 1..400),
    ) {
        equals_a_bitmap(start, size, pattern, actions)?;
    }
}
