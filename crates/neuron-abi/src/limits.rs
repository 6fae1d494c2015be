//! Limits of the interface that hold on every generation (spec/abi.md 2 and 11).
//!
//! Numbers that depend on the generation, and the sizes of pools and pages, are in [`crate::arch`].

/// Devices in a system; indices are 0..64.
pub const MAX_DEVICES: usize = 64;

/// Processes that can be attached to one device at a time.
pub const MAX_PROCESSES: usize = 16;

/// Cores a device can have, and the bound of `nc_id` in allocations even where there are fewer.
pub const MAX_CORES: u32 = 8;

/// Neighbours [`DeviceInfo`](crate::arg::DeviceInfo) can name.
pub const MAX_CONNECTED_DEVICES: usize = 8;

/// Entries of a [`DmaQueueInitBatch`](crate::arg::DmaQueueInitBatch). A count of this many is already
/// refused: one fewer is usable (spec/abi.md 6.2).
pub const QUEUE_BATCH_ENTRIES: usize = 256;

/// Entries of the logical-to-physical core map.
pub const NC_MAP_ENTRIES: usize = 128;

/// Bytes of a data store (spec/abi.md 12).
pub const DATASTORE_SIZE: usize = 256 << 10;

/// Longest text of [`Printk`](crate::arg::Printk) in bytes, its NUL included (spec/abi.md 10).
pub const PRINTK_MAX: usize = 512;

/// Queue number that means "the core's default H2T queue".
pub const DEFAULT_H2T_QUEUE: i32 = -1;

/// Core map that means "the whole device".
pub const DEVICE_MAP: u32 = u32::MAX;

/// Entries of a completion queue of asynchronous zero-copy requests (spec/dma-op.md 8).
pub const COMPLETION_QUEUE_ENTRIES: u32 = 1024;
