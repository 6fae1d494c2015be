//! What a generation of the hardware is made of, as far as both a driver and its clients must know
//! (spec/arch.md 1 to 5 and 9).
//!
//! * [`Generation`]: V2, V3, V4, as the ABI numbers them.
//! * [`Geometry`]: counts and addresses of one generation, from [`Generation::geometry`]. The generations
//!   differ by this data alone; nothing here branches on one.
//! * [`Product`]: the PCI ids and the strings that go with them.
//!
//! Not here: registers and their BAR0 addresses, engine policy (default queues, waiting times, barriers),
//! device numbering and topology. Those belong to the driver.

mod geometry;
mod product;

pub use geometry::{CompatRange, Geometry, HbmRange, Region};
pub use product::{Product, Target, VENDOR_ID};

use crate::enumeration::enumeration;

enumeration! {
    /// A hardware generation, numbered as `architecture` in the info structs (spec/arch.md 1).
    ///
    /// 0 is "invalid" in the ABI and 1 was a removed generation: neither is a value here.
    Generation: u32 {
        /// Trainium1 and Inferentia2.
        V2 = 2, "V2";
        /// Trainium2.
        V3 = 3, "V3";
        /// Trainium3. V3 with larger HBM.
        V4 = 4, "V4";
    }
}

impl Generation {
    /// Counts and addresses of this generation.
    pub const fn geometry(self) -> &'static Geometry {
        match self {
            Generation::V2 => &geometry::V2,
            Generation::V3 => &geometry::V3,
            Generation::V4 => &geometry::V4,
        }
    }

    /// Whether the runtime gives out tensors in host memory that the device reaches: it refuses them
    /// from Trainium2 on (spec/dmem.md 8; of Trainium3 it is our reading).
    pub const fn has_host_tensors(self) -> bool {
        matches!(self, Generation::V2)
    }
}

/// Page size, and the default granule of device memory, in bytes (spec/arch.md 2).
pub const PAGE_SIZE: u64 = 4096;

/// Bytes at the start of every HBM that the driver sets aside for the firmware (spec/arch.md 4,
/// spec/mempool.md 2). They come out of the main pool and count as used.
pub const FIRMWARE_RESERVE: u64 = 16 << 20;

/// Bytes at the end of every HBM that form the small pool: the default of the driver's
/// `mempool_small_pool_size` (spec/mempool.md 2).
pub const SMALL_POOL_SIZE: u64 = 1 << 30;

/// Largest page-rounded size that is tried in the small pool first, inclusive: the default of the
/// driver's `mempool_small_alloc_max` (spec/mempool.md 2).
pub const SMALL_ALLOC_MAX: u64 = 512 << 10;

/// Queues of every DMA engine (spec/arch.md 2).
pub const QUEUES_PER_ENGINE: u32 = 16;

/// Slots in the driver's engine array, and the bound of `eng_id` in the ABI, on all generations
/// (spec/arch.md 2). [`Geometry::engines`] says how many are in use.
pub const ENGINE_SLOTS: u32 = 132;

/// Semaphores of a core, and events of a core (spec/arch.md 2).
pub const SEMAPHORES_PER_CORE: u32 = 256;

#[cfg(test)]
mod tests;
