//! Lanes that no thread uses at the moment. No lock, so that a fork while a thread takes one
//! leaves the child nothing that is locked for ever.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Lanes that are kept; more threads in calls at once connect anew each time.
const KEPT: usize = 64;
const NONE: RawFd = -1;

#[derive(Debug)]
pub(super) struct Lanes {
    idle: [AtomicI32; KEPT],
    /// The process that they are of.
    owner: AtomicU32,
}

impl Lanes {
    pub(super) const fn new() -> Self {
        Self { idle: [const { AtomicI32::new(NONE) }; KEPT], owner: AtomicU32::new(0) }
    }

    /// Whether this process is another one than the one before: a forked child. Its copies of
    /// the parent's lanes are closed then, so that the parent's end is seen.
    pub(super) fn is_new_process(&self) -> bool {
        let process = std::process::id();
        let before = self.owner.swap(process, Ordering::AcqRel);
        if before == process {
            return false;
        }
        while let Some(inherited) = self.take() {
            drop(inherited);
        }
        true
    }

    pub(super) fn take(&self) -> Option<OwnedFd> {
        let taken =
            self.idle.iter().map(|place| place.swap(NONE, Ordering::AcqRel)).find(|&fd| fd != NONE)?;
        Some(owned(taken))
    }

    /// Keeps a lane for the next call, or closes it.
    pub(super) fn give(&self, lane: OwnedFd) {
        let fd = lane.as_raw_fd();
        let kept = self
            .idle
            .iter()
            .any(|place| place.compare_exchange(NONE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok());
        if kept {
            let _the_place_has_it = lane.into_raw_fd();
        }
    }
}

fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: `give` put it there and forgot it, and whoever swaps it out is the only one to have it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        while let Some(lane) = self.take() {
            drop(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::pair;

    #[test]
    fn what_is_given_is_taken_once() {
        let lanes = Lanes::new();
        assert!(lanes.is_new_process());
        assert!(!lanes.is_new_process());
        let (a, _b) = pair().unwrap();
        let fd = a.as_raw_fd();
        lanes.give(a);
        assert_eq!(lanes.take().map(|lane| lane.as_raw_fd()), Some(fd));
        assert!(lanes.take().is_none());
    }

    #[test]
    fn more_than_are_kept_are_closed() {
        let lanes = Lanes::new();
        for _ in 0..KEPT + 3 {
            lanes.give(pair().unwrap().0);
        }
        assert_eq!(std::iter::from_fn(|| lanes.take()).count(), KEPT);
    }
}
