//! Free runs of an address range, given out lowest address first.

use std::collections::BTreeMap;

/// Free runs by address.
#[derive(Debug)]
pub(super) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// `bytes` from `start` on, all free.
    pub(super) fn new(start: u64, bytes: u64) -> Self {
        Self(BTreeMap::from([(start, bytes)]))
    }

    /// Takes `bytes` of the lowest run that has them.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&at, &len) = self.0.iter().find(|(_, len)| **len >= bytes)?;
        self.0.remove(&at);
        if len > bytes {
            self.0.insert(at + bytes, len - bytes);
        }
        Some(at)
    }

    /// Gives a run back, which joins its neighbours.
    pub(super) fn give(&mut self, mut at: u64, mut bytes: u64) {
        if let Some((&before, &before_bytes)) = self.0.range(..at).next_back()
            && before + before_bytes == at
        {
            self.0.remove(&before);
            (at, bytes) = (before, before_bytes + bytes);
        }
        if let Some(after) = self.0.remove(&(at + bytes)) {
            bytes += after;
        }
        self.0.insert(at, bytes);
    }

    /// Bytes that are free.
    pub(super) fn bytes(&self) -> u64 {
        self.0.values().sum()
    }
}
