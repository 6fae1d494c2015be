//! A device as this layer sees it: the driver's door, and the process's usage log for it.

use std::sync::Arc;

use neuron_ndl::Device;

use crate::log::{LogError, LogOptions, Statistics, UsageLog};
use crate::transfer::Path;
use crate::usage::Usage;

/// A device to allocate on (`mla` with its `dmem_logger`).
#[derive(Debug)]
pub struct DeviceMemory {
    device: Arc<Device>,
    path: Path,
    log: UsageLog,
}

impl DeviceMemory {
    /// An empty log in memory over an open device, with the runtime's default way to copy.
    pub fn new(device: Arc<Device>) -> Arc<Self> {
        Self::with_path(device, Path::Staged)
    }

    /// An empty log in memory over an open device whose memory is copied this way.
    pub fn with_path(device: Arc<Device>, path: Path) -> Arc<Self> {
        let log = UsageLog::in_memory(device.facts().index);
        Arc::new(Self { device, path, log })
    }

    /// As [`with_path`](Self::with_path), with a log of one's choice.
    ///
    /// # Errors
    /// Those of making it.
    pub fn with_log(device: Arc<Device>, path: Path, options: &LogOptions) -> Result<Arc<Self>, LogError> {
        let log = UsageLog::new(device.facts().index, options)?;
        Ok(Arc::new(Self { device, path, log }))
    }

    /// How device memory is copied.
    pub const fn path(&self) -> Path {
        self.path
    }

    /// The device.
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// What is in use now.
    pub fn usage(&self) -> Usage {
        self.log.usage()
    }

    /// Current and peak by category, core, HBM, owner and hint.
    pub fn statistics(&self) -> Statistics {
        self.log.statistics()
    }

    /// The usage log, with the newest events.
    pub const fn log(&self) -> &UsageLog {
        &self.log
    }
}
