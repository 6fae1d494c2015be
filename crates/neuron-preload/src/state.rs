//! What this process knows of the server, and what a fork does to that.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use neuron_wire::{Address, CallError, Calls, OpenError};
use rustix::io::Errno;

use crate::config;
use crate::fork;
use crate::known::Descriptors;
use crate::listings::Listings;
use crate::lock::Lock;
use crate::mappings::Mappings;
use crate::once::Once;
use crate::tree::Tree;

/// Where the server and its picture are.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) tree: Tree,
}

impl Server {
    /// Path of its socket.
    pub(crate) fn path(&self) -> &Path {
        self.address.path()
    }
}

/// What changes.
pub(crate) struct Tables {
    pub(crate) descriptors: Descriptors,
    pub(crate) mappings: Mappings,
    pub(crate) listings: Listings,
}

pub(crate) static TABLES: Lock<Tables> = Lock::new(Tables {
    descriptors: Descriptors::new(),
    mappings: Mappings::new(),
    listings: Listings::new(),
});

static SERVER: Once<Option<Server>> = Once::new();
static CALLS: Once<Calls> = Once::new();
static WATCHED: AtomicBool = AtomicBool::new(false);
static HELD: AtomicBool = AtomicBool::new(false);
static TOLD: AtomicBool = AtomicBool::new(false);

/// The server, if the program is to see one.
pub(crate) fn server() -> Option<&'static Server> {
    if !config::is_on() {
        return None;
    }
    let server = SERVER.get(|| {
        let socket = config::socket();
        let address = Address::new(Path::new(OsStr::from_bytes(&socket))).ok()?;
        Some(Server { address, tree: Tree::new(&config::tree()) })
    });
    if !WATCHED.swap(true, Ordering::Relaxed) {
        fork::watch(before_fork, in_parent, in_child);
    }
    server.as_ref()
}

/// Calls to a server.
pub(crate) fn calls(server: &Server) -> &'static Calls {
    CALLS.get(|| Calls::new(server.address.clone()))
}

/// Before a fork.
extern "C" fn before_fork() {
    HELD.store(TABLES.hold(), Ordering::Relaxed);
}

/// After it, in the parent.
extern "C" fn in_parent() {
    if HELD.swap(false, Ordering::Relaxed) {
        TABLES.release();
    }
}

/// In the child, which has neither its parent's mappings nor its lanes.
extern "C" fn in_child() {
    in_parent();
    TABLES.with(|tables| tables.mappings.forget());
    if let Some(calls) = CALLS.made() {
        calls.forked();
        // A thread of the parent may have held what is in it.
        CALLS.renew();
    }
    TOLD.store(false, Ordering::Relaxed);
}

/// An answer of the server's that is no answer: what the system would have said. That the server
/// is gone is told once.
pub(crate) fn refused(server: &Server, error: &CallError) -> Errno {
    if error.is_about_server() {
        tell(server, error);
    }
    Errno::from_raw_os_error(error.errno().raw())
}

/// The same of what does not open.
pub(crate) fn unopened(server: &Server, error: &OpenError) -> Errno {
    if !matches!(error, OpenError::Refused { .. }) {
        tell(server, error);
    }
    Errno::from_raw_os_error(error.errno().raw())
}

fn tell(server: &Server, error: &dyn std::fmt::Display) {
    if TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let line = format!("neuron-mem: the server at {} ended: {error}\n", server.address);
    // Without a standard error there is nobody to tell.
    let _told = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}
