//! The engines of a machine, as one thread: told by doorbells, it reads descriptors from ring
//! memory, moves the bytes in two steps, and goes to the next. Others run in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_udma::descriptor::{DecodedRx, DecodedTx};
use neuron_udma::regs::{Direction, queue};
use neuron_udma::{GUARD_GAP, cursor::INITIAL_RING_ID};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::mpsc::Receiver;
use shuttle::thread;

use crate::memory::Memory;

/// What the engines and the driver's side of the machine share.
///
/// The lock is the standard library's and never held where the scheduler may change threads:
/// each thing the hardware does is one step.
pub(crate) struct Shared {
    state: Mutex<State>,
    host_base: u64,
}

pub(crate) struct State {
    pub(crate) memory: Memory,
    queues: BTreeMap<(u32, u32), Pair>,
    /// Descriptors that are moved before the engines hang; `None` if they do not.
    left: Option<u32>,
}

#[derive(Default)]
struct Pair {
    tx: Half,
    rx: Half,
    /// Counts what makes the engine forget what it was doing.
    epoch: u64,
}

/// One direction of a queue.
#[derive(Clone, Copy, Default)]
struct Half {
    base: u64,
    length: u32,
    head: u32,
    ring_id: u8,
    /// Descriptors that the doorbell told of.
    pending: u32,
    enabled: bool,
}

impl Half {
    const fn reset(&mut self) {
        (self.head, self.ring_id, self.pending) = (0, INITIAL_RING_ID, 0);
    }

    const fn retire(&mut self) {
        self.pending -= 1;
        self.head = (self.head + 1) % self.length;
        if self.head == 0 {
            self.ring_id = (self.ring_id + 1) & 3;
        }
    }
}

/// A descriptor pair that is being moved.
struct Work {
    place: (u32, u32),
    epoch: u64,
    source: u64,
    destination: u64,
    bytes: usize,
}

impl Shared {
    pub(crate) fn new(host_base: u64) -> Self {
        let state = State { memory: Memory::new(), queues: BTreeMap::new(), left: None };
        Self { state: Mutex::new(state), host_base }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetch(&self) -> Option<Work> {
        let mut state = self.state();
        let ready = |(_, pair): &(&(u32, u32), &Pair)| {
            pair.tx.enabled && pair.rx.enabled && pair.tx.pending > 0 && pair.rx.pending > 0
        };
        let places: Vec<_> = state.queues.iter().filter(ready).map(|(place, _)| *place).collect();
        if places.is_empty() || state.left == Some(0) {
            return None;
        }
        let place = places[if places.len() > 1 { thread_rng().gen_range(0..places.len()) } else { 0 }];
        if let Some(left) = &mut state.left {
            *left -= 1;
        }
        let pair = &state.queues[&place];
        let address = |half: &Half| half.base & !self.host_base;
        let tx = DecodedTx::from(&state.memory.descriptor(address(&pair.tx), pair.tx.head));
        let rx = DecodedRx::from(&state.memory.descriptor(address(&pair.rx), pair.rx.head));
        assert_eq!(
            (tx.ring_id, rx.ring_id),
            (pair.tx.ring_id, pair.rx.ring_id),
            "a stale descriptor on {place:?}"
        );
        assert_eq!(tx.bytes, rx.bytes, "both halves of a pair are of one copy");
        Some(Work {
            place,
            epoch: pair.epoch,
            source: tx.source & !self.host_base,
            destination: rx.destination & !self.host_base,
            bytes: tx.bytes as usize,
        })
    }

    /// Does `step` unless the queue was reset meanwhile: then nothing is written any more.
    fn step(&self, work: &Work, step: impl FnOnce(&mut State)) {
        let mut state = self.state();
        if state.queues.get(&work.place).is_some_and(|pair| pair.epoch == work.epoch) {
            step(&mut state);
        }
    }

    fn carry_out(&self, work: &Work) {
        // A word lands at once; of anything longer a part may be seen.
        let first = if work.bytes == 4 { 4 } else { work.bytes / 2 };
        let part = |from: usize, to: usize| {
            self.step(work, |state| {
                state.memory.copy(work.source + from as u64, work.destination + from as u64, to - from);
            });
        };
        part(0, first);
        if first < work.bytes {
            thread::yield_now();
            part(first, work.bytes);
        }
        self.step(work, |state| {
            if let Some(pair) = state.queues.get_mut(&work.place) {
                pair.tx.retire();
                pair.rx.retire();
            }
        });
    }

    /// Until nobody can ring any more.
    pub(crate) fn run(self: Arc<Self>, bells: Receiver<()>) {
        while bells.recv().is_ok() {
            while let Some(work) = self.fetch() {
                thread::yield_now();
                self.carry_out(&work);
            }
        }
    }
}

impl State {
    /// The engines hang after so many more descriptors, or work.
    pub(crate) const fn hang_after(&mut self, descriptors: Option<u32>) {
        self.left = descriptors;
    }

    /// What was on the queues of an engine is dropped.
    pub(crate) fn reset_engine(&mut self, engine: u32) {
        for pair in self.queues.range_mut((engine, 0)..(engine + 1, 0)).map(|(_, pair)| pair) {
            pair.epoch += 1;
            pair.tx.reset();
            pair.rx.reset();
        }
    }

    /// A write to a queue's block. Whether it set something going.
    pub(crate) fn write(
        &mut self,
        place: (u32, u32),
        direction: Direction,
        register: u64,
        value: u32,
    ) -> bool {
        let pair = self.queues.entry(place).or_default();
        let half = match direction {
            Direction::Tx => &mut pair.tx,
            Direction::Rx => &mut pair.rx,
        };
        match register {
            queue::CFG => {
                half.enabled = value & queue::CFG_ENABLE == queue::CFG_ENABLE;
                return half.enabled;
            }
            queue::DRBP_LOW => half.base = half.base & !0xffff_ffff | u64::from(value),
            queue::DRBP_HIGH => half.base = half.base & 0xffff_ffff | u64::from(value) << 32,
            queue::DRL => half.length = value & queue::INDEX,
            queue::DRTP_INC => {
                half.pending += value & queue::INDEX;
                assert!(half.pending + GUARD_GAP <= half.length, "{place:?} is rung for more than it holds");
                return direction == Direction::Tx;
            }
            register if register == direction.q_sw_ctrl() && value & queue::RESET != 0 => {
                half.reset();
                pair.epoch += 1;
            }
            _ => {}
        }
        false
    }

    /// A read of a queue's block.
    pub(crate) fn read(&self, place: (u32, u32), direction: Direction, register: u64) -> u32 {
        let Some(pair) = self.queues.get(&place) else { return 0 };
        let half = match direction {
            Direction::Tx => pair.tx,
            Direction::Rx => pair.rx,
        };
        match register {
            queue::DRBP_LOW => half.base as u32,
            queue::DRBP_HIGH => (half.base >> 32) as u32,
            queue::DRL => half.length,
            queue::DRHP => half.head,
            queue::DRTP => half.head.wrapping_add(half.pending) % half.length.max(1),
            _ => 0,
        }
    }
}
