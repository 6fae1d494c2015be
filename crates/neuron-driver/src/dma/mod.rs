//! Copies (`spec/dma-op.md`): descriptors staged on an H2T ring in batches, a marker
//! behind each batch, and the wait for it.
//!
//! | module | what lives there |
//! |---|---|
//! | [`transfer`] | what is copied, cut into pieces and batches; no ring, no device |
//! | [`copy`] | staging, waiting, synchronous and asynchronous copies |
//! | [`buffer`] | copies between user memory and a chunk, memset |
//!
//! Lock order: the memset lock, a ring's copy lock, then its engine's lock.

pub mod buffer;
pub mod copy;
pub mod transfer;

pub use transfer::Transfer;

use crate::ring::H2T_DESCRIPTORS;

/// Index of the last data descriptor of a full batch; it is tested before the
/// descriptor is counted (`spec/dma-op.md` 1).
pub const SYNC_THRESHOLD: u32 = H2T_DESCRIPTORS / 2 - neuron_udma::GUARD_GAP - 1;
/// Data descriptors of a full batch.
pub const BATCH_DESCRIPTORS: u32 = SYNC_THRESHOLD + 1;
/// Bytes of a full batch: an asynchronous copy is at most this long.
pub const BATCH_BYTES: u64 = BATCH_DESCRIPTORS as u64 * neuron_udma::MAX_DESCRIPTOR_BYTES as u64;
