//! What `open(2)` of a place gives: a connection for a device, a copy for a file that is read, a
//! connection for one that is written, the picture's for a directory.

use std::ffi::{OsStr, c_int};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use neuron_wire::OpenedFile;
use neuron_wire::client::held::Held;
use neuron_wire::client::open;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::descriptors;
use crate::known::Device;
use crate::node::{Kind, Node, READ, User, WRITE};
use crate::place::Place;
use crate::state::{self, Server};
use crate::{fds, view};

/// Whether flags follow a link at the end of the path.
pub(crate) const fn follows(flags: c_int) -> bool {
    flags & libc::O_NOFOLLOW == 0 && flags & (libc::O_CREAT | libc::O_EXCL) != libc::O_CREAT | libc::O_EXCL
}

/// Opens a place for the program.
///
/// # Errors
/// What `open(2)` would say; ENODEV if there is no server any more.
pub(crate) fn open(server: &Server, place: &Place, flags: c_int) -> Result<c_int, Errno> {
    let fd = opened(server, place, flags)?;
    fds::given(fd, flags & libc::O_CLOEXEC != 0)
}

fn opened(server: &Server, place: &Place, flags: c_int) -> Result<OwnedFd, Errno> {
    let has = |flag| flags & flag == flag;
    let node = match Node::at(&server.tree, place) {
        Ok(_) if has(libc::O_CREAT | libc::O_EXCL) => return Err(Errno::EXIST),
        Ok(node) => node,
        Err(Errno::NOENT) if has(libc::O_CREAT) => return Err(Errno::ACCESS),
        Err(error) => return Err(error),
    };
    if has(libc::O_DIRECTORY) && node.kind != Kind::Directory {
        return Err(Errno::NOTDIR);
    }
    if has(libc::O_PATH) {
        return pictured(server, place, OFlags::PATH | OFlags::NOFOLLOW);
    }
    let wanted = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => READ,
        libc::O_WRONLY => WRITE,
        _ => READ | WRITE,
    };
    let may = node.allows(wanted, User::effective());
    match node.kind {
        Kind::Link => Err(Errno::LOOP),
        Kind::Directory if wanted != READ || has(libc::O_CREAT) => Err(Errno::ISDIR),
        Kind::Directory if !may => Err(Errno::ACCESS),
        Kind::Directory => pictured(server, place, OFlags::RDONLY | OFlags::DIRECTORY),
        Kind::Device(index) => device(server, place, index, flags),
        Kind::File if !may || !node.opens(wanted) => Err(Errno::ACCESS),
        Kind::File if wanted == READ => read(server, place),
        Kind::File => written(server, place),
    }
}

/// What the picture has.
fn pictured(server: &Server, place: &Place, flags: OFlags) -> Result<OwnedFd, Errno> {
    let fd = rustix::fs::open(server.tree.picture(place)?, flags | OFlags::CLOEXEC, Mode::empty())?;
    descriptors::got(fd.as_fd(), place);
    view::directory_given();
    Ok(fd)
}

fn device(server: &Server, place: &Place, index: u32, flags: c_int) -> Result<OwnedFd, Errno> {
    let flags = flags.cast_unsigned();
    let OpenedFile { socket, file } =
        open::open(&server.address, index, flags).map_err(|error| state::unopened(server, &error))?;
    if flags & libc::O_NONBLOCK.cast_unsigned() != 0 {
        rustix::fs::fcntl_setfl(&socket, OFlags::NONBLOCK)?;
    }
    descriptors::got(&socket, place);
    descriptors::got_device(&socket, Device { file, index, access: flags & Held::ACCESS });
    Ok(socket)
}

fn path(place: &Place) -> &Path {
    Path::new(OsStr::from_bytes(place.relative()))
}

fn read(server: &Server, place: &Place) -> Result<OwnedFd, Errno> {
    let copy =
        state::calls(server).read_attribute(path(place)).map_err(|error| state::refused(server, &error))?;
    descriptors::got(&copy, place);
    Ok(copy)
}

fn written(server: &Server, place: &Place) -> Result<OwnedFd, Errno> {
    let socket = open::open_attribute(&server.address, path(place))
        .map_err(|error| state::unopened(server, &error))?;
    descriptors::got(&socket, place);
    Ok(socket)
}

/// Flags of `open(2)` for a mode of `fopen(3)`; `None` of no mode.
pub(crate) fn flags_of_mode(mode: &[u8]) -> Option<c_int> {
    let (first, rest) = mode.split_first()?;
    // What follows a comma says how characters are encoded.
    let rest = rest.split(|&byte| byte == b',').next().unwrap_or_default();
    let has = |letter: u8| rest.contains(&letter);
    let (access, other) = match first {
        b'r' => (libc::O_RDONLY, 0),
        b'w' => (libc::O_WRONLY, libc::O_CREAT | libc::O_TRUNC),
        b'a' => (libc::O_WRONLY, libc::O_CREAT | libc::O_APPEND),
        _ => return None,
    };
    let mut flags = if has(b'+') { libc::O_RDWR } else { access } | other;
    if has(b'e') {
        flags |= libc::O_CLOEXEC;
    }
    if has(b'x') {
        flags |= libc::O_EXCL;
    }
    Some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_fopen_are_flags_of_open() {
        let write = libc::O_CREAT | libc::O_TRUNC;
        assert_eq!(flags_of_mode(b"r"), Some(libc::O_RDONLY));
        assert_eq!(flags_of_mode(b"rb+"), Some(libc::O_RDWR));
        assert_eq!(flags_of_mode(b"we"), Some(libc::O_WRONLY | write | libc::O_CLOEXEC));
        assert_eq!(flags_of_mode(b"w+x"), Some(libc::O_RDWR | write | libc::O_EXCL));
        assert_eq!(flags_of_mode(b"a"), Some(libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND));
        assert_eq!(flags_of_mode(b"r,ccs=UTF-e"), Some(libc::O_RDONLY));
        assert_eq!((flags_of_mode(b""), flags_of_mode(b"z")), (None, None));
    }

    #[test]
    fn a_link_at_the_end_is_followed_unless_the_flags_forbid_it() {
        assert!(follows(libc::O_RDONLY) && follows(libc::O_CREAT));
        assert!(!follows(libc::O_NOFOLLOW) && !follows(libc::O_CREAT | libc::O_EXCL));
    }
}
