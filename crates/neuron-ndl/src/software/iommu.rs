//! Where a device finds the pages of processes: host addresses above the machine's memory,
//! at which a user buffer appears while it is pinned.
//!
//! A real kernel pins pages that have physical addresses already; here a buffer gets a run of
//! addresses, so its pages always lie side by side.

use std::sync::{Arc, Mutex, PoisonError};

use neuron_abi::arch::PAGE_SIZE;
use neuron_abi::errno::Errno;
use neuron_driver::user::PageRun;
use neuron_softdev::{Device, DmaMapping, DmaTable};
use vm_memory::MmapRegion;

use super::host;
use super::runs::Runs;

/// Addresses of user pages end here: below every generation's host tag.
const END: u64 = 1 << 43;

/// What one device reaches.
#[derive(Debug)]
pub(super) struct Iommu {
    device: Arc<Device>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: Runs,
    mappings: Vec<DmaMapping>,
}

impl Iommu {
    /// A device that reaches the machine's memory.
    pub(super) fn new(device: Arc<Device>, host: DmaMapping) -> Self {
        let free = Runs::new(host::END, END - host::END);
        let iommu = Self { device, state: Mutex::new(State { free, mappings: vec![host] }) };
        iommu.change(|_| ());
        iommu
    }

    /// Changes what the device reaches.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut state);
        // Runs that are given out do not overlap, so a table can be made of them.
        if let Ok(table) = DmaTable::new(state.mappings.iter().cloned()) {
            self.device.set_dma_table(table);
        }
        changed
    }

    /// Whether the device reaches a host address.
    #[cfg(test)]
    pub(super) fn reaches(&self, address: u64) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let holds =
            |mapping: &DmaMapping| (mapping.address..mapping.address + mapping.len).contains(&address);
        state.mappings.iter().any(holds)
    }

    /// Shows the device a region of whole pages.
    ///
    /// # Errors
    /// ENOMEM when no addresses are left.
    pub(super) fn map(self: &Arc<Self>, region: MmapRegion) -> Result<IommuMapping, Errno> {
        let region = Arc::new(region);
        let len = region.size() as u64;
        let address = self.change(|state| {
            let address = state.free.take(len)?;
            state.mappings.push(DmaMapping { address, len, region: Arc::clone(&region), offset: 0 });
            Some(address)
        });
        let address = address.ok_or(Errno::ENOMEM)?;
        Ok(IommuMapping { iommu: Arc::clone(self), address, region })
    }
}

/// A region that a device reaches until this is dropped.
#[derive(Debug)]
pub(super) struct IommuMapping {
    iommu: Arc<Iommu>,
    address: u64,
    region: Arc<MmapRegion>,
}

impl IommuMapping {
    /// The pages that hold bytes `[offset, offset + bytes)` of the region.
    pub(super) fn pages(&self, offset: u64, bytes: u64) -> PageRun {
        let first = offset / PAGE_SIZE;
        let pages = (offset + bytes).div_ceil(PAGE_SIZE) - first;
        PageRun { address: self.address + first * PAGE_SIZE, pages: pages as u32 }
    }
}

impl Drop for IommuMapping {
    /// Returns when no engine can reach the region any more: also not one that still goes by
    /// an older table, which every table's own reference to the region tells.
    fn drop(&mut self) {
        self.iommu.change(|state| state.mappings.retain(|mapping| mapping.address != self.address));
        while Arc::get_mut(&mut self.region).is_none() {
            std::thread::yield_now();
        }
        let mut state = self.iommu.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.free.give(self.address, self.region.size() as u64);
    }
}
