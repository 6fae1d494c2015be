//! The last doorbells a device heard, in order: for its owner's eyes, nothing of it is visible to a driver.
//!
//! Only the log. What a doorbell does is the engines' business.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::engine::queue::{Direction, QueueId};
use crate::sync::lock;

/// Doorbells that are kept (our choice): those of 512 batches of copies, in about 24 KiB a device.
pub const DOORBELLS_KEPT: usize = 1024;

/// What a doorbell did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoorbellOutcome {
    /// The tail moved by its count.
    Announced,
    /// The tail moved, but an injected fault kept the engine from noticing: the work waits for the next one.
    Unnoticed,
    /// The ring was not programmed: the queue shows an error, the tail stayed.
    Refused,
}

/// A write to the tail increment register of a queue. Writes of 0 announce nothing and are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doorbell {
    /// Its number on this device, the first is 0. Numbers have no gaps.
    pub sequence: u64,
    /// Engine.
    pub engine: u16,
    /// Queue of the engine.
    pub queue: u8,
    /// Which ring of the queue.
    pub direction: Direction,
    /// Descriptors announced, 24 bits.
    pub count: u32,
    /// What came of it.
    pub outcome: DoorbellOutcome,
}

/// The doorbells of a device up to one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Doorbells {
    /// How many there have been: the number that the next one gets.
    pub heard: u64,
    /// The last of them, at most [`DOORBELLS_KEPT`], oldest first.
    pub last: Vec<Doorbell>,
}

impl Doorbells {
    /// Those from number `sequence` on; `None` if the first of them is kept no longer.
    #[must_use]
    pub fn since(&self, sequence: u64) -> Option<&[Doorbell]> {
        let new = usize::try_from(self.heard.saturating_sub(sequence)).ok()?;
        self.last.get(self.last.len().checked_sub(new)?..)
    }
}

/// The log itself. One lock, held for one entry: it is taken once for each doorbell, of which a batch of up
/// to 2033 descriptors has two.
#[derive(Debug, Default)]
pub(crate) struct DoorbellLog {
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    heard: u64,
    last: VecDeque<Doorbell>,
}

impl DoorbellLog {
    /// Notes a doorbell. Called under its queue's lock, before the work it announces is begun: so entries of a
    /// queue are in the order of its tail, and whoever sees the work done finds the doorbell here.
    pub(crate) fn note(&self, id: QueueId, direction: Direction, count: u32, outcome: DoorbellOutcome) {
        let QueueId { engine, queue } = id;
        let mut log = lock(&self.log);
        if log.last.len() == DOORBELLS_KEPT {
            log.last.pop_front();
        }
        let sequence = log.heard;
        log.last.push_back(Doorbell { sequence, engine, queue, direction, count, outcome });
        log.heard += 1;
    }

    pub(crate) fn snapshot(&self) -> Doorbells {
        let log = lock(&self.log);
        Doorbells { heard: log.heard, last: log.last.iter().copied().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QUEUE: QueueId = QueueId { engine: 32, queue: 0 };

    proptest! {
        #[test]
        fn the_log_keeps_the_last_and_counts_all(rung in 0..3 * DOORBELLS_KEPT, since in 0..3 * DOORBELLS_KEPT) {
            let log = DoorbellLog::default();
            for count in 0..rung {
                log.note(QUEUE, Direction::S2m, count as u32, DoorbellOutcome::Announced);
            }
            let doorbells = log.snapshot();
            prop_assert_eq!(doorbells.heard, rung as u64);
            prop_assert_eq!(doorbells.last.len(), rung.min(DOORBELLS_KEPT));
            let kept_from = rung - doorbells.last.len();
            for (bell, number) in doorbells.last.iter().zip(kept_from..) {
                prop_assert_eq!((bell.sequence, bell.count), (number as u64, number as u32));
            }
            let new = doorbells.since(since as u64).map(<[_]>::len);
            prop_assert_eq!(new, (since >= kept_from).then(|| rung.saturating_sub(since)));
        }
    }
}
