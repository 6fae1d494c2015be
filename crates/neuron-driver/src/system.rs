//! The machine's devices, as drivers of one system know each other: who has which number,
//! what is mapped, which cores are taken. A device's own state is
//! [`Device`]'s.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use neuron_abi::errno::Errno;

use crate::device::Device;
use crate::mapping::Mappings;
use crate::marks::CoreMarks;

/// Devices of one machine. A device that was probed alone has one to itself.
#[derive(Default)]
pub struct System {
    /// Weak: the table finds devices, it does not hold them.
    devices: Mutex<BTreeMap<u8, Weak<Device>>>,
    mappings: Arc<Mappings>,
    marks: CoreMarks,
    files: AtomicU64,
}

impl System {
    fn devices(&self) -> MutexGuard<'_, BTreeMap<u8, Weak<Device>>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a device under its number.
    ///
    /// # Errors
    /// ENODEV if a living device has it (`spec/arch.md` 8).
    pub(crate) fn publish(&self, device: &Arc<Device>) -> Result<(), Errno> {
        let mut devices = self.devices();
        if devices.get(&device.index()).is_some_and(|other| other.strong_count() > 0) {
            return Err(Errno::ENODEV);
        }
        devices.insert(device.index(), Arc::downgrade(device));
        Ok(())
    }

    /// The device of a number, if it is up.
    pub fn device(&self, index: u8) -> Option<Arc<Device>> {
        self.devices().get(&index).and_then(Weak::upgrade)
    }

    /// All devices that are up, those next to `index` first: it itself, the one before, the
    /// one behind, then the others (`spec/dma-op.md` 9).
    pub(crate) fn devices_near(&self, index: u8) -> Vec<Arc<Device>> {
        let mut all: Vec<_> = self.devices().values().filter_map(Weak::upgrade).collect();
        let near = [Some(index), index.checked_sub(1), index.checked_add(1)];
        all.sort_by_key(|device| {
            near.iter().position(|number| *number == Some(device.index())).unwrap_or(near.len())
        });
        all
    }

    /// What processes have mapped.
    pub(crate) const fn mappings(&self) -> &Arc<Mappings> {
        &self.mappings
    }

    /// A number for an open file that no other one of the machine has.
    pub(crate) fn number_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    /// Which cores are taken.
    pub(crate) const fn marks(&self) -> &CoreMarks {
        &self.marks
    }
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("System").field("devices", &self.devices().keys()).finish_non_exhaustive()
    }
}
