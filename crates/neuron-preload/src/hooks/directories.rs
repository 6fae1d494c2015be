//! opendir, readdir, scandir, glob and their kin.

use std::ffi::{c_int, c_long, c_void};

use libc::{AT_FDCWD, dirent};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::{Real, by_path};
use crate::c::{self, Dir, Out, Text};
use crate::place::Place;
use crate::state::Server;
use crate::{config, fds, listing, opening};

type Filter = Option<unsafe extern "C" fn(*const dirent) -> c_int>;
type Compare = Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>;

const DIRECTORY: c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;

fn opened(server: &Server, place: &Place) -> Result<Dir, Errno> {
    let fd = fds::owned(opening::open(server, place, DIRECTORY)?).ok_or(Errno::BADF)?;
    let stream = Real::fdopendir(std::os::fd::AsRawFd::as_raw_fd(&fd));
    if stream.is_null() {
        return Err(Errno::from_raw_os_error(c::errno()));
    }
    let _the_stream_has_it = std::os::fd::IntoRawFd::into_raw_fd(fd);
    Ok(stream)
}

/// Looks whether a directory of the system is one in which there are names of the server's.
fn watched(stream: Dir) -> Dir {
    if !stream.is_null() && config::is_on() {
        c::quietly(|| {
            let stat = fds::of(c::directory_fd(stream)).and_then(|fd| rustix::fs::fstat(fd).ok());
            if let Some(parent) = stat.and_then(|stat| listing::parent(stat.st_dev, stat.st_ino)) {
                listing::opened(stream, parent);
            }
        });
    }
    stream
}

fn read(stream: Dir, real: impl Fn(Dir) -> *mut dirent) -> *mut dirent {
    if listing::is_none() {
        return real(stream);
    }
    listing::read(stream, &real).unwrap_or_else(|| real(stream))
}

fn read_into(stream: Dir, entry: Out<dirent>, result: Out<*mut dirent>, real: impl Fn() -> c_int) -> c_int {
    if listing::is_none() {
        return real();
    }
    let Some(next) = listing::read(stream, Real::readdir64) else { return real() };
    if next.is_null() {
        return result.put(next).map_or(libc::EFAULT, |()| 0);
    }
    c::copy_entry(next, entry);
    result.put(entry.pointer()).map_or(libc::EFAULT, |()| 0)
}

/// scandir, if the directory is the server's or shows names of it.
fn scan(
    fd: c_int,
    path: Text,
    list: Out<*mut *mut dirent>,
    (filter, compare): (Filter, Compare),
    real: impl FnOnce(Text) -> c_int,
) -> c_int {
    let scanned = |stream: Dir| {
        let next = || read(stream, Real::readdir64);
        let passes = |entry| {
            // SAFETY: the program's filter gets an entry, as it would from the C library.
            filter.is_none_or(|filter| unsafe { filter(entry) } != 0)
        };
        let all = listing::scan(next, passes);
        close(stream);
        all.and_then(|all| c::give_sorted(&all, list, compare))
    };
    let ours = |server: &'static Server, place: &Place| scanned(opened(server, place)?);
    by_path(fd, path, true, ours, |path| {
        if !config::is_on() || !shows(fd, path) {
            return real(path);
        }
        let stream = if fd == AT_FDCWD { watched(Real::opendir(path)) } else { opened_at(fd, path) };
        if stream.is_null() { -1 } else { c::answer(scanned(stream)) }
    })
}

fn shows(fd: c_int, path: Text) -> bool {
    let start = if fd == AT_FDCWD { Some(rustix::fs::CWD) } else { fds::of(fd) };
    let stat =
        start.zip(path.text()).and_then(|(fd, path)| rustix::fs::statat(fd, path, AtFlags::empty()).ok());
    stat.is_some_and(|stat| listing::parent(stat.st_dev, stat.st_ino).is_some())
}

fn opened_at(fd: c_int, path: Text) -> Dir {
    let fd = Real::openat(fd, path, DIRECTORY, 0);
    if fd < 0 { std::ptr::null_mut() } else { watched(Real::fdopendir(fd)) }
}

fn close(stream: Dir) -> c_int {
    if !listing::is_none() {
        listing::closed(stream);
    }
    Real::closedir(stream)
}

/// `glob_t`: the members that the two sides use.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Glob {
    paths: [usize; 3],
    flags: c_int,
    /// closedir, readdir, opendir, lstat, stat.
    functions: [usize; 5],
}

const GLOB_ALTDIRFUNC: c_int = 1 << 9;

type Failed = Option<unsafe extern "C" fn(Text, c_int) -> c_int>;

/// glob looks at directories by functions of its own unless it is given others: it gets ours.
fn globbed(flags: c_int, glob: Out<Glob>, real: impl FnOnce(c_int) -> c_int) -> c_int {
    if !config::is_on() || flags & GLOB_ALTDIRFUNC != 0 || glob.is_null() {
        return real(flags);
    }
    let mut before = [0; 5];
    glob.change(|glob| {
        let ours = [
            closedir as *const () as usize,
            readdir64 as *const () as usize,
            opendir as *const () as usize,
            super::stats::lstat_function(),
            super::stats::stat_function(),
        ];
        before = std::mem::replace(&mut glob.functions, ours);
    });
    let result = real(flags | GLOB_ALTDIRFUNC);
    glob.change(|glob| {
        glob.functions = before;
        glob.flags &= !GLOB_ALTDIRFUNC;
    });
    result
}

interpose! {
    fn opendir(path: Text) -> Dir {
        by_path(AT_FDCWD, path, true, opened, |path| watched(Real::opendir(path)))
    }
    fn fdopendir(fd: c_int) -> Dir { watched(Real::fdopendir(fd)) }
    fn readdir(stream: Dir) -> *mut dirent { read(stream, Real::readdir) }
    fn readdir64(stream: Dir) -> *mut dirent { read(stream, Real::readdir64) }
    fn readdir_r(stream: Dir, entry: Out<dirent>, result: Out<*mut dirent>) -> c_int {
        read_into(stream, entry, result, || Real::readdir_r(stream, entry, result))
    }
    fn readdir64_r(stream: Dir, entry: Out<dirent>, result: Out<*mut dirent>) -> c_int {
        read_into(stream, entry, result, || Real::readdir64_r(stream, entry, result))
    }
    fn rewinddir(stream: Dir) -> () {
        if !listing::is_none() {
            listing::seek(stream, 0);
        }
        Real::rewinddir(stream);
    }
    fn seekdir(stream: Dir, position: c_long) -> () {
        if listing::is_none() || !listing::seek(stream, position) {
            Real::seekdir(stream, position);
        }
    }
    fn telldir(stream: Dir) -> c_long {
        let position = if listing::is_none() { None } else { listing::tell(stream) };
        position.unwrap_or_else(|| Real::telldir(stream))
    }
    fn closedir(stream: Dir) -> c_int { close(stream) }
    fn scandir(path: Text, list: Out<*mut *mut dirent>, filter: Filter, compare: Compare) -> c_int {
        scan(AT_FDCWD, path, list, (filter, compare), |path| Real::scandir(path, list, filter, compare))
    }
    fn scandir64(path: Text, list: Out<*mut *mut dirent>, filter: Filter, compare: Compare) -> c_int {
        scan(AT_FDCWD, path, list, (filter, compare), |path| Real::scandir64(path, list, filter, compare))
    }
    fn scandirat(fd: c_int, path: Text, list: Out<*mut *mut dirent>, filter: Filter, compare: Compare) -> c_int {
        scan(fd, path, list, (filter, compare), |path| Real::scandirat(fd, path, list, filter, compare))
    }
    fn scandirat64(fd: c_int, path: Text, list: Out<*mut *mut dirent>, filter: Filter, compare: Compare) -> c_int {
        scan(fd, path, list, (filter, compare), |path| Real::scandirat64(fd, path, list, filter, compare))
    }
    fn glob(pattern: Text, flags: c_int, failed: Failed, glob: Out<Glob>) -> c_int {
        globbed(flags, glob, |flags| Real::glob(pattern, flags, failed, glob))
    }
    fn glob64(pattern: Text, flags: c_int, failed: Failed, glob: Out<Glob>) -> c_int {
        globbed(flags, glob, |flags| Real::glob64(pattern, flags, failed, glob))
    }
}
