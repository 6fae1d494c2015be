//! Executing a job: fetch descriptors, check their phase, move bytes, retire in order.
//!
//! TX packets supply a stream of bytes and RX descriptors take it (`spec/udma.md` 10.5). An RX descriptor
//! that is full, or at hand when a packet ends, retires; the next byte goes to the next one. A descriptor's
//! whole range is checked before any of it moves. No lock is held here and nothing is allocated.

use std::sync::atomic::{Ordering, fence};

use vm_memory::VolatileSlice;

use super::descriptor::{DESCRIPTOR_BYTES, Descriptor};
use super::queue::{Direction, Job, Partial, Queue, QueueError, RingJob};
use super::{QueueId, Shared};
use crate::bus::{Access, Span, Unmapped, View, pair_at};

/// A job ends after so many TX descriptors or bytes, so that others get their turn and a new DMA table is
/// soon in force. A full one costs far more than the two lock operations around it.
const JOB_DESCRIPTORS: u64 = 128;
const JOB_BYTES: u64 = 4 << 20;

type Outcome = Result<(), (Direction, QueueError)>;

/// Executes `job` until it is done, out of budget, or the queue has to stop. `masked` tells per direction
/// whether software masked phase errors.
pub(super) fn execute(
    shared: &Shared,
    queue: &Queue,
    id: QueueId,
    masked: [bool; 2],
    job: &mut Job,
) -> Outcome {
    // Pairs with the release that a driver puts before its doorbell: descriptors are read after it.
    fence(Ordering::Acquire);
    let view = shared.bus.view();
    let ring = |ring: &RingJob| view.memory_from(ring.base, u64::from(ring.len) * DESCRIPTOR_BYTES);
    let rings = [ring(&job.rings[0]), ring(&job.rings[1])];
    let mut runner = Runner {
        shared,
        queue,
        id,
        masked,
        view: &view,
        rings,
        hints: Hints::default(),
        bytes: 0,
        source: None,
        target: None,
    };
    let outcome = runner.run(job);
    job.stream.source = runner.source.as_ref().map(|(span, last)| partial(span, *last));
    job.stream.target = runner.target.as_ref().map(|span| partial(span, false));
    let counters = &shared.counters;
    counters.bytes.add(runner.bytes);
    counters.tx_descriptors.add(job.rings[Direction::M2s as usize].retired);
    counters.rx_descriptors.add(job.rings[Direction::S2m as usize].retired);
    match outcome {
        Err((_, QueueError::Unmapped { .. })) => counters.axi_errors.increment(),
        Err((_, QueueError::Phase { .. })) => counters.phase_errors.increment(),
        _ => {}
    }
    outcome
}

fn partial(span: &Span<'_>, last: bool) -> Partial {
    Partial { address: span.address(), left: span.left(), last }
}

/// Where the last lookups in the DMA table ended.
#[derive(Default)]
struct Hints {
    source: usize,
    target: usize,
}

struct Runner<'a> {
    shared: &'a Shared,
    queue: &'a Queue,
    id: QueueId,
    masked: [bool; 2],
    view: &'a View<'a>,
    /// Memory of the rings, from their base on as far as it is one piece: nearly always all.
    rings: [Option<VolatileSlice<'a>>; 2],
    hints: Hints,
    bytes: u64,
    /// The TX descriptor at hand, and whether it is the last of its packet.
    source: Option<(Span<'a>, bool)>,
    /// The RX descriptor at hand.
    target: Option<Span<'a>>,
}

impl Runner<'_> {
    fn run(&mut self, job: &mut Job) -> Outcome {
        if let Some(Partial { address, left, last }) = job.stream.source.take() {
            self.source = Some((self.source_span(job, address, left)?, last));
        }
        if let Some(Partial { address, left, .. }) = job.stream.target.take() {
            self.target = Some(self.target_span(job, address, left)?);
        }
        while self.bytes < JOB_BYTES
            && job.rings[Direction::M2s as usize].retired < JOB_DESCRIPTORS
            && !self.queue.must_stop(job.stream.in_packet)
            && (job.stream.in_packet || !job.drain)
        {
            if !self.step(job)? {
                break;
            }
        }
        Ok(())
    }

    /// One contiguous move, or one descriptor without data. `false` if either side lacks descriptors.
    #[inline]
    fn step(&mut self, job: &mut Job) -> Result<bool, (Direction, QueueError)> {
        if self.source.is_none() {
            if job.rings[Direction::M2s as usize].ready == 0 {
                return Ok(false);
            }
            let descriptor = self.fetch(job, Direction::M2s)?;
            if descriptor.meta {
                self.retire(job, Direction::M2s);
                return Ok(true);
            }
            let len = u64::from(descriptor.len);
            if self.shared.faults.aborts(self.id.engine, self.id.queue, len) {
                let index = job.rings[Direction::M2s as usize].head.index;
                return Err((Direction::M2s, QueueError::Injected { index }));
            }
            self.source = Some((self.source_span(job, descriptor.address, len)?, descriptor.last));
            job.stream.in_packet = true;
        }
        if self.target.is_none() {
            if job.rings[Direction::S2m as usize].ready == 0 {
                return Ok(false);
            }
            let descriptor = self.fetch(job, Direction::S2m)?;
            self.target = Some(self.target_span(job, descriptor.address, descriptor.len.into())?);
        }
        let (Some((source, last)), Some(target)) = (&mut self.source, &mut self.target) else {
            return Ok(false);
        };

        // What went before becomes visible before what comes now, whichever barrier was asked for.
        fence(Ordering::Release);
        let len = source.step(target);
        source.copy_to(target).map_err(unmapped(job, Direction::S2m))?;
        if self.shared.faults.flips_bit(self.id.engine, self.id.queue, len) {
            target.flip_bit(len);
        }
        self.bytes += len;
        source.advance(len).map_err(unmapped(job, Direction::M2s))?;
        target.advance(len).map_err(unmapped(job, Direction::S2m))?;

        let source_ends = source.left() == 0;
        let packet_ends = source_ends && *last;
        let target_ends = target.left() == 0 || packet_ends;
        if packet_ends {
            job.stream.in_packet = false;
        }
        // RX first: when a TX head has moved, everything its bytes went to shows as written.
        if target_ends {
            self.target = None;
            self.retire(job, Direction::S2m);
        }
        if source_ends {
            self.source = None;
            self.retire(job, Direction::M2s);
        }
        Ok(true)
    }

    /// Reads the head descriptor of a ring and checks its phase.
    #[inline]
    fn fetch(&self, job: &Job, direction: Direction) -> Result<Descriptor, (Direction, QueueError)> {
        let ring = &job.rings[direction as usize];
        let offset = u64::from(ring.head.index) * DESCRIPTOR_BYTES;
        let memory = self.rings[direction as usize].as_ref();
        let words = match memory.and_then(|memory| pair_at(memory, offset)) {
            Some(words) => words,
            None => self.view.read_pair(ring.base.wrapping_add(offset)).map_err(unmapped(job, direction))?,
        };
        let descriptor = Descriptor::decode(words);
        if descriptor.ring_id != ring.head.ring_id {
            if !self.masked[direction as usize] {
                let error = QueueError::Phase {
                    index: ring.head.index,
                    expected: ring.head.ring_id,
                    found: descriptor.ring_id,
                };
                return Err((direction, error));
            }
            self.shared.counters.masked_phase_errors.increment();
        }
        Ok(descriptor)
    }

    #[inline]
    fn retire(&mut self, job: &mut Job, direction: Direction) {
        let ring = &mut job.rings[direction as usize];
        ring.retire();
        self.queue.publish_head(direction, ring.head);
    }
}

impl<'a> Runner<'a> {
    #[inline]
    fn source_span(
        &mut self,
        job: &Job,
        address: u64,
        len: u64,
    ) -> Result<Span<'a>, (Direction, QueueError)> {
        let span = self.view.span(Access::Read, address, len, &mut self.hints.source);
        span.map_err(unmapped(job, Direction::M2s))
    }

    #[inline]
    fn target_span(
        &mut self,
        job: &Job,
        address: u64,
        len: u64,
    ) -> Result<Span<'a>, (Direction, QueueError)> {
        let span = self.view.span(Access::Write, address, len, &mut self.hints.target);
        span.map_err(unmapped(job, Direction::S2m))
    }
}

fn unmapped(job: &Job, direction: Direction) -> impl FnOnce(Unmapped) -> (Direction, QueueError) {
    let index = job.rings[direction as usize].head.index;
    move |Unmapped { address }| (direction, QueueError::Unmapped { index, address })
}
