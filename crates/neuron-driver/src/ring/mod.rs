//! Engines, their queues and the rings on them (seed 003, `spec/driver.md` 1 to 5).
//!
//! | module | what lives there |
//! |---|---|
//! | [`engine`] | the 132 engine slots, one lock each, and the queues it guards |
//! | [`queue`] | what is on a queue: H2T, service or model ring, or nothing |
//! | [`h2t`] | the ring the driver copies with: its chunks, marker and contexts |
//! | [`marker`] | the two words whose copy tells that a batch is done |
//! | [`transfer`] | what is copied, cut into pieces and batches |
//! | [`pages`] | a zero-copy, cut into transfers and descriptors |
//! | [`context`] | copies in progress on one ring |
//! | [`context_queue`] | its zero-copy transfers, pinned and submitted |
//! | [`completion`] | the queue that tells the ends of asynchronous ones |
//!
//! Building descriptors and waiting for them is [`dma`](crate::dma)'s business, bringing
//! engines up `bringup`'s.

pub mod completion;
pub mod context;
pub mod context_queue;
pub mod engine;
pub mod h2t;
pub mod marker;
pub mod pages;
pub mod queue;
pub mod transfer;

pub use engine::{Engine, Engines};
pub use h2t::{H2tMemory, H2tRing};
pub use queue::{Addresses, Bound, Flavour, Queue};

/// Descriptors an H2T ring is asked for; batches are sized by this number.
pub const H2T_DESCRIPTORS: u32 = 4096;

/// Ring size for `count` requested descriptors (`ndmar_ring_get_desc_count`, seed 003 §3).
///
/// Below 32: 64. Otherwise the least power of two that holds `count` and the 16-slot
/// guard, in 32-bit arithmetic that wraps near the top exactly as the driver's does:
/// callers refuse counts above the queue limit first.
pub const fn descriptor_count(count: u32) -> u32 {
    if count < neuron_udma::MIN_RING {
        return 64;
    }
    let mut bits = count.wrapping_add(neuron_udma::GUARD_GAP).wrapping_sub(1);
    let mut shift = 1;
    while shift < 32 {
        bits |= bits >> shift;
        shift *= 2;
    }
    bits.wrapping_add(1)
}

/// Descriptors an H2T ring gets.
pub const H2T_RING: u32 = descriptor_count(H2T_DESCRIPTORS);
/// Bytes of each of its two rings.
pub const H2T_RING_BYTES: u64 = H2T_RING as u64 * neuron_udma::DESCRIPTOR_SIZE as u64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of `spec/driver.md` 3; the vectors hold the rest.
    #[test]
    fn counts_round_up_past_the_guard() {
        for (asked, given) in
            [(0, 64), (31, 64), (48, 64), (49, 128), (112, 128), (113, 256), (4096, 8192), (8177, 16384)]
        {
            assert_eq!(descriptor_count(asked), given, "{asked}");
        }
    }

    #[test]
    fn counts_near_the_top_wrap_as_the_driver_does() {
        assert_eq!(descriptor_count(0x7fff_fff1), 0);
        assert_eq!(descriptor_count(0xffff_fff1), 1);
        assert_eq!(descriptor_count(u32::MAX), 16);
    }
}
