//! open, fopen and their kin.

use std::ffi::c_int;

use libc::{AT_FDCWD, FILE, mode_t};
use rustix::io::Errno;

use super::{Real, by_path};
use crate::c::{self, Text};
use crate::opening::{flags_of_mode, follows, open as opened};
use crate::place::Place;
use crate::state::Server;

const CREATE: c_int = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;

fn at(at: c_int, path: Text, flags: c_int, real: impl FnOnce(Text) -> c_int) -> c_int {
    by_path(at, path, follows(flags), |server, place| opened(server, place, flags), real)
}

fn stream(server: &Server, place: &Place, mode: Text) -> Result<*mut FILE, Errno> {
    let flags = mode.bytes().and_then(flags_of_mode).ok_or(Errno::INVAL)?;
    c::stream(opened(server, place, flags)?, mode)
}

interpose! {
    fn open(path: Text, flags: c_int, mode: mode_t) -> c_int {
        at(AT_FDCWD, path, flags, |path| Real::open(path, flags, mode))
    }
    fn open64(path: Text, flags: c_int, mode: mode_t) -> c_int {
        at(AT_FDCWD, path, flags, |path| Real::open64(path, flags, mode))
    }
    fn openat(fd: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int {
        at(fd, path, flags, |path| Real::openat(fd, path, flags, mode))
    }
    fn openat64(fd: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int {
        at(fd, path, flags, |path| Real::openat64(fd, path, flags, mode))
    }
    fn __open(path: Text, flags: c_int, mode: mode_t) -> c_int {
        at(AT_FDCWD, path, flags, |path| Real::__open(path, flags, mode))
    }
    fn __open64(path: Text, flags: c_int, mode: mode_t) -> c_int {
        at(AT_FDCWD, path, flags, |path| Real::__open64(path, flags, mode))
    }
    fn __open_2(path: Text, flags: c_int) -> c_int {
        at(AT_FDCWD, path, flags, |path| Real::__open_2(path, flags))
    }
    fn __open64_2(path: Text, flags: c_int) -> c_int {
        at(AT_FDCWD, path, flags, |path| Real::__open64_2(path, flags))
    }
    fn __openat_2(fd: c_int, path: Text, flags: c_int) -> c_int {
        at(fd, path, flags, |path| Real::__openat_2(fd, path, flags))
    }
    fn __openat64_2(fd: c_int, path: Text, flags: c_int) -> c_int {
        at(fd, path, flags, |path| Real::__openat64_2(fd, path, flags))
    }
    fn creat(path: Text, mode: mode_t) -> c_int {
        at(AT_FDCWD, path, CREATE, |path| Real::creat(path, mode))
    }
    fn creat64(path: Text, mode: mode_t) -> c_int {
        at(AT_FDCWD, path, CREATE, |path| Real::creat64(path, mode))
    }
    fn fopen(path: Text, mode: Text) -> *mut FILE {
        by_path(AT_FDCWD, path, true, |server, place| stream(server, place, mode), |path| Real::fopen(path, mode))
    }
    fn fopen64(path: Text, mode: Text) -> *mut FILE {
        by_path(AT_FDCWD, path, true, |server, place| stream(server, place, mode), |path| {
            Real::fopen64(path, mode)
        })
    }
    fn freopen(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE {
        by_path(AT_FDCWD, path, true, |server, place| reopened(server, place, mode, stream), |path| {
            Real::freopen(path, mode, stream)
        })
    }
    fn freopen64(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE {
        by_path(AT_FDCWD, path, true, |server, place| reopened(server, place, mode, stream), |path| {
            Real::freopen64(path, mode, stream)
        })
    }
}

/// A stream is given another file by opening one that there always is, and then changing its
/// descriptor.
fn reopened(server: &Server, place: &Place, mode: Text, stream: *mut FILE) -> Result<*mut FILE, Errno> {
    let flags = mode.bytes().and_then(flags_of_mode).ok_or(Errno::INVAL)?;
    let fd = crate::fds::owned(opened(server, place, flags)?).ok_or(Errno::BADF)?;
    let stream = Real::freopen(Text::of(c"/dev/null"), mode, stream);
    if stream.is_null() {
        return Err(Errno::from_raw_os_error(c::errno()));
    }
    c::exchange(stream, &fd, flags & libc::O_CLOEXEC != 0)?;
    Ok(stream)
}
