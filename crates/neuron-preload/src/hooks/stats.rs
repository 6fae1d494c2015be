//! stat and its kin.

use std::ffi::{c_int, c_uint};

use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, stat as Stat, statx as Statx};

use super::{Real, by_path};
use crate::c::{Out, Text};
use crate::config;
use crate::descriptors::{self, Seen};
use crate::node::Node;

fn at(fd: c_int, path: Text, follow: bool, out: Out<Stat>, real: impl FnOnce(Text) -> c_int) -> c_int {
    let ours = |server: &crate::state::Server, place: &_| {
        let node = Node::at(&server.tree, place)?;
        out.put(node.stat()).map(|()| 0)
    };
    by_path(fd, path, follow, ours, real)
}

/// What the system said of a descriptor, changed if that is one of the server's.
#[inline]
fn of_descriptor(fd: c_int, out: Out<Stat>, result: c_int) -> c_int {
    if result == 0 && config::is_on() {
        out.change(|stat| {
            let seen = Seen {
                device: stat.st_dev as _,
                inode: stat.st_ino as _,
                mode: stat.st_mode,
                links: stat.st_nlink as _,
                bytes: stat.st_size,
            };
            if let Some(node) = descriptors::node(fd, seen) {
                *stat = node.stat();
            }
        });
    }
    result
}

/// The same with a path that may be empty, by which the descriptor itself is meant.
fn at_or_of(fd: c_int, path: Text, flags: c_int, out: Out<Stat>, real: impl FnOnce(Text) -> c_int) -> c_int {
    if flags & AT_EMPTY_PATH != 0 && path.bytes().is_none_or(<[u8]>::is_empty) {
        return of_descriptor(fd, out, real(path));
    }
    at(fd, path, flags & AT_SYMLINK_NOFOLLOW == 0, out, real)
}

interpose! {
    fn stat(path: Text, out: Out<Stat>) -> c_int {
        at(AT_FDCWD, path, true, out, |path| Real::stat(path, out))
    }
    fn stat64(path: Text, out: Out<Stat>) -> c_int {
        at(AT_FDCWD, path, true, out, |path| Real::stat64(path, out))
    }
    fn lstat(path: Text, out: Out<Stat>) -> c_int {
        at(AT_FDCWD, path, false, out, |path| Real::lstat(path, out))
    }
    fn lstat64(path: Text, out: Out<Stat>) -> c_int {
        at(AT_FDCWD, path, false, out, |path| Real::lstat64(path, out))
    }
    fn fstat(fd: c_int, out: Out<Stat>) -> c_int {
        of_descriptor(fd, out, Real::fstat(fd, out))
    }
    fn fstat64(fd: c_int, out: Out<Stat>) -> c_int {
        of_descriptor(fd, out, Real::fstat64(fd, out))
    }
    fn fstatat(fd: c_int, path: Text, out: Out<Stat>, flags: c_int) -> c_int {
        at_or_of(fd, path, flags, out, |path| Real::fstatat(fd, path, out, flags))
    }
    fn fstatat64(fd: c_int, path: Text, out: Out<Stat>, flags: c_int) -> c_int {
        at_or_of(fd, path, flags, out, |path| Real::fstatat64(fd, path, out, flags))
    }
    fn __xstat(version: c_int, path: Text, out: Out<Stat>) -> c_int {
        at(AT_FDCWD, path, true, out, |path| Real::__xstat(version, path, out))
    }
    fn __xstat64(version: c_int, path: Text, out: Out<Stat>) -> c_int {
        at(AT_FDCWD, path, true, out, |path| Real::__xstat64(version, path, out))
    }
    fn __lxstat(version: c_int, path: Text, out: Out<Stat>) -> c_int {
        at(AT_FDCWD, path, false, out, |path| Real::__lxstat(version, path, out))
    }
    fn __lxstat64(version: c_int, path: Text, out: Out<Stat>) -> c_int {
        at(AT_FDCWD, path, false, out, |path| Real::__lxstat64(version, path, out))
    }
    fn __fxstat(version: c_int, fd: c_int, out: Out<Stat>) -> c_int {
        of_descriptor(fd, out, Real::__fxstat(version, fd, out))
    }
    fn __fxstat64(version: c_int, fd: c_int, out: Out<Stat>) -> c_int {
        of_descriptor(fd, out, Real::__fxstat64(version, fd, out))
    }
    fn __fxstatat(version: c_int, fd: c_int, path: Text, out: Out<Stat>, flags: c_int) -> c_int {
        at_or_of(fd, path, flags, out, |path| Real::__fxstatat(version, fd, path, out, flags))
    }
    fn __fxstatat64(version: c_int, fd: c_int, path: Text, out: Out<Stat>, flags: c_int) -> c_int {
        at_or_of(fd, path, flags, out, |path| Real::__fxstatat64(version, fd, path, out, flags))
    }
    fn statx(fd: c_int, path: Text, flags: c_int, mask: c_uint, out: Out<Statx>) -> c_int {
        if flags & AT_EMPTY_PATH != 0 && path.bytes().is_none_or(<[u8]>::is_empty) {
            let result = Real::statx(fd, path, flags, mask, out);
            if result == 0 && config::is_on() {
                out.change(|statx| {
                    let seen = Seen {
                        device: libc::makedev(statx.stx_dev_major, statx.stx_dev_minor),
                        inode: statx.stx_ino,
                        mode: statx.stx_mode.into(),
                        links: statx.stx_nlink.into(),
                        bytes: statx.stx_size.cast_signed(),
                    };
                    if let Some(node) = descriptors::node(fd, seen) {
                        *statx = node.statx();
                    }
                });
            }
            return result;
        }
        let ours = |server: &crate::state::Server, place: &_| {
            let node = Node::at(&server.tree, place)?;
            out.put(node.statx()).map(|()| 0)
        };
        by_path(fd, path, flags & AT_SYMLINK_NOFOLLOW == 0, ours, |path| {
            Real::statx(fd, path, flags, mask, out)
        })
    }
}

/// Address of the function here, for `glob(3)`.
pub(super) fn stat_function() -> usize {
    stat64 as *const () as usize
}

/// The same.
pub(super) fn lstat_function() -> usize {
    lstat64 as *const () as usize
}
