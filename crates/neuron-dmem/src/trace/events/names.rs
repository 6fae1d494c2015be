//! Pieces of memory by address. An address is used again; a number never is.

use std::collections::HashMap;

/// The living pieces of memory.
#[derive(Debug, Default)]
pub(super) struct Names {
    last: u64,
    living: HashMap<(u8, u64), u64>,
}

impl Names {
    /// A number for memory of a device that was asked for, at this address if it was had.
    pub(super) fn give(&mut self, device: u8, pa: Option<u64>) -> u64 {
        self.last += 1;
        if let Some(pa) = pa {
            self.living.insert((device, pa), self.last);
        }
        self.last
    }

    /// The number of living memory.
    pub(super) fn of(&self, device: u8, pa: u64) -> Option<u64> {
        self.living.get(&(device, pa)).copied()
    }

    /// The number of memory whose address may be used again.
    pub(super) fn take(&mut self, device: u8, pa: u64) -> Option<u64> {
        self.living.remove(&(device, pa))
    }
}
