//! The queue through which a ring tells the ends of asynchronous zero-copy requests
//! (`spec/dma-op.md` 8). The runtime maps it and reads; the driver writes.

use std::sync::atomic::Ordering;

use neuron_abi::arg::{CompletionEntry, CompletionHeader};
use neuron_abi::limits::COMPLETION_QUEUE_ENTRIES;
use vm_memory::Bytes;
use zerocopy::IntoBytes;

use crate::pool::ChunkRef;

/// Bytes of a completion queue, before rounding.
pub const BYTES: u64 =
    (size_of::<CompletionHeader>() + COMPLETION_QUEUE_ENTRIES as usize * size_of::<CompletionEntry>()) as u64;

const HEAD: usize = std::mem::offset_of!(CompletionHeader, head);
const TAIL: usize = std::mem::offset_of!(CompletionHeader, tail);

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// 0 or a negative errno.
    pub result: i64,
    /// The caller's word of the batch that ended it.
    pub context: u64,
    /// The caller's number of the request.
    pub sequence: u64,
}

/// The writer's side. Its own count is what it goes by: the reader can write to the memory.
#[derive(Debug)]
pub struct CompletionQueue {
    chunk: ChunkRef,
    tail: u32,
}

impl CompletionQueue {
    /// An empty queue in a chunk of host memory, at least [`BYTES`] long.
    pub fn new(chunk: ChunkRef) -> Self {
        if let Some(memory) = chunk.host_memory() {
            memory.fill(0);
            let header = CompletionHeader { capacity: COMPLETION_QUEUE_ENTRIES, ..Default::default() };
            let _stored = memory.slice().write_slice(header.as_bytes(), 0);
        }
        Self { chunk, tail: 0 }
    }

    /// Its memory.
    pub const fn chunk(&self) -> &ChunkRef {
        &self.chunk
    }

    /// Writes an entry, unless the reader is a whole queue behind.
    pub fn post(&mut self, completion: &Completion) -> bool {
        // Memory that is not there cannot be read either: nobody misses the entry.
        let Some(memory) = self.chunk.host_slice() else { return true };
        let Ok(head) = memory.load::<u32>(HEAD, Ordering::Acquire) else { return true };
        if self.tail.wrapping_sub(head) >= COMPLETION_QUEUE_ENTRIES {
            return false;
        }
        let slot = (self.tail % COMPLETION_QUEUE_ENTRIES) as usize;
        let entry = CompletionEntry {
            compl_ret: completion.result,
            context: completion.context,
            sequence_num: completion.sequence,
        };
        let at = size_of::<CompletionHeader>() + slot * size_of::<CompletionEntry>();
        let written = memory.write_slice(entry.as_bytes(), at);
        self.tail = self.tail.wrapping_add(1);
        let _published = written.and_then(|()| memory.store(self.tail, TAIL, Ordering::Release));
        true
    }
}
