//! Connections, and the open device that one is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use neuron_abi::errno::Errno;
use rustix::net::{SocketAddrUnix, bind, connect};
use rustix::process::{PTracer, Pid, set_ptracer};

use crate::address::Address;
use crate::client::held::Held;
use crate::credentials::Credentials;
use crate::message::{Hello, MAGIC, MAX_PATH, SHORT, VERSION, Welcome, Which, role};
use crate::packet::{self, Packet};

/// Why there is no connection, or no open device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nobody listens there.
    #[error("no server listens at unix:{path}: start one with `neuron-mem serve --socket {path}`", path = .0.display())]
    NoServer(PathBuf),
    /// The system refused the connection.
    #[error("the server at unix:{path} cannot be reached", path = .path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server refused.
    #[error("the server at unix:{path} refuses: {errno}", path = .path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Why: EACCES for a user that it does not serve, ENOENT without such a device.
        errno: Errno,
    },
    /// The server ended while it was asked.
    #[error("the server at unix:{path} ended", path = .0.display())]
    Gone(PathBuf),
    /// What listens there does not speak this protocol.
    #[error("what listens at unix:{path} is no server of this version ({VERSION}): {found}", path = .path.display())]
    Stranger {
        /// The socket.
        path: PathBuf,
        /// What it said.
        found: String,
    },
}

impl OpenError {
    /// What an open of a device node would have said.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Refused { errno, .. } => *errno,
            Self::Unreachable { source, .. } => {
                source.raw_os_error().and_then(Errno::new).unwrap_or(Errno::EIO)
            }
            Self::NoServer(_) | Self::Gone(_) | Self::Stranger { .. } => Errno::ENODEV,
        }
    }
}

/// A connection whose server has greeted.
#[derive(Debug)]
pub struct Greeted {
    /// The socket, closed on exec.
    pub socket: OwnedFd,
    /// What the server said.
    pub welcome: Welcome,
}

impl Greeted {
    /// Instance type of the server's machine.
    #[must_use]
    pub fn instance(&self) -> String {
        let name = self.welcome.instance.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}

/// An open device: the socket is the descriptor that a program gets.
#[derive(Debug)]
pub struct OpenedFile {
    /// The descriptor, closed on exec.
    pub socket: OwnedFd,
    /// The number that calls name the file by.
    pub file: u64,
}

/// Connects, unless the server's queue is full for the moment: then it waits. A socket that a
/// program gets has a name, by which it is known later.
fn connected(address: &Address, held: Option<Held>) -> Result<OwnedFd, OpenError> {
    let path = || address.path().to_owned();
    let unreachable = |source: io::Error| OpenError::Unreachable { path: path(), source };
    let name = SocketAddrUnix::new(address.path()).map_err(|error| unreachable(error.into()))?;
    let socket = packet::socket().map_err(unreachable)?;
    if let Some(held) = held {
        held.name().and_then(|name| bind(&socket, &name)).map_err(|error| unreachable(error.into()))?;
    }
    match rustix::io::retry_on_intr(|| connect(&socket, &name)) {
        Ok(()) => Ok(socket),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED) => Err(OpenError::NoServer(path())),
        Err(error) => Err(unreachable(error.into())),
    }
}

/// Connects and greets. `tail` follows the greeting.
///
/// # Errors
/// Why there is no connection.
pub fn greet(address: &Address, hello: &Hello, tail: &[u8]) -> Result<Greeted, OpenError> {
    let held = match hello.role {
        role::FILE => Some(Held::Device { index: hello.index, access: hello.flags & Held::ACCESS }),
        role::ATTRIBUTE => Some(Held::Attribute),
        _ => None,
    };
    let socket = connected(address, held)?;
    // A server that is not this process's ancestor may only reach its memory if it says so,
    // on systems with Yama; on others the call is refused, and is not needed.
    if hello.role == role::CALLS
        && let Some(server) = Credentials::of(&socket).ok().and_then(|server| Pid::from_raw(server.pid?))
    {
        let _not_needed = set_ptracer(PTracer::ProcessID(server));
    }
    let lost = |error: io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            OpenError::Gone(address.path().to_owned())
        }
        _ => OpenError::Unreachable { path: address.path().to_owned(), source: error },
    };
    // A server that refuses who connects says so before it hears anything, and may be gone by now.
    let sent = packet::send(&socket, hello, tail, None);
    let answer = Packet::receive(&socket, SHORT).map_err(lost)?;
    let Some(answer) = answer else {
        sent.map_err(lost)?;
        return Err(OpenError::Gone(address.path().to_owned()));
    };
    welcomed(address.path(), &answer).map(|welcome| Greeted { socket, welcome })
}

fn welcomed(path: &Path, answer: &Packet) -> Result<Welcome, OpenError> {
    let stranger = |found: String| OpenError::Stranger { path: path.to_owned(), found };
    let welcome: Welcome = answer.whole().map_err(|error| stranger(error.to_string()))?;
    if welcome.magic != MAGIC {
        return Err(stranger("it answers something else".to_owned()));
    }
    if welcome.version != VERSION {
        return Err(stranger(format!("its version is {}", welcome.version)));
    }
    match Errno::new(welcome.errno.cast_signed()) {
        Some(errno) => Err(OpenError::Refused { path: path.to_owned(), errno }),
        None => Ok(welcome),
    }
}

/// Opens device `index` with the flags of `open(2)`, of which bit 0 decides the lane. `O_CLOEXEC`
/// is the caller's business: the descriptor is closed on exec.
///
/// # Errors
/// Why it does not open.
pub fn open(address: &Address, index: u32, flags: u32) -> Result<OpenedFile, OpenError> {
    let Greeted { socket, welcome } = greet(address, &Hello { index, flags, ..Hello::new(role::FILE) }, &[])?;
    Ok(OpenedFile { socket, file: welcome.file })
}

/// Opens a file under `/sys` to write: what is written to the socket, packet by packet, is
/// written to the file. `path` is relative to the root, `sys/devices/...`.
///
/// # Errors
/// Why it does not open: refused with ENOENT, or EACCES for one that is only to be read.
pub fn open_attribute(address: &Address, path: &Path) -> Result<OwnedFd, OpenError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MAX_PATH {
        return Err(OpenError::Refused { path: address.path().to_owned(), errno: Errno::ENOENT });
    }
    greet(address, &Hello::new(role::ATTRIBUTE), bytes).map(|greeted| greeted.socket)
}

/// Asks which open file a descriptor is: one that came from another process, or through an exec.
///
/// # Errors
/// The server is gone, or the descriptor is none of its files.
pub fn which(socket: impl AsFd, path: &Path) -> Result<u64, OpenError> {
    let unreachable = |source| OpenError::Unreachable { path: path.to_owned(), source };
    let (own, other) = packet::pair().map_err(unreachable)?;
    packet::send(socket, &Which { magic: MAGIC, version: VERSION }, &[], Some(other.as_fd()))
        .map_err(|_| OpenError::Gone(path.to_owned()))?;
    drop(other);
    let answer = Packet::receive(&own, SHORT).map_err(unreachable)?;
    let answer = answer.ok_or_else(|| OpenError::Gone(path.to_owned()))?;
    welcomed(path, &answer).map(|welcome| welcome.file)
}
