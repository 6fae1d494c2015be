//! The 16 slots of processes that are attached to a device (`spec/driver.md` 7.3).

use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_abi::limits::MAX_PROCESSES;

use crate::pool::ProcessUsage;
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Process slots of a device.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Held while a file is opened or closed, with all that its close ends: so of two files
    /// that are closed at once one is the last, and an open waits for a close.
    node: Mutex<()>,
    slots: Mutex<[Option<Slot>; MAX_PROCESSES]>,
}

#[derive(Debug)]
struct Slot {
    pid: i32,
    open_files: u32,
    usage: Arc<ProcessUsage>,
}

impl Slots {
    fn slots(&self) -> MutexGuard<'_, [Option<Slot>; MAX_PROCESSES]> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the node lock (`spec/driver.md` 8).
    pub(crate) fn node(&self) -> MutexGuard<'_, ()> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot, or another file on the process's own.
    pub(crate) fn attach(&self, pid: i32) -> Result<(), Errno> {
        let mut slots = self.slots();
        if let Some(slot) = slots.iter_mut().flatten().find(|slot| slot.pid == pid) {
            slot.open_files += 1;
            return Ok(());
        }
        let free = slots.iter_mut().find(|slot| slot.is_none()).ok_or(Errno::EBUSY)?;
        *free = Some(Slot { pid, open_files: 1, usage: Arc::default() });
        Ok(())
    }

    /// Takes one file off; with the last one the slot is free.
    pub(crate) fn detach(&self, pid: i32) {
        let mut slots = self.slots();
        let own = slots.iter_mut().find(|slot| slot.as_ref().is_some_and(|slot| slot.pid == pid));
        match own {
            Some(Some(slot)) if slot.open_files > 1 => slot.open_files -= 1,
            Some(slot) => *slot = None,
            None => {}
        }
    }

    /// Whether the process has exactly one file open.
    pub(crate) fn is_last_file(&self, pid: i32) -> bool {
        self.slots().iter().flatten().any(|slot| slot.pid == pid && slot.open_files == 1)
    }

    /// Whether no process is attached.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots().iter().all(Option::is_none)
    }

    /// Where the process's bytes are counted, if it is attached.
    pub(crate) fn usage(&self, pid: i32) -> Option<Arc<ProcessUsage>> {
        self.slots().iter().flatten().find(|slot| slot.pid == pid).map(|slot| Arc::clone(&slot.usage))
    }

    /// (pid, host bytes, device bytes) of the attached processes, by slot.
    pub(crate) fn all(&self) -> Vec<(i32, u64, u64)> {
        let slots = self.slots();
        slots
            .iter()
            .flatten()
            .map(|slot| {
                let (host, device) = slot.usage.bytes();
                (slot.pid, host, device)
            })
            .collect()
    }

    /// Process of the first slot, 0 if it is free.
    pub(crate) fn first(&self) -> i32 {
        self.slots().first().and_then(Option::as_ref).map_or(0, |slot| slot.pid)
    }
}
