//! What is in use, as plain numbers: a view of the counters that the
//! [usage log](crate::log) keeps. Device bytes per HBM, and per core and usage type with a
//! total. Host memory is in none of them.

use neuron_abi::memory::UsageType;

use crate::log::{CHANNELS, CORES, channel, of_core};

/// Column of a core's grand total: rows have one entry more than there are usage types.
const TOTAL: usize = UsageType::COUNT;

/// Bytes in use by this process, as charged: sizes as asked for, not rounded to pages
/// (`spec/dmem.md` 9.7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    channels: [u64; CHANNELS],
    cores: [[u64; UsageType::COUNT + 1]; CORES],
}

impl Usage {
    /// From the log's counters, asked for by number.
    pub(crate) fn from_counters(counter: impl Fn(Option<usize>) -> u64) -> Self {
        Self {
            channels: std::array::from_fn(|hbm| counter(channel(hbm as u32))),
            cores: std::array::from_fn(|core| {
                std::array::from_fn(|column| counter(of_core(core as u32, column)))
            }),
        }
    }

    /// Bytes on an HBM.
    pub fn channel(&self, hbm: u32) -> u64 {
        self.channels.get(hbm as usize).copied().unwrap_or(0)
    }

    /// Bytes of a core and usage type.
    pub fn core_usage(&self, core: u32, usage: UsageType) -> u64 {
        self.cores.get(core as usize).and_then(|row| row.get(usage.index())).copied().unwrap_or(0)
    }

    /// All bytes of a core.
    pub fn core_total(&self, core: u32) -> u64 {
        self.cores.get(core as usize).and_then(|row| row.get(TOTAL)).copied().unwrap_or(0)
    }
}
