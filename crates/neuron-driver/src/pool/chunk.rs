//! One allocation (`mem_chunk`, `spec/mempool.md` 1).

use std::sync::Arc;

use neuron_abi::memory::MemLocation;
use vm_memory::VolatileSlice;

use super::device::Placed;
use super::host::HostBlock;
use super::usage::{Account, ProcessUsage};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Who a chunk lives for (`spec/mempool.md` 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lifespan {
    /// The call that made it, which drops it.
    Local,
    /// The process that asked: until its last descriptor of the device is closed.
    CurrentProcess,
    /// Until no process has the device open.
    AllProcess,
    /// Until the device is removed.
    Device,
}

/// What to allocate.
#[derive(Clone, Debug)]
pub struct Request {
    /// Bytes; rounded up to the page.
    pub size: u64,
    /// Bytes; up to a page means a page. Host memory takes 0 only.
    pub align: u64,
    /// Where.
    pub location: MemLocation,
    /// HBM; checked for host memory too.
    pub channel: u32,
    /// Core that it is accounted to and copied by, 0..=7.
    pub core: u32,
    /// Category, as given.
    pub category: u32,
    /// Lifespan.
    pub lifespan: Lifespan,
    /// Process that asks; 0 is the driver.
    pub pid: i32,
    /// Where the process's bytes are counted.
    pub usage: Option<Arc<ProcessUsage>>,
}

impl Request {
    /// Host memory of the driver itself: category NCDEV_HOST, channel 0.
    pub const fn driver_host(size: u64, core: u32, lifespan: Lifespan) -> Self {
        Self {
            size,
            align: 0,
            location: MemLocation::Host,
            channel: 0,
            core,
            category: neuron_abi::memory::Category::NcdevHost as u32,
            lifespan,
            pid: 0,
            usage: None,
        }
    }
}

/// A holder's reference to a chunk.
pub type ChunkRef = Arc<Chunk>;

/// One allocation. Its memory goes back to its pool when the last reference is
/// dropped: not while holding the set's lock.
#[derive(Debug)]
pub struct Chunk {
    pub(super) id: u64,
    pub(super) pa: u64,
    pub(super) size: u64,
    pub(super) request: Request,
    pub(super) source: Source,
    /// 0 until published.
    handle: AtomicU64,
    /// Its allocator's reference is gone. As the handle, it changes under the table's lock.
    withdrawn: AtomicBool,
    home: Arc<dyn Home>,
}

/// Who takes a chunk's memory back.
pub(super) trait Home: std::fmt::Debug + Send + Sync {
    /// Called once, by the last reference.
    fn release(&self, chunk: &Chunk);
}

#[derive(Debug)]
pub(super) enum Source {
    Host(HostBlock),
    Device(Placed),
}

impl Chunk {
    pub(super) const fn new(
        id: u64,
        pa: u64,
        size: u64,
        request: Request,
        source: Source,
        home: Arc<dyn Home>,
    ) -> Self {
        Self {
            id,
            pa,
            size,
            request,
            source,
            handle: AtomicU64::new(0),
            withdrawn: AtomicBool::new(false),
            home,
        }
    }

    /// Physical address: device memory plain, host memory with the host tag.
    pub const fn pa(&self) -> u64 {
        self.pa
    }

    /// Bytes, page-rounded.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Host or device.
    pub const fn location(&self) -> MemLocation {
        self.request.location
    }

    /// Whether it is device memory.
    pub fn is_device(&self) -> bool {
        self.location() == MemLocation::Device
    }

    /// HBM it was asked on.
    pub const fn channel(&self) -> u32 {
        self.request.channel
    }

    /// Core that copies to it.
    pub const fn core_id(&self) -> u32 {
        self.request.core
    }

    /// Category, as given.
    pub const fn category(&self) -> u32 {
        self.request.category
    }

    /// Process that allocated it; 0 is the driver.
    pub const fn pid(&self) -> i32 {
        self.request.pid
    }

    /// Lifespan it was allocated with.
    pub const fn lifespan(&self) -> Lifespan {
        self.request.lifespan
    }

    /// Its number, 0 if none was published.
    pub fn handle(&self) -> u64 {
        self.handle.load(Ordering::Acquire)
    }

    pub(super) fn set_handle(&self, handle: u64) {
        self.handle.store(handle, Ordering::Release);
    }

    /// Takes its number away for good.
    pub(super) fn withdraw(&self) {
        self.handle.store(0, Ordering::Release);
        self.withdrawn.store(true, Ordering::Release);
    }

    /// Whether its allocator let it go.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }

    /// The bytes, for host memory.
    pub fn host_memory(&self) -> Option<&crate::hw::DmaMemory> {
        match &self.source {
            Source::Host(block) => Some(&block.memory),
            Source::Device(_) => None,
        }
    }

    /// The bytes for volatile access, for host memory.
    pub fn host_slice(&self) -> Option<VolatileSlice<'_>> {
        self.host_memory().map(crate::hw::DmaMemory::slice)
    }

    pub(super) const fn account(&self) -> Account {
        Account { location: self.request.location, category: self.request.category, core: self.request.core }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.home.release(self);
    }
}
