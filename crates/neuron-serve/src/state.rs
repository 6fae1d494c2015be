//! What all threads of a server share.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuron_abi::errno::Errno;
use neuron_ndl::software::Machine;
use neuron_wire::message::{MAGIC, VERSION, Welcome};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno as SystemErrno;
use rustix::net::{Shutdown, shutdown};

use crate::admit::Admit;
use crate::attributes::Attributes;
use crate::faults::Faults;
use crate::files::Files;
use crate::leaks::Ledger;
use crate::log::Log;
use crate::process::Processes;

/// Connections at once, at most (our choice): a thread each.
const MOST_CONNECTIONS: usize = 4096;

pub(crate) struct Shared {
    pub(crate) machine: Machine,
    pub(crate) admit: Admit,
    /// The server's own user.
    pub(crate) user: u32,
    /// Never try to reach clients' memory by the system's calls.
    pub(crate) memory_by_socket: bool,
    /// How long a client is waited for.
    pub(crate) patience: Duration,
    pub(crate) log: Log,
    pub(crate) faults: Faults,
    pub(crate) ledger: Ledger,
    pub(crate) files: Files,
    pub(crate) processes: Processes,
    pub(crate) attributes: Attributes,
    /// Where `/dev` and `/sys` are shown.
    pub(crate) tree: PathBuf,
    pub(crate) connections: Connections,
    pub(crate) threads: Threads,
    pub(crate) stop: Stop,
}

impl Shared {
    /// What a connection is answered that is welcome.
    pub(crate) fn welcome(&self) -> Welcome {
        let mut instance = [0; 32];
        let name = self.machine.instance().name.as_bytes();
        instance.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        Welcome {
            magic: MAGIC,
            version: VERSION,
            errno: 0,
            way: 0,
            file: 0,
            devices: self.machine.instance().devices.into(),
            server: std::process::id(),
            instance,
        }
    }
}

/// Tells every thread that waits to end.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Readable from then on.
    event: OwnedFd,
    requested: AtomicBool,
}

impl Stop {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { event: eventfd(0, EventfdFlags::CLOEXEC)?, requested: AtomicBool::new(false) })
    }

    pub(crate) fn request(&self) {
        self.requested.store(true, Ordering::Release);
        let _always_room = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// Waits until something can be read; `false` when it is time to end.
    pub(crate) fn wait_for(&self, readable: impl AsFd) -> bool {
        loop {
            let mut ends = [PollFd::new(&self.event, PollFlags::IN), PollFd::new(&readable, PollFlags::IN)];
            match poll(&mut ends, None) {
                Ok(_) => return ends[0].revents().is_empty(),
                Err(SystemErrno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Sockets of clients, to end them all.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last: u64,
    sockets: BTreeMap<u64, Arc<OwnedFd>>,
    /// The server stops.
    ended: bool,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in, or gives it back.
    ///
    /// # Errors
    /// EBUSY if there are too many, ENODEV if the server stops.
    pub(crate) fn add(&self, socket: OwnedFd) -> Result<Connection<'_>, (OwnedFd, Errno)> {
        let mut open = self.open();
        if open.ended {
            return Err((socket, Errno::ENODEV));
        }
        if open.sockets.len() >= MOST_CONNECTIONS {
            return Err((socket, Errno::EBUSY));
        }
        open.last += 1;
        let (number, socket) = (open.last, Arc::new(socket));
        open.sockets.insert(number, Arc::clone(&socket));
        Ok(Connection { of: self, number, socket })
    }

    /// Ends all, and all that come.
    pub(crate) fn end_all(&self) {
        let mut open = self.open();
        open.ended = true;
        open.sockets.values().for_each(end);
    }
}

/// A connection that is served.
pub(crate) struct Connection<'a> {
    of: &'a Connections,
    number: u64,
    pub(crate) socket: Arc<OwnedFd>,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.of.open().sockets.remove(&self.number);
    }
}

/// Ends a connection: whoever waits on it, here or there, is told.
pub(crate) fn end(socket: impl AsFd) {
    let _ended_already = shutdown(socket, Shutdown::Both);
}

/// Whether the other side of a connection sends nothing any more. What it sent before may still
/// be there to be received.
pub(crate) fn has_ended(socket: impl AsFd) -> bool {
    let mut ends = [PollFd::new(&socket, PollFlags::RDHUP)];
    matches!(poll(&mut ends, Some(&Timespec::default())), Ok(1))
}

/// Counts threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    running: Mutex<usize>,
    ended: Condvar,
}

/// A small stack: threads here call into the driver, which copies in small steps.
const STACK: usize = 512 << 10;

impl Threads {
    /// Starts a thread.
    ///
    /// # Errors
    /// The system has none left.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        name: &str,
        work: impl FnOnce(&Arc<Shared>) + Send + 'static,
    ) -> std::io::Result<()> {
        let running = Running::new(Arc::clone(shared));
        let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        thread.spawn(move || work(&running.0)).map(drop)
    }

    /// Waits until none runs.
    pub(crate) fn wait(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while *running > 0 {
            running = self.ended.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct Running(Arc<Shared>);

impl Running {
    fn new(shared: Arc<Shared>) -> Self {
        *shared.threads.running.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(shared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.threads.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.threads.ended.notify_all();
    }
}
