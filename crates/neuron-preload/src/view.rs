//! Which of the program's paths lead to the server's. Nearly all are told apart by a look for the
//! one word that all of those have; the others are those that start at a directory of the picture.

use std::ffi::{CString, c_int};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use rustix::io::Errno;

use crate::c::{self, Text};
use crate::place::{MARK, Place, is_ours};
use crate::state::{self, Server};
use crate::tree::Resolved;
use crate::{config, fds};

/// Where a path of the program's leads.
pub(crate) enum Located {
    /// Where the system takes it.
    Pass,
    /// Not to the server's, but the system has to be told by another path.
    Elsewhere(CString),
    /// To the server's: there may be something or not.
    Ours(&'static Server, Place),
    /// Nowhere.
    Refused(Errno),
}

const UNKNOWN: u8 = 0;
const OUTSIDE: u8 = 1;
const INSIDE: u8 = 2;

/// Where the working directory is.
static DIRECTORY: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Whether the program got a descriptor of a directory of the picture.
static DESCRIPTORS: AtomicBool = AtomicBool::new(false);

/// The program has changed its working directory.
pub(crate) fn directory_changed() {
    DIRECTORY.store(UNKNOWN, Ordering::Relaxed);
}

/// The program got a directory of the picture.
pub(crate) fn directory_given() {
    DESCRIPTORS.store(true, Ordering::Relaxed);
}

/// Whether the working directory is the server's.
pub(crate) fn is_in_directory() -> bool {
    match DIRECTORY.load(Ordering::Relaxed) {
        UNKNOWN => {
            let inside = state::server()
                .and_then(|server| directory(server).ok())
                .is_some_and(|(path, shown)| shown || is_ours(&path));
            DIRECTORY.store(if inside { INSIDE } else { OUTSIDE }, Ordering::Relaxed);
            inside
        }
        state => state == INSIDE,
    }
}

/// The working directory as the program is to see it, and whether that is not where it is.
pub(crate) fn directory(server: &Server) -> Result<(Vec<u8>, bool), Errno> {
    let path = rustix::process::getcwd(Vec::new())?.into_bytes();
    Ok(seen(server, path))
}

/// A path as the program is to see it, and whether that is another one.
fn seen(server: &Server, path: Vec<u8>) -> (Vec<u8>, bool) {
    match server.tree.shown(&path) {
        Some(shown) => (shown, true),
        None => (path, false),
    }
}

/// The path that a descriptor was opened by, as the program is to see it.
pub(crate) fn path_of(server: &Server, fd: impl AsFd) -> Result<(Vec<u8>, bool), Errno> {
    Ok(seen(server, fds::path_of(fd)?))
}

/// Where a path leads that starts at a directory, `at`. `follow` if a link at its end is followed.
#[inline]
pub(crate) fn locate(at: c_int, path: Text, follow: bool) -> Located {
    if !config::is_on() || path.is_null() {
        return Located::Pass;
    }
    if !path.contains(MARK) {
        let absolute = path.bytes().is_none_or(|path| path.is_empty() || path.starts_with(b"/"));
        let starts_outside = match at {
            libc::AT_FDCWD => absolute || !is_in_directory(),
            _ => absolute || !DESCRIPTORS.load(Ordering::Relaxed),
        };
        if starts_outside {
            return Located::Pass;
        }
    }
    c::quietly(|| resolved(at, path, follow))
}

#[cold]
fn resolved(at: c_int, path: Text, follow: bool) -> Located {
    let (Some(server), Some(path)) = (state::server(), path.bytes()) else { return Located::Pass };
    let start = match at {
        _ if path.starts_with(b"/") => Ok((b"/".to_vec(), false)),
        libc::AT_FDCWD => directory(server),
        _ => fds::of(at).ok_or(Errno::BADF).and_then(|at| path_of(server, at)),
    };
    // The system knows what is wrong with it; a descriptor without a path is no directory.
    let Ok((start, moved)) = start else { return Located::Pass };
    if !start.starts_with(b"/") {
        return Located::Pass;
    }
    match server.tree.resolve(&start, path, follow) {
        Ok(Resolved::Ours(place)) => Located::Ours(server, place),
        Ok(Resolved::Elsewhere { path, entered }) if entered || moved => {
            CString::new(path).map_or(Located::Refused(Errno::INVAL), Located::Elsewhere)
        }
        Ok(Resolved::Elsewhere { .. }) => Located::Pass,
        Err(errno) => Located::Refused(errno),
    }
}
