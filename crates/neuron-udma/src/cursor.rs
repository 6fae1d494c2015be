//! Producer and completion cursors of one ring direction (`spec/udma.md` 7).
//!
//! The producer side (`take`) needs `&mut`; [`Cursor::acknowledge`] works on a shared
//! reference by compare-and-swap, so completions can be returned while another thread
//! holds the producer.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Reason, UdmaError};
use crate::{DESCRIPTOR_SIZE, GUARD_GAP};

/// A slot that was taken: its index in the ring and the phase its descriptor carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index in descriptors.
    pub index: u32,
    /// Ring id of the lap, 0..=3.
    pub ring_id: u8,
}

impl Slot {
    /// Byte offset in the ring.
    pub const fn offset(self) -> usize {
        self.index as usize * DESCRIPTOR_SIZE
    }
}

/// The cursors of one direction of one queue.
#[derive(Debug)]
pub struct Cursor {
    size: u32,
    next: u32,
    completed: AtomicU32,
    ring_id: u8,
}

/// Where the producer stood; see [`Cursor::mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    next: u32,
    ring_id: u8,
}

/// First ring id after a queue reset.
pub const INITIAL_RING_ID: u8 = 1;

impl Cursor {
    /// A cursor over `size` descriptors, empty, on the first lap.
    pub const fn new(size: u32) -> Self {
        Self { size, next: 0, completed: AtomicU32::new(0), ring_id: INITIAL_RING_ID }
    }

    /// Descriptors in the ring; 0 for a queue that was never programmed.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Index of the next slot to take.
    pub const fn next(&self) -> u32 {
        self.next
    }

    /// Index up to which descriptors were acknowledged.
    pub fn completed(&self) -> u32 {
        self.completed.load(Ordering::Acquire)
    }

    /// Ring id of the current lap.
    pub const fn ring_id(&self) -> u8 {
        self.ring_id
    }

    fn mask(&self) -> Result<u32, UdmaError> {
        match self.size {
            0 => Ok(0),
            size if size.is_power_of_two() => Ok(size - 1),
            _ => Err(UdmaError::Invalid(Reason::NotPowerOfTwo)),
        }
    }

    /// Slots that can be taken now. An empty ring offers its size less the guard gap.
    ///
    /// # Errors
    /// EINVAL if the size is not a power of two.
    pub fn available(&self) -> Result<u32, UdmaError> {
        let mask = self.mask()?;
        Ok(self.completed().wrapping_sub(self.next.wrapping_add(GUARD_GAP)) & mask)
    }

    /// Takes the next slot, without looking at [`available`](Self::available).
    ///
    /// # Errors
    /// EINVAL if the ring was never programmed or is no power of two.
    #[inline]
    pub fn take(&mut self) -> Result<Slot, UdmaError> {
        if self.size == 0 {
            return Err(UdmaError::Invalid(Reason::NotAllocatable));
        }
        let mask = self.mask()?;
        let slot = Slot { index: self.next, ring_id: self.ring_id };
        self.next = (self.next + 1) & mask;
        if self.next == 0 {
            self.ring_id = (self.ring_id + 1) & 3;
        }
        Ok(slot)
    }

    /// Returns `count` spent descriptors. Not bounded by what is outstanding: callers
    /// of the real driver can over-acknowledge, and see the same (golden README, 4).
    ///
    /// # Errors
    /// EINVAL if the size is not a power of two. A ring never programmed: nothing happens.
    pub fn acknowledge(&self, count: u32) -> Result<(), UdmaError> {
        let mask = self.mask()?;
        let mut completed = self.completed.load(Ordering::Relaxed);
        loop {
            let advanced = completed.wrapping_add(count) & mask;
            match self.completed.compare_exchange_weak(
                completed,
                advanced,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(seen) => completed = seen,
            }
        }
    }

    /// Remembers the producer's place, for [`rewind`](Self::rewind).
    pub const fn mark(&self) -> Mark {
        Mark { next: self.next, ring_id: self.ring_id }
    }

    /// Gives back every slot taken since `mark`. Only sound for slots whose doorbell
    /// was not rung.
    pub const fn rewind(&mut self, mark: Mark) {
        self.next = mark.next;
        self.ring_id = mark.ring_id;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_ring_offers_all_but_the_guard() {
        assert_eq!(Cursor::new(64).available(), Ok(48));
        assert_eq!(Cursor::new(32).available(), Ok(16));
    }

    #[test]
    fn ring_id_cycles_one_two_three_zero() {
        let mut cursor = Cursor::new(32);
        let mut seen = [0; 5];
        for lap in &mut seen {
            for _ in 0..32 {
                *lap = cursor.take().unwrap().ring_id;
            }
        }
        assert_eq!(seen, [1, 2, 3, 0, 1]);
    }

    #[test]
    fn never_programmed_ring_ignores_acknowledge_and_refuses_slots() {
        let mut cursor = Cursor::new(0);
        assert_eq!(cursor.acknowledge(5), Ok(()));
        assert_eq!(cursor.completed(), 0);
        assert_eq!(cursor.available(), Ok(0));
        assert!(cursor.take().is_err());
    }

    #[test]
    fn odd_sizes_are_errors_not_assertions() {
        let mut cursor = Cursor::new(48);
        let expected = UdmaError::Invalid(Reason::NotPowerOfTwo);
        assert_eq!(cursor.available(), Err(expected));
        assert_eq!(cursor.acknowledge(1), Err(expected));
        assert_eq!(cursor.take(), Err(expected));
    }

    #[test]
    fn rewind_gives_slots_and_phase_back() {
        let mut cursor = Cursor::new(32);
        for _ in 0..30 {
            cursor.take().unwrap();
        }
        let mark = cursor.mark();
        for _ in 0..4 {
            cursor.take().unwrap();
        }
        assert_eq!(cursor.ring_id(), 2);
        cursor.rewind(mark);
        assert_eq!((cursor.next(), cursor.ring_id()), (30, 1));
    }

    proptest! {
        /// Never more in flight than size - guard, and every slot index in range.
        #[test]
        fn producer_never_catches_the_consumer(log2 in 5u32..10, steps in prop::collection::vec((0u32..40, 0u32..40), 1..200)) {
            let mut cursor = Cursor::new(1 << log2);
            let mut in_flight = 0;
            for (produce, consume) in steps {
                for _ in 0..produce.min(cursor.available().unwrap()) {
                    let slot = cursor.take().unwrap();
                    prop_assert!(slot.index < 1 << log2);
                    in_flight += 1;
                }
                prop_assert!(in_flight <= (1 << log2) - GUARD_GAP);
                let consume = consume.min(in_flight);
                cursor.acknowledge(consume).unwrap();
                in_flight -= consume;
                prop_assert_eq!(cursor.available().unwrap(), (1 << log2) - GUARD_GAP - in_flight);
            }
        }
    }
}
