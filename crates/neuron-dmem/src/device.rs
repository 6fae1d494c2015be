//! A device as this layer sees it: the driver's door, and the process's counters for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_ndl::Device;

use crate::transfer::Path;
use crate::usage::Usage;

/// A device to allocate on (`mla` with its `dmem_logger`).
#[derive(Debug)]
pub struct DeviceMemory {
    device: Arc<Device>,
    path: Path,
    usage: Mutex<Usage>,
}

impl DeviceMemory {
    /// Counters at zero over an open device, with the runtime's default way to copy.
    pub fn new(device: Arc<Device>) -> Arc<Self> {
        Self::with_path(device, Path::Staged)
    }

    /// Counters at zero over an open device whose memory is copied this way.
    pub fn with_path(device: Arc<Device>, path: Path) -> Arc<Self> {
        Arc::new(Self { device, path, usage: Mutex::default() })
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

    pub(crate) fn counters(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
