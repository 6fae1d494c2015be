//! The machine's devices, as drivers of one system know each other: who has which number,
//! what is mapped, which cores are taken.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use neuron_abi::errno::Errno;

use crate::mapping::Mappings;
use crate::marks::CoreMarks;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Devices of one machine. A device that was probed alone has one to itself.
pub struct Registry<D> {
    /// Weak: the table finds devices, it does not hold them.
    devices: Mutex<BTreeMap<u8, Weak<D>>>,
    mappings: Arc<Mappings>,
    marks: CoreMarks,
    files: AtomicU64,
    notify: AtomicBool,
}

impl<D> Default for Registry<D> {
    fn default() -> Self {
        Self {
            devices: Mutex::default(),
            mappings: Arc::default(),
            marks: CoreMarks::default(),
            files: AtomicU64::default(),
            notify: AtomicBool::default(),
        }
    }
}

impl<D> Registry<D> {
    fn devices(&self) -> MutexGuard<'_, BTreeMap<u8, Weak<D>>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a device under its number.
    ///
    /// # Errors
    /// ENODEV if a living device has it (`spec/arch.md` 8).
    pub(crate) fn publish(&self, index: u8, device: &Arc<D>) -> Result<(), Errno> {
        let mut devices = self.devices();
        if devices.get(&index).is_some_and(|other| other.strong_count() > 0) {
            return Err(Errno::ENODEV);
        }
        devices.insert(index, Arc::downgrade(device));
        Ok(())
    }

    /// The device of a number, if it is up.
    pub fn device(&self, index: u8) -> Option<Arc<D>> {
        self.devices().get(&index).and_then(Weak::upgrade)
    }

    /// All devices that are up, those next to `index` first: it itself, the one before, the
    /// one behind, then the others (`spec/dma-op.md` 9).
    pub(crate) fn devices_near(&self, index: u8) -> Vec<Arc<D>> {
        let near = [Some(index), index.checked_sub(1), index.checked_add(1)];
        let place = |number: u8| near.iter().position(|near| *near == Some(number)).unwrap_or(near.len());
        let mut all: Vec<_> =
            self.devices().iter().filter_map(|(&number, device)| Some((number, device.upgrade()?))).collect();
        all.sort_by_key(|&(number, _)| place(number));
        all.into_iter().map(|(_, device)| device).collect()
    }

    /// What processes have mapped.
    pub(crate) const fn mappings(&self) -> &Arc<Mappings> {
        &self.mappings
    }

    /// A number for an open file that no other one of the machine has.
    pub(crate) fn number_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether counters that change tell who polls their files: `info/notify_delay`, one value
    /// for all devices (`spec/sysfs.md` 2). Nothing polls this tree, so it is only kept.
    pub(crate) fn notify(&self) -> bool {
        self.notify.load(Ordering::Relaxed)
    }

    /// Sets [`notify`](Self::notify).
    pub(crate) fn set_notify(&self, on: bool) {
        self.notify.store(on, Ordering::Relaxed);
    }

    /// Which cores are taken.
    pub(crate) const fn marks(&self) -> &CoreMarks {
        &self.marks
    }
}

impl<D> std::fmt::Debug for Registry<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("devices", &self.devices().keys()).finish_non_exhaustive()
    }
}
