//! Counters of memory in use, as sysfs shows them (`spec/mempool.md` 8, `spec/sysfs.md` 3).

use neuron_abi::memory::{Category, MemLocation};

use crate::sync::atomic::{AtomicU64, Ordering};

/// Cores that allocations may name (`spec/mempool.md` 3), whatever the device has.
pub const CORES: usize = 8;
const CATEGORIES: usize = 20;

/// One counter directory: `total`, `present`, `peak`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Bytes in use.
    pub total: u64,
    /// Size of the last allocation or free.
    pub present: u64,
    /// Highest total.
    pub peak: u64,
}

impl Counter {
    const fn add(&mut self, size: u64) {
        self.total += size;
        self.present = size;
        if self.total > self.peak {
            self.peak = self.total;
        }
    }

    /// Saturates: a total that was cleared while memory lived must not wrap.
    const fn remove(&mut self, size: u64) {
        self.total = self.total.saturating_sub(size);
        self.present = size;
    }
}

/// A counter directory, by whose bytes it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterOf {
    /// Host memory of a category, of the whole device.
    Host(Category),
    /// Device memory of a core and category.
    Device(u32, Category),
    /// All memory of a core at a location.
    Core(u32, MemLocation),
}

/// One value of a counter directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterValue {
    /// Bytes in use.
    Total,
    /// Size of the last allocation or free.
    Present,
    /// Highest total.
    Peak,
}

/// All counters of one device.
#[derive(Debug, Default)]
pub struct Usage {
    host: [Counter; CATEGORIES],
    device: [[Counter; CATEGORIES]; CORES],
    core_host: [Counter; CORES],
    core_device: [Counter; CORES],
}

/// What an event is counted under.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// Host or device.
    pub location: MemLocation,
    /// As the caller gave it; above 19 it counts as unknown.
    pub category: u32,
    /// 0..=7.
    pub core: u32,
}

impl Account {
    /// The category it counts under: the contiguous scratchpad has the shared one's counter.
    pub const fn counted(self) -> u32 {
        match self.location {
            _ if self.category == Category::ContiguousScratchpadDevice as u32 => {
                Category::ScratchpadDevice as u32
            }
            _ if self.category < CATEGORIES as u32 => self.category,
            MemLocation::Device => Category::UnknownDevice as u32,
            _ => Category::UnknownHost as u32,
        }
    }
}

impl Usage {
    /// Counts an allocation.
    pub fn allocated(&mut self, account: Account, size: u64) {
        self.each(account, |counter| counter.add(size));
    }

    /// Counts a free.
    pub fn freed(&mut self, account: Account, size: u64) {
        self.each(account, |counter| counter.remove(size));
    }

    fn each(&mut self, account: Account, change: impl Fn(&mut Counter)) {
        let (core, category) = (account.core as usize, account.counted() as usize);
        let (totals, by_category) = match account.location {
            MemLocation::Device => (&mut self.core_device, self.device.get_mut(core)),
            _ => (&mut self.core_host, Some(&mut self.host)),
        };
        if let Some(counter) = by_category.and_then(|categories| categories.get_mut(category)) {
            change(counter);
        }
        if let Some(counter) = totals.get_mut(core) {
            change(counter);
        }
    }

    /// Sets one value of a counter to 0 (`spec/sysfs.md` 3). The others keep theirs.
    pub fn clear(&mut self, of: CounterOf, value: CounterValue) {
        let counter = match of {
            CounterOf::Host(category) => self.host.get_mut(category as usize),
            CounterOf::Device(core, category) => {
                let categories = self.device.get_mut(core as usize);
                categories.and_then(|categories| categories.get_mut(category as usize))
            }
            CounterOf::Core(core, MemLocation::Device) => self.core_device.get_mut(core as usize),
            CounterOf::Core(core, _) => self.core_host.get_mut(core as usize),
        };
        if let Some(counter) = counter {
            match value {
                CounterValue::Total => counter.total = 0,
                CounterValue::Present => counter.present = 0,
                CounterValue::Peak => counter.peak = 0,
            }
        }
    }

    /// Device-wide host memory of a category.
    pub fn host(&self, category: Category) -> Counter {
        self.host.get(category as usize).copied().unwrap_or_default()
    }

    /// Device memory of a category and core.
    pub fn device(&self, core: u32, category: Category) -> Counter {
        self.device
            .get(core as usize)
            .and_then(|categories| categories.get(category as usize))
            .copied()
            .unwrap_or_default()
    }

    /// (host, device) totals of a core.
    pub fn core(&self, core: u32) -> (Counter, Counter) {
        let one = |totals: &[Counter; CORES]| totals.get(core as usize).copied().unwrap_or_default();
        (one(&self.core_host), one(&self.core_device))
    }
}

/// Bytes a process holds, per location.
#[derive(Debug, Default)]
pub struct ProcessUsage {
    host: AtomicU64,
    device: AtomicU64,
}

impl ProcessUsage {
    fn of(&self, location: MemLocation) -> &AtomicU64 {
        match location {
            MemLocation::Device => &self.device,
            _ => &self.host,
        }
    }

    /// Charges an allocation to the process.
    pub fn add(&self, location: MemLocation, size: u64) {
        self.of(location).fetch_add(size, Ordering::Relaxed);
    }

    /// Takes a free off.
    pub fn remove(&self, location: MemLocation, size: u64) {
        self.of(location).fetch_sub(size, Ordering::Relaxed);
    }

    /// (host, device) bytes.
    pub fn bytes(&self) -> (u64, u64) {
        (self.host.load(Ordering::Relaxed), self.device.load(Ordering::Relaxed))
    }
}
