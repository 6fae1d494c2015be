//! Memory of one device: chunks, the pools they come from, handles, lifespans and
//! counters (`spec/mempool.md`).
//!
//! | module | what lives there |
//! |---|---|
//! | [`space`] | lowest-address-first placement over granules |
//! | [`device`] | one HBM channel: main and small pool, contiguous scratchpad |
//! | [`host`] | host memory: the system first, then the reserve pools |
//! | [`chunk`] | one allocation, which gives its memory back when the last holder drops it |
//! | [`handle`] | numbers for chunks, as callers of the ioctls see them |
//! | [`usage`] | counters by category, core and location |
//! | [`set`] | all of it for one device, behind one lock |
//!
//! A chunk is held by an `Arc`: the list of its lifespan holds one reference, every
//! ring, mapping or copy in progress another. Memory goes back when the last is
//! dropped, never under the set's lock.

pub mod chunk;
pub mod device;
pub mod handle;
pub mod host;
pub mod set;
pub mod space;
pub mod usage;

pub use chunk::{Chunk, ChunkRef, Lifespan, Request};
pub use set::{Fault, HbmUse, Pools};
pub use usage::{Counter, CounterOf, CounterValue, ProcessUsage};

/// Pool granule, bytes: the page (`spec/mempool.md` 2).
pub const GRANULE: u64 = neuron_abi::arch::PAGE_SIZE;

/// Module parameters that shape the pools (`spec/driver.md` 9).
#[derive(Clone, Copy, Debug)]
pub struct PoolParams {
    /// Bytes of each channel's small pool; no small pool if that does not fit.
    pub small_pool_size: u64,
    /// Largest page-rounded size that prefers the small pool, inclusive.
    pub small_alloc_max: u64,
    /// Bytes of each of the four host reserve pools.
    pub host_reserve: u64,
    /// Bytes that each HBM has to give at most, as a smaller part: rounded down to the page,
    /// and the part's own if it is more. The firmware's reserve and the small pool are of
    /// them, and the main pool ends earlier. Only memory that is given out is less: address
    /// checks, BAR4 and `RESOURCE_MMAP_INFO` stay the part's, and the chunk dump shows what is
    /// kept back as memory of the driver. Ours, no parameter of the shipped
    /// driver.
    pub hbm_bytes: Option<u64>,
}

impl PoolParams {
    /// Bytes that an HBM of `size` bytes has to give.
    pub const fn channel_bytes(&self, size: u64) -> u64 {
        match self.hbm_bytes {
            Some(bytes) if bytes < size => bytes / GRANULE * GRANULE,
            _ => size,
        }
    }
}

impl Default for PoolParams {
    fn default() -> Self {
        Self {
            small_pool_size: neuron_abi::arch::SMALL_POOL_SIZE,
            small_alloc_max: neuron_abi::arch::SMALL_ALLOC_MAX,
            host_reserve: 32 << 20,
            hbm_bytes: None,
        }
    }
}
