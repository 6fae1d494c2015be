//! Handles: the numbers callers know chunks by (`spec/mempool.md` 6).
//!
//! Fresh handles count up from 1; freed ones are used again last in, first out. A
//! handle carries no generation, so a stale one may name a newer chunk: that is the ABI.

use neuron_abi::errno::Errno;

use super::chunk::ChunkRef;

/// Entries of the table, index 0 included.
const CAPACITY: usize = 512 * 8192;

/// The table of one device.
#[derive(Debug)]
pub struct HandleTable {
    entries: Vec<Entry>,
    /// Last freed entry, or 0.
    free: usize,
}

#[derive(Debug)]
enum Entry {
    Chunk(ChunkRef),
    /// The entry freed before this one, or 0.
    Free(usize),
}

impl Default for HandleTable {
    fn default() -> Self {
        Self { entries: vec![Entry::Free(0)], free: 0 }
    }
}

impl HandleTable {
    /// Gives a chunk a number.
    ///
    /// # Errors
    /// ENOENT when all 4,194,303 are in use. Only this call fails; the table goes on.
    pub fn publish(&mut self, chunk: ChunkRef) -> Result<u64, Errno> {
        let index = self.free;
        if let Some(entry) = self.entries.get_mut(index).filter(|_| index != 0) {
            if let Entry::Free(next) = *entry {
                self.free = next;
            }
            *entry = Entry::Chunk(chunk);
            return Ok(index as u64);
        }
        if self.entries.len() >= CAPACITY {
            return Err(Errno::ENOENT);
        }
        self.entries.push(Entry::Chunk(chunk));
        Ok(self.entries.len() as u64 - 1)
    }

    /// The chunk of a number.
    pub fn lookup(&self, handle: u64) -> Option<&ChunkRef> {
        match self.entries.get(usize::try_from(handle).ok()?) {
            Some(Entry::Chunk(chunk)) => Some(chunk),
            _ => None,
        }
    }

    /// Takes the number back and returns what it named.
    pub fn withdraw(&mut self, handle: u64) -> Option<ChunkRef> {
        let index = usize::try_from(handle).ok()?;
        let entry = self.entries.get_mut(index).filter(|entry| matches!(entry, Entry::Chunk(_)))?;
        let old = std::mem::replace(entry, Entry::Free(self.free));
        self.free = index;
        match old {
            Entry::Chunk(chunk) => Some(chunk),
            Entry::Free(_) => None,
        }
    }
}
