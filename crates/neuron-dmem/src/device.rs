//! A device as this layer sees it: the driver's door, and the process's counters for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::memory::MemLocation;
use neuron_ndl::Device;

use crate::dmem::Dmem;
use crate::owners::Owners;
use crate::report::{Action, Event};
use crate::transfer::Path;
use crate::usage::{CHANNELS, Usage};

/// A device to allocate on (`mla` with its `dmem_logger`).
#[derive(Debug)]
pub struct DeviceMemory {
    device: Arc<Device>,
    path: Path,
    usage: Mutex<Usage>,
    owners: Owners,
}

impl DeviceMemory {
    /// Counters at zero over an open device, with the runtime's default way to copy.
    pub fn new(device: Arc<Device>) -> Arc<Self> {
        Self::with_path(device, Path::Staged)
    }

    /// Counters at zero over an open device whose memory is copied this way.
    pub fn with_path(device: Arc<Device>, path: Path) -> Arc<Self> {
        Arc::new(Self { device, path, usage: Mutex::default(), owners: Owners::default() })
    }

    /// How device memory is copied.
    pub const fn path(&self) -> Path {
        self.path
    }

    /// The device.
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The counters now.
    pub fn usage(&self) -> Usage {
        self.counters().clone()
    }

    /// The allocators on it.
    pub(crate) const fn owners(&self) -> &Owners {
        &self.owners
    }

    /// What a report's event file lists: the allocations that live, by allocator and age.
    pub fn events(&self) -> Vec<Event> {
        let mut used = [0_u64; CHANNELS];
        let owners = self.owners.living();
        let living = owners.iter().flat_map(|owner| &owner.live);
        let event = |(index, dmem): (u64, &Dmem)| {
            let host = dmem.is_host();
            let channel = if host { None } else { used.get_mut(dmem.hbm() as usize) };
            Event {
                index,
                action: Action::Alloc,
                location: if host { MemLocation::Host } else { MemLocation::Device },
                usage: dmem.usage(),
                channel: dmem.hbm(),
                core: dmem.core(),
                size: dmem.size(),
                pa: dmem.pa(),
                align_offset: 0,
                total_mem_used: channel.map_or(0, |used| {
                    *used = used.saturating_add(dmem.size());
                    *used
                }),
                hint: dmem.hint().unwrap_or_default().to_owned(),
            }
        };
        (0..).zip(living).map(event).collect()
    }

    pub(crate) fn counters(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
