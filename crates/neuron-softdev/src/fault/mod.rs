//! Faults on demand: what can go wrong in a device, by plan, the same way every time.
//!
//! A [`Fault`] says what and when, in numbers of events and never in time. A [`FaultPlan`] is a list of them,
//! with a text form for command lines ([`plan`]); [`Faults`] is the device's live set: faults come and go
//! while it runs, and each counts how often it fired. The device asks at the places where a fault can strike;
//! with none armed that costs one load.

pub mod plan;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use plan::{FaultPlan, FaultPlanError};

use crate::sync::lock;

/// Which of its events a fault strikes: number `nth` (from 1) and the following ones, `times` in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When {
    /// First event struck, counted from 1 since the fault was added.
    pub nth: u64,
    /// How many events in a row are struck.
    pub times: u64,
}

impl When {
    /// Event `nth` alone.
    #[must_use]
    pub const fn nth(nth: u64) -> Self {
        Self { nth, times: 1 }
    }

    fn strikes(self, event: u64) -> bool {
        event.checked_sub(self.nth).is_some_and(|after| after < self.times)
    }
}

/// Where a fault strikes. `None` means any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Engine number.
    pub engine: Option<u16>,
    /// Queue number in the engine.
    pub queue: Option<u8>,
}

impl Place {
    fn holds(self, engine: u16, queue: u8) -> bool {
        self.engine.is_none_or(|wanted| wanted == engine) && self.queue.is_none_or(|wanted| wanted == queue)
    }
}

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A register read fails with [`AccessError::Injected`](crate::AccessError::Injected). `engine` and
    /// `offset` narrow it down; the offset is the engine's if an engine is given, the BAR's otherwise.
    ReadError {
        /// Which of the reads that match.
        when: When,
        /// Only reads of this engine's block.
        engine: Option<u16>,
        /// Only reads of this offset.
        offset: Option<u64>,
    },
    /// The first `reads` reads of the routing id give 0xdeadbeef, "not ready".
    LateRoutingId {
        /// Reads that come too early.
        reads: u64,
    },
    /// A reset is accepted and never ends; nothing is reset.
    StuckReset,
    /// After a reset, the busy bit stays set for `reads` reads of the status word.
    BusyReset {
        /// Reads until the bit clears.
        reads: u64,
    },
    /// A kick (doorbell of a TX queue) goes unnoticed: the tail moves, but the descriptors are only looked at
    /// after the queue's next kick.
    DroppedKick {
        /// Which of the kicks that match.
        when: When,
        /// Engine and queue.
        place: Place,
    },
    /// From the nth kick on, an engine (or every one) executes nothing, until the fault is removed.
    Hang {
        /// The kick that hangs.
        nth: u64,
        /// Engine that counts and hangs; `None` counts the kicks of all and hangs all.
        engine: Option<u16>,
    },
    /// A data descriptor fails as if its source had an AXI error: nothing of it moves, the queue stops.
    Abort {
        /// Which of the TX descriptors that match.
        when: When,
        /// Engine and queue.
        place: Place,
        /// Only descriptors of at least so many bytes.
        min: u32,
    },
    /// One bit of the data written is wrong.
    FlipBit {
        /// Which of the writes that match.
        when: When,
        /// Engine and queue.
        place: Place,
        /// Only writes of at least so many bytes.
        min: u32,
    },
}

/// Smallest transfer that counts as data unless a fault says otherwise: markers and semaphores have 4 bytes.
pub const DATA_BYTES: u32 = 5;

impl Fault {
    fn kind(&self) -> u32 {
        1 << match self {
            Self::ReadError { .. } => 0,
            Self::LateRoutingId { .. } => 1,
            Self::StuckReset => 2,
            Self::BusyReset { .. } => 3,
            Self::DroppedKick { .. } => 4,
            Self::Hang { .. } => 5,
            Self::Abort { .. } => 6,
            Self::FlipBit { .. } => 7,
        }
    }
}

const READ_ERROR: u32 = 1 << 0;
const LATE_ROUTING_ID: u32 = 1 << 1;
const STUCK_RESET: u32 = 1 << 2;
const BUSY_RESET: u32 = 1 << 3;
const KICK: u32 = 1 << 4 | HANG;
const HANG: u32 = 1 << 5;
const ABORT: u32 = 1 << 6;
const FLIP_BIT: u32 = 1 << 7;

/// Names a fault that was added to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FaultId(u64);

/// A fault in place and what it has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArmedFault {
    /// Its name.
    pub id: FaultId,
    /// The fault.
    pub fault: Fault,
    /// Events that matched so far.
    pub seen: u64,
    /// Times it struck.
    pub fired: u64,
}

/// The faults of one device.
#[derive(Debug, Default)]
pub struct Faults {
    armed: Mutex<Vec<ArmedFault>>,
    /// Kinds in `armed`, so that the common case, none, takes no lock.
    kinds: AtomicU32,
    next: AtomicU64,
    fired: AtomicU64,
}

impl Faults {
    pub(crate) fn new(plan: &FaultPlan) -> Self {
        let faults = Self::default();
        for &fault in &plan.faults {
            faults.add(fault);
        }
        faults
    }

    /// Adds a fault. Its events count from now.
    pub fn add(&self, fault: Fault) -> FaultId {
        let id = FaultId(self.next.fetch_add(1, Ordering::Relaxed));
        self.change(|armed| armed.push(ArmedFault { id, fault, seen: 0, fired: 0 }));
        id
    }

    /// Takes a fault away and tells what it did. What an engine did not execute meanwhile, it executes after
    /// the queue's next kick.
    pub fn remove(&self, id: FaultId) -> Option<ArmedFault> {
        self.change(|armed| {
            let at = armed.iter().position(|armed| armed.id == id)?;
            Some(armed.remove(at))
        })
    }

    /// Takes all faults away.
    pub fn clear(&self) {
        self.change(Vec::clear);
    }

    /// The faults in place, in the order they were added.
    #[must_use]
    pub fn list(&self) -> Vec<ArmedFault> {
        lock(&self.armed).clone()
    }

    /// Times any fault has struck since the device was made, removed ones included. A hang counts once, a
    /// late routing id and a busy reset once for every read they spoil.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<ArmedFault>) -> T) -> T {
        let mut armed = lock(&self.armed);
        let result = change(&mut armed);
        let kinds = armed.iter().fold(0, |kinds, armed| kinds | armed.fault.kind());
        self.kinds.store(kinds, Ordering::Release);
        result
    }

    /// Whether a fault of one of `kinds` is in place.
    #[inline]
    fn any(&self, kinds: u32) -> bool {
        self.kinds.load(Ordering::Acquire) & kinds != 0
    }

    /// Offers an event to the faults: `judge` sees each fault and the event's number, if it matches.
    fn strike(&self, judge: impl Fn(&Fault) -> Option<When>) -> bool {
        let mut struck = false;
        for armed in lock(&self.armed).iter_mut() {
            if let Some(when) = judge(&armed.fault) {
                armed.seen += 1;
                if when.strikes(armed.seen) {
                    armed.fired += 1;
                    self.fired.fetch_add(1, Ordering::Relaxed);
                    struck = true;
                }
            }
        }
        struck
    }

    /// A register is about to be read.
    pub(crate) fn read_fails(&self, bar_offset: u64, engine: Option<(u16, u32)>) -> bool {
        self.any(READ_ERROR)
            && self.strike(|fault| match *fault {
                Fault::ReadError { when, engine: wanted, offset } => {
                    let here = match (wanted, engine) {
                        (Some(wanted), Some((engine, within))) if wanted == engine => u64::from(within),
                        (Some(_), _) => return None,
                        (None, _) => bar_offset,
                    };
                    offset.is_none_or(|offset| offset == here).then_some(when)
                }
                _ => None,
            })
    }

    /// The routing id is about to be read.
    pub(crate) fn routing_id_is_late(&self) -> bool {
        self.any(LATE_ROUTING_ID)
            && self.strike(|fault| match *fault {
                Fault::LateRoutingId { reads } => Some(When { nth: 1, times: reads }),
                _ => None,
            })
    }

    /// A reset begins.
    pub(crate) fn reset_is_stuck(&self) -> bool {
        self.any(STUCK_RESET)
            && self.strike(|fault| matches!(fault, Fault::StuckReset).then_some(When { nth: 1, times: !0 }))
    }

    /// A reset has been done: reads of the status word that shall say busy.
    pub(crate) fn busy_reads(&self) -> u64 {
        if !self.any(BUSY_RESET) {
            return 0;
        }
        let mut most = 0;
        for armed in lock(&self.armed).iter_mut() {
            if let Fault::BusyReset { reads } = armed.fault {
                armed.seen += 1;
                armed.fired += reads;
                self.fired.fetch_add(reads, Ordering::Relaxed);
                most = most.max(reads);
            }
        }
        most
    }

    /// A kick arrives: is it dropped? Counts it for hangs too.
    pub(crate) fn kick_is_dropped(&self, engine: u16, queue: u8) -> bool {
        if !self.any(KICK) {
            return false;
        }
        self.strike(|fault| match *fault {
            Fault::Hang { nth, engine: wanted } if wanted.is_none_or(|wanted| wanted == engine) => {
                Some(When::nth(nth))
            }
            _ => None,
        });
        self.strike(|fault| match *fault {
            Fault::DroppedKick { when, place } if place.holds(engine, queue) => Some(when),
            _ => None,
        })
    }

    /// Whether the engine hangs.
    pub(crate) fn is_hung(&self, engine: u16) -> bool {
        self.any(HANG)
            && lock(&self.armed).iter().any(|armed| match armed.fault {
                Fault::Hang { nth, engine: wanted } => {
                    armed.seen >= nth && wanted.is_none_or(|wanted| wanted == engine)
                }
                _ => false,
            })
    }

    /// A TX descriptor of `len` bytes is about to be executed.
    #[inline]
    pub(crate) fn aborts(&self, engine: u16, queue: u8, len: u64) -> bool {
        self.any(ABORT)
            && self.strike(|fault| match *fault {
                Fault::Abort { when, place, min } if place.holds(engine, queue) && len >= min.into() => {
                    Some(when)
                }
                _ => None,
            })
    }

    /// `len` bytes have been written.
    #[inline]
    pub(crate) fn flips_bit(&self, engine: u16, queue: u8, len: u64) -> bool {
        self.any(FLIP_BIT)
            && self.strike(|fault| match *fault {
                Fault::FlipBit { when, place, min } if place.holds(engine, queue) && len >= min.into() => {
                    Some(when)
                }
                _ => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_its_events_and_counts_them() {
        let faults = Faults::default();
        let when = When { nth: 2, times: 2 };
        let id = faults.add(Fault::Abort { when, place: Place { engine: Some(3), queue: None }, min: 64 });
        assert!(!faults.aborts(4, 0, 64), "another engine");
        assert!(!faults.aborts(3, 0, 63), "too small");
        let struck: Vec<_> = (0..5).map(|queue| faults.aborts(3, queue, 64)).collect();
        assert_eq!(struck, [false, true, true, false, false]);
        let armed = faults.remove(id).unwrap();
        assert_eq!((armed.seen, armed.fired, faults.fired()), (5, 2, 2));
        assert!(faults.remove(id).is_none() && faults.list().is_empty());
    }

    #[test]
    fn a_hang_starts_at_its_kick_and_ends_when_removed() {
        let faults = Faults::default();
        let id = faults.add(Fault::Hang { nth: 2, engine: Some(33) });
        faults.kick_is_dropped(32, 0);
        faults.kick_is_dropped(33, 0);
        assert!(!faults.is_hung(33));
        faults.kick_is_dropped(33, 5);
        assert!(faults.is_hung(33) && !faults.is_hung(32));
        faults.kick_is_dropped(33, 5);
        assert_eq!(faults.fired(), 1);
        faults.remove(id);
        assert!(!faults.is_hung(33));
    }

    #[test]
    fn a_read_fault_can_name_an_engines_register() {
        let faults = Faults::default();
        faults.add(Fault::ReadError { when: When::nth(1), engine: Some(1), offset: Some(0x200) });
        assert!(!faults.read_fails(0x3000_0200, Some((0, 0x200))));
        assert!(!faults.read_fails(0x200, None));
        assert!(!faults.read_fails(0x3004_0204, Some((1, 0x204))));
        assert!(faults.read_fails(0x3004_0200, Some((1, 0x200))));
        assert!(!faults.read_fails(0x3004_0200, Some((1, 0x200))), "once");
    }
}
