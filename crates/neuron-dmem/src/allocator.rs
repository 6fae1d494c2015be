//! Allocators: who owns a set of handles, and the path from a request to a handle
//! (seed 000 §1, §2; `spec/dmem.md` 5).

use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_abi::memory::{Category, MemLocation, UsageType};
use neuron_ndl::AllocRequest as DriverRequest;

use crate::budget::{Budget, BudgetRefusal, OwnerId, Reservation};
use crate::device::DeviceMemory;
use crate::dmem::{Dmem, Shared};
use crate::error::DmemError;
use crate::kind::AllocatorKind;
use crate::list::LiveList;
use crate::log::OwnerRow;
use crate::owners::Listed;
use crate::report::capture::core_bytes;
use crate::report::{Asked, Model, OomReport};
use crate::trace::{About, EventNumber};

/// Allocates for one core and lists what lives.
///
/// Dropping it frees nothing: handles live on, without an owner that lists them
/// (seed 000 §1). Drop the handles first, or device memory stays until they go.
#[derive(Debug)]
pub struct Allocator {
    memory: Arc<DeviceMemory>,
    kind: AllocatorKind,
    core: u32,
    /// How reports call a MODEL allocator.
    model: Option<Model>,
    live: Arc<LiveList<Shared>>,
    row: OwnerRow,
    id: OwnerId,
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.memory.log().owner_left(self.row);
        self.memory.budgets().owner_left(self.id);
    }
}

/// What to allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest<'a> {
    size: u64,
    align: u64,
    host: bool,
    hbm: Option<u32>,
    usage: UsageType,
    hint: Option<&'a str>,
}

impl<'a> AllocRequest<'a> {
    /// `size` bytes of device memory on the core's own HBM.
    pub const fn device(size: u64, usage: UsageType) -> Self {
        Self { size, align: 0, host: false, hbm: None, usage, hint: None }
    }

    /// `size` bytes of host memory that the device can reach.
    pub const fn host(size: u64, usage: UsageType) -> Self {
        Self { size, align: 0, host: true, hbm: None, usage, hint: None }
    }

    /// On another HBM than the core's own.
    #[must_use]
    pub const fn on_hbm(self, hbm: u32) -> Self {
        Self { hbm: Some(hbm), ..self }
    }

    /// Aligned to this many bytes. The driver refuses it for host memory.
    #[must_use]
    pub const fn aligned(self, align: u64) -> Self {
        Self { align, ..self }
    }

    /// With a name for reports.
    #[must_use]
    pub const fn hint(self, hint: &'a str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

impl Allocator {
    /// An allocator for a core of the device.
    ///
    /// # Errors
    /// NRT_INVALID if the device has no such core.
    pub fn new(memory: &Arc<DeviceMemory>, kind: AllocatorKind, core: u32) -> Result<Self, DmemError> {
        Self::labelled(memory, kind, core, "")
    }

    /// As [`new`](Self::new), with a label: the usage log lists the allocator as an owner under
    /// it, by its first 96 bytes, and reports name a MODEL allocator by it: a path, say. A MODEL
    /// allocator begins a load: reports tell what came since the last.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn labelled(
        memory: &Arc<DeviceMemory>,
        kind: AllocatorKind,
        core: u32,
        label: &str,
    ) -> Result<Self, DmemError> {
        let geometry = memory.device().geometry();
        if core >= geometry.cores {
            let device = memory.device().facts().index;
            return Err(DmemError::NoCore { device, core, cores: geometry.cores });
        }
        let row = memory.log().owner(kind, core, label);
        let live: Arc<LiveList<Shared>> = Arc::default();
        let listed: Arc<dyn Listed> = Arc::clone(&live) as _;
        let usage = memory.usage();
        let before = (0..geometry.cores).map(|core| core_bytes(&usage, core)).collect();
        let id = OwnerId::new();
        let model = memory.owners().register(id, kind, core, label, &listed, before);
        Ok(Self { memory: Arc::clone(memory), kind, core, model, live, row, id })
    }

    /// What its handles belong to.
    pub const fn kind(&self) -> AllocatorKind {
        self.kind
    }

    /// Its core.
    pub const fn core(&self) -> u32 {
        self.core
    }

    /// Its name among [budgets](DeviceMemory::budgets).
    pub const fn budget(&self) -> Budget {
        Budget::Owner(self.id)
    }

    /// Handles that live, in order of allocation.
    pub fn live(&self) -> Vec<Dmem> {
        self.live.living().into_iter().map(Dmem::from_shared).collect()
    }

    /// Allocates. The category the driver counts it under follows from usage and
    /// location; the counters here go by usage. Logged once the driver has allocated.
    ///
    /// # Errors
    /// NRT_INVALID for a usage that cannot be on the host and for 0 bytes, before the
    /// driver is asked; NRT_RESOURCE and NRT_FAIL_HOST_MEM_ALLOC when the device or the
    /// host has no room, with a [report](DmemError::report), and NRT_RESOURCE for a
    /// [budget](DmemError::refusal), each after the [failure handler](crate::FailureHandler)
    /// was asked; NRT_FAILURE for anything else the driver refuses.
    pub fn allocate(&self, request: &AllocRequest<'_>) -> Result<Dmem, DmemError> {
        self.memory.failures().handle(|| self.traced(request))
    }

    fn traced(&self, request: &AllocRequest<'_>) -> Result<Dmem, DmemError> {
        let hbm = match request.hbm {
            _ if request.host => 0,
            Some(hbm) => hbm,
            None => self.memory.device().geometry().hbm_of_core(self.core).unwrap_or(0),
        };
        let location = if request.host { MemLocation::Host } else { MemLocation::Device };
        let AllocRequest { usage, size, hint, .. } = *request;
        let about = About { location, hbm, usage: Some(usage), size, hint };
        let event = self.memory.tracer().begin(EventNumber::ALLOCATION, self.core, about);
        event.close(self.attempt(request, hbm))
    }

    fn attempt(&self, request: &AllocRequest<'_>, hbm: u32) -> Result<Dmem, DmemError> {
        let category = category(request)?;
        if request.size == 0 {
            return Err(DmemError::ZeroSize);
        }
        let device = self.memory.device();
        let driver_request = DriverRequest {
            size: request.size,
            align: request.align,
            host: request.host,
            hbm,
            core: self.core,
            category,
        };
        let reserved = self.reserve(request, hbm, request.size)?;
        let memory = device.allocate(driver_request).map_err(|error| match error.errno {
            Errno::ENOMEM => self.out_of_memory(request, hbm),
            _ => DmemError::Driver(error),
        })?;
        Ok(Dmem::new(&self.memory, memory, request.usage, request.hint, &self.live, self.row, reserved))
    }

    /// Takes what is to be charged from the budgets, for as long as it is held.
    fn reserve(
        &self,
        request: &AllocRequest<'_>,
        hbm: u32,
        charge: u64,
    ) -> Result<Option<Reservation>, DmemError> {
        if request.host {
            return Ok(None);
        }
        let memory = &self.memory;
        memory.budgets().reserve(self.id, self.core, request.usage, charge).map(Some).map_err(|over| {
            let (device, asked) = (memory.device().facts().index, self.asked(request, hbm));
            DmemError::OverBudget(Box::new(BudgetRefusal::capture(
                device,
                memory.owners(),
                self.id,
                over,
                asked,
            )))
        })
    }

    fn asked(&self, request: &AllocRequest<'_>, hbm: u32) -> Asked {
        Asked {
            location: if request.host { MemLocation::Host } else { MemLocation::Device },
            hbm: (!request.host).then_some(hbm),
            core: self.core,
            size: request.size,
            align: request.align,
            usage: request.usage,
            hint: request.hint.map(str::to_owned),
            model: self.model.clone(),
        }
    }

    fn out_of_memory(&self, request: &AllocRequest<'_>, hbm: u32) -> DmemError {
        let report = Box::new(OomReport::capture(&self.memory, self.asked(request, hbm)));
        if request.host { DmemError::OutOfHostMemory(report) } else { DmemError::OutOfDeviceMemory(report) }
    }
}

fn category(request: &AllocRequest<'_>) -> Result<Category, DmemError> {
    if request.host {
        request.usage.host_category().ok_or(DmemError::UsageLocation { usage: request.usage })
    } else {
        Ok(request.usage.device_category())
    }
}
