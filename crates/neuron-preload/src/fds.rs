//! Numbers that a program gives for descriptors.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use rustix::io::{Errno, FdFlags};

/// The descriptor of a number, which may be none: the system says so.
pub(crate) fn of<'a>(number: c_int) -> Option<BorrowedFd<'a>> {
    if number < 0 {
        return None;
    }
    // SAFETY: not -1; it is used for calls that refuse a number that is no descriptor, at once.
    Some(unsafe { BorrowedFd::borrow_raw(number) })
}

/// What a number of the program's leads to is owned from now on.
pub(crate) fn owned(number: c_int) -> Option<OwnedFd> {
    if number < 0 {
        return None;
    }
    // SAFETY: the caller has got it from `given` or from the C library, and gives it up.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Gives a descriptor to the program, closed on exec if it asked for that.
///
/// # Errors
/// The system's.
pub(crate) fn given(fd: OwnedFd, closed_on_exec: bool) -> Result<c_int, Errno> {
    rustix::io::fcntl_setfd(&fd, if closed_on_exec { FdFlags::CLOEXEC } else { FdFlags::empty() })?;
    Ok(fd.into_raw_fd())
}

/// The path that a descriptor was opened by, as the system knows it.
///
/// # Errors
/// The system's: without `/proc` it is not known.
pub(crate) fn path_of(fd: impl AsFd) -> Result<Vec<u8>, Errno> {
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    rustix::fs::readlink(link, Vec::new()).map(std::ffi::CString::into_bytes)
}
