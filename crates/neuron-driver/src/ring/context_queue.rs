//! Zero-copy transfers of one ring, in the order they were asked for (`spec/dma-op.md` 7.4).
//!
//! The shipped queue is one circular array with four cursors and a state per entry; here a
//! transfer is in the list of its state: pinned, then submitted. There is no list for those
//! that still have to be pinned, since the pin budget is larger than a full queue.

use std::collections::VecDeque;

use neuron_abi::errno::Errno;
use neuron_udma::Barrier;

use super::completion::{Completion, CompletionQueue};
use super::pages::Layout;
use crate::pool::ChunkRef;
use crate::user::Pinned;

/// Entries of the queue; one is kept free.
pub const CAPACITY: usize = 1024;
/// Pages of one transfer, at most: what is cut in half may round up.
pub const MAX_PAGES: u32 = 65;
/// Pages a ring may keep pinned.
const PIN_BUDGET: usize = 524_288;
const _: () = assert!(CAPACITY * MAX_PAGES as usize <= PIN_BUDGET, "a full queue stays within the budget");

/// Whose transfer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Of the call that holds the ring's lock and waits.
    Call,
    /// Of a request that returned; its end is told through the completion queue.
    Request(Request),
    /// Of a request that has failed: only its descriptors and pages still matter.
    Drained,
}

/// An asynchronous request, and its transfer's place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Unique on the ring.
    pub id: u64,
    /// Process that asked.
    pub pid: i32,
    /// Its number for the request, not 0.
    pub sequence: u64,
    /// The caller's word of the transfer's batch.
    pub context: u64,
    /// The request is done when this transfer is.
    pub last: bool,
}

/// A transfer with its pages pinned.
#[derive(Debug)]
pub struct Entry {
    /// Whose it is.
    pub owner: Owner,
    /// Its data descriptors.
    pub layout: Layout,
    /// Ordering of its marker.
    pub marker: Barrier,
    /// Pages under it.
    pub pages: u32,
    /// The pages, which stay while the engine may reach them.
    pub pinned: Pinned,
    /// The chunk, which stays as well.
    pub chunk: ChunkRef,
}

/// A transfer on the ring.
#[derive(Debug)]
pub struct Submitted {
    /// Whose it is.
    pub owner: Owner,
    /// Number of its marker.
    pub slot: usize,
    /// Descriptors to acknowledge, marker included.
    pub descriptors: u32,
    /// The ring was reset under it: its outcome is unknown for good.
    pub lost: bool,
    pinned: Pinned,
    _chunk: ChunkRef,
}

/// The queue. The ring's copy lock guards it.
#[derive(Debug, Default)]
pub struct ContextQueue {
    pinned: VecDeque<Entry>,
    submitted: VecDeque<Submitted>,
    /// Ends of requests that the completion queue had no room for yet.
    ended: VecDeque<(i32, Completion)>,
    submissions: usize,
    requests: u64,
    /// Where ends of requests are told, once somebody asked.
    pub completions: Option<CompletionQueue>,
}

impl ContextQueue {
    /// Entries that are free. Ends that nobody has read take an entry each.
    pub fn room(&self) -> usize {
        (CAPACITY - 1).saturating_sub(self.pinned.len() + self.submitted.len() + self.ended.len())
    }

    /// A number for a new request.
    pub const fn new_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Adds a transfer; see [`room`](Self::room).
    pub fn push(&mut self, entry: Entry) {
        self.pinned.push_back(entry);
    }

    /// Whether any transfer waits to be submitted.
    pub fn has_next(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// The number of the next transfer's marker.
    pub const fn next_slot(&self) -> usize {
        self.submissions % CAPACITY
    }

    /// Takes the transfer to submit next off the list.
    pub fn take_next(&mut self) -> Option<Entry> {
        self.pinned.pop_front()
    }

    /// It could not be submitted yet.
    pub fn put_back(&mut self, entry: Entry) {
        self.pinned.push_front(entry);
    }

    /// The transfer is on the ring.
    pub fn submitted(&mut self, entry: Entry, descriptors: u32) {
        let Entry { owner, pinned, chunk, .. } = entry;
        let slot = self.next_slot();
        self.submissions += 1;
        self.submitted.push_back(Submitted { owner, slot, descriptors, lost: false, pinned, _chunk: chunk });
    }

    /// The transfer that was submitted first, and whether none was after it.
    pub fn oldest(&self) -> Option<(&Submitted, bool)> {
        self.submitted.front().map(|oldest| (oldest, self.submitted.len() == 1))
    }

    /// The oldest has been copied: what came from the device becomes its caller's.
    ///
    /// # Errors
    /// The caller's memory is gone.
    pub fn land(&self) -> Result<(), Errno> {
        self.submitted.front().map_or(Ok(()), |oldest| oldest.pinned.land())
    }

    /// The oldest is off the ring: its pages go.
    pub fn retired(&mut self) -> Option<Owner> {
        self.submitted.pop_front().map(|retired| retired.owner)
    }

    /// Whether any transfer waits for its submission or its end.
    pub fn is_empty(&self) -> bool {
        self.pinned.is_empty() && self.submitted.is_empty()
    }

    /// Whether any transfer is on the ring or waits for it whose owner is `wanted`.
    pub fn any(&self, wanted: impl Fn(Owner) -> bool) -> bool {
        let owners = self.submitted.iter().map(|submitted| submitted.owner);
        owners.chain(self.pinned.iter().map(|entry| entry.owner)).any(wanted)
    }

    /// Forgets transfers that were not submitted; what else is theirs is only drained.
    pub fn abandon(&mut self, theirs: impl Fn(Owner) -> bool) {
        self.pinned.retain(|entry| !theirs(entry.owner));
        for submitted in self.submitted.iter_mut().filter(|submitted| theirs(submitted.owner)) {
            submitted.owner = Owner::Drained;
        }
    }

    /// A request's transfer ended. The request's end is told at its last transfer, or once
    /// at its first failure, after which its other transfers are only drained.
    pub fn end(&mut self, request: Request, errno: i64) {
        if errno != 0 {
            self.abandon(|owner| matches!(owner, Owner::Request(other) if other.id == request.id));
        } else if !request.last {
            return;
        }
        let Request { pid, context, sequence, .. } = request;
        self.ended.push_back((pid, Completion { result: errno, context, sequence }));
        self.tell();
    }

    /// Posts ended requests as far as the reader leaves room. Whether all were.
    pub fn tell(&mut self) -> bool {
        // Without a queue no request was accepted.
        while let (Some((_, completion)), Some(queue)) = (self.ended.front(), &mut self.completions) {
            if !queue.post(completion) {
                return false;
            }
            self.ended.pop_front();
        }
        true
    }

    /// The process is gone: what nobody can read any more is not told.
    pub fn forget(&mut self, pid: i32) {
        self.abandon(|owner| matches!(owner, Owner::Request(request) if request.pid == pid));
        self.ended.retain(|&(of, _)| of != pid);
    }

    /// The ring was reset: everything on it is lost.
    pub fn lose_all(&mut self) {
        self.submitted.iter_mut().for_each(|submitted| submitted.lost = true);
    }
}
