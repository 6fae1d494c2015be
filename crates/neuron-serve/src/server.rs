//! Starting and stopping, and what a machine is served with.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use neuron_ndl::software::{FaultPlan, Machine, MachineError, MachineOptions};
use neuron_wire::Address;
use rustix::net::{SocketFlags, accept_with};
use tempfile::TempDir;

use crate::admit::Admit;
use crate::connection;
use crate::faults::{Faults, Wanted};
use crate::files::Files;
use crate::leaks::{Ledger, Left};
pub use crate::listen::ListenError;
use crate::listen::Listener;
use crate::log::Log;
use crate::picture::Picture;
use crate::process::Processes;
use crate::settle::settle;
use crate::sockets::Connections;
use crate::state::{Shared, Stop, Threads};
use crate::writers::Writers;

/// What is served, where, and to whom.
#[derive(Debug)]
pub struct Options {
    /// Instance type of the machine.
    pub instance: String,
    /// The socket.
    pub address: Address,
    /// Folder for the picture of `/dev` and `/sys`, made if it is not there; a temporary one
    /// without it: in `$TMPDIR`, else in memory, `/dev/shm`.
    pub state: Option<PathBuf>,
    /// Who may connect.
    pub admit: Admit,
    /// What goes wrong.
    pub faults: Vec<Wanted>,
    /// Clients' bytes always travel over their sockets.
    pub memory_by_socket: bool,
    /// How long a client is waited for that has to say what its connection is, or to give its
    /// bytes over its socket: 10 s without it (our choice). One that is stopped in a zero-copy may
    /// keep others from the core's ring as long, and its call fails with EFAULT then.
    pub patience: Duration,
    /// What is told.
    pub log: Log,
}

/// See [`Options::patience`].
const PATIENCE: Duration = Duration::from_secs(10);

impl Options {
    /// A machine of an instance type at an address, for the user's own programs.
    #[must_use]
    pub fn new(instance: impl Into<String>, address: Address) -> Self {
        Self {
            instance: instance.into(),
            address,
            state: None,
            admit: Admit::default(),
            faults: Vec::new(),
            memory_by_socket: false,
            patience: PATIENCE,
            log: Log::none(),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The machine does not come up.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The socket cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The server's folder cannot be written.
    #[error("the server's folder {path:?} cannot be used")]
    State {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system has no threads or descriptors left.
    #[error("the system does not let a server start")]
    System(#[from] io::Error),
}

/// A server that runs. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    address: Address,
    accepting: Option<JoinHandle<()>>,
    _picture: Picture,
    _folder: Option<TempDir>,
}

impl Server {
    /// Brings the machine up and listens.
    ///
    /// # Errors
    /// Why it does not start; nothing is left behind then.
    pub fn start(options: Options) -> Result<Self, ServeError> {
        let Options { instance, address, state, admit, faults, memory_by_socket, patience, log } = options;
        let mut machine = MachineOptions::default();
        for wanted in &faults {
            match wanted {
                Wanted::HbmBytes(bytes) => machine.params.pools.hbm_bytes = Some(*bytes),
                Wanted::Device(FaultPlan { faults }) => machine.faults.faults.extend(faults),
                _ => {}
            }
        }
        // The place first: a second server is refused before it makes anything.
        let listener = Listener::bind(address, admit != Admit::Own)?;
        let machine = Machine::with_options(&instance, machine)?;
        // What keeps a device from coming up is told here, by the first; the others come up when they are
        // used, since many take seconds.
        let sysfs = machine.sysfs_shape()?;
        let (folder, temporary) = match state {
            Some(path) => (path, None),
            None => {
                let made = temporary_folder(admit != Admit::Own)?;
                (made.path().to_owned(), Some(made))
            }
        };
        let picture = Picture::draw(&folder, &sysfs, machine.instance().devices)
            .map_err(|source| ServeError::State { path: folder, source })?;
        let shared = Arc::new(Shared {
            machine,
            admit,
            user: rustix::process::geteuid().as_raw(),
            memory_by_socket,
            patience,
            log,
            faults: Faults::new(faults),
            ledger: Ledger::default(),
            files: Files::default(),
            processes: Processes::default(),
            writers: Writers::default(),
            tree: picture.root().to_owned(),
            connections: Connections::default(),
            threads: Threads::default(),
            stop: Stop::new()?,
        });
        let (address, accepted) = (listener.address().clone(), Arc::clone(&shared));
        let accepting = std::thread::Builder::new()
            .name("neuron-accept".to_owned())
            .spawn(move || accept(&accepted, listener))?;
        Ok(Self { shared, address, accepting: Some(accepting), _picture: picture, _folder: temporary })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// The picture of `/dev` and `/sys`.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.shared.tree
    }

    /// The machine that it serves.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.shared.machine
    }

    /// What processes that have ended by now left behind, in that order.
    #[must_use]
    pub fn left(&self) -> Vec<Left> {
        settle(&self.shared);
        self.shared.ledger.all()
    }

    /// Processes that are alive and have a device open, by number and name.
    #[must_use]
    pub fn clients(&self) -> Vec<(i32, String)> {
        settle(&self.shared);
        self.shared.files.openers()
    }

    /// Faults of the plan whose turn has not come, each with why.
    #[must_use]
    pub fn idle_faults(&self) -> Vec<String> {
        self.shared.faults.idle()
    }

    /// Lines of the log that could not be written.
    #[must_use]
    pub fn lost_lines(&self) -> u64 {
        self.shared.log.lost()
    }

    /// Ends all connections, waits until everything that follows is done, and tells what all
    /// processes left behind, those that were still there too.
    #[must_use = "what was left behind is told once"]
    pub fn stop(mut self) -> Vec<Left> {
        self.end();
        self.shared.ledger.all()
    }

    fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.shared.stop.request();
        let _it_does_not_panic = accepting.join();
        self.shared.connections.end_all();
        self.shared.threads.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A folder for the picture: in `$TMPDIR`, or in memory where the system has such a place, since
/// a disk takes its time with thousands of empty files (our choice). `everybody` may look into it.
fn temporary_folder(everybody: bool) -> io::Result<TempDir> {
    let mut folder = tempfile::Builder::new();
    let mode = if everybody { 0o755 } else { 0o700 };
    let permissions = Permissions::from_mode(mode);
    folder.prefix("neuron-mem-").permissions(permissions);
    let in_memory = match std::env::var_os("TMPDIR") {
        Some(_) => None,
        None => folder.tempdir_in("/dev/shm").ok(),
    };
    in_memory.map_or_else(|| folder.tempdir(), Ok)
}

/// Takes connections in until the server stops.
fn accept(shared: &Arc<Shared>, listener: Listener) {
    while shared.stop.wait_for(listener.socket()) {
        match accept_with(listener.socket(), SocketFlags::CLOEXEC) {
            Ok(socket) => {
                let serve = move |shared: &Arc<Shared>| connection::serve(shared, socket);
                if let Err(error) = Threads::start(shared, "neuron-client", serve) {
                    shared.log.note(format_args!("a connection was refused: {error}"));
                }
            }
            Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM) => {
                shared.log.note("no descriptors are left: a connection waits");
                // Until another client's are closed; the connection stays in the queue.
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            // A client that did not wait.
            Err(_) => {}
        }
    }
}
