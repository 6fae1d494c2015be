//! How a user buffer is cut: into transfers by pages, and a transfer into descriptors.
//! Plain arithmetic, as [`transfer`](super::transfer)'s is for other copies (`spec/dma-op.md` 7.2, 7.3).

use neuron_abi::arch::PAGE_SIZE;
use neuron_udma::{Barrier, Copy, MAX_DESCRIPTOR_BYTES};

use crate::user::{Access, PageRun};

/// Pages that one transfer pins, but for the two halves of what is at most twice as long.
const TRANSFER_PAGES: u64 = 64;

/// Part of a buffer that is pinned and moved as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset in the buffer.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Pages that hold them.
    pub pages: u32,
}

/// Bytes that are pinned for one transfer of a buffer of `bytes` that starts `page_offset`
/// into a page; the first one's include that offset.
const fn pin_size(bytes: u64, page_offset: u64) -> u64 {
    let whole = bytes.saturating_add(page_offset);
    if whole > 2 * TRANSFER_PAGES * PAGE_SIZE {
        TRANSFER_PAGES * PAGE_SIZE
    } else if whole <= TRANSFER_PAGES * PAGE_SIZE {
        whole
    } else {
        whole.div_ceil(2).next_multiple_of(PAGE_SIZE)
    }
}

/// The transfers of a buffer at a user address.
pub fn parts(address: u64, bytes: u64) -> impl Iterator<Item = Part> {
    let page_offset = address % PAGE_SIZE;
    let pin = pin_size(bytes, page_offset);
    let mut done = 0;
    std::iter::from_fn(move || {
        let (before, left) = (if done == 0 { page_offset } else { 0 }, bytes - done);
        let part_bytes = left.min(pin - before);
        let part =
            Part { offset: done, bytes: part_bytes, pages: (before + part_bytes).div_ceil(PAGE_SIZE) as u32 };
        done += part_bytes;
        (part_bytes > 0).then_some(part)
    })
}

/// A transfer whose pages are known: what its descriptors are made of.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Bus address of the chunk's first byte of the transfer.
    pub chunk: u64,
    /// Offset of the first byte in the first page.
    pub page_offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Which way it goes, as the device sees the user's pages.
    pub access: Access,
    /// ORed into page addresses.
    pub host_base: u64,
    /// Ordering of the last data descriptor.
    pub last: Barrier,
}

impl Layout {
    /// The data descriptors between the pages of `runs` and the chunk. Pages that lie side by
    /// side share descriptors of up to 64 KiB.
    pub fn descriptors(self, runs: &[PageRun]) -> impl Iterator<Item = Copy> {
        let mut runs = joined(runs);
        let mut run = runs.next().map(|(start, bytes)| (start + self.page_offset, start + bytes));
        let mut done = 0;
        std::iter::from_fn(move || {
            let (at, end) = run.filter(|_| done < self.bytes)?;
            let piece = (end - at).min(self.bytes - done).min(MAX_DESCRIPTOR_BYTES.into());
            let (user, chunk) = (at | self.host_base, self.chunk + done);
            let (source, destination) = match self.access {
                Access::Read => (user, chunk),
                Access::Write => (chunk, user),
            };
            done += piece;
            run = match at + piece {
                next if next == end => runs.next().map(|(start, bytes)| (start, start + bytes)),
                next => Some((next, end)),
            };
            let barrier = if done == self.bytes { self.last } else { Barrier::None };
            Some(Copy { source, destination, bytes: piece as u32, barrier, interrupt: false })
        })
    }
}

/// Runs as (address, bytes), neighbours made one.
fn joined(runs: &[PageRun]) -> impl Iterator<Item = (u64, u64)> {
    let mut runs = runs.iter().map(|run| (run.address, u64::from(run.pages) * PAGE_SIZE)).peekable();
    std::iter::from_fn(move || {
        let (address, mut bytes) = runs.next()?;
        while let Some((_, more)) = runs.next_if(|&(next, _)| next == address + bytes) {
            bytes += more;
        }
        Some((address, bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::context_queue::MAX_PAGES;
    use proptest::prelude::*;

    fn sizes(address: u64, bytes: u64) -> Vec<(u64, u32)> {
        parts(address, bytes).map(|part| (part.bytes, part.pages)).collect()
    }

    #[test]
    fn up_to_64_pages_are_one_transfer_and_up_to_128_two_halves() {
        let page = PAGE_SIZE;
        assert_eq!(sizes(0, 64 * page), [(64 * page, 64)]);
        assert_eq!(sizes(1, 64 * page - 1), [(64 * page - 1, 64)]);
        assert_eq!(sizes(1, 64 * page), [(33 * page - 1, 33), (31 * page + 1, 32)]);
        assert_eq!(sizes(0, 128 * page), [(64 * page, 64), (64 * page, 64)]);
        assert_eq!(
            sizes(5, 128 * page),
            [(64 * page - 5, 64), (64 * page, 64), (5, 1)],
            "more than 128 pages with the offset"
        );
        assert_eq!(sizes(7, 0), []);
    }

    proptest! {
        #[test]
        fn parts_cover_the_buffer_and_pin_few_pages(address in 0_u64..1 << 40, bytes in 1_u64..3 << 20) {
            let mut done = 0;
            for (index, part) in parts(address, bytes).enumerate() {
                prop_assert_eq!(part.offset, done);
                prop_assert!(part.pages <= MAX_PAGES);
                let start = address + part.offset;
                if index > 0 {
                    prop_assert_eq!(start % PAGE_SIZE, 0, "later transfers start on a page");
                }
                let pages = (start + part.bytes).div_ceil(PAGE_SIZE) - start / PAGE_SIZE;
                prop_assert_eq!(u64::from(part.pages), pages);
                done += part.bytes;
            }
            prop_assert_eq!(done, bytes);
        }

        #[test]
        fn descriptors_move_exactly_the_bytes_of_the_pages(
            shape in prop::collection::vec((1_u32..20, prop::bool::ANY), 1..12),
            from in 0_u64..PAGE_SIZE,
            cut in 0_u64..PAGE_SIZE,
            write: bool,
        ) {
            let mut runs = Vec::new();
            let mut next = 0x1_8000_0000;
            for (pages, gap) in shape {
                next += if gap { 3 * PAGE_SIZE } else { 0 };
                runs.push(PageRun { address: next, pages });
                next += u64::from(pages) * PAGE_SIZE;
            }
            let room: u64 = runs.iter().map(|run| u64::from(run.pages) * PAGE_SIZE).sum();
            let bytes = (room - from).saturating_sub(cut).max(1);
            let layout = Layout {
                chunk: 0x100_0000,
                page_offset: from,
                bytes,
                access: if write { Access::Write } else { Access::Read },
                host_base: 1 << 46,
                last: Barrier::Write,
            };
            let copies: Vec<_> = layout.descriptors(&runs).collect();
            // Byte for byte, against the pages one by one.
            let mut wanted = runs
                .iter()
                .flat_map(|run| (0..u64::from(run.pages)).map(move |page| run.address + page * PAGE_SIZE))
                .flat_map(|page| [(page, PAGE_SIZE)]);
            let mut page = wanted.next().map(|(at, len)| (at + from, len - from));
            let mut chunk = layout.chunk;
            for (index, copy) in copies.iter().enumerate() {
                let (user, device) =
                    if write { (copy.destination, copy.source) } else { (copy.source, copy.destination) };
                prop_assert_eq!(device, chunk);
                prop_assert!(copy.bytes > 0 && copy.bytes <= MAX_DESCRIPTOR_BYTES);
                prop_assert_eq!(copy.barrier == Barrier::Write, index + 1 == copies.len());
                let (mut at, mut left) = (user & !layout.host_base, u64::from(copy.bytes));
                while left > 0 {
                    let (start, len) = page.unwrap();
                    prop_assert_eq!(at, start);
                    let taken = left.min(len);
                    (at, left) = (at + taken, left - taken);
                    page = if taken == len { wanted.next() } else { Some((start + taken, len - taken)) };
                }
                chunk += u64::from(copy.bytes);
            }
            prop_assert_eq!(chunk - layout.chunk, bytes);
        }

        #[test]
        fn one_long_run_takes_as_few_descriptors_as_there_are(from in 0_u64..PAGE_SIZE, bytes in 1_u64..200_000) {
            let runs = [PageRun { address: 0x2_0000_0000, pages: 60 }];
            let layout = Layout {
                chunk: 0,
                page_offset: from,
                bytes,
                access: Access::Read,
                host_base: 0,
                last: Barrier::None,
            };
            prop_assert_eq!(layout.descriptors(&runs).count() as u64, bytes.div_ceil(65536));
        }
    }
}
