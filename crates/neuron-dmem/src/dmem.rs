//! The handle (`dmem_t`, seed 000 §1).

use std::sync::OnceLock;

use neuron_abi::memory::{MemLocation, UsageType};
use neuron_ndl::{AllocRequest, CopyRequest, HostBytes, Mapping, Memory};
use vm_memory::VolatileSlice;

use crate::budget::Reservation;
use crate::device::DeviceMemory;
use crate::error::DmemError;
use crate::floor::{self, Kept, Page};
use crate::list::{LiveList, Spot};
use crate::log::{Charge, OwnerRow, Record};
use crate::owners::{Held, Listed};
use crate::place::Placed;
use crate::sync::{Arc, Weak};
use crate::trace::{About, Bracket, Change, EventNumber};
use crate::transfer;

/// Device or host memory, shared. Cloning takes a reference; dropping the last one
/// unmaps, frees, accounts and unlinks, in that order.
///
/// Whoever shares it may outlive the one that allocated it: a model that goes first leaves
/// what it shares to the others. Until the last lets go, the bytes count for the core, usage,
/// hint and allocator of the allocation, also when that allocator is gone.
#[derive(Clone, Debug)]
pub struct Dmem(Arc<Shared>);

/// What the references share. Fields drop in order: unmap, free, then the ledger.
///
/// The reference count sits in front of it, on a cache line of its own: taking and dropping
/// references never disturbs a copy that reads these fields (seed 000 §1, quirk). By distance:
/// memory aligned to a line costs a tenth of an allocation.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Shared {
    _apart: [u64; 6],
    /// Goes first: the driver must not reuse pages that are still mapped.
    mapping: OnceLock<Mapping>,
    memory: Memory,
    /// Where in the memory the caller's begins, and how much more than the caller's it is.
    align_offset: u64,
    padding: u64,
    ledger: Ledger,
    usage: UsageType,
    hint: Option<Box<str>>,
    /// Begun before all others go, stopped after.
    freeing: Bracket<'static>,
    /// Of a page of a contiguous scratchpad. Goes last, with the page above it.
    _place: Option<floor::Place>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let request = self.memory.request();
        let about = about(request, self.usage, self.size(), None);
        let tracer = self.ledger.owner.tracer();
        tracer.note(request.core, || Change::Freed { location: location(request), pa: self.memory.pa() });
        self.freeing = tracer.begin_owned(EventNumber::FREE, request.core, about, &mut self.hint);
    }
}

/// The entries made for a handle; dropping it takes them back.
#[derive(Debug)]
struct Ledger {
    owner: std::sync::Arc<DeviceMemory>,
    /// What the usage log has of it.
    charge: Charge,
    /// The allocator that lists it; nothing is listed once that is gone.
    list: Weak<LiveList<Shared>>,
    spot: Spot,
    /// HBM and core of device memory.
    core: u32,
    hbm: Option<u32>,
    usage: UsageType,
    /// Goes back to the budgets last.
    _reserved: Option<Reservation>,
}

/// Whose a new handle is, and who lists it.
pub(crate) struct Owned<'a> {
    pub(crate) memory: &'a std::sync::Arc<DeviceMemory>,
    pub(crate) list: &'a Arc<LiveList<Shared>>,
    pub(crate) row: OwnerRow,
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.owner.log().freed(&self.charge);
        self.owner.trace_in_use(self.core, self.hbm, self.usage);
        if let (Some(list), Some(key)) = (self.list.upgrade(), self.spot.get()) {
            list.remove(key);
        }
    }
}

impl Shared {
    fn charged(&self) -> u64 {
        self.memory.request().size
    }

    fn size(&self) -> u64 {
        self.charged().saturating_sub(self.padding)
    }

    fn held(&self) -> Held {
        let request = self.memory.request();
        Held {
            usage: self.usage,
            bytes: self.charged(),
            host: request.host,
            hbm: request.hbm,
            hint: self.hint.clone(),
        }
    }
}

/// What a living allocator lists, without holding the allocator.
#[derive(Debug)]
pub(crate) struct ListOf(pub(crate) Weak<LiveList<Shared>>);

impl Listed for ListOf {
    fn lives(&self) -> bool {
        self.0.strong_count() > 0
    }

    fn held(&self) -> Vec<Held> {
        let living = self.0.upgrade().map(|list| list.living()).unwrap_or_default();
        living.into_iter().map(|shared| shared.held()).collect()
    }
}

/// What an allocator that is gone listed.
#[derive(Debug)]
pub(crate) struct Unlisted(pub(crate) Vec<Weak<Shared>>);

impl Listed for Unlisted {
    fn lives(&self) -> bool {
        self.0.iter().any(|shared| shared.strong_count() > 0)
    }

    fn held(&self) -> Vec<Held> {
        self.0.iter().filter_map(Weak::upgrade).map(|shared| shared.held()).collect()
    }
}

#[derive(Debug)]
struct KnownPage(Weak<Shared>);

impl Page for KnownPage {
    fn keep(&self) -> Option<Box<dyn Kept>> {
        self.0.upgrade().map(|shared| Box::new(Dmem(shared)) as _)
    }
}

impl Kept for Dmem {}

impl Dmem {
    pub(crate) fn new(owned: &Owned<'_>, placed: Placed, usage: UsageType, hint: Option<&str>) -> Self {
        Self::in_place(owned, placed, usage, hint, None)
    }

    /// A page of a contiguous scratchpad, and how its floor knows it.
    pub(crate) fn page(
        owned: &Owned<'_>,
        placed: Placed,
        usage: UsageType,
        place: floor::Place,
    ) -> (Self, Box<dyn Page>) {
        let page = Self::in_place(owned, placed, usage, None, Some(place));
        let known = Box::new(KnownPage(Arc::downgrade(&page.0)));
        (page, known)
    }

    fn in_place(
        owned: &Owned<'_>,
        placed: Placed,
        usage: UsageType,
        hint: Option<&str>,
        place: Option<floor::Place>,
    ) -> Self {
        let Placed { memory, align_offset, padding, reserved } = placed;
        let request = *memory.request();
        let record = Record {
            location: location(&request),
            usage,
            hbm: request.hbm,
            core: request.core,
            size: request.size.saturating_sub(padding),
            padding,
            pa: memory.pa(),
            align_offset,
        };
        let charge = owned.memory.log().allocated(&record, owned.row, hint);
        let ledger = Ledger {
            owner: std::sync::Arc::clone(owned.memory),
            charge,
            list: Arc::downgrade(owned.list),
            spot: Spot::default(),
            core: request.core,
            hbm: (!request.host).then_some(request.hbm),
            usage,
            _reserved: reserved,
        };
        owned.memory.trace_in_use(ledger.core, ledger.hbm, usage);
        let shared = Arc::new(Shared {
            _apart: [0; 6],
            mapping: OnceLock::new(),
            memory,
            align_offset,
            padding,
            ledger,
            usage,
            hint: hint.map(Box::from),
            freeing: Bracket::default(),
            _place: place,
        });
        shared.ledger.spot.set(owned.list.insert(&shared));
        Self(shared)
    }

    pub(crate) const fn from_shared(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.0.memory
    }

    /// Bytes asked for.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// Bytes charged to the counters: [`size`](Self::size), and the alignment where it was made
    /// by padding. Not rounded to pages (`spec/dmem.md` 9.7).
    pub fn allocated_size(&self) -> u64 {
        self.0.charged()
    }

    /// Physical address of the first byte.
    pub fn pa(&self) -> u64 {
        self.memory().pa() + self.0.align_offset
    }

    /// Where in the driver's allocation the first byte is: 0, unless alignment was made by
    /// padding (`spec/dmem.md` 5.1). Whatever names the allocation to the driver adds it to its
    /// offsets.
    pub fn align_offset(&self) -> u64 {
        self.0.align_offset
    }

    /// Whether it is host memory.
    pub fn is_host(&self) -> bool {
        self.memory().request().host
    }

    /// Number of the device it is on, or that reaches it.
    pub fn device(&self) -> u8 {
        self.owner().device().facts().index
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
        event.close(checked.and_then(|()| {
            self.copies(true, || bytes.len() as u64);
            transfer::copy_in(self.target(), offset, bytes)
        }))
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
        event.close(checked.and_then(|()| {
            self.copies(false, || bytes.len() as u64);
            transfer::copy_out(self.target(), offset, bytes)
        }))
    }

    /// Tells a sink that follows memory that bytes go into it, or out of it.
    pub(crate) fn copies(&self, into: bool, bytes: impl FnOnce() -> u64) {
        self.0.ledger.owner.tracer().note(self.core(), || {
            let (location, pa) = (location(self.memory().request()), self.memory().pa());
            Change::Copied { location, pa, into, bytes: bytes() }
        });
    }

    /// Fills `bytes` bytes from `offset` on with one value, by the device itself.
    ///
    /// # Errors
    /// NRT_INVALID outside the allocation; NRT_FAILURE when the device fails.
    pub fn fill(&self, offset: u64, bytes: u64, value: u8) -> Result<(), DmemError> {
        self.check(offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let device = self.owner().device();
        Ok(device.memset(self.memory(), self.align_offset() + offset, bytes, value)?)
    }

    /// Copies `bytes` bytes at `source_offset` of another allocation of the device to `offset`, by
    /// the device itself. What comes of two ranges that overlap is not defined.
    ///
    /// # Errors
    /// NRT_INVALID outside either allocation, or if they are not of one device; NRT_FAILURE when
    /// the device fails.
    pub fn copy_from(
        &self,
        offset: u64,
        source: &Self,
        source_offset: u64,
        bytes: u64,
    ) -> Result<(), DmemError> {
        self.check(offset, bytes)?;
        source.check(source_offset, bytes)?;
        let device = self.owner().device();
        if !std::sync::Arc::ptr_eq(device, source.owner().device()) {
            let (from, to) = (source.device(), self.device());
            return Err(DmemError::OtherDevice { from, to });
        }
        if bytes == 0 {
            return Ok(());
        }
        let copy = CopyRequest {
            source: source.memory(),
            destination: self.memory(),
            source_offset: source.align_offset() + source_offset,
            destination_offset: self.align_offset() + offset,
            bytes,
        };
        Ok(device.copy(copy)?)
    }

    fn traced(&self, event: EventNumber, bytes: usize) -> Bracket<'_> {
        let about = about(self.memory().request(), self.0.usage, bytes as u64, self.hint());
        self.0.ledger.owner.tracer().begin(event, self.core(), about)
    }

    /// Maps it into this process, once; later calls return the same bytes, from the first one
    /// (`DMEM_GET_VA`) and [`size`](Self::size) long.
    ///
    /// # Errors
    /// NRT_FAILURE for device memory without a window.
    pub fn map(&self) -> Result<VolatileSlice<'_>, DmemError> {
        let mapping = match self.0.mapping.get() {
            Some(mapping) => mapping,
            None => {
                // Of two threads that come here the later one unmaps its own again.
                let mapping = self.memory().map()?;
                self.0.mapping.get_or_init(|| mapping)
            }
        };
        let (offset, bytes) = (self.align_offset(), self.size());
        let inside = mapping.slice().subslice(offset as usize, bytes as usize);
        inside.map_err(|_| DmemError::OutOfBounds { offset, bytes, size: mapping.slice().len() as u64 })
    }

    /// What it was allocated on.
    pub(crate) fn owner(&self) -> &std::sync::Arc<DeviceMemory> {
        &self.0.ledger.owner
    }

    pub(crate) fn target(&self) -> transfer::Target<'_> {
        let owner = self.owner();
        transfer::Target {
            device: owner.device(),
            memory: self.memory(),
            align_offset: self.align_offset(),
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

const fn location(request: &AllocRequest) -> MemLocation {
    if request.host { MemLocation::Host } else { MemLocation::Device }
}

fn about<'a>(request: &AllocRequest, usage: UsageType, size: u64, hint: Option<&'a str>) -> About<'a> {
    About { location: location(request), hbm: request.hbm, usage: Some(usage), size, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed 000 §1, quirk. `Arc` keeps its two counts in the 16 bytes in front of the value, and
    /// memory of this alignment begins at a quarter of a line, so what is a line behind the
    /// first count is on another one.
    #[test]
    fn seed_000_the_reference_count_shares_no_cache_line_with_the_fields() {
        assert_eq!(align_of::<Shared>(), 16);
        assert_eq!(std::mem::offset_of!(Shared, mapping) + 2 * size_of::<usize>(), 64);
    }
}
