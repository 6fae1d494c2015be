//! All memory of one device (`mempool_set`, `spec/mempool.md` 1 to 6).
//!
//! Locks, outermost first: handle table, lifespan lists, then the pools' state. No
//! chunk reference is dropped while any of them is held, since dropping the last one
//! takes the state lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use neuron_abi::arch::{FIRMWARE_RESERVE, Geometry, HbmRange, PAGE_SIZE};
use neuron_abi::errno::Errno;
use neuron_abi::memory::{Category, MemLocation};

use super::chunk::{Chunk, ChunkRef, Home, Lifespan, Request, Source};
use super::device::{Channel, Placement};
use super::handle::HandleTable;
use super::host::HostMemory;
use super::usage::{CORES, Counter, CounterOf, CounterValue, Usage};
use super::{GRANULE, PoolParams};
use crate::hw::Hardware;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Largest alignment of device memory (`spec/mempool.md` 3.1).
const MAX_ALIGN: u64 = (1 << 31) - 1;

/// Memory of one device.
#[derive(Debug)]
pub struct Pools {
    core: Arc<Core>,
    lists: Mutex<BTreeMap<Owner, BTreeMap<u64, ChunkRef>>>,
    handles: Mutex<HandleTable>,
    next_id: AtomicU64,
    fault: Fault,
    params: PoolParams,
}

/// Whose list a chunk is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Process(i32),
    AllProcess,
    Device,
}

impl Owner {
    /// Whose list the chunk goes on; `None` for a local one.
    fn of(chunk: &Chunk) -> Option<Self> {
        match chunk.lifespan() {
            Lifespan::Local => None,
            Lifespan::CurrentProcess => Some(Self::Process(chunk.pid())),
            Lifespan::AllProcess => Some(Self::AllProcess),
            Lifespan::Device => Some(Self::Device),
        }
    }
}

/// Fails the n-th allocation from now, once: ENOMEM, for tests of error paths.
#[derive(Debug, Default)]
pub struct Fault {
    countdown: AtomicU64,
}

impl Fault {
    /// The `nth` allocation from now fails; 0 disarms.
    pub fn arm(&self, nth: u64) {
        self.countdown.store(nth, Ordering::Relaxed);
    }

    fn strikes(&self) -> bool {
        self.countdown
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok_and(|left| left == 1)
    }
}

/// Use of one HBM channel, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HbmUse {
    /// In use, the firmware's reserve included.
    pub allocated: u64,
    /// Distance from the main pool's end to the lowest scratchpad page.
    pub scratchpad: u64,
    /// Main pool: free bytes and largest hole.
    pub main: (u64, u64),
    /// Small pool: free bytes and largest hole.
    pub small: (u64, u64),
}

/// What outlives the set while chunks do: their pools.
#[derive(Debug)]
struct Core {
    geometry: &'static Geometry,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    channels: Vec<Channel>,
    host: HostMemory,
    /// All living chunks by address. Weak: the tree finds, it does not hold.
    tree: BTreeMap<u64, Weak<Chunk>>,
    usage: Usage,
}

impl Core {
    fn state(&self) -> MutexGuard<'_, State> {
        // State is consistent between statements; a panic elsewhere does not change that.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home for Core {
    fn release(&self, chunk: &Chunk) {
        let mut state = self.state();
        state.tree.remove(&chunk.pa);
        state.usage.freed(chunk.account(), chunk.size);
        match &chunk.source {
            Source::Host(block) => state.host.free(block),
            Source::Device(placed) => {
                if let Some(channel) = state.channels.get_mut(chunk.request.channel as usize) {
                    channel.free(*placed, chunk.size);
                }
            }
        }
        drop(state);
        if let Some(usage) = &chunk.request.usage {
            usage.remove(chunk.request.location, chunk.size);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pools {
    /// Sets the pools up, in as much of each channel as [`PoolParams::hbm_bytes`] leaves, and
    /// takes the firmware's reserve at the start of each.
    ///
    /// # Errors
    /// EINVAL if a reserve is not at its channel's start, ENOMEM if it cannot be had.
    pub fn new(
        geometry: &'static Geometry,
        hardware: Arc<dyn Hardware>,
        params: &PoolParams,
    ) -> Result<Self, Errno> {
        let channel = |hbm: &HbmRange| Channel::new(hbm.base, params.channel_bytes(hbm.size), params);
        let channels = geometry.hbm.iter().map(channel).collect();
        let state = State {
            channels,
            host: HostMemory::new(hardware, params.host_reserve),
            tree: BTreeMap::new(),
            usage: Usage::default(),
        };
        let pools = Self {
            core: Arc::new(Core { geometry, state: Mutex::new(state) }),
            lists: Mutex::default(),
            handles: Mutex::default(),
            next_id: AtomicU64::new(1),
            fault: Fault::default(),
            params: *params,
        };
        for (channel, hbm) in geometry.hbm.iter().enumerate() {
            let reserve = pools.allocate(Request {
                size: FIRMWARE_RESERVE,
                align: 0,
                location: MemLocation::Device,
                channel: channel as u32,
                core: channel as u32,
                category: Category::NcdevDevice as u32,
                lifespan: Lifespan::Device,
                pid: 0,
                usage: None,
            })?;
            if reserve.pa() != hbm.base {
                return Err(Errno::EINVAL);
            }
        }
        Ok(pools)
    }

    /// Allocates. The chunk is held by the list of its lifespan, except a local one,
    /// which only the caller holds.
    ///
    /// # Errors
    /// In this order: EINVAL for a size above 2^63-1, a channel, a core above 7; then by
    /// location EINVAL for an alignment (any on host, above 2^31-1 on device) or for the
    /// scratchpad category on host; ENOMEM when nothing fits or the size is 0.
    pub fn allocate(&self, request: Request) -> Result<ChunkRef, Errno> {
        if request.size > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let size = request.size.next_multiple_of(PAGE_SIZE);
        if request.channel as usize >= self.core.geometry.hbm.len() {
            return Err(Errno::EINVAL);
        }
        if self.fault.strikes() {
            return Err(Errno::ENOMEM);
        }
        if request.core as usize >= CORES {
            return Err(Errno::EINVAL);
        }
        let scratchpad = request.category == Category::ContiguousScratchpadDevice as u32;
        let placement = match request.location {
            MemLocation::Device if scratchpad => Placement::Scratchpad,
            MemLocation::Device if request.align > MAX_ALIGN => {
                return Err(Errno::EINVAL);
            }
            MemLocation::Device => Placement::aligned(request.align),
            _ if request.align != 0 || scratchpad => return Err(Errno::EINVAL),
            _ => Placement::FirstFit,
        };
        if size == 0 {
            return Err(Errno::ENOMEM);
        }
        let chunk = self.place(size, placement, request)?;
        if let Some(usage) = &chunk.request.usage {
            usage.add(chunk.request.location, chunk.size);
        }
        if let Some(owner) = Owner::of(&chunk) {
            lock(&self.lists).entry(owner).or_default().insert(chunk.id, Arc::clone(&chunk));
        }
        Ok(chunk)
    }

    fn place(&self, size: u64, placement: Placement, request: Request) -> Result<ChunkRef, Errno> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut state = self.core.state();
        let (pa, source) = match request.location {
            MemLocation::Device => {
                let channel = state.channels.get_mut(request.channel as usize).ok_or(Errno::EINVAL)?;
                let placed = channel.allocate(size, placement).ok_or(Errno::ENOMEM)?;
                (placed.pa, Source::Device(placed))
            }
            _ => {
                let block = state.host.allocate(size).ok_or(Errno::ENOMEM)?;
                (block.memory.address() | self.core.geometry.host_base, Source::Host(block))
            }
        };
        let chunk = Arc::new(Chunk::new(id, pa, size, request, source, Arc::clone(&self.core) as _));
        state.tree.insert(pa, Arc::downgrade(&chunk));
        state.usage.allocated(chunk.account(), size);
        drop(state);
        Ok(chunk)
    }

    /// Gives the chunk a handle, or returns the one it has. One that was freed, and lives
    /// only because a ring or a mapping holds it, gets none, nor does one of a single call: no
    /// list would ever take it back.
    ///
    /// # Errors
    /// ENOENT when the table is full; ENOMEM, as for no chunk, when it gets none (our choice).
    pub fn publish(&self, chunk: &ChunkRef) -> Result<u64, Errno> {
        let mut handles = lock(&self.handles);
        if chunk.is_withdrawn() || chunk.lifespan() == Lifespan::Local {
            return Err(Errno::ENOMEM);
        }
        if chunk.handle() != 0 {
            return Ok(chunk.handle());
        }
        let handle = handles.publish(Arc::clone(chunk))?;
        chunk.set_handle(handle);
        Ok(handle)
    }

    /// The chunk a handle names.
    ///
    /// # Errors
    /// EINVAL for 0, an index outside the table or a free entry.
    pub fn lookup(&self, handle: u64) -> Result<ChunkRef, Errno> {
        lock(&self.handles).lookup(handle).cloned().ok_or(Errno::EINVAL)
    }

    /// Takes away the handle and the reference of whoever allocated it (`MEM_FREE`).
    /// The memory goes with the last holder.
    ///
    /// # Errors
    /// EINVAL as [`lookup`](Self::lookup); EPERM for memory of the driver, which processes can
    /// name by its address: the firmware's reserve is nobody's to give away (our choice).
    pub fn free(&self, handle: u64) -> Result<(), Errno> {
        let mut handles = lock(&self.handles);
        if handles.lookup(handle).is_some_and(|chunk| chunk.pid() == 0) {
            return Err(Errno::EPERM);
        }
        let chunk = handles.withdraw(handle).ok_or(Errno::EINVAL)?;
        chunk.withdraw();
        drop(handles);
        self.unlist(&chunk);
        Ok(())
    }

    /// Drops the allocator's own reference of a chunk without a handle.
    pub fn discard(&self, chunk: &ChunkRef) {
        let mut handles = lock(&self.handles);
        // Chunk and table change together: a number that somebody else has by now is not ours.
        let named = match chunk.handle() {
            0 => None,
            handle => handles.withdraw(handle),
        };
        chunk.withdraw();
        drop(handles);
        drop(named);
        self.unlist(chunk);
    }

    fn unlist(&self, chunk: &ChunkRef) {
        let mut lists = lock(&self.lists);
        let found = lists.values_mut().find_map(|list| list.remove(&chunk.id));
        lists.retain(|_, list| !list.is_empty());
        drop(lists);
        drop(found);
    }

    /// Ends a process's memory: handles go at once, bytes with their last holder.
    pub fn sweep_process(&self, pid: i32) {
        self.sweep(Owner::Process(pid));
    }

    /// Ends the memory that lived while any process had the device open.
    pub fn sweep_all_process(&self) {
        self.sweep(Owner::AllProcess);
    }

    /// Ends everything: the device is being removed.
    pub fn sweep_device(&self) {
        let owners: Vec<_> = lock(&self.lists).keys().copied().collect();
        for owner in owners {
            self.sweep(owner);
        }
    }

    fn sweep(&self, owner: Owner) {
        let list = lock(&self.lists).remove(&owner).unwrap_or_default();
        for chunk in list.into_values() {
            self.discard(&chunk);
        }
    }

    /// The living chunk that holds this address (tagged, for host memory).
    pub fn at_address(&self, pa: u64) -> Option<ChunkRef> {
        let state = self.core.state();
        let (_, chunk) = state.tree.range(..=pa).next_back()?;
        let chunk = chunk.upgrade()?;
        drop(state);
        // Decided outside the lock: losing the race makes this the last reference.
        (pa - chunk.pa < chunk.size).then_some(chunk)
    }

    /// (address, bytes, category) of the device chunks of a channel, by address. What
    /// [`PoolParams::hbm_bytes`] keeps back is one of the driver's, so that who reckons with the
    /// part's size finds it.
    pub fn device_chunks(&self, channel: u32) -> Vec<(u64, u64, u32)> {
        let chunks: Vec<_> = self.core.state().tree.values().filter_map(Weak::upgrade).collect();
        let own = chunks.iter().filter(|chunk| chunk.is_device() && chunk.channel() == channel);
        let own = own.map(|chunk| (chunk.pa(), chunk.size(), chunk.category()));
        let hbm = self.core.geometry.hbm.get(channel as usize);
        let kept = hbm.and_then(|hbm| {
            let given = self.params.channel_bytes(hbm.size);
            let kept = (hbm.base + given, hbm.size - given, Category::NcdevDevice as u32);
            (kept.1 > 0).then_some(kept)
        });
        own.chain(kept).collect()
    }

    /// What `look` sees of each chunk that a process allocated and did not free, for itself or
    /// for all processes. It is called under the lists' lock, so that no chunk lives longer
    /// for being looked at.
    pub(crate) fn map_of_process<T>(&self, pid: i32, look: impl Fn(&Chunk) -> T) -> Vec<T> {
        let lists = lock(&self.lists);
        let of_owner = |owner| lists.get(&owner).into_iter().flat_map(BTreeMap::values);
        let chunks = of_owner(Owner::Process(pid)).chain(of_owner(Owner::AllProcess));
        chunks.filter(|chunk| chunk.pid() == pid).map(|chunk| look(chunk)).collect()
    }

    /// Whether a process other than `pid` has memory on a channel. The driver's own does not
    /// count.
    pub(crate) fn has_chunk_of_others(&self, channel: u32, pid: i32) -> bool {
        let chunks: Vec<_> = self.core.state().tree.values().filter_map(Weak::upgrade).collect();
        let mut on_channel = chunks.iter().filter(|chunk| chunk.is_device() && chunk.channel() == channel);
        on_channel.any(|chunk| chunk.pid() != 0 && chunk.pid() != pid)
    }

    /// Bytes a range check allows: the chunk's, or for the contiguous scratchpad up to
    /// the main pool's end (`spec/abi.md` 5.9).
    pub fn bounds(&self, chunk: &Chunk) -> u64 {
        if chunk.category() != Category::ContiguousScratchpadDevice as u32 || !chunk.is_device() {
            return chunk.size();
        }
        let state = self.core.state();
        state
            .channels
            .get(chunk.channel() as usize)
            .map_or(chunk.size(), |channel| channel.main_end().saturating_sub(chunk.pa()))
    }

    /// Use of a channel.
    pub fn hbm(&self, channel: u32) -> Option<HbmUse> {
        let state = self.core.state();
        let channel = state.channels.get(channel as usize)?;
        let [main, small] = channel.room();
        Some(HbmUse { allocated: channel.allocated(), scratchpad: channel.scratchpad_size(), main, small })
    }

    /// Device-wide host memory of a category.
    pub fn host_counter(&self, category: Category) -> Counter {
        self.core.state().usage.host(category)
    }

    /// Device memory of a core and category.
    pub fn device_counter(&self, core: u32, category: Category) -> Counter {
        self.core.state().usage.device(core, category)
    }

    /// (host, device) totals of a core.
    pub fn core_counters(&self, core: u32) -> (Counter, Counter) {
        self.core.state().usage.core(core)
    }

    /// Sets one value of a counter to 0.
    pub(crate) fn clear_counter(&self, of: CounterOf, value: CounterValue) {
        self.core.state().usage.clear(of, value);
    }

    /// Allocation failures on demand.
    pub const fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Bytes of a page, the granule of all pools.
    pub const fn granule() -> u64 {
        GRANULE
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        self.sweep_device();
    }
}
