//! Copies (`spec/dma-op.md`): descriptors staged on an H2T ring in batches, a marker
//! behind each batch, and the wait for it.
//!
//! | module | what lives there |
//! |---|---|
//! | [`copy`] | staging, waiting, synchronous and asynchronous copies |
//! | [`buffer`] | copies between user memory and a chunk, memset |
//! | [`zerocopy`] | copies between user pages and a chunk, without a bounce |
//!
//! Lock order: the memset lock, a ring's copy lock, then its engine's lock.

pub mod buffer;
pub mod copy;
pub mod zerocopy;

pub use crate::ring::transfer::{BATCH_BYTES, BATCH_DESCRIPTORS, SYNC_THRESHOLD, Transfer};
