//! Filling a whole HBM with one byte value (`spec/dma-op.md` 11): sixteen engines, queue 0
//! of each, start with one block from the host and copy from block to block within the
//! memory.
//!
//! Its queues show its process as owner meanwhile. What it consists of is
//! [`scrubs`](crate::scrubs)'s.

use std::ops::Range;

use neuron_abi::arch::FIRMWARE_RESERVE;
use neuron_abi::errno::Errno;
use neuron_udma::{DESCRIPTOR_SIZE, RingBase};

use crate::device::Device;
use crate::error::{COPY_TIMEOUT, udma_errno};
use crate::hw::{Bar0, RingSlice};
use crate::pool::{ChunkRef, Lifespan, Request};
use crate::ring::{Addresses, Bound, Flavour, descriptor_count, marker};
use crate::scrubs::{BLOCK, Lane, QUEUE, Scrub, Work};

/// First wait for a copy inside the device, and what its poll budget is divided by
/// (`spec/arch.md` 6). All engines together have the sum of their budgets (our choice):
/// engines in software share processors, so that none may end before all nearly have.
const FIRST_WAIT: u64 = 10;
const BUDGET_DIVISOR: u64 = 200;
/// Looks at a marker before the clock decides: engines in software need the processor too.
const LEAST_LOOKS: u64 = 1000;
/// Microseconds between the looks after that.
const PATIENCE: u64 = 100;

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
        let whole = self.params().pools.channel_bytes(memory.size);
        let bytes = self.params().scrub_bytes.unwrap_or(whole).min(whole);
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
