//! access, readlink, realpath, the working directory, extended attributes, file systems.

use std::ffi::{c_char, c_int, c_void};

use libc::AT_FDCWD;
use rustix::io::Errno;

use super::{Real, by_path};
use crate::c::{self, Out, Text};
use crate::node::{EXECUTE, Kind, Node, READ, User, WRITE};
use crate::place::Place;
use crate::state::{self, Server};
use crate::{config, view};

fn allowed(server: &Server, place: &Place, wanted: c_int, user: User) -> Result<c_int, Errno> {
    let node = Node::at(&server.tree, place)?;
    let wanted = wanted.cast_unsigned();
    if wanted & !(READ | WRITE | EXECUTE) != 0 {
        return Err(Errno::INVAL);
    }
    if node.allows(wanted, user) { Ok(0) } else { Err(Errno::ACCESS) }
}

fn link(fd: c_int, path: Text, out: Out<c_char>, size: usize, real: impl FnOnce(Text) -> isize) -> isize {
    let ours = |server: &Server, place: &Place| {
        if Node::at(&server.tree, place)?.kind != Kind::Link {
            return Err(Errno::INVAL);
        }
        Ok(out.put_bytes(&server.tree.link(place)?, size).cast_signed())
    };
    by_path(fd, path, false, ours, |path| {
        let len = real(path);
        // A link of /proc to what was opened in the picture. An allocator that reads a link before it
        // can allocate goes no further than the first look.
        let Ok(bytes) = usize::try_from(len) else { return len };
        if !out.look(bytes, config::may_be_in_tree) {
            return len;
        }
        let shown = state::server().and_then(|server| out.look(bytes, |path| server.tree.shown(path)));
        shown.map_or(len, |shown| out.put_bytes(&shown, size).cast_signed())
    })
}

/// The canonical path of something that is there.
fn canonical(server: &Server, place: &Place, out: Out<c_char>) -> Result<Out<c_char>, Errno> {
    Node::at(&server.tree, place)?;
    given(place.path(), out, place.path().len() + 1)
}

/// A text in the program's place of so many bytes, or in a new one.
fn given(text: &[u8], out: Out<c_char>, size: usize) -> Result<Out<c_char>, Errno> {
    if out.is_null() {
        return Ok(Out::allocated(size.max(text.len() + 1))?.put_text(text));
    }
    if text.len() >= size {
        return Err(Errno::RANGE);
    }
    Ok(out.put_text(text))
}

/// The working directory, if the program is to see another one than the system's.
fn directory() -> Option<Vec<u8>> {
    if !config::is_on() || !view::is_in_directory() {
        return None;
    }
    let (path, shown) = view::directory(state::server()?).ok()?;
    shown.then_some(path)
}

/// No file here has extended attributes.
fn no_attribute(server: &Server, place: &Place) -> Result<isize, Errno> {
    Node::at(&server.tree, place)?;
    Err(Errno::NODATA)
}

fn no_attributes(server: &Server, place: &Place) -> Result<isize, Errno> {
    Node::at(&server.tree, place).map(|_| 0)
}

/// Asks of the file system on which the machine has such things.
fn mounted(server: &Server, place: &Place, real: impl FnOnce(Text) -> c_int) -> Result<c_int, Errno> {
    Node::at(&server.tree, place)?;
    match real(Text::of(place.mount())) {
        -1 => Err(Errno::from_raw_os_error(c::errno())),
        done => Ok(done),
    }
}

interpose! {
    fn access(path: Text, wanted: c_int) -> c_int {
        by_path(AT_FDCWD, path, true, |server, place| allowed(server, place, wanted, User::real()), |path| {
            Real::access(path, wanted)
        })
    }
    fn euidaccess(path: Text, wanted: c_int) -> c_int {
        by_path(AT_FDCWD, path, true, |server, place| allowed(server, place, wanted, User::effective()), |path| {
            Real::euidaccess(path, wanted)
        })
    }
    fn eaccess(path: Text, wanted: c_int) -> c_int {
        by_path(AT_FDCWD, path, true, |server, place| allowed(server, place, wanted, User::effective()), |path| {
            Real::eaccess(path, wanted)
        })
    }
    fn faccessat(fd: c_int, path: Text, wanted: c_int, flags: c_int) -> c_int {
        let user = || if flags & libc::AT_EACCESS != 0 { User::effective() } else { User::real() };
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        by_path(fd, path, follow, |server, place| allowed(server, place, wanted, user()), |path| {
            Real::faccessat(fd, path, wanted, flags)
        })
    }
    fn readlink(path: Text, out: Out<c_char>, size: usize) -> isize {
        link(AT_FDCWD, path, out, size, |path| Real::readlink(path, out, size))
    }
    fn readlinkat(fd: c_int, path: Text, out: Out<c_char>, size: usize) -> isize {
        link(fd, path, out, size, |path| Real::readlinkat(fd, path, out, size))
    }
    fn __readlink_chk(path: Text, out: Out<c_char>, size: usize, place: usize) -> isize {
        link(AT_FDCWD, path, out, size.min(place), |path| Real::__readlink_chk(path, out, size, place))
    }
    fn __readlinkat_chk(fd: c_int, path: Text, out: Out<c_char>, size: usize, place: usize) -> isize {
        link(fd, path, out, size.min(place), |path| Real::__readlinkat_chk(fd, path, out, size, place))
    }
    fn realpath(path: Text, out: Out<c_char>) -> Out<c_char> {
        by_path(AT_FDCWD, path, true, |server, place| canonical(server, place, out), |path| {
            Real::realpath(path, out)
        })
    }
    fn __realpath_chk(path: Text, out: Out<c_char>, size: usize) -> Out<c_char> {
        by_path(AT_FDCWD, path, true, |server, place| canonical(server, place, out), |path| {
            Real::__realpath_chk(path, out, size)
        })
    }
    fn canonicalize_file_name(path: Text) -> Out<c_char> {
        by_path(AT_FDCWD, path, true, |server, place| canonical(server, place, Out::none()), |path| {
            Real::canonicalize_file_name(path)
        })
    }
    fn chdir(path: Text) -> c_int {
        let changed = by_path(
            AT_FDCWD,
            path,
            true,
            |server, place| rustix::process::chdir(server.tree.picture(place)?).map(|()| 0),
            Real::chdir,
        );
        view::directory_changed();
        changed
    }
    fn fchdir(fd: c_int) -> c_int {
        let changed = Real::fchdir(fd);
        view::directory_changed();
        changed
    }
    fn getcwd(out: Out<c_char>, size: usize) -> Out<c_char> {
        match directory() {
            Some(_) if !out.is_null() && size == 0 => c::answer(Err(Errno::INVAL)),
            Some(path) if out.is_null() && size != 0 && size <= path.len() => c::answer(Err(Errno::RANGE)),
            Some(path) => c::answer(given(&path, out, size)),
            None => Real::getcwd(out, size),
        }
    }
    fn __getcwd_chk(out: Out<c_char>, size: usize, place: usize) -> Out<c_char> {
        match directory() {
            Some(path) => c::answer(given(&path, out, size.min(place))),
            None => Real::__getcwd_chk(out, size, place),
        }
    }
    fn getwd(out: Out<c_char>) -> Out<c_char> {
        match directory() {
            Some(path) => c::answer(given(&path, out, libc::PATH_MAX as usize)),
            None => Real::getwd(out),
        }
    }
    fn get_current_dir_name() -> Out<c_char> {
        match directory() {
            Some(path) => c::answer(given(&path, Out::none(), 0)),
            None => Real::get_current_dir_name(),
        }
    }
    fn getxattr(path: Text, name: Text, value: *mut c_void, size: usize) -> isize {
        by_path(AT_FDCWD, path, true, no_attribute, |path| Real::getxattr(path, name, value, size))
    }
    fn lgetxattr(path: Text, name: Text, value: *mut c_void, size: usize) -> isize {
        by_path(AT_FDCWD, path, false, no_attribute, |path| Real::lgetxattr(path, name, value, size))
    }
    fn listxattr(path: Text, list: *mut c_char, size: usize) -> isize {
        by_path(AT_FDCWD, path, true, no_attributes, |path| Real::listxattr(path, list, size))
    }
    fn llistxattr(path: Text, list: *mut c_char, size: usize) -> isize {
        by_path(AT_FDCWD, path, false, no_attributes, |path| Real::llistxattr(path, list, size))
    }
    fn statfs(path: Text, out: *mut libc::statfs) -> c_int {
        by_path(AT_FDCWD, path, true, |server, place| mounted(server, place, |path| Real::statfs(path, out)), |path| {
            Real::statfs(path, out)
        })
    }
    fn statfs64(path: Text, out: *mut libc::statfs) -> c_int {
        by_path(AT_FDCWD, path, true, |server, place| mounted(server, place, |path| Real::statfs64(path, out)), |path| {
            Real::statfs64(path, out)
        })
    }
    fn statvfs(path: Text, out: *mut libc::statvfs) -> c_int {
        by_path(AT_FDCWD, path, true, |server, place| mounted(server, place, |path| Real::statvfs(path, out)), |path| {
            Real::statvfs(path, out)
        })
    }
    fn statvfs64(path: Text, out: *mut libc::statvfs) -> c_int {
        by_path(AT_FDCWD, path, true, |server, place| mounted(server, place, |path| Real::statvfs64(path, out)), |path| {
            Real::statvfs64(path, out)
        })
    }
}
