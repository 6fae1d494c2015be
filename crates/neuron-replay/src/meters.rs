//! Counters with peaks: what is in use by category, core, HBM and owner.

use neuron_abi::memory::{Aggregate, MemLocation};

use crate::ledger::Slot;
use crate::names::Symbol;

/// Cores of a device that are counted, as the driver counts (`spec/mempool.md` 8).
pub(crate) const CORES: u32 = 8;

/// Bytes now, and the most there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

impl Meter {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.now = self.now.saturating_add(bytes);
        self.peak = self.peak.max(self.now);
    }

    pub(crate) fn sub(&mut self, bytes: u64) {
        self.now = self.now.saturating_sub(bytes);
    }
}

/// All counters of a scenario but the HBMs'. Bytes as asked for.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(crate) device: Meter,
    pub(crate) host: Meter,
    pub(crate) categories: [Meter; Aggregate::COUNT],
    /// Of device d and core c at 8 d + c.
    pub(crate) cores: Vec<Meter>,
    /// By symbol.
    pub(crate) owners: Vec<Meter>,
}

impl Meters {
    pub(crate) fn new(devices: u8) -> Self {
        Self {
            device: Meter::default(),
            host: Meter::default(),
            categories: [Meter::default(); Aggregate::COUNT],
            cores: vec![Meter::default(); usize::from(devices) * CORES as usize],
            owners: Vec::new(),
        }
    }

    /// Moves what an allocation is counted by.
    pub(crate) fn each(&mut self, slot: &Slot, change: impl Fn(&mut Meter, u64)) {
        if slot.location == MemLocation::Host {
            change(&mut self.host, slot.size);
            return;
        }
        change(&mut self.device, slot.size);
        if let Some(meter) = self.categories.get_mut(slot.usage.aggregate().index()) {
            change(meter, slot.size);
        }
        if let Some(meter) =
            self.cores.get_mut(usize::from(slot.device) * CORES as usize + slot.core as usize)
        {
            change(meter, slot.size);
        }
        change(self.owner(slot.owner), slot.size);
    }

    fn owner(&mut self, owner: Symbol) -> &mut Meter {
        let owner = owner as usize;
        if self.owners.len() <= owner {
            self.owners.resize(owner + 1, Meter::default());
        }
        &mut self.owners[owner]
    }
}
