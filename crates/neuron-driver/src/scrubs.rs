//! Scrubs of a device, and what each engine does of one (`spec/dma-op.md` 11). Starting and
//! waiting is [`scrub`](crate::scrub)'s.
//!
//! A scrub owns what it uses: its rings, buffers and markers live until it is waited for,
//! fails, or its process ends. Each HBM has engines and a state of its own, so scrubs of
//! different ones run side by side.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_udma::{Barrier, Copy, MAX_DESCRIPTOR_BYTES};

use crate::pool::ChunkRef;
use crate::ring::marker::Marker;
use crate::ring::{Bound, Engine, Flavour};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Engines that share an HBM.
const LANES: u64 = 16;
/// Queue of each engine that is used.
pub(crate) const QUEUE: u32 = 0;
/// Bytes of a block: one descriptor's most.
pub(crate) const BLOCK: u64 = MAX_DESCRIPTOR_BYTES as u64;

/// Scrubs of a device by HBM. No scrub behind a number: one is starting or ending.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    by_hbm: Mutex<BTreeMap<u32, Option<Scrub>>>,
}

/// A scrub that runs.
#[derive(Debug)]
pub(crate) struct Scrub {
    /// Process that asked.
    pub(crate) pid: i32,
    /// What each engine does.
    pub(crate) lanes: Vec<Lane>,
}

/// What one engine does of it.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Engine.
    pub(crate) engine: u32,
    /// Blocks it fills.
    pub(crate) work: Work,
    /// TX ring.
    pub(crate) tx: ChunkRef,
    /// RX ring.
    pub(crate) rx: ChunkRef,
    /// Holds the value at first, what was read back at the end.
    pub(crate) buffer: ChunkRef,
    /// Marker.
    pub(crate) marker: ChunkRef,
}

/// An engine's blocks: its own one of each sixteen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// What is filled, device addresses.
    pub(crate) range: Range<u64>,
    /// Which of the engines.
    pub(crate) lane: u64,
}

impl Work {
    /// How many.
    pub(crate) const fn blocks(&self) -> u64 {
        let all = self.range.end.saturating_sub(self.range.start).div_ceil(BLOCK);
        all.saturating_sub(self.lane).div_ceil(LANES)
    }

    /// Block `index` of this engine: address and bytes.
    fn block(&self, index: u64) -> (u64, u32) {
        let start = self.range.start + (self.lane + index * LANES) * BLOCK;
        (start, self.range.end.saturating_sub(start).min(BLOCK) as u32)
    }

    /// Descriptors of each direction, the marker's included.
    pub(crate) const fn descriptors(&self) -> u32 {
        self.blocks() as u32 + 2
    }

    /// The copies: buffer to first block, block to next block, last block to buffer. Each
    /// reads what the one before wrote, so all are ordered.
    pub(crate) fn copies(&self, buffer: u64) -> impl Iterator<Item = Copy> {
        let blocks = self.blocks();
        (0..=blocks).map(move |index| {
            let source = if index == 0 { buffer } else { self.block(index - 1).0 };
            let (destination, bytes) =
                if index == blocks { (buffer, self.block(blocks - 1).1) } else { self.block(index) };
            Copy { source, destination, bytes, barrier: Barrier::Dmb, interrupt: false }
        })
    }
}

impl Lane {
    /// Its marker.
    pub(crate) fn marker(&self) -> Result<Marker<'_>, Errno> {
        Marker::new(self.marker.host_slice().ok_or(Errno::EINVAL)?, self.marker.pa(), 0)
    }

    /// Whether the queue is still what the scrub made of it.
    pub(crate) fn is_on(&self, engine: &Engine) -> bool {
        let queue = engine.queues.get(QUEUE as usize);
        matches!(
            queue.map(|queue| &queue.flavour),
            Some(Flavour::Model { bound: Bound { tx: Some(tx), .. }, .. }) if Arc::ptr_eq(tx, &self.tx)
        )
    }
}

impl Scrubs {
    /// The table.
    pub(crate) fn by_hbm(&self) -> MutexGuard<'_, BTreeMap<u32, Option<Scrub>>> {
        self.by_hbm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an HBM for a scrub that starts.
    ///
    /// # Errors
    /// EBUSY if one is there.
    pub(crate) fn reserve(&self, hbm: u32) -> Result<(), Errno> {
        let mut scrubs = self.by_hbm();
        if scrubs.contains_key(&hbm) {
            return Err(Errno::EBUSY);
        }
        scrubs.insert(hbm, None);
        Ok(())
    }

    /// Takes a process's scrub; its HBM stays taken until [`end`](Self::end).
    pub(crate) fn take(&self, hbm: u32, pid: i32) -> Option<Scrub> {
        self.by_hbm().get_mut(&hbm)?.take_if(|scrub| scrub.pid == pid)
    }

    /// The HBM is free for another one.
    pub(crate) fn end(&self, hbm: u32) {
        self.by_hbm().remove(&hbm);
    }

    /// HBMs that a process scrubs.
    pub(crate) fn of(&self, pid: i32) -> Vec<u32> {
        let own = |scrub: &Option<Scrub>| scrub.as_ref().is_some_and(|scrub| scrub.pid == pid);
        self.by_hbm().iter().filter(|(_, scrub)| own(scrub)).map(|(hbm, _)| *hbm).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUFFER: u64 = 1 << 44;

    proptest! {
        /// What is copied, replayed: every byte of the range gets the value and no byte
        /// outside is touched, whatever the range's length.
        #[test]
        fn all_lanes_together_fill_the_range_exactly(bytes in 1u64..200 * BLOCK) {
            let range = 0x1000_0000..0x1000_0000 + bytes;
            let mut filled = BTreeMap::new();
            let mut copies = 0;
            for lane in 0..LANES {
                let work = Work { range: range.clone(), lane };
                if work.blocks() == 0 {
                    continue;
                }
                let list: Vec<_> = work.copies(BUFFER).collect();
                prop_assert_eq!(list.len() as u32 + 1, work.descriptors());
                for (index, copy) in list.iter().enumerate() {
                    let from_buffer = copy.source == BUFFER;
                    prop_assert_eq!(from_buffer, index == 0);
                    prop_assert!(from_buffer || filled.get(&copy.source).is_some_and(|len| *len >= copy.bytes));
                    prop_assert_eq!(copy.barrier, Barrier::Dmb);
                    if copy.destination != BUFFER {
                        prop_assert!(filled.insert(copy.destination, copy.bytes).is_none());
                    }
                    copies += 1;
                }
                prop_assert_eq!(list.last().unwrap().destination, BUFFER);
            }
            let mut at = range.start;
            for (start, len) in &filled {
                prop_assert_eq!(*start, at);
                at += u64::from(*len);
            }
            prop_assert_eq!(at, range.end);
            prop_assert_eq!(copies, filled.len() + (LANES as usize).min(filled.len()));
        }
    }

    #[test]
    fn the_last_reads_are_of_the_last_sixteen_blocks() {
        let range = 0..64 * BLOCK;
        for lane in 0..LANES {
            let last = Work { range: range.clone(), lane }.copies(BUFFER).last().unwrap();
            assert_eq!(last.source, range.end - (LANES - lane) * BLOCK);
        }
    }
}
