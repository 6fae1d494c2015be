//! Filling a whole HBM with one byte value (`spec/dma-op.md` 11): sixteen engines, queue 0
//! of each, start with one block from the host and copy from block to block within the
//! memory.
//!
//! A scrub owns what it uses: its rings, buffers and markers live until it is waited for,
//! fails, or its process ends, and its queues show its process as owner meanwhile. Each HBM
//! has engines and a state of its own, so scrubs of different ones run side by side.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::arch::FIRMWARE_RESERVE;
use neuron_abi::errno::Errno;
use neuron_udma::{Barrier, Copy, DESCRIPTOR_SIZE, MAX_DESCRIPTOR_BYTES, RingBase};

use crate::device::Device;
use crate::error::{COPY_TIMEOUT, udma_errno};
use crate::hw::{Bar0, RingSlice};
use crate::pool::{ChunkRef, Lifespan, Request};
use crate::ring::marker::{self, Marker};
use crate::ring::{Addresses, Bound, Engine, Flavour, descriptor_count};

/// Engines that share an HBM.
const LANES: u64 = 16;
/// Queue of each engine that is used.
const QUEUE: u32 = 0;
/// Bytes of a block: one descriptor's most.
const BLOCK: u64 = MAX_DESCRIPTOR_BYTES as u64;
/// First wait for a copy inside the device, and what its poll budget is divided by
/// (`spec/arch.md` 6). All engines together have the sum of their budgets (our choice):
/// engines in software share processors, so that none may end before all nearly have.
const FIRST_WAIT: u64 = 10;
const BUDGET_DIVISOR: u64 = 200;
/// Looks at a marker before the clock decides: engines in software need the processor too.
const LEAST_LOOKS: u64 = 1000;
/// Microseconds between the looks after that.
const PATIENCE: u64 = 100;

/// Scrubs of a device by HBM. No scrub behind a number: one is starting or ending.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    by_hbm: Mutex<BTreeMap<u32, Option<Scrub>>>,
}

/// A scrub that runs.
#[derive(Debug)]
struct Scrub {
    pid: i32,
    lanes: Vec<Lane>,
}

/// What one engine does of it.
#[derive(Debug)]
struct Lane {
    engine: u32,
    work: Work,
    tx: ChunkRef,
    rx: ChunkRef,
    /// Holds the value at first, what was read back at the end.
    buffer: ChunkRef,
    marker: ChunkRef,
}

/// An engine's blocks: its own one of each sixteen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Work {
    /// What is filled, device addresses.
    range: Range<u64>,
    lane: u64,
}

impl Work {
    const fn blocks(&self) -> u64 {
        let all = self.range.end.saturating_sub(self.range.start).div_ceil(BLOCK);
        all.saturating_sub(self.lane).div_ceil(LANES)
    }

    /// Block `index` of this engine: address and bytes.
    fn block(&self, index: u64) -> (u64, u32) {
        let start = self.range.start + (self.lane + index * LANES) * BLOCK;
        (start, self.range.end.saturating_sub(start).min(BLOCK) as u32)
    }

    /// Descriptors of each direction, the marker's included.
    const fn descriptors(&self) -> u32 {
        self.blocks() as u32 + 2
    }

    /// The copies: buffer to first block, block to next block, last block to buffer. Each
    /// reads what the one before wrote, so all are ordered.
    fn copies(&self, buffer: u64) -> impl Iterator<Item = Copy> {
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
    fn marker(&self) -> Result<Marker<'_>, Errno> {
        Marker::new(self.marker.host_slice().ok_or(Errno::EINVAL)?, self.marker.pa(), 0)
    }

    /// Whether the queue is still what the scrub made of it.
    fn is_on(&self, engine: &Engine) -> bool {
        let queue = engine.queues.get(QUEUE as usize);
        matches!(
            queue.map(|queue| &queue.flavour),
            Some(Flavour::Model { bound: Bound { tx: Some(tx), .. }, .. }) if Arc::ptr_eq(tx, &self.tx)
        )
    }
}

impl Scrubs {
    fn by_hbm(&self) -> MutexGuard<'_, BTreeMap<u32, Option<Scrub>>> {
        self.by_hbm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self, hbm: u32) -> Result<(), Errno> {
        let mut scrubs = self.by_hbm();
        if scrubs.contains_key(&hbm) {
            return Err(Errno::EBUSY);
        }
        scrubs.insert(hbm, None);
        Ok(())
    }

    /// Takes a process's scrub; its HBM stays taken until [`end`](Self::end).
    fn take(&self, hbm: u32, pid: i32) -> Option<Scrub> {
        self.by_hbm().get_mut(&hbm)?.take_if(|scrub| scrub.pid == pid)
    }

    fn end(&self, hbm: u32) {
        self.by_hbm().remove(&hbm);
    }

    fn of(&self, pid: i32) -> Vec<u32> {
        let own = |scrub: &Option<Scrub>| scrub.as_ref().is_some_and(|scrub| scrub.pid == pid);
        self.by_hbm().iter().filter(|(_, scrub)| own(scrub)).map(|(hbm, _)| *hbm).collect()
    }
}

impl Device {
    /// Starts filling an HBM behind the firmware's reserve with the low byte of `value`
    /// (as a memset does; our choice). Memory is accounted to `core`.
    ///
    /// # Errors
    /// EPERM for an HBM that is not there; EBUSY while another scrub works on it, another
    /// process has memory in it (our choice), or queue 0 of one of the engines is in use;
    /// ENOMEM; the program step's error. Nothing is taken then.
    pub fn start_scrub(&self, core: u32, hbm: u32, port: u32, value: u32, pid: i32) -> Result<(), Errno> {
        let memory = self.geometry().hbm(hbm).ok_or(Errno::EPERM)?;
        let bytes = self.params().scrub_bytes.unwrap_or(memory.size).min(memory.size);
        let port = if port == 0 { 0 } else { self.arch().port_1_base };
        let range = (memory.base + FIRMWARE_RESERVE) | port..(memory.base + bytes) | port;
        self.scrubs().reserve(hbm)?;
        let started = self.run_scrub(core, hbm, &range, value, pid);
        match started {
            Ok(scrub) => {
                self.scrubs().by_hbm().insert(hbm, Some(scrub));
                Ok(())
            }
            Err(error) => {
                self.scrubs().end(hbm);
                Err(error)
            }
        }
    }

    fn run_scrub(
        &self,
        core: u32,
        hbm: u32,
        range: &Range<u64>,
        value: u32,
        pid: i32,
    ) -> Result<Scrub, Errno> {
        if self.pools().has_chunk_of_others(hbm, pid) {
            return Err(Errno::EBUSY);
        }
        let mut scrub = Scrub { pid, lanes: Vec::new() };
        for (lane, engine) in (0..).zip(self.arch().host_connected_engines(hbm)) {
            let work = Work { range: range.clone(), lane };
            if work.blocks() > 0 {
                scrub.lanes.push(self.lane(core, engine, work, value, pid)?);
            }
        }
        let started = scrub.lanes.iter().try_for_each(|lane| self.claim(lane, pid)).and_then(|()| {
            // All are claimed before the first one writes.
            scrub.lanes.iter().try_for_each(|lane| self.run_lane(lane))
        });
        match started {
            Ok(()) => Ok(scrub),
            Err(error) => {
                self.release_lanes(&scrub, false);
                Err(error)
            }
        }
    }

    fn lane(&self, core: u32, engine: u32, work: Work, value: u32, pid: i32) -> Result<Lane, Errno> {
        let own = |bytes| {
            let request = Request { pid, ..Request::driver_host(bytes, core, Lifespan::Local) };
            self.pools().allocate(request)
        };
        let ring = u64::from(descriptor_count(work.descriptors())) * DESCRIPTOR_SIZE as u64;
        let (rx, tx, buffer, marker) = (own(ring)?, own(ring)?, own(BLOCK)?, own(marker::BUFFER_BYTES)?);
        for (chunk, byte) in [(&rx, 0), (&tx, 0), (&buffer, value as u8), (&marker, 0)] {
            if let Some(memory) = chunk.host_memory() {
                memory.fill(byte);
            }
        }
        Ok(Lane { engine, work, tx, rx, buffer, marker })
    }

    /// Binds the lane's rings to its queue, if nobody uses that.
    fn claim(&self, lane: &Lane, pid: i32) -> Result<(), Errno> {
        let mut engine = self.engines().lock(lane.engine)?;
        if !matches!(engine.queue(QUEUE)?.flavour, Flavour::Unused) {
            return Err(Errno::EBUSY);
        }
        let ring = |chunk: &ChunkRef| RingBase::new(chunk.pa(), descriptor_count(lane.work.descriptors()));
        let (tx, rx) = (ring(&lane.tx), ring(&lane.rx));
        engine.udma.init_queue(&Bar0(self.hardware()), QUEUE, tx, rx, false, true).map_err(udma_errno)?;
        let queue = engine.queue(QUEUE)?;
        let bound = Bound { tx: Some(lane.tx.clone()), rx: Some(lane.rx.clone()) };
        queue.flavour = Flavour::Model { owner: pid, bound };
        queue.shown = Addresses { tx: lane.tx.pa(), rx: lane.rx.pa() };
        Ok(())
    }

    fn run_lane(&self, lane: &Lane) -> Result<(), Errno> {
        let marker = lane.marker()?;
        let (Some(tx), Some(rx)) = (lane.tx.host_slice(), lane.rx.host_slice()) else {
            return Err(Errno::EINVAL);
        };
        let mut engine = self.engines().lock(lane.engine)?;
        if !lane.is_on(&engine) {
            return Err(Errno::EBUSY);
        }
        marker.arm();
        let mut pair = engine.udma.pair(QUEUE).map_err(udma_errno)?;
        let mut copies = lane.work.copies(lane.buffer.pa()).chain(std::iter::once(marker.copy()));
        copies
            .try_for_each(|copy| pair.prepare(&RingSlice(tx), &RingSlice(rx), &copy))
            .map_err(udma_errno)?;
        let count = lane.work.descriptors();
        engine.udma.start(&Bar0(self.hardware()), QUEUE, count, count).map_err(udma_errno)
    }

    /// Waits for the process's scrub of an HBM, and frees all that it used, also when it
    /// failed.
    ///
    /// # Errors
    /// EPERM for an HBM that is not there; EINVAL if the process has no scrub on it (our
    /// choice); ETIMEDOUT when an engine does not end.
    pub fn wait_scrub(&self, hbm: u32, pid: i32) -> Result<(), Errno> {
        self.geometry().hbm(hbm).ok_or(Errno::EPERM)?;
        let scrub = self.scrubs().take(hbm, pid).ok_or(Errno::EINVAL)?;
        let budget: u64 = scrub.lanes.iter().map(|lane| self.lane_budget(lane)).sum();
        let end = self.clock().now() + budget;
        let done = scrub.lanes.iter().all(|lane| self.lane_ends(lane, end));
        self.release_lanes(&scrub, done);
        self.scrubs().end(hbm);
        if done { Ok(()) } else { Err(COPY_TIMEOUT) }
    }

    fn lane_budget(&self, lane: &Lane) -> u64 {
        let (_, budget) = self.wait_policy().budget(lane.work.descriptors(), false);
        FIRST_WAIT + budget / BUDGET_DIVISOR
    }

    fn lane_ends(&self, lane: &Lane, end: u64) -> bool {
        let Ok(marker) = lane.marker() else { return false };
        for look in 0_u64.. {
            if marker.landed() {
                return true;
            }
            match look {
                0 => self.clock().delay(FIRST_WAIT),
                1..LEAST_LOOKS => self.clock().relax(1),
                _ if self.clock().now() > end => break,
                _ => self.clock().relax(PATIENCE),
            }
        }
        tracing::warn!(engine = lane.engine, descriptors = lane.work.descriptors(), "HBM scrub timeout");
        false
    }

    /// Stops a process's scrubs, wherever they are.
    pub(crate) fn abort_scrubs(&self, pid: i32) {
        for hbm in self.scrubs().of(pid) {
            if let Some(scrub) = self.scrubs().take(hbm, pid) {
                self.release_lanes(&scrub, false);
                self.scrubs().end(hbm);
            }
        }
    }

    /// Takes the queues off the scrub's memory, which may go then. Queues that somebody
    /// bound anew meanwhile are theirs.
    fn release_lanes(&self, scrub: &Scrub, done: bool) {
        for lane in &scrub.lanes {
            let Ok(mut engine) = self.engines().lock(lane.engine) else { continue };
            if !lane.is_on(&engine) {
                continue;
            }
            let acknowledged = match done {
                true => engine.udma.acknowledge(QUEUE, lane.work.descriptors()).map_err(udma_errno),
                false => Ok(()),
            };
            if let Err(error) = acknowledged.and_then(|()| self.reset_queue(&mut engine, QUEUE)) {
                tracing::error!(engine = lane.engine, %error, "queue of a scrub cannot be reset");
            }
        }
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
