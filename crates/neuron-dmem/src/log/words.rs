//! The log's memory as 64-bit words: little-endian, each read and written whole. In RAM or
//! in a mapped file; what the words mean is [`layout`](super::layout)'s.
//!
//! Others may look while the log is written, so no reference to the bytes is ever taken:
//! words that others may be looking at are atomics. A word outside the memory reads as 0 and takes no store, so that
//! no number found in a file can end the process.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use vm_memory::{FileOffset, MmapRegion, VolatileMemory as _, VolatileSlice};
use zerocopy::FromZeros as _;

/// Bytes of a word.
pub(super) const WORD: usize = 8;

/// The words.
#[derive(Debug)]
pub(super) enum Words {
    /// A mapping of a file.
    Mapped(MmapRegion),
    /// Memory of this process alone.
    Heap(Box<[AtomicU64]>),
    /// Also keeps every store in its order, so that a test can stop behind each.
    #[cfg(test)]
    Recorded(Box<[AtomicU64]>, std::sync::Arc<std::sync::Mutex<Vec<(usize, u64)>>>),
}

impl Words {
    /// Zeroed memory of this process, if there is so much. Pages that nothing is written to
    /// take no room.
    pub(super) fn lazy(words: usize) -> Option<Self> {
        <[AtomicU64]>::new_box_zeroed_with_elems(words).ok().map(Self::Heap)
    }

    /// A few zeroed words.
    pub(super) fn few(words: usize) -> Self {
        Self::Heap((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether anybody outside of this process may look, now or when it is no more.
    pub(super) const fn are_shared(&self) -> bool {
        !matches!(self, Self::Heap(_))
    }

    /// The file they are in.
    pub(super) fn file(&self) -> Option<&File> {
        match self {
            Self::Mapped(region) => region.file_offset().map(FileOffset::file),
            _ => None,
        }
    }

    #[inline]
    fn at(&self, word: usize) -> Option<&AtomicU64> {
        match self {
            Self::Mapped(region) => region.get_atomic_ref(word.checked_mul(WORD)?).ok(),
            Self::Heap(words) => words.get(word),
            #[cfg(test)]
            Self::Recorded(words, _) => words.get(word),
        }
    }

    #[inline]
    pub(super) fn load(&self, word: usize) -> u64 {
        self.at(word).map_or(0, |at| u64::from_le(at.load(Ordering::Relaxed)))
    }

    #[inline]
    pub(super) fn store(&self, word: usize, value: u64) {
        #[cfg(test)]
        self.record(word, value);
        if let Some(at) = self.at(word) {
            at.store(value.to_le(), Ordering::Relaxed);
        }
    }

    /// Loads a word; what was stored before it was [published](Self::publish) is seen after.
    pub(super) fn load_published(&self, word: usize) -> u64 {
        self.at(word).map_or(0, |at| u64::from_le(at.load(Ordering::Acquire)))
    }

    /// Stores a word after everything stored before, and before everything stored after it.
    pub(super) fn publish(&self, word: usize, value: u64) {
        #[cfg(test)]
        self.record(word, value);
        if let Some(at) = self.at(word) {
            at.store(value.to_le(), Ordering::Release);
        }
        fence(Ordering::Release);
    }

    /// Loads words that nothing changes meanwhile, or that are thrown away if something did:
    /// each may be torn, which is what makes it cheaper than [`load`](Self::load).
    #[inline]
    pub(super) fn load_block(&self, first: usize, into: &mut [u64]) {
        if let Some(block) = self.mapped(first, into.len()) {
            block.copy_to(into);
        } else if let Some(block) = self.private(first, into.len()) {
            for (word, value) in block.iter().zip(into) {
                *value = u64::from_le(word.load(Ordering::Relaxed));
            }
        } else {
            for (word, value) in (first..).zip(into) {
                *value = self.load(word);
            }
        }
    }

    /// Stores words that nobody looks at before another is [published](Self::publish).
    #[inline]
    pub(super) fn store_block(&self, first: usize, values: &[u64]) {
        if let Some(block) = self.mapped(first, values.len()) {
            block.copy_from(values);
        } else if let Some(block) = self.private(first, values.len()) {
            for (word, value) in block.iter().zip(values) {
                word.store(value.to_le(), Ordering::Relaxed);
            }
        } else {
            for (word, value) in (first..).zip(values) {
                self.store(word, *value);
            }
        }
    }

    /// Words that can be copied as they are.
    fn mapped(&self, first: usize, words: usize) -> Option<VolatileSlice<'_>> {
        match self {
            Self::Mapped(region) if cfg!(target_endian = "little") => {
                region.get_slice(first.checked_mul(WORD)?, words.checked_mul(WORD)?).ok()
            }
            _ => None,
        }
    }

    /// Words of this process alone.
    #[inline]
    fn private(&self, first: usize, words: usize) -> Option<&[AtomicU64]> {
        match self {
            Self::Heap(all) => all.get(first..first.checked_add(words)?),
            _ => None,
        }
    }

    #[cfg(test)]
    fn record(&self, word: usize, value: u64) {
        if let Self::Recorded(_, stores) = self {
            stores.lock().unwrap().push((word, value));
        }
    }
}
