//! Changes of the tree, which sysfs has none of: refused, EEXIST where something would be made
//! that is there, EPERM otherwise.

use std::ffi::{c_int, c_uint, c_void};

use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, dev_t, gid_t, mode_t, off_t, uid_t};
use rustix::io::Errno;

use super::{Real, by_path};
use crate::c::Text;
use crate::node::Node;
use crate::place::Place;
use crate::state::Server;

/// To something that has to be there.
fn change(server: &Server, place: &Place) -> Result<c_int, Errno> {
    Node::at(&server.tree, place)?;
    Err(Errno::PERM)
}

/// To something that must not be there.
fn create(server: &Server, place: &Place) -> Result<c_int, Errno> {
    match Node::at(&server.tree, place) {
        Ok(_) => Err(Errno::EXIST),
        Err(_) => Err(Errno::PERM),
    }
}

fn refused(server: &Server, place: &Place) -> Result<c_int, Errno> {
    change(server, place).or(Err(Errno::PERM))
}

fn followed(flags: c_int) -> bool {
    flags & AT_SYMLINK_NOFOLLOW == 0
}

/// A change of two paths: `new` may be one that is made.
fn two(
    (old_at, old): (c_int, Text),
    (new_at, new): (c_int, Text),
    at_new: impl FnOnce(&'static Server, &Place) -> Result<c_int, Errno>,
    real: impl FnOnce(Text, Text) -> c_int,
) -> c_int {
    by_path(old_at, old, false, change, |old| by_path(new_at, new, false, at_new, |new| real(old, new)))
}

interpose! {
    fn unlink(path: Text) -> c_int { by_path(AT_FDCWD, path, false, change, Real::unlink) }
    fn unlinkat(fd: c_int, path: Text, flags: c_int) -> c_int {
        by_path(fd, path, false, change, |path| Real::unlinkat(fd, path, flags))
    }
    fn rmdir(path: Text) -> c_int { by_path(AT_FDCWD, path, false, change, Real::rmdir) }
    fn remove(path: Text) -> c_int { by_path(AT_FDCWD, path, false, change, Real::remove) }
    fn rename(old: Text, new: Text) -> c_int {
        two((AT_FDCWD, old), (AT_FDCWD, new), refused, Real::rename)
    }
    fn renameat(old_at: c_int, old: Text, new_at: c_int, new: Text) -> c_int {
        two((old_at, old), (new_at, new), refused, |old, new| Real::renameat(old_at, old, new_at, new))
    }
    fn renameat2(old_at: c_int, old: Text, new_at: c_int, new: Text, flags: c_uint) -> c_int {
        two((old_at, old), (new_at, new), refused, |old, new| Real::renameat2(old_at, old, new_at, new, flags))
    }
    fn link(old: Text, new: Text) -> c_int {
        two((AT_FDCWD, old), (AT_FDCWD, new), create, Real::link)
    }
    fn linkat(old_at: c_int, old: Text, new_at: c_int, new: Text, flags: c_int) -> c_int {
        two((old_at, old), (new_at, new), create, |old, new| Real::linkat(old_at, old, new_at, new, flags))
    }
    fn symlink(target: Text, path: Text) -> c_int {
        by_path(AT_FDCWD, path, false, create, |path| Real::symlink(target, path))
    }
    fn symlinkat(target: Text, fd: c_int, path: Text) -> c_int {
        by_path(fd, path, false, create, |path| Real::symlinkat(target, fd, path))
    }
    fn mkdir(path: Text, mode: mode_t) -> c_int {
        by_path(AT_FDCWD, path, false, create, |path| Real::mkdir(path, mode))
    }
    fn mkdirat(fd: c_int, path: Text, mode: mode_t) -> c_int {
        by_path(fd, path, false, create, |path| Real::mkdirat(fd, path, mode))
    }
    fn mknod(path: Text, mode: mode_t, device: dev_t) -> c_int {
        by_path(AT_FDCWD, path, false, create, |path| Real::mknod(path, mode, device))
    }
    fn mknodat(fd: c_int, path: Text, mode: mode_t, device: dev_t) -> c_int {
        by_path(fd, path, false, create, |path| Real::mknodat(fd, path, mode, device))
    }
    fn mkfifo(path: Text, mode: mode_t) -> c_int {
        by_path(AT_FDCWD, path, false, create, |path| Real::mkfifo(path, mode))
    }
    fn truncate(path: Text, len: off_t) -> c_int {
        by_path(AT_FDCWD, path, true, change, |path| Real::truncate(path, len))
    }
    fn truncate64(path: Text, len: off_t) -> c_int {
        by_path(AT_FDCWD, path, true, change, |path| Real::truncate64(path, len))
    }
    fn chmod(path: Text, mode: mode_t) -> c_int {
        by_path(AT_FDCWD, path, true, change, |path| Real::chmod(path, mode))
    }
    fn lchmod(path: Text, mode: mode_t) -> c_int {
        by_path(AT_FDCWD, path, false, change, |path| Real::lchmod(path, mode))
    }
    fn fchmodat(fd: c_int, path: Text, mode: mode_t, flags: c_int) -> c_int {
        by_path(fd, path, followed(flags), change, |path| Real::fchmodat(fd, path, mode, flags))
    }
    fn chown(path: Text, user: uid_t, group: gid_t) -> c_int {
        by_path(AT_FDCWD, path, true, change, |path| Real::chown(path, user, group))
    }
    fn lchown(path: Text, user: uid_t, group: gid_t) -> c_int {
        by_path(AT_FDCWD, path, false, change, |path| Real::lchown(path, user, group))
    }
    fn fchownat(fd: c_int, path: Text, user: uid_t, group: gid_t, flags: c_int) -> c_int {
        by_path(fd, path, followed(flags), change, |path| Real::fchownat(fd, path, user, group, flags))
    }
    fn utime(path: Text, times: *const c_void) -> c_int {
        by_path(AT_FDCWD, path, true, change, |path| Real::utime(path, times))
    }
    fn utimes(path: Text, times: *const c_void) -> c_int {
        by_path(AT_FDCWD, path, true, change, |path| Real::utimes(path, times))
    }
    fn utimensat(fd: c_int, path: Text, times: *const c_void, flags: c_int) -> c_int {
        by_path(fd, path, followed(flags), change, |path| Real::utimensat(fd, path, times, flags))
    }
    fn setxattr(path: Text, name: Text, value: *const c_void, size: usize, flags: c_int) -> c_int {
        by_path(AT_FDCWD, path, true, change, |path| Real::setxattr(path, name, value, size, flags))
    }
    fn lsetxattr(path: Text, name: Text, value: *const c_void, size: usize, flags: c_int) -> c_int {
        by_path(AT_FDCWD, path, false, change, |path| Real::lsetxattr(path, name, value, size, flags))
    }
}
