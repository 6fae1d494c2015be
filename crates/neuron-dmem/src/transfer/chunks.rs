//! How a staged copy is cut: the runtime's table, exact to the byte (`spec/dmem.md` 6.2), and
//! a second way without overlap.

use neuron_ndl::WaitHandle;

/// Sizes up to this go in one synchronous pass.
pub(super) const SINGLE_PASS_MAX: u64 = 0x3fff;
/// Largest chunk of the table: two fill the bounce buffer.
const CHUNK_MAX: u64 = 0x10_0000;
/// Chunk of a serial copy: the processor's next read of it comes from its cache (our choice,
/// by `benches/staged`).
const SERIAL_CHUNK: u64 = 0x4_0000;
const PAGE_MASK: u64 = 0xfff;

/// How a copy of some size is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlan {
    /// Bytes of each chunk but the last.
    pub chunk: u64,
    /// The wait handle the first request names.
    pub first: WaitHandle,
}

impl ChunkPlan {
    /// The runtime's plan for `size` bytes.
    pub const fn exact(size: u64) -> Self {
        if size <= SINGLE_PASS_MAX {
            return Self { chunk: SINGLE_PASS_MAX + 1, first: WaitHandle::SYNC };
        }
        if size > CHUNK_MAX {
            return Self { chunk: CHUNK_MAX, first: WaitHandle::NONE };
        }
        // The halving drops an odd byte, so 126 sizes need a third chunk of one byte.
        let chunk = ((size >> 1) + PAGE_MASK) & !PAGE_MASK;
        Self { chunk, first: WaitHandle::NONE }
    }

    /// One chunk after the other, each done before the next is staged.
    pub const fn serial() -> Self {
        Self { chunk: SERIAL_CHUNK, first: WaitHandle::SYNC }
    }

    /// (offset, bytes, offset in the bounce buffer) of each chunk. Two places in the buffer
    /// take turns where chunks overlap in time; else there is one.
    pub fn chunks(self, size: u64) -> impl Iterator<Item = Chunk> {
        let places = if self.first.is_sync() { 1 } else { 2 };
        (0..size.div_ceil(self.chunk)).map(move |index| {
            let offset = index * self.chunk;
            Chunk { offset, bytes: (size - offset).min(self.chunk), place: index % places * self.chunk }
        })
    }
}

/// One request of a staged copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Offset in the copy.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Offset in the bounce buffer.
    pub place: u64,
}

impl Chunk {
    /// Where it ends in the copy.
    pub const fn end(self) -> u64 {
        self.offset + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_ndl::COPY_BUFFER_BYTES;
    use proptest::prelude::*;

    #[test]
    fn thresholds_are_exact() {
        for (size, chunk, count) in [
            (0, 0x4000, 0),
            (1, 0x4000, 1),
            (0x3fff, 0x4000, 1),
            (0x4000, 0x2000, 2),
            (0x4001, 0x2000, 3),
            (0x4002, 0x3000, 2),
            (0x10_0000, 0x8_0000, 2),
            (0x10_0001, 0x10_0000, 2),
            (0x50_0000, 0x10_0000, 5),
        ] {
            let plan = ChunkPlan::exact(size);
            assert_eq!((plan.chunk, plan.chunks(size).count()), (chunk, count), "{size:#x}");
            assert_eq!(plan.first == WaitHandle::SYNC, size < 0x4000);
        }
    }

    #[test]
    fn exactly_126_sizes_need_a_third_chunk_of_one_byte() {
        let odd: Vec<u64> =
            (0x4000..=0x10_0000).filter(|&size| ChunkPlan::exact(size).chunks(size).count() == 3).collect();
        assert_eq!(odd.len(), 126);
        for size in odd {
            assert_eq!(size % 8192, 1);
            assert_eq!(ChunkPlan::exact(size).chunks(size).last().map(|chunk| chunk.bytes), Some(1));
        }
    }

    proptest! {
        #[test]
        fn chunks_tile_the_copy_and_fit_the_buffer(size in 0u64..20_000_000, serial: bool) {
            let plan = if serial { ChunkPlan::serial() } else { ChunkPlan::exact(size) };
            let mut done = 0;
            let mut last_place = u64::MAX;
            for chunk in plan.chunks(size) {
                prop_assert_eq!(chunk.offset, done);
                prop_assert!(chunk.bytes > 0 && chunk.place + chunk.bytes <= COPY_BUFFER_BYTES);
                // Only what is done may be overwritten.
                prop_assert!(plan.first.is_sync() || chunk.place != last_place);
                done = chunk.end();
                last_place = chunk.place;
            }
            prop_assert_eq!(done, size);
        }
    }
}
