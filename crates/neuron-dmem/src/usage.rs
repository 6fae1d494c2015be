//! The counters (`dma_mem_log_t`, `spec/dmem.md` 1.4): device bytes per HBM, and per core
//! and usage type with a total. Host memory moves none of them.

use neuron_abi::memory::UsageType;

/// HBMs that are counted.
pub const CHANNELS: usize = 4;
/// Cores that are counted.
pub const CORES: usize = 8;
/// Column of a core's grand total: rows have one entry more than there are usage types.
const TOTAL: usize = UsageType::COUNT;

/// Bytes in use by this process, as charged: sizes as asked for, not rounded to pages
/// (`spec/dmem.md` 9.7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    channels: [u64; CHANNELS],
    cores: [[u64; UsageType::COUNT + 1]; CORES],
}

/// What a device allocation is counted under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) channel: u32,
    pub(crate) core: u32,
    pub(crate) usage: UsageType,
}

impl Usage {
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

    pub(crate) fn allocated(&mut self, account: Account, bytes: u64) {
        self.each(account, |counter| *counter += bytes);
    }

    pub(crate) fn freed(&mut self, account: Account, bytes: u64) {
        self.each(account, |counter| *counter -= bytes);
    }

    fn each(&mut self, account: Account, change: impl Fn(&mut u64)) {
        if let Some(counter) = self.channels.get_mut(account.channel as usize) {
            change(counter);
        }
        let Some(row) = self.cores.get_mut(account.core as usize) else { return };
        for column in [account.usage.index(), TOTAL] {
            if let Some(counter) = row.get_mut(column) {
                change(counter);
            }
        }
    }
}
