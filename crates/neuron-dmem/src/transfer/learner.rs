//! What copies took, and which way to take next. Knows sizes and times, no device and no clock.
//!
//! One copy at a time learns, the one that holds the core's bounce buffer: the atomics need no
//! order, and cost nothing.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A way to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// By the runtime's table.
    #[default]
    Exact,
    /// Without overlap.
    Serial,
}

impl Way {
    const fn other(self) -> Self {
        match self {
            Self::Exact => Self::Serial,
            Self::Serial => Self::Exact,
        }
    }
}

/// The lowest size class begins at 2 to this.
const LOWEST: u32 = 14;
/// Size classes, a power of two each; the last has no end: a copy of 16 MiB and one of 1 GiB
/// are the same work per byte.
const CLASSES: usize = 11;
/// Copies by which a class gets to know both ways, in turns.
const TRIALS: u32 = 6;
/// After that, of so many copies one is timed: two looks at a clock show in a copy of 16 KiB.
const TIMED: u32 = 8;
/// And of so many, one goes the other way: it may have become the better one.
const AGAIN: u32 = 64;

/// One direction of one core.
#[derive(Debug, Default)]
pub(super) struct Learner([Class; CLASSES]);

/// What to do with a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) way: Way,
    /// Whether to say what it took.
    pub(super) timed: bool,
}

#[derive(Debug, Default)]
struct Class {
    copies: AtomicU32,
    exact: Cost,
    serial: Cost,
}

/// Picoseconds per byte.
#[derive(Debug)]
struct Cost(AtomicU64);

impl Default for Cost {
    fn default() -> Self {
        Self(AtomicU64::new(Self::UNKNOWN))
    }
}

impl Cost {
    /// More than anything known: a way that never ended well is not taken.
    const UNKNOWN: u64 = u64::MAX;

    fn known(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Takes a sample in. Of the trials the fastest counts, since the first copies meet fresh
    /// pages. Later ones move the estimate by a part of what they differ, up by an eighth at
    /// most: one that met another process tells less than one that did not.
    fn learn(&self, sample: u64, trial: bool) {
        let known = self.known();
        let learned = match sample.checked_sub(known) {
            _ if trial || known == Self::UNKNOWN => sample.min(known),
            Some(more) => known.saturating_add((more / 4).min(known / 8)),
            None => known - (known - sample) / 4,
        };
        self.0.store(learned, Relaxed);
    }
}

impl Class {
    fn choose(&self) -> Choice {
        let copies = self.copies.load(Relaxed);
        self.copies.store(copies.checked_add(1).unwrap_or(TRIALS), Relaxed);
        if copies < TRIALS {
            let way = if copies.is_multiple_of(2) { Way::Exact } else { Way::Serial };
            return Choice { way, timed: true };
        }
        let better = if self.serial.known() < self.exact.known() { Way::Serial } else { Way::Exact };
        match copies.is_multiple_of(AGAIN) {
            true => Choice { way: better.other(), timed: true },
            false => Choice { way: better, timed: copies % TIMED == 1 },
        }
    }

    fn took(&self, way: Way, cost: u64) {
        let trial = self.copies.load(Relaxed) <= TRIALS;
        match way {
            Way::Exact => &self.exact,
            Way::Serial => &self.serial,
        }
        .learn(cost, trial);
    }
}

impl Learner {
    fn class(&self, size: u64) -> Option<&Class> {
        let power = size.checked_ilog2().unwrap_or(0).saturating_sub(LOWEST);
        self.0.get((power as usize).min(CLASSES - 1))
    }

    /// How to do a copy of `size` bytes.
    pub(super) fn choose(&self, size: u64) -> Choice {
        self.class(size).map_or(Choice::default(), Class::choose)
    }

    /// A copy of `size` bytes took so many nanoseconds.
    pub(super) fn took(&self, size: u64, way: Way, nanoseconds: u64) {
        if let Some(class) = self.class(size) {
            class.took(way, nanoseconds.saturating_mul(1000) / size.max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs copies that take `exact` or `serial` picoseconds per byte; how many went serial.
    fn run(learner: &Learner, copies: u32, size: u64, exact: u64, serial: u64) -> u32 {
        (0..copies)
            .filter(|_| {
                let Choice { way, timed } = learner.choose(size);
                let cost = if way == Way::Exact { exact } else { serial };
                if timed {
                    learner.took(size, way, cost * size / 1000);
                }
                way == Way::Serial
            })
            .count() as u32
    }

    #[test]
    fn both_ways_are_tried_then_the_cheaper_is_taken_and_the_other_looked_at_now_and_then() {
        let learner = Learner::default();
        assert_eq!(run(&learner, TRIALS, 1 << 20, 100, 200), TRIALS / 2);
        assert_eq!(run(&learner, 10 * AGAIN, 1 << 20, 100, 200), 10);
        let learner = Learner::default();
        run(&learner, TRIALS, 1 << 20, 200, 100);
        assert_eq!(run(&learner, 10 * AGAIN, 1 << 20, 200, 100), 10 * AGAIN - 10);
    }

    #[test]
    fn sizes_of_different_powers_are_learned_apart() {
        let learner = Learner::default();
        run(&learner, TRIALS, 0x4000, 200, 100);
        run(&learner, TRIALS, 0x10_0000, 100, 200);
        assert_eq!((learner.choose(0x7fff).way, learner.choose(0x1f_ffff).way), (Way::Serial, Way::Exact));
        run(&learner, TRIALS, 16 << 20, 200, 100);
        assert_eq!(learner.choose(u64::MAX).way, Way::Serial, "the last class has no end");
    }

    #[test]
    fn a_slow_copy_now_and_then_changes_nothing() {
        let learner = Learner::default();
        run(&learner, TRIALS, 1 << 20, 100, 120);
        for _ in 0..20 {
            // Ten times as slow: another process had the processor.
            learner.took(1 << 20, Way::Exact, 1_049_000);
            assert!(run(&learner, AGAIN, 1 << 20, 100, 120) <= 1);
        }
    }

    #[test]
    fn a_way_that_is_fast_now_and_then_is_not_the_fast_one() {
        let learner = Learner::default();
        run(&learner, TRIALS, 1 << 20, 400, 130);
        learner.choose(1 << 20);
        for copy in 0..100 {
            let cost = if copy % 5 == 0 { 100 } else { 400 };
            learner.took(1 << 20, Way::Exact, cost << 10);
            learner.took(1 << 20, Way::Serial, 130 << 10);
            assert_eq!(
                learner.0[6].choose().way == Way::Exact,
                learner.0[6].copies.load(Relaxed) % AGAIN == 1
            );
        }
    }

    #[test]
    fn a_way_that_never_arrives_is_not_taken() {
        let learner = Learner::default();
        for _ in 0..TRIALS {
            if learner.choose(1 << 20).way == Way::Serial {
                learner.took(1 << 20, Way::Serial, 1_000_000_000);
            }
        }
        assert_eq!(learner.choose(1 << 20).way, Way::Serial);
    }

    proptest! {
        #[test]
        fn whatever_a_machine_turns_into_is_followed(
            costs in prop::collection::vec((50u64..5000, 50u64..5000), 1..5),
        ) {
            let learner = Learner::default();
            for (exact, serial) in costs {
                prop_assume!(exact.abs_diff(serial) * 10 > exact.min(serial));
                run(&learner, 40 * AGAIN, 1 << 18, exact, serial);
                let serials = run(&learner, 2 * AGAIN, 1 << 18, exact, serial);
                let right = if serial < exact { serials } else { 2 * AGAIN - serials };
                prop_assert!(right >= 2 * AGAIN - 3, "{right}");
            }
        }

        #[test]
        fn no_size_and_no_time_is_too_large(size: u64, nanoseconds: u64) {
            let learner = Learner::default();
            for _ in 0..20 {
                let way = learner.choose(size).way;
                learner.took(size, way, nanoseconds);
            }
        }
    }
}
