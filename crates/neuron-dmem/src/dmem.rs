//! The handle (`dmem_t`, seed 000 §1).

use std::sync::{Arc, OnceLock, Weak};

use neuron_abi::memory::{MemLocation, UsageType};
use neuron_ndl::{AllocRequest, HostBytes, Mapping, Memory};
use vm_memory::VolatileSlice;

use crate::budget::Reservation;
use crate::device::DeviceMemory;
use crate::error::DmemError;
use crate::list::{Key, LiveList};
use crate::log::{Charge, OwnerRow, Record};
use crate::owners::{Held, Listed};
use crate::trace::{About, Bracket, EventNumber};
use crate::transfer;

/// Device or host memory, shared. Cloning takes a reference; dropping the last one
/// unmaps, frees, accounts and unlinks, in that order.
#[derive(Clone, Debug)]
pub struct Dmem(Arc<Shared>);

/// What the references share. Fields drop in order: unmap, free, then the ledger.
///
/// Aligned to a cache line: the reference count sits in front of it on a line of its
/// own, so that taking and dropping references never disturbs a copy that reads these
/// fields (seed 000 §1, quirk).
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Shared {
    /// Goes first: the driver must not reuse pages that are still mapped.
    mapping: OnceLock<Mapping>,
    memory: Memory,
    ledger: Ledger,
    usage: UsageType,
    hint: Option<Box<str>>,
    /// Begun before all others go, stopped after.
    freeing: Bracket<'static>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let request = self.memory.request();
        let about = about(request, self.usage, request.size, None);
        let tracer = self.ledger.owner.tracer();
        self.freeing = tracer.begin_owned(EventNumber::FREE, request.core, about, &mut self.hint);
    }
}

/// The entries made for a handle; dropping it takes them back.
#[derive(Debug)]
struct Ledger {
    owner: Arc<DeviceMemory>,
    /// What the usage log has of it.
    charge: Charge,
    /// The allocator that lists it; nothing is listed once that is gone.
    list: Weak<LiveList<Shared>>,
    place: OnceLock<Key>,
    /// HBM and core of device memory.
    core: u32,
    hbm: Option<u32>,
    usage: UsageType,
    /// Goes back to the budgets last.
    _reserved: Option<Reservation>,
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.owner.log().freed(&self.charge);
        self.owner.trace_in_use(self.core, self.hbm, self.usage);
        if let (Some(list), Some(place)) = (self.list.upgrade(), self.place.get()) {
            list.remove(*place);
        }
    }
}

impl Listed for LiveList<Shared> {
    fn held(&self) -> Vec<Held> {
        let held = |shared: Arc<Shared>| {
            let request = shared.memory.request();
            Held {
                usage: shared.usage,
                bytes: request.size,
                host: request.host,
                hbm: request.hbm,
                hint: shared.hint.clone(),
            }
        };
        self.living().into_iter().map(held).collect()
    }
}

impl Dmem {
    pub(crate) fn new(
        owner: &Arc<DeviceMemory>,
        memory: Memory,
        usage: UsageType,
        hint: Option<&str>,
        list: &Arc<LiveList<Shared>>,
        row: OwnerRow,
        reserved: Option<Reservation>,
    ) -> Self {
        let request = *memory.request();
        let record = Record {
            location: if request.host { MemLocation::Host } else { MemLocation::Device },
            usage,
            hbm: request.hbm,
            core: request.core,
            size: request.size,
            padding: 0,
            pa: memory.pa(),
            align_offset: 0,
        };
        let charge = owner.log().allocated(&record, row, hint);
        let ledger = Ledger {
            owner: Arc::clone(owner),
            charge,
            list: Arc::downgrade(list),
            place: OnceLock::new(),
            core: request.core,
            hbm: (!request.host).then_some(request.hbm),
            usage,
            _reserved: reserved,
        };
        owner.trace_in_use(ledger.core, ledger.hbm, usage);
        let (hint, freeing) = (hint.map(Box::from), Bracket::default());
        let shared = Arc::new(Shared { mapping: OnceLock::new(), memory, ledger, usage, hint, freeing });
        let _first = shared.ledger.place.set(list.insert(&shared));
        Self(shared)
    }

    pub(crate) const fn from_shared(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    fn memory(&self) -> &Memory {
        &self.0.memory
    }

    /// Bytes asked for.
    pub fn size(&self) -> u64 {
        self.memory().request().size
    }

    /// Physical address.
    pub fn pa(&self) -> u64 {
        self.memory().pa()
    }

    /// Whether it is host memory.
    pub fn is_host(&self) -> bool {
        self.memory().request().host
    }

    /// HBM it is on.
    pub fn hbm(&self) -> u32 {
        self.memory().request().hbm
    }

    /// Core it belongs to.
    pub fn core(&self) -> u32 {
        self.memory().request().core
    }

    /// What it is used for.
    pub fn usage(&self) -> UsageType {
        self.0.usage
    }

    /// Its name for reports.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Copies `bytes` to `offset`, and returns when they are there.
    ///
    /// # Errors
    /// NRT_INVALID outside the allocation; NRT_FAILURE when the copy fails.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DmemError> {
        self.write_from(offset, HostBytes::Plain(bytes))
    }

    /// As [`write`](Self::write), from memory that may change meanwhile: a mapped file.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_volatile(&self, offset: u64, bytes: VolatileSlice<'_>) -> Result<(), DmemError> {
        self.write_from(offset, HostBytes::Volatile(bytes))
    }

    fn write_from(&self, offset: u64, bytes: HostBytes<'_>) -> Result<(), DmemError> {
        let event = self.traced(EventNumber::COPY_IN, bytes.len());
        let checked = self.check(offset, bytes.len() as u64);
        event.close(checked.and_then(|()| transfer::copy_in(self.target(), offset, bytes)))
    }

    /// Copies from `offset` into `bytes`.
    ///
    /// # Errors
    /// As [`write`](Self::write); bytes known to have arrived before a failure are there.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DmemError> {
        self.read_volatile(offset, VolatileSlice::from(bytes))
    }

    /// As [`read`](Self::read), into memory that others may look at meanwhile.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_volatile(&self, offset: u64, bytes: VolatileSlice<'_>) -> Result<(), DmemError> {
        let event = self.traced(EventNumber::COPY_OUT, bytes.len());
        let checked = self.check(offset, bytes.len() as u64);
        event.close(checked.and_then(|()| transfer::copy_out(self.target(), offset, bytes)))
    }

    fn traced(&self, event: EventNumber, bytes: usize) -> Bracket<'_> {
        let about = about(self.memory().request(), self.0.usage, bytes as u64, self.hint());
        self.0.ledger.owner.tracer().begin(event, self.core(), about)
    }

    /// Maps it into this process, once; later calls return the same mapping.
    ///
    /// # Errors
    /// NRT_FAILURE for device memory without a window.
    pub fn map(&self) -> Result<VolatileSlice<'_>, DmemError> {
        if let Some(mapping) = self.0.mapping.get() {
            return Ok(mapping.slice());
        }
        let mapping = self.memory().map()?;
        Ok(self.0.mapping.get_or_init(|| mapping).slice())
    }

    /// What it was allocated on.
    pub(crate) fn owner(&self) -> &Arc<DeviceMemory> {
        &self.0.ledger.owner
    }

    pub(crate) fn target(&self) -> transfer::Target<'_> {
        let owner = self.owner();
        transfer::Target {
            device: owner.device(),
            memory: self.memory(),
            align_offset: 0,
            hint: self.hint(),
            path: owner.path(),
            chunking: owner.chunking(),
            lanes: owner.tracer().lanes(self.core()),
        }
    }

    /// Not only what the driver checks: its blocks are whole pages, and the slack at the
    /// end is nobody's (our choice).
    pub(crate) fn check(&self, offset: u64, bytes: u64) -> Result<(), DmemError> {
        let size = self.size();
        if bytes <= size && offset <= size - bytes {
            return Ok(());
        }
        Err(DmemError::OutOfBounds { offset, bytes, size })
    }
}

fn about<'a>(request: &AllocRequest, usage: UsageType, size: u64, hint: Option<&'a str>) -> About<'a> {
    let location = if request.host { MemLocation::Host } else { MemLocation::Device };
    About { location, hbm: request.hbm, usage: Some(usage), size, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Arc` keeps its two counts in front of the value, and an alignment of a line puts
    /// them on the line before the value's first.
    #[test]
    fn reference_count_shares_no_cache_line_with_the_fields() {
        assert_eq!(align_of::<Shared>(), 64);
        assert_eq!(size_of::<Shared>() % 64, 0);
    }
}
