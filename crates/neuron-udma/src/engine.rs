//! One engine: 16 queue pairs, programmed, fed and started.

use core::sync::atomic::{Ordering, fence};

use crate::QUEUES;
use crate::cursor::Mark;
use crate::descriptor::Copy;
use crate::error::{Reason, UdmaError};
use crate::mmio::{Mmio, RingMemory};
use crate::queue::{Queue, RingBase};
use crate::regs::{Direction, queue};

/// The software handle of one engine (`struct udma`). Whoever owns it holds the
/// engine's lock.
#[derive(Debug)]
pub struct Udma {
    base: u64,
    num_queues: u32,
    tx: [Queue; QUEUES],
    rx: [Queue; QUEUES],
}

impl Default for Udma {
    fn default() -> Self {
        Self::new()
    }
}

impl Udma {
    /// An engine that was never initialised: it has no queues.
    pub const fn new() -> Self {
        Self {
            base: 0,
            num_queues: 0,
            tx: [const { Queue::new(Direction::Tx) }; QUEUES],
            rx: [const { Queue::new(Direction::Rx) }; QUEUES],
        }
    }

    /// Offset of the engine's registers in BAR0.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Queues usable; 0 until [`init`](Self::init).
    pub const fn num_queues(&self) -> u32 {
        self.num_queues
    }

    pub(crate) const fn place(&mut self, base: u64, queues: u32) {
        self.base = base;
        self.num_queues = queues;
    }

    pub(crate) fn all_queues(&mut self) -> impl Iterator<Item = &mut Queue> {
        self.tx.iter_mut().chain(&mut self.rx)
    }

    pub(crate) const fn check_qid(&self, qid: u32) -> Result<(), UdmaError> {
        if qid < self.num_queues { Ok(()) } else { Err(UdmaError::Invalid(Reason::QueueNumber)) }
    }

    const fn array(&self, direction: Direction) -> &[Queue; QUEUES] {
        match direction {
            Direction::Tx => &self.tx,
            Direction::Rx => &self.rx,
        }
    }

    /// One direction of queue `qid`.
    ///
    /// # Errors
    /// EINVAL if `qid` is not below [`num_queues`](Self::num_queues).
    pub fn queue(&self, direction: Direction, qid: u32) -> Result<&Queue, UdmaError> {
        self.check_qid(qid)?;
        self.array(direction).get(qid as usize).ok_or(UdmaError::Invalid(Reason::QueueNumber))
    }

    pub(crate) fn queue_mut(&mut self, direction: Direction, qid: u32) -> Result<&mut Queue, UdmaError> {
        let array = match direction {
            Direction::Tx => &mut self.tx,
            Direction::Rx => &mut self.rx,
        };
        array.get_mut(qid as usize).ok_or(UdmaError::Invalid(Reason::QueueNumber))
    }

    /// Programs both directions of queue `qid`. Everything is checked before the first
    /// write; which failure is reported follows the driver's order (`spec/udma.md` 4).
    ///
    /// `allocatable`: descriptors may be prepared after this (H2T rings); rings of a
    /// runtime are filled by their owner.
    ///
    /// # Errors
    /// -1 for a base off 256 bytes, a size off 16, any completion ring; EINVAL for the
    /// queue number, a size outside 32..=16777200, an end off 256 bytes.
    pub fn init_queue(
        &mut self,
        mmio: &impl Mmio,
        qid: u32,
        tx: RingBase,
        rx: RingBase,
        completion_ring: bool,
        allocatable: bool,
    ) -> Result<(), UdmaError> {
        tx.check_pair()?;
        rx.check_pair()?;
        if completion_ring {
            return Err(UdmaError::Refused(Reason::CompletionRing));
        }
        self.check_qid(qid)?;
        tx.check_direction()?;
        rx.check_direction()?;
        self.queue_mut(Direction::Tx, qid)?.program(mmio, tx, allocatable)?;
        self.queue_mut(Direction::Rx, qid)?.program(mmio, rx, allocatable)
    }

    /// Both directions of queue `qid`, to prepare descriptors in.
    ///
    /// # Errors
    /// EINVAL if `qid` is out of range.
    pub fn pair(&mut self, qid: u32) -> Result<QueuePair<'_>, UdmaError> {
        self.check_qid(qid)?;
        match (self.tx.get_mut(qid as usize), self.rx.get_mut(qid as usize)) {
            (Some(tx), Some(rx)) => Ok(QueuePair { tx, rx }),
            _ => Err(UdmaError::Invalid(Reason::QueueNumber)),
        }
    }

    /// Rings the doorbells: RX by `rx_count`, then TX by `tx_count` if that is not 0.
    /// Counts come from the caller; nothing tracks what is outstanding.
    ///
    /// # Errors
    /// EINVAL for the queue number or a count above its ring; -1 for an RX count of 0.
    /// Both counts are checked before either doorbell.
    pub fn start(&self, mmio: &impl Mmio, qid: u32, tx_count: u32, rx_count: u32) -> Result<(), UdmaError> {
        let (tx, rx) = (self.queue(Direction::Tx, qid)?, self.queue(Direction::Rx, qid)?);
        if tx_count > tx.cursor.size() || rx_count > rx.cursor.size() {
            return Err(UdmaError::Invalid(Reason::StartCount));
        }
        if rx_count == 0 {
            return Err(UdmaError::Refused(Reason::EmptyDoorbell));
        }
        let doorbell = |direction: Direction| self.base + direction.queue_block(qid) + queue::DRTP_INC;
        // Descriptors must be in memory before the engine is told of them.
        fence(Ordering::SeqCst);
        mmio.write32(doorbell(Direction::Rx), rx_count)?;
        if tx_count > 0 {
            fence(Ordering::SeqCst);
            mmio.write32(doorbell(Direction::Tx), tx_count)?;
        }
        Ok(())
    }

    /// Returns `count` spent descriptors of both directions, RX first.
    ///
    /// # Errors
    /// EINVAL for the queue number or a ring that is no power of two.
    pub fn acknowledge(&self, qid: u32, count: u32) -> Result<(), UdmaError> {
        let (rx, tx) = (&self.queue(Direction::Rx, qid)?.cursor, &self.queue(Direction::Tx, qid)?.cursor);
        // A ring that refuses must not leave the other one moved.
        tx.available()?;
        rx.acknowledge(count)?;
        tx.acknowledge(count)
    }
}

/// Both directions of one queue.
#[derive(Debug)]
pub struct QueuePair<'a> {
    tx: &'a mut Queue,
    rx: &'a mut Queue,
}

/// Where both producers stood; see [`QueuePair::mark`].
#[derive(Clone, Copy, Debug)]
pub struct PairMark {
    tx: Mark,
    rx: Mark,
}

impl QueuePair<'_> {
    /// Slots free in both directions.
    ///
    /// # Errors
    /// EINVAL if a ring is no power of two.
    pub fn available(&self) -> Result<u32, UdmaError> {
        Ok(self.tx.cursor.available()?.min(self.rx.cursor.available()?))
    }

    /// Builds one copy: takes a slot in each direction and writes both descriptors.
    /// A refused call takes nothing.
    ///
    /// # Errors
    /// EINVAL above 65536 bytes, for a ring that takes no descriptors or is no power of
    /// two, or ring memory shorter than the ring; ENOMEM when a direction is full.
    #[inline]
    pub fn prepare(
        &mut self,
        tx_ring: &impl RingMemory,
        rx_ring: &impl RingMemory,
        copy: &Copy,
    ) -> Result<(), UdmaError> {
        if !self.tx.takes_descriptors() || !self.rx.takes_descriptors() {
            return Err(UdmaError::Invalid(Reason::NotAllocatable));
        }
        if self.tx.cursor.available()? < 1 || self.rx.cursor.available()? < 1 {
            return Err(UdmaError::NoSlot);
        }
        let mark = self.mark();
        let (rx_slot, tx_slot) = (self.rx.cursor.take()?, self.tx.cursor.take()?);
        let stored = match (copy.tx(tx_slot.ring_id), copy.rx(rx_slot.ring_id)) {
            (Ok(tx), Ok(rx)) => {
                if tx_ring.store(tx_slot.index, tx) && rx_ring.store(rx_slot.index, rx) {
                    Ok(())
                } else {
                    Err(UdmaError::Invalid(Reason::RingMemory))
                }
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        if stored.is_err() {
            self.rewind(mark);
        }
        stored
    }

    /// Remembers where both producers stand.
    pub const fn mark(&self) -> PairMark {
        PairMark { tx: self.tx.cursor.mark(), rx: self.rx.cursor.mark() }
    }

    /// Takes back everything prepared since `mark`; only before its doorbell.
    pub const fn rewind(&mut self, mark: PairMark) {
        self.tx.cursor.rewind(mark.tx);
        self.rx.cursor.rewind(mark.rx);
    }

    /// The TX queue.
    pub const fn tx(&self) -> &Queue {
        self.tx
    }

    /// The RX queue.
    pub const fn rx(&self) -> &Queue {
        self.rx
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{Barrier, Descriptor};
    use crate::init::EngineParams;
    use crate::mmio::MmioError;

    /// Registers and a ring that take everything and remember nothing.
    struct Sink;

    impl Mmio for Sink {
        fn read32(&self, _offset: u64) -> Result<u32, MmioError> {
            Ok(0)
        }

        fn write32(&self, _offset: u64, _value: u32) -> Result<(), MmioError> {
            Ok(())
        }
    }

    impl RingMemory for Sink {
        fn store(&self, _index: u32, _descriptor: Descriptor) -> bool {
            true
        }
    }

    const COPY: Copy =
        Copy { source: 0, destination: 0, bytes: 64, barrier: Barrier::None, interrupt: false };

    #[test]
    fn a_queue_without_a_ring_keeps_its_flag_and_takes_no_descriptor() {
        let mut udma = Udma::new();
        udma.init(&Sink, &EngineParams::bare(0)).unwrap();
        let (ring, none) = (RingBase::new(0x1000, 64), RingBase { base: None, size: 64 });
        for (tx, rx, taken) in [
            (ring, ring, Ok(())),
            (none, ring, Err(UdmaError::Invalid(Reason::NotAllocatable))),
            (ring, none, Err(UdmaError::Invalid(Reason::NotAllocatable))),
        ] {
            udma.init_queue(&Sink, 3, tx, rx, false, true).unwrap();
            assert!(udma.queue(Direction::Tx, 3).unwrap().allocatable());
            assert!(udma.queue(Direction::Rx, 3).unwrap().allocatable());
            assert_eq!(udma.pair(3).unwrap().prepare(&Sink, &Sink, &COPY), taken);
        }
    }
}
