//! One queue pair: its rings' registers, what is announced and retired, and who executes it.
//!
//! [`Control`] is behind a lock that is only ever held for a few instructions; data moves outside it. Exactly
//! one thread at a time, the owner, executes a queue: it takes a [`Job`] from the control, works on it without
//! the lock and commits it. Others change the queue by pausing it first, which stops the owner at a descriptor
//! (or packet) boundary. Heads are published descriptor by descriptor through atomics.

use std::array;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use thiserror::Error;

use crate::sync::{lock, wait};

/// A direction of an engine: which of its two halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// TX, M2S: reads the source.
    M2s = 0,
    /// RX, S2M: writes the destination.
    S2m = 1,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::M2s, Self::S2m];
}

/// A queue of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueId {
    pub(crate) engine: u16,
    pub(crate) queue: u8,
}

/// Why a queue stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueueError {
    /// A doorbell on a ring of length 0 or with a base that is not 64-byte aligned.
    #[error("doorbell on a ring that is not programmed: base {base:#x}, {len} descriptors")]
    NotProgrammed {
        /// Base as programmed.
        base: u64,
        /// Length as programmed.
        len: u32,
    },
    /// An address, of a descriptor or of data, that leads nowhere. Nothing of that descriptor was moved.
    #[error("descriptor {index}: nothing at bus address {address:#x}")]
    Unmapped {
        /// Ring index of the descriptor at hand.
        index: u32,
        /// First address with nothing behind it.
        address: u64,
    },
    /// A descriptor of another lap of the ring than expected.
    #[error("descriptor {index}: phase {found}, expected {expected}")]
    Phase {
        /// Ring index.
        index: u32,
        /// Ring id of the lap.
        expected: u8,
        /// Ring id in the descriptor.
        found: u8,
    },
    /// An injected abort.
    #[error("descriptor {index}: injected abort")]
    Injected {
        /// Ring index.
        index: u32,
    },
}

/// A position in a ring: index and lap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) index: u32,
    pub(super) ring_id: u8,
}

impl Cursor {
    /// After a queue reset. At power-on too (our choice).
    pub(super) const START: Self = Self { index: 0, ring_id: 1 };

    /// As the head and tail registers show it.
    pub(super) fn packed(self) -> u32 {
        u32::from(self.ring_id) << 30 | self.index & 0xff_ffff
    }

    /// `count` descriptors further in a ring of `len` > 0.
    pub(super) fn advanced(self, count: u32, len: u32) -> Self {
        let position = u64::from(self.index) + u64::from(count);
        let laps = position / u64::from(len);
        Self {
            index: (position % u64::from(len)) as u32,
            ring_id: (u64::from(self.ring_id) + laps) as u8 & 3,
        }
    }
}

/// cfg bits without which a queue does not run: prefetch and scheduling.
const CFG_ENABLED: u32 = 0x3_0000;
/// Low bits of the ring base that the register does not hold.
const BASE_LOW_UNUSED: u32 = 0x3f;

/// One direction of a queue. The first four are registers as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ring {
    pub(super) cfg: u32,
    pub(super) base_low: u32,
    pub(super) base_high: u32,
    pub(super) length: u32,
    /// First descriptor not retired. The head register shows it: without prefetch it is also the next to fetch,
    /// and software that finds head and tail equal finds the queue idle.
    pub(super) head: Cursor,
    /// End of what doorbells announced.
    pub(super) tail: Cursor,
    /// Descriptors from head to tail.
    pub(super) pending: u64,
    /// The last so many of them came by a dropped kick: not to be looked at yet.
    held: u64,
    pub(super) error: Option<QueueError>,
}

impl Ring {
    const NEW: Self = Self {
        cfg: 0,
        base_low: 0,
        base_high: 0,
        length: 0,
        head: Cursor::START,
        tail: Cursor::START,
        pending: 0,
        held: 0,
        error: None,
    };

    fn base(&self) -> u64 {
        u64::from(self.base_high) << 32 | u64::from(self.base_low)
    }

    /// Ring length in descriptors: 24 bits.
    fn len(&self) -> u32 {
        self.length & 0xff_ffff
    }

    pub(super) fn enabled(&self) -> bool {
        self.cfg & CFG_ENABLED == CFG_ENABLED
    }

    /// Descriptors that may be executed now.
    pub(super) fn ready(&self) -> u64 {
        self.pending - self.held
    }

    /// A doorbell of `count`. `unnoticed` ones wait for the next.
    pub(super) fn announce(&mut self, count: u32, unnoticed: bool) -> Result<(), QueueError> {
        if self.len() == 0 || self.base_low & BASE_LOW_UNUSED != 0 {
            let error = QueueError::NotProgrammed { base: self.base(), len: self.len() };
            self.error = Some(error);
            return Err(error);
        }
        self.tail = self.tail.advanced(count, self.len());
        self.pending = self.pending.saturating_add(count.into());
        self.held = if unnoticed { self.held.saturating_add(count.into()) } else { 0 };
        Ok(())
    }

    /// Queue reset: positions and work go, what was programmed stays (`spec/udma.md` 10.9).
    fn restart(&mut self) {
        *self = Self {
            cfg: self.cfg,
            base_low: self.base_low,
            base_high: self.base_high,
            length: self.length,
            ..Self::NEW
        };
    }
}

/// What is left of a descriptor that was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partial {
    pub(super) address: u64,
    pub(super) left: u64,
    /// Last of its packet (TX).
    pub(super) last: bool,
}

/// Where the byte stream stands between two jobs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stream {
    pub(super) source: Option<Partial>,
    pub(super) target: Option<Partial>,
    /// A TX descriptor of the current packet has been begun and its last one has not ended.
    pub(super) in_packet: bool,
}

/// Who executes a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nobody: no work that could be done now.
    Nobody,
    /// It waits for a worker.
    Queued,
    /// A thread is at it.
    Running,
}

/// State of a queue pair.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) rings: [Ring; 2],
    stream: Stream,
    pub(super) owner: Owner,
    waiters: u32,
}

impl Control {
    pub(super) fn ring(&mut self, direction: Direction) -> &mut Ring {
        &mut self.rings[direction as usize]
    }

    /// Whether the rings allow execution: enabled, without error, work on both sides.
    pub(super) fn has_work(&self) -> bool {
        self.rings.iter().all(|ring| ring.enabled() && ring.error.is_none() && ring.ready() > 0)
    }

    /// Whether execution stands in the middle of a packet.
    pub(super) fn in_packet(&self) -> bool {
        self.stream.in_packet
    }

    /// The work at hand, to the current packet's end only if `drain`. The owner executes it and
    /// [`commit`](Self::commit)s.
    pub(super) fn job(&self, drain: bool) -> Job {
        let rings = self.rings.map(|ring| RingJob {
            base: ring.base(),
            len: ring.len().max(1),
            head: ring.head,
            ready: ring.ready(),
            retired: 0,
        });
        Job { rings, stream: self.stream, drain }
    }

    /// Takes over what the owner did.
    pub(super) fn commit(&mut self, job: &Job, outcome: Result<(), (Direction, QueueError)>) {
        self.stream = job.stream;
        for (ring, done) in self.rings.iter_mut().zip(&job.rings) {
            ring.head = done.head;
            ring.pending -= done.retired;
        }
        if let Err((direction, error)) = outcome {
            self.ring(direction).error = Some(error);
        }
    }

    /// Resets one direction.
    pub(super) fn restart(&mut self, direction: Direction) {
        self.ring(direction).restart();
        match direction {
            Direction::M2s => {
                self.stream.source = None;
                self.stream.in_packet = false;
            }
            Direction::S2m => self.stream.target = None,
        }
    }
}

/// One direction's share of a job.
#[derive(Debug)]
pub(super) struct RingJob {
    pub(super) base: u64,
    /// At least 1.
    pub(super) len: u32,
    pub(super) head: Cursor,
    pub(super) ready: u64,
    pub(super) retired: u64,
}

impl RingJob {
    /// The head descriptor is done.
    pub(super) fn retire(&mut self) {
        self.head = self.head.advanced(1, self.len);
        self.ready -= 1;
        self.retired += 1;
    }
}

/// Work taken from a queue: executed without its lock.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) rings: [RingJob; 2],
    pub(super) stream: Stream,
    /// Stop where the packet ends.
    pub(super) drain: bool,
}

/// Where the owner of a queue has to stop for somebody who wants to change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boundary {
    /// After the descriptor at hand.
    Descriptor = 1,
    /// After the packet at hand, if its descriptors are there.
    Packet = 1 << 16,
}

/// A queue pair. Aligned so that queues executed by different threads share no cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Queue {
    control: Mutex<Control>,
    /// Signalled when the owner lets go and somebody waits.
    released: Condvar,
    /// Pausers waiting, a count for each [`Boundary`].
    halt: AtomicU32,
    heads: [AtomicU32; 2],
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            control: Mutex::new(Control {
                rings: [Ring::NEW; 2],
                stream: Stream::default(),
                owner: Owner::Nobody,
                waiters: 0,
            }),
            released: Condvar::new(),
            halt: AtomicU32::new(0),
            heads: array::from_fn(|_| AtomicU32::new(Cursor::START.packed())),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Control> {
        lock(&self.control)
    }

    /// Whether execution has to stop here, between two descriptors, for somebody who waits in
    /// [`pause`](Self::pause).
    pub(super) fn must_stop(&self, in_packet: bool) -> bool {
        let halt = self.halt.load(Ordering::Acquire);
        let at_descriptor = halt & (Boundary::Packet as u32 - 1);
        at_descriptor != 0 || halt != 0 && !in_packet
    }

    /// Stops execution and keeps it stopped while the guard lives. Waits for one descriptor, or packet, at
    /// most. The caller lets the queue go on when it is done.
    pub(super) fn pause(&self, boundary: Boundary) -> MutexGuard<'_, Control> {
        self.halt.fetch_add(boundary as u32, Ordering::AcqRel);
        let control = self.wait_released(self.lock());
        self.halt.fetch_sub(boundary as u32, Ordering::AcqRel);
        control
    }

    /// Waits until no thread executes the queue.
    pub(super) fn wait_released<'a>(&self, mut control: MutexGuard<'a, Control>) -> MutexGuard<'a, Control> {
        while control.owner == Owner::Running {
            control.waiters += 1;
            control = wait(&self.released, control);
            control.waiters -= 1;
        }
        control
    }

    /// The owner lets go.
    pub(super) fn release(&self, control: &mut Control, next: Owner) {
        control.owner = next;
        if control.waiters > 0 {
            self.released.notify_all();
        }
    }

    /// Back to power-on state.
    pub(super) fn reset(&self) {
        let mut control = self.pause(Boundary::Descriptor);
        control.rings = [Ring::NEW; 2];
        control.stream = Stream::default();
        for direction in Direction::BOTH {
            self.publish_head(direction, Cursor::START);
        }
    }

    /// Shows a head to register reads.
    pub(super) fn publish_head(&self, direction: Direction, head: Cursor) {
        self.heads[direction as usize].store(head.packed(), Ordering::Release);
    }

    /// The head register.
    pub(super) fn head(&self, direction: Direction) -> u32 {
        self.heads[direction as usize].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cursor_counts_laps_modulo_four() {
        let end = Cursor { index: 63, ring_id: 3 };
        assert_eq!(end.advanced(1, 64), Cursor { index: 0, ring_id: 0 });
        assert_eq!(Cursor::START.advanced(64 * 5 + 7, 64), Cursor { index: 7, ring_id: 2 });
        assert_eq!(end.packed(), 0xc000_003f);
    }

    #[test]
    fn a_doorbell_on_an_unusable_ring_is_an_error_and_moves_nothing() {
        for (base_low, length) in [(0x1000, 0), (0x1020, 64), (0x1000, 0x100_0000)] {
            let mut ring = Ring { base_low, length, ..Ring::NEW };
            assert!(matches!(ring.announce(1, false), Err(QueueError::NotProgrammed { .. })));
            assert_eq!((ring.tail, ring.pending), (Cursor::START, 0));
            assert!(ring.error.is_some());
        }
    }

    #[test]
    fn descriptors_of_a_dropped_kick_wait_for_the_next() {
        let mut ring = Ring { length: 64, ..Ring::NEW };
        ring.announce(2, false).unwrap();
        ring.announce(3, true).unwrap();
        assert_eq!((ring.pending, ring.ready(), ring.tail.index), (5, 2, 5));
        ring.announce(1, false).unwrap();
        assert_eq!((ring.pending, ring.ready()), (6, 6));
    }

    proptest! {
        #[test]
        fn advancing_in_parts_is_advancing_at_once(
            len in 1u32..300, parts in proptest::collection::vec(0u32..1000, 0..20)
        ) {
            let stepwise = parts.iter().fold(Cursor::START, |cursor, &n| cursor.advanced(n, len));
            prop_assert_eq!(stepwise, Cursor::START.advanced(parts.iter().sum(), len));
        }
    }
}
