//! The order in which pages of a contiguous scratchpad are freed. The driver places each page
//! right under the last, from the end of an HBM's main pool down, and wants them back lowest
//! first (seed 000 §2, `spec/dmem.md` 5.2).
//!
//! So a page keeps the one above it alive, whoever else lets go of that one, and whichever
//! core of this process it is of. What other processes have on the HBM is theirs.

use std::fmt::Debug;
use std::sync::Arc;

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A page, known and not held.
pub(crate) trait Page: Debug + Send + Sync {
    /// Keeps it alive; `None` if it is being freed.
    fn keep(&self) -> Option<Box<dyn Kept>>;
}

/// A page that is kept alive.
pub(crate) trait Kept: Debug + Send + Sync {}

/// The pages of an HBM, the lowest last.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    pages: Mutex<Pages>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Pages {
    /// Pages there ever were.
    count: u64,
    stack: Vec<(u64, Box<dyn Page>)>,
}

/// A page's place. Drop it when the page's memory is freed.
#[derive(Debug)]
pub(crate) struct Place {
    floor: Arc<Floor>,
    number: u64,
    /// Goes last: this page is off the stack by then.
    _above: Option<Box<dyn Kept>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut pages = self.floor.lock();
        pages.stack.retain(|(number, _)| *number != self.number);
        self.floor.freed.notify_all();
    }
}

impl Floor {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a page under the lowest: `place` asks the driver for it, `own` gives it its place.
    /// Nobody places another meanwhile, and a lowest page that is being freed is gone first.
    pub(crate) fn grow<M, P, E>(
        self: &Arc<Self>,
        place: impl FnOnce() -> Result<M, E>,
        own: impl FnOnce(M, Place) -> (P, Box<dyn Page>),
    ) -> Result<P, E> {
        // In front of the lock: dropped behind it, for it may be the last to hold that page.
        let above;
        let mut pages = self.lock();
        above = loop {
            match pages.stack.last().map(|(_, page)| page.keep()) {
                None => break None,
                Some(Some(kept)) => break Some(kept),
                Some(None) => pages = self.freed.wait(pages).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let memory = place()?;
        let number = pages.count;
        pages.count += 1;
        let (page, known) = own(memory, Place { floor: Arc::clone(self), number, _above: above });
        pages.stack.push((number, known));
        Ok(page)
    }
}
