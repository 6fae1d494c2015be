//! A device as this layer sees it: the driver's door, and the process's usage log for it.

use std::sync::Arc;

use neuron_ndl::Device;

use crate::log::{self, LogError, LogOptions, Statistics, UsageLog};
use crate::owners::Owners;
use crate::report::{Action, Event};
use crate::transfer::Path;
use crate::usage::Usage;

/// A device to allocate on (`mla` with its `dmem_logger`).
#[derive(Debug)]
pub struct DeviceMemory {
    device: Arc<Device>,
    path: Path,
    log: UsageLog,
    owners: Owners,
}

/// How the memory of a device is used and accounted. The default is the runtime's: staged
/// copies, a log in memory.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    path: Path,
    log: LogOptions,
}

impl Setup {
    /// Copies device memory this way.
    #[must_use]
    pub fn path(self, path: Path) -> Self {
        Self { path, ..self }
    }

    /// Keeps this log.
    #[must_use]
    pub fn log(self, log: LogOptions) -> Self {
        Self { log, ..self }
    }
}

impl DeviceMemory {
    /// An open device as the runtime uses it: see [`Setup`].
    pub fn new(device: Arc<Device>) -> Arc<Self> {
        let log = UsageLog::in_memory(device.facts().index);
        Self::assemble(device, Setup::default(), log)
    }

    /// As [`new`](Self::new), set up as one likes.
    ///
    /// # Errors
    /// Those of making the log.
    pub fn with(device: Arc<Device>, setup: Setup) -> Result<Arc<Self>, LogError> {
        let log = UsageLog::new(device.facts().index, &setup.log)?;
        Ok(Self::assemble(device, setup, log))
    }

    fn assemble(device: Arc<Device>, setup: Setup, log: UsageLog) -> Arc<Self> {
        Arc::new(Self { device, path: setup.path, log, owners: Owners::default() })
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

    /// The allocators on it.
    pub(crate) const fn owners(&self) -> &Owners {
        &self.owners
    }

    /// What a report's event file lists: the usage log's newest events.
    pub fn events(&self) -> Vec<Event> {
        let event = |logged: log::Event| Event {
            index: logged.number,
            action: match logged.action {
                log::Action::Alloc => Action::Alloc,
                log::Action::Free => Action::Free,
            },
            location: logged.location,
            usage: logged.usage,
            channel: logged.hbm,
            core: logged.core,
            size: logged.size,
            pa: logged.pa,
            align_offset: logged.align_offset,
            total_mem_used: logged.hbm_total,
            hint: logged.hint.as_deref().unwrap_or_default().to_owned(),
        };
        self.log.events().into_iter().map(event).collect()
    }
}
