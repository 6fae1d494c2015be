//! What all threads of a server share.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use neuron_ndl::software::Machine;
use neuron_wire::message::{MAGIC, VERSION, Welcome};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno as SystemErrno;

use crate::admit::Admit;
use crate::faults::Faults;
use crate::files::Files;
use crate::leaks::Ledger;
use crate::log::Log;
use crate::process::Processes;
use crate::sockets::Connections;
use crate::writers::Writers;

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
    pub(crate) writers: Writers,
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
