//! Allocators: who owns a set of handles, and the path from a request to a handle
//! (seed 000 §1, §2; `spec/dmem.md` 5).

use std::sync::Arc;

use neuron_abi::memory::MemLocation;
use neuron_ndl::{AllocRequest as DriverRequest, CopyBuffer};

use crate::budget::{Budget, BudgetRefusal, OwnerId, Reservation};
use crate::device::DeviceMemory;
use crate::dmem::{Dmem, ListOf, Owned, Shared, Unlisted};
use crate::error::DmemError;
use crate::gc::GcList;
use crate::kind::AllocatorKind;
use crate::left::LeftAlive;
use crate::list::LiveList;
use crate::log::OwnerRow;
use crate::owners::{Gone, Listed};
use crate::place::{NotPlaced, Placed, Refused, place};
use crate::report::capture::core_bytes;
use crate::report::{Asked, Model, OomReport};
use crate::request::AllocRequest;
use crate::sync;
use crate::trace::{About, Bracket, Change, EventNumber};

/// Allocates for one core and lists what lives.
///
/// It owns nothing that it lists. [Destroying](Self::destroy) or dropping it frees nothing:
/// handles live on, without an owner that lists them (seed 000 §1). So drop the handles first,
/// or their memory stays taken until they go; what was left so is in
/// [`DeviceMemory::left_alive`].
#[derive(Debug)]
pub struct Allocator {
    memory: Arc<DeviceMemory>,
    kind: AllocatorKind,
    core: u32,
    label: Box<str>,
    /// How reports call a MODEL allocator.
    model: Option<Model>,
    live: sync::Arc<LiveList<Shared>>,
    row: OwnerRow,
    id: OwnerId,
    gone: bool,
}

impl Drop for Allocator {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        let left = self.leave();
        if !left.is_empty() {
            tracing::warn!(%left, "an allocator was dropped before its handles");
        }
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
        let live: sync::Arc<LiveList<Shared>> = sync::Arc::default();
        let listed = Arc::new(ListOf(sync::Arc::downgrade(&live)));
        let usage = memory.usage();
        let before = (0..geometry.cores).map(|core| core_bytes(&usage, core)).collect();
        let id = OwnerId::new();
        let model = memory.owners().register(id, kind, core, label, listed, before);
        if model.is_some() {
            memory.tracer().note(core, || Change::Loading { model: label });
        }
        let (memory, label) = (Arc::clone(memory), Box::from(label));
        Ok(Self { memory, kind, core, label, model, live, row, id, gone: false })
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

    /// The device it allocates on.
    pub const fn memory(&self) -> &Arc<DeviceMemory> {
        &self.memory
    }

    /// Allocates. The category the driver counts it under follows from usage and
    /// location; the counters here go by usage. Logged once the driver has allocated.
    ///
    /// # Errors
    /// NRT_INVALID, before the driver is asked, for a usage that cannot be on the host, for 0
    /// bytes, and for an alignment that is no power of two or too large for the size;
    /// NRT_RESOURCE and NRT_FAIL_HOST_MEM_ALLOC when the device or the host has no room, with a
    /// [report](DmemError::report), and NRT_RESOURCE for a [budget](DmemError::refusal), each
    /// after the [failure handler](crate::FailureHandler) was asked; NRT_RESOURCE when the memory
    /// has no physical address; NRT_FAILURE for anything else the driver refuses. Of an
    /// allocation that fails nothing stays behind.
    pub fn allocate(&self, request: &AllocRequest<'_>) -> Result<Dmem, DmemError> {
        let hbm = match request.hbm {
            _ if request.host => 0,
            Some(hbm) => hbm,
            None => self.memory.device().geometry().hbm_of_core(self.core).unwrap_or(0),
        };
        self.memory.failures().handle(|| {
            let event = self.traced(request, hbm);
            let outcome = self.attempt(request, hbm);
            self.note(request, hbm, &outcome);
            event.close(outcome)
        })
    }

    /// Tells a sink that follows memory what came of a request.
    pub(crate) fn note(&self, request: &AllocRequest<'_>, hbm: u32, outcome: &Result<Dmem, DmemError>) {
        self.memory.tracer().note(self.core, || {
            let location = if request.host { MemLocation::Host } else { MemLocation::Device };
            let AllocRequest { usage, size, align, hint, .. } = *request;
            let (owner, pa) = (Some(&*self.label), outcome.as_ref().ok().map(|dmem| dmem.memory().pa()));
            Change::Asked { location, hbm, size, align, usage, hint, owner, pa }
        });
    }

    /// Begins the event of an allocation.
    pub(crate) fn traced<'a>(&self, request: &AllocRequest<'a>, hbm: u32) -> Bracket<'a> {
        let location = if request.host { MemLocation::Host } else { MemLocation::Device };
        let AllocRequest { usage, size, hint, .. } = *request;
        let about = About { location, hbm, usage: Some(usage), size, hint };
        self.memory.tracer().begin(EventNumber::ALLOCATION, self.core, about)
    }

    fn attempt(&self, request: &AllocRequest<'_>, hbm: u32) -> Result<Dmem, DmemError> {
        let category = request.check()?;
        let device = self.memory.device();
        let driver_request = DriverRequest {
            size: request.size,
            align: request.align,
            host: request.host,
            hbm,
            core: self.core,
            category,
        };
        let reserve = |asked: &DriverRequest| self.reserve(request, asked);
        let placed = place(device, self.memory.align_latch(), driver_request, reserve)
            .map_err(|error| self.refused(request, error))?;
        let placed = self.with_copy_buffer(placed)?;
        Ok(Dmem::new(&self.owned(), placed, request.usage, request.hint))
    }

    /// As [`allocate`](Self::allocate), and puts the handle on a list too, if there is one
    /// (`ref_list`). The list holds a reference of its own: a caller that leaves the handle to
    /// the list drops what is returned.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); then the list is as it was.
    pub fn allocate_listed(&self, request: &AllocRequest<'_>, list: &mut GcList) -> Result<Dmem, DmemError> {
        let dmem = self.allocate(request)?;
        list.add(&dmem);
        Ok(dmem)
    }

    /// Ends the allocator and tells what it leaves alive (`dmem_allocator_destroy`). Its
    /// handles are taken off its list, and none is freed.
    pub fn destroy(mut self) -> LeftAlive {
        self.leave()
    }

    fn leave(&mut self) -> LeftAlive {
        self.gone = true;
        self.memory.log().owner_left(self.row);
        self.memory.budgets().owner_left(self.id);
        if self.kind == AllocatorKind::Model {
            self.memory.tracer().note(self.core, || Change::Unloaded { model: &self.label });
        }
        let unlisted = Unlisted(self.live.unlist());
        let gone = Gone { kind: self.kind, core: self.core, label: self.label.clone() };
        let left = LeftAlive::new(self.memory.device().facts().index, &gone, &unlisted.held());
        if !left.is_empty() {
            self.memory.owners().leave(gone, Arc::new(unlisted));
        }
        left
    }

    /// Who its handles belong to and who lists them.
    pub(crate) fn owned(&self) -> Owned<'_> {
        Owned { memory: &self.memory, list: &self.live, row: self.row }
    }

    /// The bounce buffer that copies will go through is there, or the memory goes back.
    pub(crate) fn with_copy_buffer(&self, placed: Placed) -> Result<Placed, DmemError> {
        let device = self.memory.device();
        kept_with(device.copy_buffer(self.core), placed)
            .ok_or_else(|| DmemError::NoCopyBuffer { device: device.facts().index, core: self.core })
    }

    fn refused(&self, request: &AllocRequest<'_>, error: NotPlaced) -> DmemError {
        match error {
            NotPlaced::Unasked(error) => error,
            NotPlaced::Refused(refused) if refused.has_no_address() => {
                DmemError::NoPhysicalAddress(refused.why)
            }
            NotPlaced::Refused(refused) if refused.is_no_room() => {
                self.out_of_memory(request, &refused.asked)
            }
            NotPlaced::Refused(Refused { why, .. }) => DmemError::Driver(why),
        }
    }

    /// Takes from the budgets what the driver is to be asked for, for as long as it is held.
    pub(crate) fn reserve(
        &self,
        request: &AllocRequest<'_>,
        asked: &DriverRequest,
    ) -> Result<Option<Reservation>, DmemError> {
        if asked.host {
            return Ok(None);
        }
        let memory = &self.memory;
        let reserved = memory.budgets().reserve(self.id, self.core, request.usage, asked.size);
        reserved.map(Some).map_err(|over| {
            let (device, asked) = (memory.device().facts().index, self.asked(request, asked));
            let refusal = BudgetRefusal::capture(device, memory.owners(), self.id, over, asked);
            DmemError::OverBudget(Box::new(refusal))
        })
    }

    /// As reports have it, what the driver was asked for or would have been: with padding, and
    /// then unaligned, where alignment is made here.
    fn asked(&self, request: &AllocRequest<'_>, asked: &DriverRequest) -> Asked {
        Asked {
            location: if asked.host { MemLocation::Host } else { MemLocation::Device },
            hbm: (!asked.host).then_some(asked.hbm),
            core: self.core,
            size: asked.size,
            align: asked.align,
            usage: request.usage,
            hint: request.hint.map(str::to_owned),
            model: self.model.clone(),
        }
    }

    fn out_of_memory(&self, request: &AllocRequest<'_>, asked: &DriverRequest) -> DmemError {
        let report = Box::new(OomReport::capture(&self.memory, self.asked(request, asked)));
        if asked.host { DmemError::OutOfHostMemory(report) } else { DmemError::OutOfDeviceMemory(report) }
    }
}

/// The memory, if there is a bounce buffer for it. (The runtime leaks it where there is none.)
fn kept_with(buffer: Option<&CopyBuffer>, placed: Placed) -> Option<Placed> {
    buffer.map(|_| placed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_abi::memory::Category;
    use neuron_abi::status::NrtStatus;
    use neuron_ndl::Device;
    use neuron_ndl::software::Machine;

    /// Every device has eight bounce buffers, so that only here one is missing (seed 000 §2, step
    /// 6; `spec/dmem.md` 5, step 9).
    #[test]
    fn seed_000_memory_without_a_bounce_buffer_goes_back() {
        let machine = Machine::new("trn1.2xlarge").unwrap();
        let device = Device::open(&machine, 0).unwrap();
        let before = device.chunks(0).unwrap();
        let category = Category::TensorsDevice;
        let request = DriverRequest { size: 4096, align: 0, host: false, hbm: 0, core: 0, category };
        let placed = || Placed::whole(device.allocate(request).unwrap(), None);
        assert!(kept_with(device.copy_buffer(0), placed()).is_some());
        assert!(device.copy_buffer(8).is_none());
        assert!(kept_with(device.copy_buffer(8), placed()).is_none());
        assert_eq!(device.chunks(0).unwrap(), before);
        let error = DmemError::NoCopyBuffer { device: 0, core: 8 };
        assert_eq!(error.status(), NrtStatus::Failure);
        assert!(error.to_string().starts_with("Failed to get copy buffer for nc 8"), "{error}");
    }
}
