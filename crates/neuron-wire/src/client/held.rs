//! What a descriptor of a connection is, without asking the server: the client's end of a socket
//! that a program holds has a name of its own (an abstract one, which `ss -x` shows too). It stays
//! with the socket through dup, fork, exec and passing it on.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, getpeername, getsockname};

const DEVICE: &str = "neuron-mem/device";
const ATTRIBUTE: &str = "neuron-mem/attribute";

/// What a program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// An open device.
    Device {
        /// Its number.
        index: u32,
        /// How it was opened: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
        access: u32,
    },
    /// A file under `/sys`, open for writing.
    Attribute,
}

impl Held {
    /// The bits of the flags of `open(2)` that are an access mode.
    pub const ACCESS: u32 = libc::O_ACCMODE.cast_unsigned();

    /// A name that no other socket has.
    pub(super) fn name(self) -> Result<SocketAddrUnix, Errno> {
        let mut unique = [0; 8];
        rustix::rand::getrandom(&mut unique, rustix::rand::GetRandomFlags::empty())?;
        let unique = u64::from_le_bytes(unique);
        let name = match self {
            Self::Device { index, access } => format!("{DEVICE}/{index}/{access}/{unique:016x}"),
            Self::Attribute => format!("{ATTRIBUTE}/{unique:016x}"),
        };
        SocketAddrUnix::new_abstract_name(name.as_bytes())
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        let (kind, _unique) = name.rsplit_once('/')?;
        if kind == ATTRIBUTE {
            return Some(Self::Attribute);
        }
        let (index, access) = kind.strip_prefix(DEVICE)?.strip_prefix('/')?.split_once('/')?;
        Some(Self::Device { index: index.parse().ok()?, access: access.parse().ok()? })
    }
}

/// What a descriptor is; `None` if it is not a connection of a program to the server at `path`.
pub fn held(socket: impl AsFd, path: &Path) -> Option<Held> {
    if !leads_to(&socket, path) {
        return None;
    }
    let own = SocketAddrUnix::try_from(getsockname(socket).ok()?).ok()?;
    Held::of_name(own.abstract_name()?)
}

/// Whether a descriptor is a connection to the server at `path`. No call to the server.
fn leads_to(socket: impl AsFd, path: &Path) -> bool {
    let Ok(Some(peer)) = getpeername(socket) else { return false };
    SocketAddrUnix::try_from(peer).is_ok_and(|peer| peer.path_bytes() == Some(path.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_what_it_was_made_of_and_another_tells_nothing() {
        for held in
            [Held::Device { index: 0, access: 2 }, Held::Device { index: 63, access: 1 }, Held::Attribute]
        {
            let name = held.name().unwrap();
            assert_eq!(Held::of_name(name.abstract_name().unwrap()), Some(held));
            assert_ne!(name, held.name().unwrap(), "two sockets have two names");
        }
        for other in ["", "neuron-mem/device/1/x", "neuron-mem/device//2/1", "other/1/2/3"] {
            assert_eq!(Held::of_name(other.as_bytes()), None, "{other}");
        }
    }
}
