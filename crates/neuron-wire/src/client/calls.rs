//! Calls, on as many lanes as there are threads in one.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use neuron_abi::errno::Errno;

use crate::address::Address;
use crate::client::lanes::Lanes;
use crate::client::memory::MemoryService;
use crate::client::open::{Greeted, OpenError, greet};
use crate::message::{Hello, MAX_PATH, Reply, Request, SHORT, kind, role, way};
use crate::packet::{self, Packet};

/// Descriptors that a program usually may have, and as many of the last of them as are for lanes.
const HIGH: u64 = 1024;
const LANES: u64 = 128;

/// Why a call got no answer, or was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The driver's answer, or the system's.
    #[error("{0}")]
    Errno(Errno),
    /// No lane to the server.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The server ended during the call.
    #[error("the server at {0} ended; what was open there is gone: open devices anew once it is back")]
    Gone(Address),
    /// The answer is none.
    #[error("the server at {address} answers something that is no answer: {what}")]
    Malformed {
        /// Whose.
        address: Address,
        /// What is wrong.
        what: String,
    },
}

impl CallError {
    /// What a system call would have said; ENODEV when there is no server any more.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Errno(errno) => *errno,
            Self::Open(error) => error.errno(),
            Self::Gone(_) => Errno::ENODEV,
            Self::Malformed { .. } => Errno::EIO,
        }
    }

    /// Whether it tells of the server, not of what was asked.
    #[must_use]
    pub const fn is_about_server(&self) -> bool {
        !matches!(self, Self::Errno(_))
    }
}

/// What a call answered.
#[derive(Debug, Default)]
pub struct Answer {
    /// See [`kind`].
    pub a: u64,
    /// See [`kind`].
    pub b: u64,
    /// The descriptor that came with it, closed on exec.
    pub descriptor: Option<OwnedFd>,
    /// A path that came with it.
    pub path: PathBuf,
}

/// Calls to one server. Make one for a process; all methods may be called from any thread, and
/// in a child after a fork.
#[derive(Debug)]
pub struct Calls {
    address: Address,
    lanes: Lanes,
    memory: MemoryService,
}

impl Calls {
    /// To the server at an address. Connects with the first call.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, lanes: Lanes::new(), memory: MemoryService::default() }
    }

    /// Whose.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Closes what a forked child has of its parent's lanes, which a child that makes no calls
    /// would keep open.
    pub fn forked(&self) {
        self.lanes.is_new_process();
    }

    /// `ioctl(2)` on an open file; `argument` is an address in this process. Of a command that
    /// opens a descriptor (`DMABUF_FD`), the answer has it, and its number is still to be put
    /// where the argument wants it.
    ///
    /// # Errors
    /// The driver's errno, or no server.
    pub fn ioctl(&self, file: u64, word: u32, argument: u64) -> Result<Answer, CallError> {
        self.call(&Request { kind: kind::IOCTL, word, file, a: argument, ..Request::default() }, &[])
    }

    /// `mmap(2)`: a descriptor of the memory, in `a` the offset in it, in `b` the mapping's number.
    ///
    /// # Errors
    /// The driver's errno, or no server.
    pub fn mmap(&self, file: u64, offset: u64, bytes: u64, writable: bool) -> Result<Answer, CallError> {
        let request = Request { kind: kind::MMAP, word: 0, file, a: offset, b: bytes, c: writable.into() };
        self.call(&request, &[])
    }

    /// Tells where a mapping went.
    ///
    /// # Errors
    /// No server, or no such mapping.
    pub fn place(&self, file: u64, mapping: u64, address: u64) -> Result<(), CallError> {
        let request = Request { kind: kind::PLACE, file, a: mapping, b: address, ..Request::default() };
        self.call(&request, &[]).map(drop)
    }

    /// Tells that a mapping is gone.
    ///
    /// # Errors
    /// No server, or no such mapping.
    pub fn unmap(&self, mapping: u64) -> Result<(), CallError> {
        self.call(&Request { kind: kind::UNMAP, a: mapping, ..Request::default() }, &[]).map(drop)
    }

    /// All of a file under `/sys`, as a descriptor of memory at its start; `path` is relative to
    /// the root of the tree.
    ///
    /// # Errors
    /// ENOENT if the tree has no such file; no server.
    pub fn read_attribute(&self, path: &Path) -> Result<OwnedFd, CallError> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() > MAX_PATH {
            return Err(CallError::Errno(Errno::ENOENT));
        }
        let request = Request { kind: kind::READ_ATTRIBUTE, ..Request::default() };
        let answer = self.call(&request, bytes)?;
        answer.descriptor.ok_or_else(|| self.malformed("a file without a descriptor"))
    }

    /// Where the server keeps its picture of `/dev` and `/sys`.
    ///
    /// # Errors
    /// No server.
    pub fn tree(&self) -> Result<PathBuf, CallError> {
        self.call(&Request { kind: kind::TREE, ..Request::default() }, &[]).map(|answer| answer.path)
    }

    fn malformed(&self, what: impl Into<String>) -> CallError {
        CallError::Malformed { address: self.address.clone(), what: what.into() }
    }

    /// A new lane.
    fn connect(&self) -> Result<OwnedFd, OpenError> {
        let probe = std::hint::black_box(Box::new(rand()));
        let hello =
            Hello { probe_address: &raw const *probe as u64, probe: *probe, ..Hello::new(role::CALLS) };
        let Greeted { socket, welcome } = greet(&self.address, &hello, &[])?;
        drop(std::hint::black_box(probe));
        if welcome.way == way::SOCKET {
            self.memory.ensure(&self.address)?;
        }
        Ok(out_of_the_way(socket))
    }

    fn call(&self, request: &Request, tail: &[u8]) -> Result<Answer, CallError> {
        self.lanes.is_new_process();
        let lane = loop {
            let Some(lane) = self.lanes.take() else {
                let lane = self.connect()?;
                packet::send(&lane, request, tail, None).map_err(|_| self.gone())?;
                break lane;
            };
            self.memory.renew(&self.address)?;
            // A lane of a server that was started anew is found out before the call was taken.
            if packet::send(&lane, request, tail, None).is_ok() {
                break lane;
            }
            self.memory.forget();
        };
        let received = Packet::receive(&lane, SHORT);
        self.memory.settle();
        let answer = match received {
            Ok(Some(answer)) => answer,
            Ok(None) => return Err(self.gone()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(self.gone()),
            Err(error) => return Err(self.malformed(error.to_string())),
        };
        let (reply, path) = answer.head::<Reply>().map_err(|error| self.malformed(error.to_string()))?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
        self.lanes.give(lane);
        match Errno::new(reply.errno.cast_signed()) {
            Some(errno) => Err(CallError::Errno(errno)),
            None => Ok(Answer { a: reply.a, b: reply.b, descriptor: answer.descriptor, path }),
        }
    }

    fn gone(&self) -> CallError {
        self.memory.forget();
        CallError::Gone(self.address.clone())
    }
}

/// A program expects low numbers for the files that it opens: a lane gets a high one.
fn out_of_the_way(lane: OwnedFd) -> OwnedFd {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let lowest = limit.min(HIGH).saturating_sub(LANES);
    let moved = i32::try_from(lowest).map(|lowest| rustix::io::fcntl_dupfd_cloexec(&lane, lowest));
    match moved {
        Ok(Ok(high)) => high,
        _ => lane,
    }
}

/// A number that nobody else's memory has at the same address.
fn rand() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
