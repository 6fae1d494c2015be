//! The socket's place: one server for each path, and what a dead one left is recognised.
//!
//! Beside the socket is a file `PATH.lock`, which the server has locked as long as it lives. Who
//! has the lock is the only one to touch the socket's path: a socket found there then is a dead
//! server's.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use neuron_wire::{Address, packet};
use rustix::fs::{FlockOperation, flock};
use rustix::net::{SocketAddrUnix, bind, listen};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another server has the path.
    #[error("another server has {0}: stop it, or choose another path with --socket")]
    Taken(Address),
    /// There is something else.
    #[error("{0:?} is there already and is no socket: choose another path with --socket")]
    NoSocket(PathBuf),
    /// The system refused.
    #[error("cannot {what} {path:?}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A socket that is listened on. Dropping it takes the path away.
#[derive(Debug)]
pub(crate) struct Listener {
    address: Address,
    socket: OwnedFd,
    lock: Lock,
}

impl Listener {
    /// Listens; `everybody` lets other users reach the socket, else the file's mode does not.
    pub(crate) fn bind(address: Address, everybody: bool) -> Result<Self, ListenError> {
        let path = address.path();
        let system = |what, path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| ListenError::System { what, path, source }
        };
        let lock = Lock::take(&address)?;
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                std::fs::remove_file(path).map_err(system("remove the socket of a dead server,", path))?;
            }
            Ok(_) => return Err(ListenError::NoSocket(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(system("look at", path)(error)),
        }
        let make = || -> io::Result<OwnedFd> {
            let socket = packet::socket()?;
            bind(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        };
        let socket = make().map_err(system("make the socket", path))?;
        let listener = Self { socket, lock, address: address.clone() };
        // Before anybody can connect.
        let mode = if everybody { 0o666 } else { 0o600 };
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, permissions).map_err(system("set the mode of", path))?;
        listen(&listener.socket, BACKLOG).map_err(|error| system("listen on", path)(error.into()))?;
        Ok(listener)
    }

    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) const fn socket(&self) -> &OwnedFd {
        &self.socket
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(self.address.path());
        let _gone_already = std::fs::remove_file(&self.lock.path);
    }
}

/// The locked file.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(address: &Address) -> Result<Self, ListenError> {
        let mut path = address.path().as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let system = |what| {
            let path = path.clone();
            move |source: io::Error| ListenError::System { what, path, source }
        };
        loop {
            let file = File::options().write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(system("make"))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(ListenError::Taken(address.clone())),
                Err(error) => return Err(system("lock")(error.into())),
            }
            // A server that ends takes its file away: the lock counts on the one that is there.
            let ours = file.metadata().map_err(system("look at"))?;
            if std::fs::metadata(&path)
                .is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
            {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(folder: &Path) -> Address {
        Address::new(folder.join("socket")).unwrap()
    }

    #[test]
    fn a_second_server_is_refused_and_the_first_ones_end_frees_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let first = Listener::bind(address(folder.path()), false).unwrap();
        let refused = Listener::bind(address(folder.path()), false).unwrap_err();
        assert!(matches!(&refused, ListenError::Taken(_)), "{refused}");
        assert!(first.address().path().exists(), "and left the first one's socket alone");
        drop(first);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        Listener::bind(address(folder.path()), false).unwrap();
    }

    #[test]
    fn a_dead_servers_socket_is_replaced_and_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let address = address(folder.path());
        // As a killed server leaves it: a socket that nobody listens on, and a lock that nobody has.
        let dead = packet::socket().unwrap();
        bind(&dead, &SocketAddrUnix::new(address.path()).unwrap()).unwrap();
        drop(dead);
        std::fs::write(folder.path().join("socket.lock"), "").unwrap();
        assert!(address.path().exists());
        let next = Listener::bind(address.clone(), false).unwrap();
        drop(next);
        std::fs::write(address.path(), "precious").unwrap();
        assert!(matches!(Listener::bind(address.clone(), false), Err(ListenError::NoSocket(_))));
        assert_eq!(std::fs::read_to_string(address.path()).unwrap(), "precious");
    }

    #[test]
    fn the_socket_is_its_owners_unless_told_otherwise() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        for (everybody, mode) in [(false, 0o600), (true, 0o666)] {
            let listener = Listener::bind(address(folder.path()), everybody).unwrap();
            let found = std::fs::metadata(listener.address().path()).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode);
        }
    }
}
