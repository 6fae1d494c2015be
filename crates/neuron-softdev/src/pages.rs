//! Pages of HBM, made many at a time ([`DeviceConfig::populate`](crate::DeviceConfig::populate)).
//!
//! A page that is touched first by a copy costs a fault, which costs more than the copy. So a large write has
//! the pages of its blocks made first; and while large writes follow one another, a thread makes those of the
//! next blocks. Memory that is only read, or written in small pieces, takes no page more than it touches.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

/// Makes the pages of memory without changing a byte.
pub(crate) type Populate = fn(&VolatileSlice<'_>);

/// Pages are made by so many bytes: as many as a descriptor moves at most.
const BLOCK: u64 = 64 << 10;
/// A write of fewer bytes takes only the pages that it touches.
const LARGE: u64 = 16 << 10;
/// Blocks that are made ahead at a time.
const STRIDE: u64 = 16;

/// The pages of a region.
#[derive(Debug)]
pub(crate) struct Pages {
    region: Arc<MmapRegion>,
    populate: Populate,
    /// One bit for each block that was made, or is being made.
    made: Vec<AtomicU64>,
}

impl Pages {
    pub(crate) fn new(region: &Arc<MmapRegion>, populate: Populate) -> Self {
        let words = (region.size() as u64).div_ceil(BLOCK * u64::from(u64::BITS));
        let made = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { region: Arc::clone(region), populate, made }
    }

    /// Before `bytes` bytes are written at `offset`.
    pub(crate) fn before_write(self: &Arc<Self>, offset: u64, bytes: u64, ahead: Option<&Ahead>) {
        if bytes < LARGE {
            return;
        }
        let (first, last) = (offset / BLOCK, (offset + bytes - 1) / BLOCK);
        (first..=last).for_each(|block| self.make(block));
        if let Some(ahead) = ahead
            && last.is_multiple_of(STRIDE)
            && last.checked_sub(1).is_some_and(|before| self.is_made(before))
            && !self.is_made(last + STRIDE)
        {
            ahead.make(Job { pages: Arc::clone(self), first: last + STRIDE });
        }
    }

    /// Makes a block, if nobody did.
    fn make(&self, block: u64) {
        let Some((word, bit)) = self.word(block) else { return };
        if word.load(Ordering::Relaxed) & bit != 0 || word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        let start = block * BLOCK;
        let bytes = BLOCK.min((self.region.size() as u64).saturating_sub(start));
        if let Ok(pages) = self.region.get_slice(start as usize, bytes as usize) {
            (self.populate)(&pages);
        }
    }

    fn is_made(&self, block: u64) -> bool {
        self.word(block).is_none_or(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// `None` behind the end.
    fn word(&self, block: u64) -> Option<(&AtomicU64, u64)> {
        Some((self.made.get((block / 64) as usize)?, 1 << (block % 64)))
    }
}

#[derive(Debug)]
struct Job {
    pages: Arc<Pages>,
    first: u64,
}

/// The thread that makes pages ahead. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Ahead {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, queue) = sync_channel::<Job>(4);
        let thread = thread::Builder::new().name("neuron-pages".into()).spawn(move || {
            for Job { pages, first } in queue {
                (first..first + STRIDE).for_each(|block| pages.make(block));
            }
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// If the thread has enough to do already, the writes make their pages themselves.
    fn make(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            let _later = jobs.try_send(job);
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so on stderr.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm_memory::Bytes as _;

    /// Marks the first byte of what it is asked to make.
    fn mark(pages: &VolatileSlice<'_>) {
        let count: u8 = pages.read_obj(0).unwrap();
        pages.write_obj(count + 1, 0).unwrap();
    }

    fn pages() -> Arc<Pages> {
        let region = Arc::new(MmapRegion::new(64 * BLOCK as usize + 4096).unwrap());
        Arc::new(Pages::new(&region, mark))
    }

    /// How often each block was made.
    fn made(pages: &Pages) -> Vec<u8> {
        (0..65)
            .map(|block| pages.region.get_slice(block * BLOCK as usize, 1).unwrap().read_obj(0).unwrap())
            .collect()
    }

    fn blocks(blocks: impl IntoIterator<Item = usize>) -> Vec<u8> {
        let mut counts = vec![0; 65];
        blocks.into_iter().for_each(|block| counts[block] += 1);
        counts
    }

    #[test]
    fn a_large_write_makes_its_blocks_once_and_a_small_one_none() {
        let pages = pages();
        pages.before_write(3 * BLOCK, LARGE - 1, None);
        assert_eq!(made(&pages), blocks([]));
        for _ in 0..2 {
            pages.before_write(3 * BLOCK + 1, BLOCK, None);
        }
        assert_eq!(made(&pages), blocks([3, 4]));
        pages.before_write(64 * BLOCK, LARGE, None);
        assert_eq!(made(&pages), blocks([3, 4, 64]), "the last block is as long as there is memory");
    }

    #[test]
    fn writes_that_follow_one_another_have_the_next_blocks_made_and_others_do_not() {
        let pages = pages();
        let ahead = Ahead::start().unwrap();
        pages.before_write(16 * BLOCK, BLOCK, Some(&ahead));
        pages.before_write(0, BLOCK, Some(&ahead));
        pages.before_write(15 * BLOCK, 2 * BLOCK, Some(&ahead));
        drop(ahead);
        assert_eq!(made(&pages), blocks([0, 15, 16].into_iter().chain(32..48)));
    }

    #[test]
    fn behind_the_end_there_is_nothing_to_make() {
        let pages = pages();
        let ahead = Ahead::start().unwrap();
        for block in 0..64 {
            pages.before_write(block * BLOCK, BLOCK, Some(&ahead));
        }
        drop(ahead);
        assert!(made(&pages).iter().all(|&times| times <= 1));
    }
}
