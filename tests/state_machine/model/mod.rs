//! A naive model of one device and its processes: what the sheets promise, without the
//! driver's locks, references and variants. Lists are searched, nothing is shared.
//!
//! | module | what lives there |
//! |---|---|
//! | `memory` | chunks, handles, placement, bytes |
//! | `queues` | who has which queue, rings, running copies |

pub(crate) mod memory;
pub(crate) mod queues;

use std::collections::BTreeMap;

use neuron_driver::arch::Arch;

use memory::Memory;
use queues::{Queues, Running};

const EACCES: i64 = -13;
const EBUSY: i64 = -16;
const EINVAL: i64 = -22;
const ETIMEDOUT: i64 = -110;
/// Processes that can be attached.
const SLOTS: usize = 16;
/// Bytes of an asynchronous copy at most.
const BATCH_BYTES: u64 = 2032 * 65536;

/// What goes wrong with the copy at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its doorbell goes unnoticed.
    DroppedKick,
    /// The engine does nothing any more, until the copy was given up.
    Hang,
}

/// Ends of a copy that are already known to be good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) chunks: [u64; 2],
    pub(crate) source: u64,
    pub(crate) destination: u64,
    pub(crate) bytes: u64,
}

pub(crate) struct Model {
    pub(crate) arch: &'static Arch,
    pub(crate) memory: Memory,
    pub(crate) queues: Queues,
    /// Open files of each attached process.
    pub(crate) attached: BTreeMap<i32, u32>,
    /// Outcomes of resets that nobody has collected.
    pub(crate) outcomes: BTreeMap<i32, bool>,
    /// When the last reset ended.
    pub(crate) reset_end: Option<u64>,
}

impl Model {
    pub(crate) fn new(arch: &'static Arch) -> Self {
        Self {
            arch,
            memory: Memory::new(arch.geometry()),
            queues: Queues::new(arch),
            attached: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            reset_end: None,
        }
    }

    /// What opening should answer.
    pub(crate) fn open(&mut self, pid: i32) -> i64 {
        if self.attached.len() == SLOTS && !self.attached.contains_key(&pid) {
            return EBUSY;
        }
        *self.attached.entry(pid).or_default() += 1;
        0
    }

    /// A file of an attached process closes; with its last one it ends.
    pub(crate) fn close(&mut self, pid: i32) {
        let files = self.attached.get_mut(&pid).unwrap();
        *files -= 1;
        if *files > 0 {
            return;
        }
        for id in self.queues.exit(pid) {
            self.memory.let_go(id);
        }
        self.memory.sweep(pid);
        self.outcomes.remove(&pid);
        self.attached.remove(&pid);
    }

    /// Why a process may not make a call that needs a slot.
    pub(crate) fn gate(&self, pid: i32) -> Result<(), i64> {
        if self.attached.contains_key(&pid) { Ok(()) } else { Err(EACCES) }
    }

    /// Both ends of a copy, source first.
    pub(crate) fn ends(&self, handles: [u64; 2], offsets: [u64; 2], bytes: u64) -> Result<Ends, i64> {
        let source = self.memory.part(handles[0], offsets[0], bytes)?;
        let destination = self.memory.part(handles[1], offsets[1], bytes)?;
        Ok(Ends {
            chunks: [source.id, destination.id],
            source: source.pa + offsets[0],
            destination: destination.pa + offsets[1],
            bytes,
        })
    }

    /// The core of a pair: `first` decides if it is on the device, else the other one does.
    fn core(&self, first: u64, other: u64) -> u32 {
        let [first, other] = [first, other].map(|id| self.memory.chunk(id).wanted);
        if first.host { other.core } else { first.core }
    }

    /// The core whose ring a synchronous copy is on.
    pub(crate) fn sync_core(&self, [source, destination]: [u64; 2]) -> u32 {
        let both_host = [source, destination].iter().all(|id| self.memory.chunk(*id).wanted.host);
        if both_host { self.memory.chunk(destination).wanted.core } else { self.core(destination, source) }
    }

    /// The core whose ring an asynchronous copy, and a wait for it, is on.
    pub(crate) fn async_core(&self, [source, destination]: [u64; 2]) -> u32 {
        self.core(source, destination)
    }

    /// A copy that is done when its call returns, on the ring of a core.
    pub(crate) fn copy(&mut self, core: u32, ends: &Ends, trouble: Option<Trouble>, now: u64) -> i64 {
        let ring = match self.queues.copy_ring(core) {
            Ok(ring) => ring,
            Err(errno) => return errno,
        };
        if ends.bytes == 0 {
            return 0;
        }
        if !self.recovers(trouble, now) {
            self.memory.spoil(ends.destination, ends.bytes);
            self.lose(ring);
            return ETIMEDOUT;
        }
        self.memory.copy(ends.source, ends.destination, ends.bytes);
        if trouble.is_some() {
            self.again(ring);
        }
        0
    }

    /// Starts a copy after `previous`. Returns what the call should answer, and the handle.
    pub(crate) fn copy_async(&mut self, ends: &Ends, previous: u32, pid: i32) -> (i64, u32) {
        let core = self.async_core(ends.chunks);
        let (index, waited) = match previous {
            u32::MAX => (0, None),
            0 => return (self.copy(core, ends, None, 0), 0),
            1 => (1, Some(0)),
            2 => (0, Some(1)),
            _ => return (EINVAL, 0),
        };
        let ring = match self.queues.copy_ring(core) {
            Ok(ring) => ring,
            Err(errno) => return (errno, 0),
        };
        let running = self.queues.running_mut(ring);
        if waited.is_some_and(|waited: usize| running[waited].is_none_or(|running| running.pid != pid))
            || ends.bytes > BATCH_BYTES
        {
            return (EINVAL, 0);
        }
        if running[index].is_some() {
            return (EBUSY, 0);
        }
        let Ends { chunks, source, destination, bytes } = *ends;
        running[index] = Some(Running { pid, chunks, source, destination, bytes, lost: false });
        chunks.into_iter().for_each(|id| self.memory.hold(id));
        if bytes > 0 {
            self.memory.copy(source, destination, bytes);
        }
        match waited.map_or(0, |waited| self.finish(ring, waited)) {
            0 => (0, index as u32 + 1),
            errno => {
                self.finish(ring, index);
                (errno, 0)
            }
        }
    }

    /// Waits for a copy that `trouble` struck when it was started.
    pub(crate) fn wait(
        &mut self,
        chunks: [u64; 2],
        handle: u32,
        pid: i32,
        trouble: Option<Trouble>,
        started: u64,
    ) -> i64 {
        if !matches!(handle, 1 | 2) {
            return EINVAL;
        }
        let ring = match self.queues.copy_ring(self.async_core(chunks)) {
            Ok(ring) => ring,
            Err(errno) => return errno,
        };
        let index = handle as usize - 1;
        match self.queues.running_mut(ring)[index] {
            Some(running) if running.pid == pid => {
                let late = trouble.is_some() && running.bytes > 0;
                let answer = self.finish(ring, index);
                match late {
                    true if self.recovers(trouble, started) => self.again(ring),
                    true => {
                        self.memory.spoil(running.destination, running.bytes);
                        self.lose(ring);
                        return ETIMEDOUT;
                    }
                    false => {}
                }
                answer
            }
            _ => EINVAL,
        }
    }

    fn finish(&mut self, ring: (u32, u32), index: usize) -> i64 {
        let Some(running) = self.queues.running_mut(ring)[index].take() else { return EINVAL };
        running.chunks.into_iter().for_each(|id| self.memory.let_go(id));
        if running.lost { ETIMEDOUT } else { 0 }
    }

    /// Whether a copy that was started at `now` gets there: nothing is wrong with it, or its
    /// doorbell was lost where a reset may have swallowed it, and is rung again.
    fn recovers(&self, trouble: Option<Trouble>, now: u64) -> bool {
        let in_window = self.arch.retries_in_reset_window && self.reset_end.is_some_and(|end| now <= end);
        match trouble {
            None => true,
            Some(Trouble::DroppedKick) => in_window,
            Some(Trouble::Hang) => false,
        }
    }

    /// The ring was programmed anew: what ran on it is lost.
    fn lose(&mut self, ring: (u32, u32)) {
        self.queues.running_mut(ring).iter_mut().flatten().for_each(|running| running.lost = true);
    }

    /// The ring was programmed anew, and what ran beside the copy at hand was started again.
    fn again(&mut self, ring: (u32, u32)) {
        for running in self.queues.running(ring.0, ring.1).into_iter().flatten() {
            if running.bytes > 0 && !running.lost {
                self.memory.copy(running.source, running.destination, running.bytes);
            }
        }
    }

    /// What asking for a reset should answer. `succeeds` tells whether the firmware plays
    /// along, `end` when it will have.
    pub(crate) fn reset(&mut self, pid: i32, map: u32, succeeds: bool) -> i64 {
        if self.outcomes.contains_key(&pid) {
            return EBUSY;
        }
        let mut freed = self.queues.close(map);
        if succeeds {
            freed.extend(self.queues.bring_up(map));
        }
        freed.into_iter().for_each(|id| self.memory.let_go(id));
        self.outcomes.insert(pid, succeeds);
        0
    }
}
