//! Synchronous and asynchronous copies over a core's H2T ring (`spec/dma-op.md` 2 to 5).

use std::iter::once;
use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_udma::Copy;

use crate::device::Device;
use crate::error::{COPY_TIMEOUT, udma_errno};
use crate::hw::{Bar0, RingSlice};
use crate::pool::ChunkRef;
use crate::ring::H2tRing;
use crate::ring::context::{Contexts, Running, Staged, Which};
use crate::ring::marker::{self, Marker};
use crate::ring::transfer::{BATCH_BYTES, Transfer};

/// A copy between two chunks, already checked against their bounds.
#[derive(Clone, Debug)]
pub struct ChunkCopy {
    /// Where the bytes are.
    pub source: ChunkRef,
    /// Where they go.
    pub destination: ChunkRef,
    /// Offset in the source, bytes.
    pub source_offset: u64,
    /// Offset in the destination, bytes.
    pub destination_offset: u64,
    /// Bytes.
    pub bytes: u64,
}

impl ChunkCopy {
    fn transfer(&self) -> Transfer {
        Transfer::new(self.source_address(), self.destination_address(), self.bytes)
    }

    fn source_address(&self) -> u64 {
        self.source.pa() + self.source_offset
    }

    fn destination_address(&self) -> u64 {
        self.destination.pa() + self.destination_offset
    }

    /// Synchronous copies take the destination's core if it is on the device.
    fn sync_core(&self) -> u32 {
        if !self.destination.is_device() && self.source.is_device() {
            self.source.core_id()
        } else {
            self.destination.core_id()
        }
    }

    /// Asynchronous ones the source's: so two chunks of different cores meet on another
    /// ring than a synchronous copy between them (`spec/dma-op.md` 2).
    fn async_core(&self) -> u32 {
        wait_core(&self.source, &self.destination)
    }
}

/// The core whose ring an asynchronous copy between these chunks is on.
fn wait_core(source: &ChunkRef, destination: &ChunkRef) -> u32 {
    if source.is_device() { source.core_id() } else { destination.core_id() }
}

/// `previous` of a copy that waits for nothing.
const NONE: u32 = u32::MAX;
/// `previous`, and handle, of a copy that is done when the call returns.
const SYNC: u32 = 0;

impl Device {
    /// Copies, and returns when the bytes are there. Nothing is touched for 0 bytes.
    ///
    /// # Errors
    /// ETIMEDOUT when the engine does not answer; ENOENT if the core is not up.
    pub fn copy(&self, copy: &ChunkCopy) -> Result<(), Errno> {
        self.transfer(copy.sync_core(), copy.transfer())
    }

    /// Runs a transfer on a core's ring, in as many batches as it takes.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub(super) fn transfer(&self, core: u32, transfer: Transfer) -> Result<(), Errno> {
        let ring = self.engines().default_ring(core)?;
        let mut contexts = ring.lock();
        let mut left = transfer;
        while left.bytes > 0 {
            let staged = self.stage(&ring, &mut contexts, Which::Sync, left)?;
            self.wait(&ring, &mut contexts, Which::Sync, staged, false)?;
            left = left.after(left.batch());
        }
        Ok(())
    }

    /// Starts a copy after `previous` (-1: none; 1, 2: that context is waited for and
    /// freed; 0: the copy is synchronous) and returns its handle. A refused call
    /// changes nothing.
    ///
    /// # Errors
    /// In this order: EINVAL for another `previous`, or one that this process has no copy
    /// in; EINVAL above 133169152 bytes; EBUSY if the copy's own context is in use. When
    /// the wait for the previous copy fails, its error, after this one has ended too.
    pub fn copy_async(&self, copy: &ChunkCopy, previous: u32, pid: i32) -> Result<u32, Errno> {
        let (which, waited) = match previous {
            NONE => (Which::Async1, None),
            SYNC => return self.transfer(copy.async_core(), copy.transfer()).map(|()| SYNC),
            handle => match Which::from_handle(handle)? {
                Which::Async1 => (Which::Async2, Some(Which::Async1)),
                waited => (Which::Async1, Some(waited)),
            },
        };
        let ring = self.engines().default_ring(copy.async_core())?;
        let mut contexts = ring.lock();
        if waited.is_some_and(|waited| contexts.of(waited, pid).is_none()) || copy.bytes > BATCH_BYTES {
            return Err(Errno::EINVAL);
        }
        if contexts.in_use(which) {
            return Err(Errno::EBUSY);
        }
        let staged = match copy.bytes {
            0 => Ok(None),
            _ => self.stage(&ring, &mut contexts, which, copy.transfer()).map(Some),
        };
        if let Ok(staged) = staged {
            let chunks = [Arc::clone(&copy.source), Arc::clone(&copy.destination)];
            contexts.start(which, Running { pid, staged, lost: false, chunks });
        }
        let waited = waited.map_or(Ok(()), |waited| self.finish(&ring, &mut contexts, waited));
        match (staged, waited) {
            (Ok(_), Ok(())) => Ok(which.handle()),
            (Ok(_), Err(error)) => {
                // The caller gets no handle, so nobody else can end this copy.
                let _ended = self.finish(&ring, &mut contexts, which);
                Err(error)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Waits for an asynchronous copy and frees its context, also when it failed.
    ///
    /// # Errors
    /// EINVAL for a handle but 1 and 2, or one in which this process has no copy on the
    /// ring that the chunks select; ETIMEDOUT when the copy does not end.
    pub fn copy_wait(
        &self,
        source: &ChunkRef,
        destination: &ChunkRef,
        handle: u32,
        pid: i32,
    ) -> Result<(), Errno> {
        let which = Which::from_handle(handle)?;
        let ring = self.engines().default_ring(wait_core(source, destination))?;
        let mut contexts = ring.lock();
        if contexts.of(which, pid).is_none() {
            return Err(Errno::EINVAL);
        }
        self.finish(&ring, &mut contexts, which)
    }

    /// Ends the copies a process left running, before its memory goes.
    pub(crate) fn drain_process(&self, pid: i32) {
        for ring in self.engines().h2t_rings() {
            let mut contexts = ring.lock();
            for which in contexts.in_use_by(pid) {
                let _outcome = self.finish(&ring, &mut contexts, which);
            }
            self.drain_zero_copy_of(pid, &ring, &mut contexts);
        }
    }

    /// Ends every copy that still runs on a ring, whoever started it.
    pub(crate) fn drain(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts) {
        self.drain_zero_copy(ring, contexts);
        for which in [Which::Async1, Which::Async2] {
            let _outcome = self.finish(ring, contexts, which);
        }
    }

    fn finish(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts, which: Which) -> Result<(), Errno> {
        let running = contexts.release(which).ok_or(Errno::EINVAL)?;
        match running {
            Running { lost: true, .. } => Err(COPY_TIMEOUT),
            Running { staged: None, .. } => Ok(()),
            Running { staged: Some(staged), .. } => self.wait(ring, contexts, which, staged, true),
        }
    }

    /// Stages the transfer's next batch and its marker, and rings both doorbells. If that
    /// fails nothing of it stays on the ring.
    fn stage(
        &self,
        ring: &Arc<H2tRing>,
        contexts: &mut Contexts,
        which: Which,
        transfer: Transfer,
    ) -> Result<Staged, Errno> {
        let batch = transfer.batch();
        let marker = ring.marker(which as usize)?;
        let copies = transfer.pieces(batch).chain(once(marker.copy()));
        let count = batch.descriptors + 1;
        self.put(ring, contexts, &marker, copies, count)?;
        Ok(Staged { transfer, descriptors: count, start: self.clock().now() })
    }

    /// Puts copies, the last of them the marker's, on the ring if `room` descriptors are free,
    /// and rings both doorbells. Returns how many there are; if it fails none of them stays.
    ///
    /// # Errors
    /// ENOENT if the ring was taken off its queue; ENOMEM without room; a doorbell's error.
    pub(super) fn put(
        &self,
        ring: &Arc<H2tRing>,
        contexts: &mut Contexts,
        marker: &Marker<'_>,
        mut copies: impl Iterator<Item = Copy>,
        room: u32,
    ) -> Result<u32, Errno> {
        let (tx, rx) = ring.memory()?;
        let (tx, rx) = (RingSlice(tx.slice()), RingSlice(rx.slice()));
        let mut engine = self.engines().lock(ring.engine())?;
        if !engine.holds(ring) {
            return Err(Errno::ENOENT);
        }
        let mut pair = engine.udma.pair(ring.qid()).map_err(udma_errno)?;
        if pair.available().map_err(udma_errno)? < room {
            return Err(Errno::ENOMEM);
        }
        marker.arm();
        let mark = pair.mark();
        let prepared = copies.try_fold(0, |count, copy| pair.prepare(&tx, &rx, &copy).map(|()| count + 1));
        let count = match prepared {
            Ok(count) => count,
            Err(error) => {
                pair.rewind(mark);
                return Err(udma_errno(error));
            }
        };
        let started = engine.udma.start(&Bar0(self.hardware()), ring.qid(), count, count);
        drop(engine);
        if let Err(error) = started {
            // One of the two doorbells may have been heard.
            self.recover(ring, contexts);
            return Err(udma_errno(error));
        }
        Ok(count)
    }

    /// Waits for a batch and returns its slots. A copy that a reset may have hit is staged
    /// again where the generation does that.
    fn wait(
        &self,
        ring: &Arc<H2tRing>,
        contexts: &mut Contexts,
        which: Which,
        mut staged: Staged,
        mut asynchronous: bool,
    ) -> Result<(), Errno> {
        let marker = ring.marker(which as usize)?;
        while !self.poll(&marker, staged.descriptors, asynchronous) {
            let again = self.arch().retries_in_reset_window
                && !self.params().no_reset
                && self.resets().window_covers(staged.start);
            if !again {
                return Err(self.time_out(ring, contexts, staged.descriptors));
            }
            staged = self.stage_again(ring, contexts, which, staged.transfer)?;
            asynchronous = false;
        }
        self.acknowledge_copy(ring, staged.descriptors)
    }

    /// Gives back the slots of what was waited for.
    pub(super) fn acknowledge_copy(&self, ring: &H2tRing, descriptors: u32) -> Result<(), Errno> {
        let engine = self.engines().lock(ring.engine())?;
        engine.udma.acknowledge(ring.qid(), descriptors).map_err(udma_errno)
    }

    /// A marker did not land: what is on the ring will not be waited for.
    pub(super) fn time_out(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts, descriptors: u32) -> Errno {
        tracing::warn!(
            engine = ring.engine(),
            queue = ring.qid(),
            descriptors,
            marker = marker::VALUE,
            "DMA completion timeout"
        );
        self.recover(ring, contexts);
        COPY_TIMEOUT
    }

    /// Polls a marker within the generation's budget. True if it landed: armed again then.
    pub(super) fn poll(&self, marker: &Marker<'_>, descriptors: u32, asynchronous: bool) -> bool {
        // The look before the first wait is ours: an engine that is done costs none.
        if marker.landed() {
            marker.arm();
            return true;
        }
        let (first, budget) = self.wait_policy().budget(descriptors, asynchronous);
        let end = self.clock().now() + first + budget;
        self.clock().delay(first);
        for look in 1_u64.. {
            if marker.landed() {
                marker.arm();
                return true;
            }
            match look {
                1..PATIENT_LOOKS => self.clock().delay(POLL_INTERVAL),
                // A machine so busy that the budget passes between two looks gets more of them.
                LEAST_LOOKS.. if self.clock().now() > end => break,
                _ => self.clock().relax(POLL_INTERVAL),
            }
        }
        false
    }

    /// After a reset: the ring programmed anew, the waited copy staged again, and behind it
    /// the ones that ran beside it, since the ring forgot them too.
    fn stage_again(
        &self,
        ring: &Arc<H2tRing>,
        contexts: &mut Contexts,
        which: Which,
        transfer: Transfer,
    ) -> Result<Staged, Errno> {
        tracing::info!(engine = ring.engine(), queue = ring.qid(), "copy hit by a reset, trying again");
        if let Err(error) = self.reprogram(ring) {
            contexts.lose_all();
            return Err(error);
        }
        // Those are not staged again, and a marker that has landed would acknowledge slots anew.
        contexts.zero_copy.lose_all();
        let staged = self.stage(ring, contexts, which, transfer)?;
        let others: Vec<_> = contexts
            .others(which)
            .filter_map(|(other, running)| Some((other, running.staged?.transfer)))
            .collect();
        for (other, transfer) in others {
            let again = self.stage(ring, contexts, other, transfer)?;
            if let Some((_, running)) = contexts.others(which).find(|(context, _)| *context == other) {
                running.staged = Some(again);
            }
        }
        Ok(staged)
    }

    /// Programs the ring anew so that the engine drops what was outstanding: memory of a
    /// copy that timed out must not be written later (`spec/dma-op.md` 4.2).
    fn recover(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts) {
        contexts.lose_all();
        if let Err(error) = self.reprogram(ring) {
            tracing::error!(engine = ring.engine(), queue = ring.qid(), %error, "ring cannot be reset");
        }
    }

    fn reprogram(&self, ring: &Arc<H2tRing>) -> Result<(), Errno> {
        let (tx, rx) = ring.bases();
        let mut engine = self.engines().lock(ring.engine())?;
        if !engine.holds(ring) {
            return Ok(());
        }
        let bar0 = Bar0(self.hardware());
        engine.udma.init_queue(&bar0, ring.qid(), tx, rx, false, true).map_err(udma_errno)
    }
}

/// Microseconds between two looks at a marker.
const POLL_INTERVAL: u64 = 1;
/// Looks after which a wait lets others run: the time of a few hundred KiB.
const PATIENT_LOOKS: u64 = 100;
/// Looks before a wait gives up, whatever the clock says: each offers the processor to an
/// engine that may not have had it yet.
const LEAST_LOOKS: u64 = 1000;
