//! Register memory: sparse, 32-bit, plain. What is written reads back, everything else reads 0.
//!
//! Registers that act are caught before they get here; on-chip windows are memory of their own
//! ([`crate::onchip`]). A driver touches a few hundred registers of each engine, spread over megabytes, so
//! the pages are small (256 bytes) and made at the first write.

use std::array;
use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sync::{read, write};

const PAGE_WORDS: usize = 64;
const PAGE_SHIFT: u32 = 8;
const SHARDS: usize = 16;

type Page = Box<[AtomicU32; PAGE_WORDS]>;

/// Sparse register memory, shared by all threads.
#[derive(Debug)]
pub(crate) struct RegisterFile {
    shards: [RwLock<HashMap<u64, Page>>; SHARDS],
}

impl RegisterFile {
    pub(crate) fn new() -> Self {
        Self { shards: array::from_fn(|_| RwLock::default()) }
    }

    /// The register at `offset`, a multiple of 4.
    pub(crate) fn read(&self, offset: u64) -> u32 {
        let (page, word) = split(offset);
        read(self.shard(page)).get(&page).map_or(0, |page| page[word].load(Ordering::Acquire))
    }

    /// Writes the register at `offset`, a multiple of 4.
    pub(crate) fn write(&self, offset: u64, value: u32) {
        let (page, word) = split(offset);
        let shard = self.shard(page);
        if let Some(page) = read(shard).get(&page) {
            page[word].store(value, Ordering::Release);
            return;
        }
        let mut pages = write(shard);
        let page = pages.entry(page).or_insert_with(|| Box::new(array::from_fn(|_| AtomicU32::new(0))));
        page[word].store(value, Ordering::Release);
    }

    /// Forgets every page whose first offset satisfies `stale`: its registers read 0 again.
    pub(crate) fn clear(&self, stale: impl Fn(u64) -> bool) {
        for shard in &self.shards {
            write(shard).retain(|page, _| !stale(page << PAGE_SHIFT));
        }
    }

    fn shard(&self, page: u64) -> &RwLock<HashMap<u64, Page>> {
        &self.shards[page as usize % SHARDS]
    }
}

fn split(offset: u64) -> (u64, usize) {
    (offset >> PAGE_SHIFT, (offset as usize >> 2) % PAGE_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_keep_what_was_written_and_the_rest_reads_zero() {
        let file = RegisterFile::new();
        for offset in [0, 4, 0xfc, 0x100, 0x3fff_fffc, 0xffff_fffc] {
            file.write(offset, offset as u32 ^ 0x5a5a_5a5a);
        }
        for offset in [0, 4, 0xfc, 0x100, 0x3fff_fffc, 0xffff_fffc] {
            assert_eq!(file.read(offset), offset as u32 ^ 0x5a5a_5a5a);
        }
        assert_eq!((file.read(8), file.read(0x104), file.read(0x2000)), (0, 0, 0));
    }

    #[test]
    fn clearing_forgets_only_the_pages_named() {
        let file = RegisterFile::new();
        for page in 0..64u64 {
            file.write(page * 256, 7);
        }
        file.clear(|offset| (0x1000..0x2000).contains(&offset));
        for page in 0..64u64 {
            assert_eq!(file.read(page * 256), if (16..32).contains(&page) { 0 } else { 7 });
        }
    }
}
