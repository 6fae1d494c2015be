//! A device as this layer sees it: the driver's door, and the process's counters for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_ndl::Device;

use crate::usage::Usage;

/// A device to allocate on (`mla` with its `dmem_logger`).
#[derive(Debug)]
pub struct DeviceMemory {
    device: Arc<Device>,
    usage: Mutex<Usage>,
}

impl DeviceMemory {
    /// Counters at zero over an open device.
    pub fn new(device: Arc<Device>) -> Arc<Self> {
        Arc::new(Self { device, usage: Mutex::default() })
    }

    /// The device.
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The counters now.
    pub fn usage(&self) -> Usage {
        self.counters().clone()
    }

    pub(crate) fn counters(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
