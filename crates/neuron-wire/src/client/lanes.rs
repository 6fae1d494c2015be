//! Lanes that no thread uses at the moment. No lock, so that a fork while a thread takes one
//! leaves the child nothing that is locked for ever.
//!
//! A program may close descriptors that it does not know, and get their numbers again for files of
//! its own: a lane is kept with its inode, and is one only as long as the number leads there.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Lanes that are kept; more threads in calls at once connect anew each time.
const KEPT: usize = 64;
/// No lane: its descriptor is -1.
const NONE: u64 = u32::MAX as u64;

#[derive(Debug)]
pub(super) struct Lanes {
    /// Descriptor in the low half, inode in the high one.
    idle: [AtomicU64; KEPT],
    /// The process that they are of.
    owner: AtomicU32,
}

impl Lanes {
    pub(super) const fn new() -> Self {
        Self { idle: [const { AtomicU64::new(NONE) }; KEPT], owner: AtomicU32::new(0) }
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
        let taken = self.idle.iter().map(|place| place.swap(NONE, Ordering::AcqRel));
        taken.filter(|&kept| kept != NONE).find_map(owned)
    }

    /// Keeps a lane for the next call, or closes it.
    pub(super) fn give(&self, lane: OwnedFd) {
        let Some(inode) = inode(lane.as_raw_fd()) else { return };
        let kept = u64::from(inode) << 32 | u64::from(lane.as_raw_fd().cast_unsigned());
        let is_kept = self
            .idle
            .iter()
            .any(|place| place.compare_exchange(NONE, kept, Ordering::AcqRel, Ordering::Relaxed).is_ok());
        if is_kept {
            let _the_place_has_it = lane.into_raw_fd();
        }
    }
}

/// The lane that was kept, unless its number leads elsewhere by now.
fn owned(kept: u64) -> Option<OwnedFd> {
    let fd = (kept as u32).cast_signed();
    if inode(fd)? != (kept >> 32) as u32 {
        return None;
    }
    // SAFETY: `give` put it there and forgot it, whoever swaps it out is the only one to have it,
    // and it is still the socket that it was.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The inode of a socket: the system numbers them with 32 bits.
fn inode(fd: RawFd) -> Option<u32> {
    // SAFETY: not -1; a number that is no descriptor any more is refused by the system.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let stat = rustix::fs::fstat(socket).ok()?;
    (rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket)
        .then_some(stat.st_ino as u32)
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
    fn a_lane_that_somebody_else_closed_is_none_though_its_number_is_in_use_again() {
        let lanes = Lanes::new();
        let fd = pair().unwrap().0.into_raw_fd();
        lanes.give(owned_again(fd));
        drop(owned_again(fd));
        let (other, _b) = pair().unwrap();
        let again = rustix::io::fcntl_dupfd_cloexec(&other, fd).unwrap();
        assert!(lanes.take().is_none());
        assert!(inode(again.as_raw_fd()).is_some(), "what has the number now is left open");
    }

    fn owned_again(fd: RawFd) -> OwnedFd {
        // SAFETY: the test made it, and plays a program that closes what it does not know.
        unsafe { OwnedFd::from_raw_fd(fd) }
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
