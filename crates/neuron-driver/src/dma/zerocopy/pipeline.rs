//! Transfers on their way: submitted as far as the ring has room, waited for oldest first,
//! and their pages let go.

use std::iter::once;
use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_udma::Copy;

use crate::device::Device;
use crate::error::COPY_TIMEOUT;
use crate::ring::H2tRing;
use crate::ring::context::Contexts;
use crate::ring::context_queue::Owner;

/// Free descriptors that a call waits for once it has to wait, one more exactly. It has to
/// when a transfer does not fit, which is below 65 at most.
const HIGH_WATER: u32 = 520;

impl Device {
    /// Puts transfers on the ring, oldest first, as long as there are descriptors for them:
    /// one for each page at worst, and one for the marker.
    ///
    /// # Errors
    /// The error of a transfer of the call itself, which is off the queue then; a request's
    /// is told to whoever made it.
    pub(super) fn submit(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts) -> Result<(), Errno> {
        while let Some(entry) = contexts.zero_copy.take_next() {
            let marker = ring.zero_copy_marker(contexts.zero_copy.next_slot())?;
            let last = Copy { barrier: entry.marker, ..marker.copy() };
            let copies = entry.layout.descriptors(&entry.pinned.runs).chain(once(last));
            match self.put(ring, contexts, &marker, copies, entry.pages + 1) {
                Ok(count) => contexts.zero_copy.submitted(entry, count),
                Err(Errno::ENOMEM) => {
                    contexts.zero_copy.put_back(entry);
                    break;
                }
                Err(error) => self.refused(contexts, entry.owner, error)?,
            }
        }
        Ok(())
    }

    /// A transfer cannot be put on the ring. The error comes back if it is the call's own.
    fn refused(&self, contexts: &mut Contexts, owner: Owner, error: Errno) -> Result<(), Errno> {
        match owner {
            Owner::Call => return Err(error),
            Owner::Request(request) => contexts.zero_copy.end(request, error.negated().into()),
            Owner::Drained => {}
        }
        Ok(())
    }

    /// Waits until there is room in the queue and what is in it is on the ring. Once it
    /// waits, it waits for many descriptors, so that it does not wait again at once.
    ///
    /// # Errors
    /// The error of a transfer of the call itself.
    pub(super) fn make_room(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts) -> Result<(), Errno> {
        while contexts.zero_copy.room() == 0 || contexts.zero_copy.has_next() {
            loop {
                match self.retire(ring, contexts) {
                    Some(ended) => ended?,
                    // Copies of others fill the ring; `end_call` tells.
                    None => return Ok(()),
                }
                if self.available(ring) > HIGH_WATER && contexts.zero_copy.room() > 0 {
                    break;
                }
            }
            self.submit(ring, contexts)?;
        }
        Ok(())
    }

    /// Waits for all transfers of the call.
    ///
    /// # Errors
    /// The first error of any.
    pub(super) fn end_call(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts) -> Result<(), Errno> {
        let mut outcome = Ok(());
        while contexts.zero_copy.any(|owner| matches!(owner, Owner::Call | Owner::Drained)) {
            outcome = outcome.and(self.advance(ring, contexts));
        }
        outcome
    }

    /// Submits what can be and waits for the oldest transfer. Afterwards there is one less:
    /// if nothing can be submitted and nothing is on the ring, the next one has failed.
    pub(super) fn advance(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts) -> Result<(), Errno> {
        self.submit(ring, contexts)?;
        if let Some(ended) = self.retire(ring, contexts) {
            return ended;
        }
        match contexts.zero_copy.take_next() {
            Some(entry) => self.refused(contexts, entry.owner, Errno::ENOMEM),
            None => Ok(()),
        }
    }

    /// Waits for the transfer that was submitted first and lets its pages go; `None` if there
    /// is none. The end of a request's is told to whoever made it.
    fn retire(&self, ring: &Arc<H2tRing>, contexts: &mut Contexts) -> Option<Result<(), Errno>> {
        let (oldest, newest) = contexts.zero_copy.oldest()?;
        let (slot, descriptors, lost) = (oldest.slot, oldest.descriptors, oldest.lost);
        let ended = if lost {
            Err(COPY_TIMEOUT)
        } else {
            ring.zero_copy_marker(slot).and_then(|marker| {
                // As a classic copy: what others were staged behind is waited for as asynchronous.
                if self.poll(&marker, descriptors, !newest) {
                    self.acknowledge_copy(ring, descriptors)
                } else {
                    Err(self.time_out(ring, contexts, descriptors))
                }
            })
        };
        let ended = ended.and_then(|()| contexts.zero_copy.land());
        match contexts.zero_copy.retired() {
            Some(Owner::Request(request)) => {
                let errno = ended.map_or_else(|error| error.negated().into(), |()| 0);
                contexts.zero_copy.end(request, errno);
                Some(Ok(()))
            }
            Some(Owner::Call) => Some(ended),
            Some(Owner::Drained) | None => Some(Ok(())),
        }
    }

    /// Descriptors that are free; none of a ring that is no longer on its queue.
    fn available(&self, ring: &H2tRing) -> u32 {
        let Ok(mut engine) = self.engines().lock(ring.engine()) else { return 0 };
        engine.udma.pair(ring.qid()).and_then(|pair| pair.available()).unwrap_or(0)
    }
}
