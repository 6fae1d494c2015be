//! What processes have mapped, by address: how a dma-buf finds the memory behind a user
//! address (`spec/mempool.md` 7). Resolving a mapping is [`ioctl::mmap`](crate::ioctl::mmap)'s
//! business.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hw::DmaMemory;
use crate::pool::ChunkRef;
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Where mapped bytes are.
#[derive(Clone, Debug)]
pub enum Window {
    /// Host memory.
    Host(DmaMemory),
    /// Registers and on-chip memory, through BAR0.
    Bar0 {
        /// Offset in the BAR, bytes.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Device memory, through BAR4.
    Bar4 {
        /// Offset in the BAR, bytes.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
}

impl Window {
    /// Bytes.
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::Host(memory) => memory.len() as u64,
            Self::Bar0 { bytes, .. } | Self::Bar4 { bytes, .. } => *bytes,
        }
    }

    /// Part of it; `None` if it reaches outside.
    #[must_use]
    pub fn part(&self, start: u64, len: u64) -> Option<Self> {
        if start.checked_add(len)? > self.bytes() {
            return None;
        }
        Some(match self {
            Self::Host(memory) => {
                Self::Host(memory.part(usize::try_from(start).ok()?, usize::try_from(len).ok()?)?)
            }
            Self::Bar0 { offset, .. } => Self::Bar0 { offset: offset + start, bytes: len },
            Self::Bar4 { offset, .. } => Self::Bar4 { offset: offset + start, bytes: len },
        })
    }
}

/// One mapping of a process.
#[derive(Clone, Debug)]
pub(crate) struct MappedRange {
    /// What it shows.
    pub(crate) window: Window,
    /// Whether its process may write.
    pub(crate) writable: bool,
    /// What keeps the memory, if a chunk is behind it.
    pub(crate) chunk: Option<ChunkRef>,
    /// Device it is of.
    pub(crate) device: u8,
    /// Tells it from a later one at the same address.
    id: u64,
}

/// All mappings of attached processes, on any device of the machine.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By process and first user address.
    records: BTreeMap<(i32, u64), MappedRange>,
    last_id: u64,
}

impl Mappings {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a mapping down until the record is dropped, or its process is done with the
    /// device. One that is already at the address has been replaced.
    pub(crate) fn record(
        self: &Arc<Self>,
        pid: i32,
        va: u64,
        device: u8,
        window: Window,
        writable: bool,
        chunk: Option<ChunkRef>,
    ) -> Record {
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        let replaced = state.records.insert((pid, va), MappedRange { window, writable, chunk, device, id });
        drop(state);
        drop(replaced);
        Record { mappings: Arc::clone(self), key: (pid, va), id }
    }

    /// The process's mapping that holds a user address, and the address's offset in it.
    pub(crate) fn at(&self, pid: i32, va: u64) -> Option<(MappedRange, u64)> {
        let state = self.state();
        let (&(_, start), mapped) = state.records.range((pid, 0)..=(pid, va)).next_back()?;
        let offset = va - start;
        (offset < mapped.window.bytes()).then(|| (mapped.clone(), offset))
    }

    /// Drops a process's records of a device. What is mapped stays mapped.
    pub(crate) fn forget(&self, pid: i32, device: u8) {
        let mut state = self.state();
        let own = state.records.range((pid, 0)..=(pid, u64::MAX));
        let keys: Vec<_> = own.filter(|(_, mapped)| mapped.device == device).map(|(key, _)| *key).collect();
        let gone: Vec<_> = keys.iter().filter_map(|key| state.records.remove(key)).collect();
        drop(state);
        drop(gone);
    }
}

/// A mapping's entry; dropping it is the unmapping of the whole.
#[derive(Debug)]
pub(crate) struct Record {
    mappings: Arc<Mappings>,
    key: (i32, u64),
    id: u64,
}

impl Drop for Record {
    fn drop(&mut self) {
        let mut state = self.mappings.state();
        let own = state.records.get(&self.key).is_some_and(|mapped| mapped.id == self.id);
        let gone = if own { state.records.remove(&self.key) } else { None };
        drop(state);
        // May hold the last reference to a chunk: not under the lock.
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar4(offset: u64, bytes: u64) -> Window {
        Window::Bar4 { offset, bytes }
    }

    #[test]
    fn an_address_is_found_in_its_own_process_only_and_until_it_is_unmapped() {
        let mappings = Arc::new(Mappings::default());
        let record = |pid, va, bytes| mappings.record(pid, va, 0, bar4(0, bytes), true, None);
        let (first, _second) = (record(1, 0x1000, 0x2000), record(2, 0x2000, 0x1000));
        let found = |pid, va| mappings.at(pid, va).map(|(_, offset)| offset);
        assert_eq!((found(1, 0x2fff), found(1, 0x3000), found(1, 0xfff)), (Some(0x1fff), None, None));
        assert_eq!((found(2, 0x2000), found(2, 0x1000), found(3, 0x1000)), (Some(0), None, None));
        drop(first);
        assert_eq!((found(1, 0x1000), found(2, 0x2000)), (None, Some(0)));
    }

    #[test]
    fn an_old_record_does_not_take_its_successor_away() {
        let mappings = Arc::new(Mappings::default());
        let old = mappings.record(1, 0x1000, 0, bar4(0, 0x1000), true, None);
        let new = mappings.record(1, 0x1000, 0, bar4(0x1000, 0x1000), true, None);
        drop(old);
        assert!(mappings.at(1, 0x1000).is_some());
        mappings.forget(1, 5);
        assert!(mappings.at(1, 0x1000).is_some(), "another device's");
        mappings.forget(1, 0);
        assert!(mappings.at(1, 0x1000).is_none());
        drop(new);
    }

    #[test]
    fn parts_of_a_window_stay_inside() {
        assert!(matches!(
            bar4(0x1000, 0x3000).part(0x1000, 0x2000),
            Some(Window::Bar4 { offset: 0x2000, bytes: 0x2000 })
        ));
        assert!(bar4(0, 0x1000).part(0x800, 0x801).is_none());
        assert!(bar4(0, 0x1000).part(u64::MAX, 2).is_none());
    }
}
