//! The chunk table of a staged copy, exact to the byte (`spec/dmem.md` 6.2).

use neuron_ndl::WaitHandle;

/// Sizes up to this go in one synchronous pass.
const SINGLE_PASS_MAX: u64 = 0x3fff;
/// Largest chunk: two fill the bounce buffer.
const CHUNK_MAX: u64 = 0x10_0000;
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
    /// The plan for `size` bytes.
    pub const fn for_size(size: u64) -> Self {
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

    /// (offset, bytes, offset in the bounce buffer) of each chunk; the two places in the
    /// buffer take turns.
    pub fn chunks(self, size: u64) -> impl Iterator<Item = Chunk> {
        (0..size.div_ceil(self.chunk)).map(move |index| {
            let offset = index * self.chunk;
            Chunk { offset, bytes: (size - offset).min(self.chunk), place: index % 2 * self.chunk }
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
            let plan = ChunkPlan::for_size(size);
            assert_eq!((plan.chunk, plan.chunks(size).count()), (chunk, count), "{size:#x}");
            assert_eq!(plan.first == WaitHandle::SYNC, size < 0x4000);
        }
    }

    #[test]
    fn exactly_126_sizes_need_a_third_chunk_of_one_byte() {
        let odd: Vec<u64> = (0x4000..=0x10_0000)
            .filter(|&size| ChunkPlan::for_size(size).chunks(size).count() == 3)
            .collect();
        assert_eq!(odd.len(), 126);
        for size in odd {
            assert_eq!(size % 8192, 1);
            assert_eq!(ChunkPlan::for_size(size).chunks(size).last().map(|chunk| chunk.bytes), Some(1));
        }
    }

    proptest! {
        #[test]
        fn chunks_tile_the_copy_and_fit_the_buffer(size in 0u64..20_000_000) {
            let mut done = 0;
            let mut last_place = u64::MAX;
            for chunk in ChunkPlan::for_size(size).chunks(size) {
                prop_assert_eq!(chunk.offset, done);
                prop_assert!(chunk.bytes > 0 && chunk.place + chunk.bytes <= COPY_BUFFER_BYTES);
                prop_assert_ne!(chunk.place, last_place);
                done += chunk.bytes;
                last_place = chunk.place;
            }
            prop_assert_eq!(done, size);
        }
    }
}
