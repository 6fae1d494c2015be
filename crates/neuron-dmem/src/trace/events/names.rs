//! Pieces of memory by address. An address is used again; a number never is.

use std::collections::HashMap;

use neuron_abi::memory::MemLocation;

/// Where a piece of memory is: device, side and physical address. The two sides have addresses of
/// their own.
pub(super) type At = (u8, MemLocation, u64);

/// The living pieces of memory.
#[derive(Debug, Default)]
pub(super) struct Names {
    last: u64,
    living: HashMap<At, u64>,
}

impl Names {
    /// A number for memory that was asked for, and is there if it was had.
    pub(super) fn give(&mut self, at: Option<At>) -> u64 {
        self.last += 1;
        if let Some(at) = at {
            self.living.insert(at, self.last);
        }
        self.last
    }

    /// The number of living memory.
    pub(super) fn of(&self, at: At) -> Option<u64> {
        self.living.get(&at).copied()
    }

    /// The number of memory whose address may be used again.
    pub(super) fn take(&mut self, at: At) -> Option<u64> {
        self.living.remove(&at)
    }
}
