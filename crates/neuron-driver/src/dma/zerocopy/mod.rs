//! Zero-copy (`spec/dma-op.md` 7): copies between a chunk and the pages of a user buffer,
//! without a bounce.
//!
//! | module | what lives there |
//! |---|---|
//! | [`pipeline`] | transfers submitted, waited for, and their pages let go |
//! | [`direct`] | small writes by the processor through BAR4 |
//!
//! Here: what is asked for, and both ways to ask: a call that waits, and a request whose end
//! the completion queue tells. A transfer that fails is not tried again, on any generation.

pub mod direct;
pub mod pipeline;

use std::cmp::max;
use std::sync::Arc;

use neuron_abi::arch::PAGE_SIZE;
use neuron_abi::errno::Errno;
use neuron_udma::Barrier;

use crate::device::Device;
use crate::pool::ChunkRef;
use crate::ring::H2tRing;
use crate::ring::context::Contexts;
use crate::ring::context_queue::{CAPACITY, Entry, Owner, Request};
use crate::ring::pages::{Layout, Part, parts};
use crate::user::{Access, UserBuffer};

/// A piece of a chunk and the user buffer it is copied with, already checked against the
/// chunk's bounds.
#[derive(Clone)]
pub struct Operation {
    /// The chunk.
    pub chunk: ChunkRef,
    /// Offset in it, bytes.
    pub offset: u64,
    /// The buffer.
    pub buffer: Arc<dyn UserBuffer>,
    /// User address of the buffer.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The caller's word, handed back with an asynchronous request's end.
    pub context: u64,
}

/// What a process wants done without waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Process that asks.
    pub pid: i32,
    /// Its number for the request, not 0.
    pub sequence: u64,
}

/// How long to leave a reader whose completion queue is full, microseconds.
const READER_PAUSE: u64 = 1000;

/// What a pass over the rings left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Nothing,
    /// Only ends that their reader makes no room for.
    Ends,
    Transfers,
}

impl Device {
    /// Whether zero-copy by DMA is offered: not where a copy may have to be staged again
    /// after a reset, unless the parameter says so.
    pub fn offers_zero_copy(&self) -> bool {
        !self.arch().retries_in_reset_window || self.params().zerocopy_trn1_override
    }

    /// The H2T ring of `core` on queue `qid`, or its default one.
    ///
    /// # Errors
    /// ENOENT for a queue from 16 on; EINVAL where zero-copy is not offered; ENOENT for a
    /// queue that is no H2T ring of the core.
    pub fn zero_copy_ring(&self, core: u32, qid: Option<u32>) -> Result<Arc<H2tRing>, Errno> {
        let qid = qid.unwrap_or_else(|| self.arch().default_queue(core));
        if !Self::queue_numbers().contains(&qid) {
            return Err(Errno::ENOENT);
        }
        if !self.offers_zero_copy() {
            return Err(Errno::EINVAL);
        }
        let mut engine = self.engines().lock(self.arch().h2t_engine(core))?;
        let queue = engine.queue(qid)?;
        queue.h2t().filter(|ring| ring.core() == core).cloned().ok_or(Errno::ENOENT)
    }

    /// Copies, and returns when the bytes are there. All operations are of the ring's core.
    ///
    /// # Errors
    /// The error of the pin or the transfer that failed first; what was submitted before it
    /// has ended by then.
    pub fn zero_copy(
        &self,
        ring: &Arc<H2tRing>,
        operations: &[Operation],
        access: Access,
    ) -> Result<(), Errno> {
        let mut contexts = ring.lock();
        self.on_its_queue(ring)?;
        ring.prepare_zero_copy(self.pools())?;
        let copied = transfers(operations).try_for_each(|(operation, part, last)| {
            self.make_room(ring, &mut contexts)?;
            let entry = self.entry(operation, part, last, access, Owner::Call)?;
            contexts.zero_copy.push(entry);
            self.submit(ring, &mut contexts)
        });
        if copied.is_err() {
            contexts.zero_copy.abandon(|owner| owner == Owner::Call);
        }
        copied.and(self.end_call(ring, &mut contexts))
    }

    /// Accepts a request and returns. All operations are of the ring's core, and there is at
    /// least one. A refused request changes nothing and its end is not told.
    ///
    /// # Errors
    /// E2BIG for more transfers than the queue ever holds (our choice); EBUSY if it has not
    /// room for them now; ENOMEM for the completion queue or the thread; a pin's error.
    pub fn request_zero_copy(
        self: &Arc<Self>,
        ring: &Arc<H2tRing>,
        operations: &[Operation],
        access: Access,
        ticket: Ticket,
    ) -> Result<(), Errno> {
        let mut contexts = ring.lock();
        self.on_its_queue(ring)?;
        let count = transfers(operations).take(CAPACITY).count();
        if count >= CAPACITY {
            return Err(Errno::E2BIG);
        }
        if count > contexts.zero_copy.room() {
            return Err(Errno::EBUSY);
        }
        ring.prepare_zero_copy(self.pools())?;
        ring.completions(&mut contexts, self.pools())?;
        self.start_completer()?;
        let id = contexts.zero_copy.new_request();
        let entries: Vec<_> = transfers(operations)
            .map(|(operation, part, last)| {
                let Ticket { pid, sequence } = ticket;
                let request = Request { id, pid, sequence, context: operation.context, last };
                self.entry(operation, part, last, access, Owner::Request(request))
            })
            .collect::<Result<_, _>>()?;
        entries.into_iter().for_each(|entry| contexts.zero_copy.push(entry));
        // Its failure is the request's, and told as that.
        let _told = self.submit(ring, &mut contexts);
        self.completer().wake();
        Ok(())
    }

    /// Starts the thread that ends what nobody waits for: one per device, from the first
    /// asynchronous request on.
    fn start_completer(self: &Arc<Self>) -> Result<(), Errno> {
        let device = Arc::downgrade(self);
        let pass = move || {
            let device = device.upgrade()?;
            let left = device.complete();
            if left == Left::Ends {
                device.clock().sleep(READER_PAUSE);
            }
            Some(left != Left::Nothing)
        };
        self.completer().start(|| format!("neuron{}-completer", self.index()), pass)
    }

    /// One pass: a transfer of each ring is waited for, and what can be told is told.
    fn complete(&self) -> Left {
        let mut left = Left::Nothing;
        for ring in self.engines().h2t_rings() {
            let mut contexts = ring.lock();
            if !contexts.zero_copy.is_empty() {
                // No call's transfer is on a ring whose lock is free, so no error is lost here.
                let _told = self.advance(&ring, &mut contexts);
            }
            if !contexts.zero_copy.tell() {
                left = max(left, Left::Ends);
            }
            if !contexts.zero_copy.is_empty() {
                left = max(left, Left::Transfers);
            }
        }
        left
    }

    /// Where the completion queue of a ring is: (bus address, bytes).
    ///
    /// # Errors
    /// ENOENT for a ring that was taken off its queue; ENOMEM.
    pub fn completion_queue(&self, ring: &Arc<H2tRing>) -> Result<(u64, u64), Errno> {
        let mut contexts = ring.lock();
        self.on_its_queue(ring)?;
        let queue = ring.completions(&mut contexts, self.pools())?;
        Ok((queue.chunk().pa(), queue.chunk().size()))
    }

    /// A ring that was taken off its queue gets nothing any more: what it has is given back
    /// then. Under the ring's copy lock, which taking it off needs too.
    fn on_its_queue(&self, ring: &Arc<H2tRing>) -> Result<(), Errno> {
        if self.engines().lock(ring.engine())?.holds(ring) { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// Pins the pages of a transfer.
    fn entry(
        &self,
        operation: &Operation,
        part: Part,
        last: bool,
        access: Access,
        owner: Owner,
    ) -> Result<Entry, Errno> {
        let order = match access {
            Access::Read if last => self.arch().zero_copy_write,
            _ => crate::arch::ZeroCopyOrder { data: Barrier::None, marker: Barrier::None },
        };
        let pinned = operation.buffer.pin(part.offset, part.bytes)?;
        let layout = Layout {
            chunk: operation.chunk.pa() + operation.offset + part.offset,
            page_offset: (operation.address + part.offset) % PAGE_SIZE,
            bytes: part.bytes,
            access,
            host_base: self.geometry().host_base,
            last: order.data,
        };
        let chunk = Arc::clone(&operation.chunk);
        Ok(Entry { owner, layout, marker: order.marker, pages: part.pages, pinned, chunk })
    }

    /// Ends every zero-copy transfer of a ring that is taken off its queue.
    pub(crate) fn drain_zero_copy(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts) {
        while !contexts.zero_copy.is_empty() {
            let _outcome = self.advance(ring, contexts);
        }
    }

    /// Ends what a process that exits still has on a ring, untold.
    pub(crate) fn drain_zero_copy_of(&self, pid: i32, ring: &Arc<H2tRing>, contexts: &mut Contexts) {
        let theirs = |owner| matches!(owner, Owner::Request(request) if request.pid == pid);
        if !contexts.zero_copy.any(theirs) {
            contexts.zero_copy.forget(pid);
            return;
        }
        contexts.zero_copy.forget(pid);
        while contexts.zero_copy.any(|owner| owner == Owner::Drained) {
            let _outcome = self.advance(ring, contexts);
        }
    }
}

/// All transfers of some operations, and whether each is the last of all.
fn transfers(operations: &[Operation]) -> impl Iterator<Item = (&Operation, Part, bool)> {
    let mut all = operations
        .iter()
        .flat_map(|operation| parts(operation.address, operation.bytes).map(move |part| (operation, part)))
        .peekable();
    std::iter::from_fn(move || {
        let (operation, part) = all.next()?;
        Some((operation, part, all.peek().is_none()))
    })
}
