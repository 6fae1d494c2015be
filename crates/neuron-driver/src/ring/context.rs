//! Copies in progress on one ring (`spec/dma-op.md` 3). The ring's copy lock guards
//! them; a context in use belongs to the process that started it.

use neuron_abi::errno::Errno;

use super::context_queue::ContextQueue;
use super::transfer::Transfer;
use crate::pool::ChunkRef;

/// Contexts of a ring: synchronous, and two that take turns.
pub const CONTEXTS: usize = 3;

/// Which context, and so which marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Of a copy that is finished before its call returns.
    Sync = 0,
    /// First of the asynchronous pair.
    Async1 = 1,
    /// Second of the asynchronous pair.
    Async2 = 2,
}

impl Which {
    /// The context a wait names.
    ///
    /// # Errors
    /// EINVAL for anything but 1 and 2.
    pub const fn from_handle(handle: u32) -> Result<Self, Errno> {
        match handle {
            1 => Ok(Self::Async1),
            2 => Ok(Self::Async2),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Number that callers know it by.
    pub const fn handle(self) -> u32 {
        self as u32
    }
}

/// A batch on the ring whose marker has not been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// What it copies.
    pub transfer: Transfer,
    /// Descriptors to acknowledge, marker included.
    pub descriptors: u32,
    /// When it was started, microseconds.
    pub start: u64,
}

/// A copy that runs and was not waited for.
#[derive(Debug)]
pub struct Running {
    /// Process that started it.
    pub pid: i32,
    /// What was staged for it, to stage it again after a reset; `None` for a copy of nothing.
    pub staged: Option<Staged>,
    /// The ring was reset under it: its outcome is unknown for good.
    pub lost: bool,
    /// Both ends stay allocated until the engine is done with them.
    pub chunks: [ChunkRef; 2],
}

/// All that is in progress on a ring: the asynchronous contexts, and the zero-copy
/// transfers. The synchronous context is in use only inside a call, which holds the lock
/// throughout.
#[derive(Debug, Default)]
pub struct Contexts {
    running: [Option<Running>; 2],
    /// Zero-copy transfers.
    pub zero_copy: ContextQueue,
}

impl Contexts {
    const fn slot(&mut self, which: Which) -> Option<&mut Option<Running>> {
        let [first, second] = &mut self.running;
        match which {
            Which::Sync => None,
            Which::Async1 => Some(first),
            Which::Async2 => Some(second),
        }
    }

    /// The copy running in a context, if it is this process's.
    pub fn of(&mut self, which: Which, pid: i32) -> Option<&mut Running> {
        self.slot(which)?.as_mut().filter(|running| running.pid == pid)
    }

    /// Whether a context is in use by anybody.
    pub fn in_use(&mut self, which: Which) -> bool {
        self.slot(which).is_some_and(|slot| slot.is_some())
    }

    /// Puts a copy into a free context.
    pub fn start(&mut self, which: Which, running: Running) {
        if let Some(slot) = self.slot(which) {
            *slot = Some(running);
        }
    }

    /// Frees a context and returns what ran in it.
    pub fn release(&mut self, which: Which) -> Option<Running> {
        self.slot(which)?.take()
    }

    /// The ring was reset: everything that still runs is lost.
    pub fn lose_all(&mut self) {
        for running in self.running.iter_mut().flatten() {
            running.lost = true;
        }
        self.zero_copy.lose_all();
    }

    /// Copies that run beside `which`, and can be staged again: not those that are lost,
    /// which nobody would acknowledge.
    pub fn others(&mut self, which: Which) -> impl Iterator<Item = (Which, &mut Running)> {
        [Which::Async1, Which::Async2]
            .into_iter()
            .zip(&mut self.running)
            .filter(move |(other, _)| *other != which)
            .filter_map(|(other, slot)| Some((other, slot.as_mut().filter(|running| !running.lost)?)))
    }

    /// Contexts in use by a process.
    pub fn in_use_by(&mut self, pid: i32) -> Vec<Which> {
        [Which::Async1, Which::Async2].into_iter().filter(|which| self.of(*which, pid).is_some()).collect()
    }
}
