//! What lives in the trace: the same for every scenario. A living allocation has a slot; slots are
//! used again.

use std::collections::HashMap;

use neuron_abi::memory::{MemLocation, UsageType};

use crate::names::{Names, Symbol, cut};
use crate::numbers::ByNumber;
use crate::trace::{Alloc, Wrong};

/// Owners that are counted by name; those beyond are `(other)` (our choice).
const OWNERS: usize = 1 << 16;

/// Index of a slot that is none.
const END: u32 = u32::MAX;

/// A living allocation.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) id: u64,
    pub(crate) line: u64,
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) location: MemLocation,
    pub(crate) device: u8,
    pub(crate) hbm: u32,
    pub(crate) core: u32,
    pub(crate) usage: UsageType,
    pub(crate) owner: Symbol,
    /// The first bytes of its name.
    pub(crate) hint: Option<String>,
    pub(crate) pa: Option<u64>,
    pid: u64,
    /// Others of the process.
    before: u32,
    behind: u32,
    living: bool,
}

/// All living allocations.
#[derive(Debug)]
pub(crate) struct Ledger {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    by_id: HashMap<u64, u32, ByNumber>,
    /// The newest of each process.
    processes: HashMap<u64, u32>,
    pub(crate) owners: Names,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
            by_id: HashMap::default(),
            processes: HashMap::new(),
            owners: Names::new(OWNERS),
        }
    }
}

impl Ledger {
    /// A slot for what is allocated on this line.
    pub(crate) fn open(&mut self, line: u64, alloc: &Alloc<'_>) -> u32 {
        let &Alloc { id, size, align, location, device, hbm, core, usage, pa, pid, .. } = alloc;
        let owner = self.owners.number(alloc.owner.as_deref());
        let hint = alloc.hint.as_deref().map(cut);
        let index = self.vacant.pop().unwrap_or(self.slots.len() as u32);
        let behind = self.processes.insert(pid, index).unwrap_or(END);
        let slot = Slot {
            id,
            line,
            size,
            align,
            location,
            device,
            hbm,
            core,
            usage,
            owner,
            hint: hint.map(str::to_owned),
            pa,
            pid,
            before: END,
            behind,
            living: true,
        };
        if let Some(next) = self.slots.get_mut(behind as usize) {
            next.before = index;
        }
        match self.slots.get_mut(index as usize) {
            Some(vacant) => *vacant = slot,
            None => self.slots.push(slot),
        }
        self.by_id.insert(id, index);
        index
    }

    /// The slot of a living allocation.
    ///
    /// # Errors
    /// What is wrong with an id that none has.
    pub(crate) fn find(&self, id: u64) -> Result<u32, Wrong> {
        let wrong = || {
            let what = format!("id {id} is of nothing that lives: never allocated, refused, or freed before");
            Wrong::new("id", what)
        };
        self.by_id.get(&id).copied().ok_or_else(wrong)
    }

    pub(crate) fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index as usize)
    }

    /// The newest living allocation of a process.
    pub(crate) fn newest_of(&self, pid: u64) -> Option<u32> {
        self.processes.get(&pid).copied()
    }

    /// Forgets a living allocation.
    pub(crate) fn close(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        slot.living = false;
        let Slot { id, pid, before, behind, .. } = *slot;
        self.by_id.remove(&id);
        // Owners stay: they have peaks.
        if let Some(newer) = self.slots.get_mut(before as usize) {
            newer.behind = behind;
        }
        if let Some(older) = self.slots.get_mut(behind as usize) {
            older.before = before;
        }
        if before == END {
            match behind {
                END => drop(self.processes.remove(&pid)),
                older => drop(self.processes.insert(pid, older)),
            }
        }
        self.vacant.push(index);
    }

    /// What lives, with its slot.
    pub(crate) fn living(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.living)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, Format, Reader};

    fn ledger(allocations: &[(u64, u64)]) -> Ledger {
        let mut ledger = Ledger::default();
        for &(id, pid) in allocations {
            let text = format!(
                "{{\"v\":1}}\n{{\"event\":\"alloc\",\"id\":{id},\"size\":1,\"pid\":{pid},\"hint\":\"h{id}\"}}"
            );
            let mut reader = Reader::new(text.as_bytes(), Format::Native).unwrap();
            let Some(Event::Alloc(alloc)) = reader.next_event().unwrap() else { panic!("no allocation") };
            ledger.open(2, &alloc);
        }
        ledger
    }

    #[test]
    fn the_living_of_a_process_are_found_newest_first_whoever_goes_between() {
        let mut ledger = ledger(&[(1, 7), (2, 8), (3, 7), (4, 7), (5, 8)]);
        let middle = ledger.find(3).unwrap();
        ledger.close(middle);
        let mut seen = Vec::new();
        while let Some(index) = ledger.newest_of(7) {
            seen.push(ledger.slot(index).unwrap().id);
            ledger.close(index);
        }
        assert_eq!(seen, [4, 1]);
        assert_eq!(ledger.living().map(|(_, slot)| slot.id).collect::<Vec<_>>(), [2, 5]);
        assert!(ledger.find(3).unwrap_err().what.contains("id 3"));
    }

    #[test]
    fn a_slot_is_used_again_with_another_hint() {
        let mut ledger = ledger(&[(1, 0), (2, 0)]);
        let first = ledger.find(1).unwrap();
        ledger.close(first);
        let mut again = ledger;
        let text = "{\"v\":1}\n{\"event\":\"alloc\",\"id\":3,\"size\":1,\"hint\":\"new\"}";
        let mut reader = Reader::new(text.as_bytes(), Format::Native).unwrap();
        let Some(Event::Alloc(alloc)) = reader.next_event().unwrap() else { panic!("no allocation") };
        assert_eq!(again.open(2, &alloc), first);
        assert_eq!(again.slot(first).unwrap().hint.as_deref(), Some("new"));
    }
}
