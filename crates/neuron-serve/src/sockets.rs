//! Sockets of clients: all that are open, and their ends.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
pub(crate) use neuron_wire::packet::has_ended;
use rustix::net::{Shutdown, shutdown};

/// Connections at once, at most (our choice): a thread each.
const MOST_CONNECTIONS: usize = 4096;

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
