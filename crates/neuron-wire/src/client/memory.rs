//! This process's bytes for a server that may not reach them itself: a connection on which the
//! server asks, and a thread that answers.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use rustix::net::{Shutdown, shutdown};

use crate::address::Address;
use crate::client::bounce::Bounce;
use crate::client::open::{Greeted, OpenError, greet};
use crate::message::{Hello, LONG, MEMORY_CHUNK, MemoryReply, MemoryRequest, access, role};
use crate::packet::{self, Packet};

/// Who answers for this process.
#[derive(Debug, Default)]
pub(super) struct MemoryService {
    /// The connection that a thread answers on, and the thread's process.
    connection: Mutex<Option<(u32, Arc<OwnedFd>)>>,
    /// A thread has ended, since the server would not wait any longer (this process was stopped),
    /// or is gone.
    ended: Arc<AtomicBool>,
}

impl MemoryService {
    /// Sees to it that the server's questions are answered.
    ///
    /// # Errors
    /// No connection, or no thread for it.
    pub(super) fn ensure(&self, address: &Address) -> Result<(), OpenError> {
        let mut connection = self.connection();
        if connection.as_ref().is_some_and(|&(process, _)| process == std::process::id()) {
            return Ok(());
        }
        let unreachable = |source| OpenError::Unreachable { path: address.path().to_owned(), source };
        let Greeted { socket, .. } = greet(address, &Hello::new(role::MEMORY), &[])?;
        let bounce = Bounce::new().map_err(unreachable)?;
        let thread = std::thread::Builder::new().name("neuron-memory".to_owned());
        let socket = Arc::new(socket);
        let (ended, own) = (Arc::clone(&self.ended), Arc::clone(&socket));
        let serve = move || {
            while answer(&own, &bounce).is_ok_and(|more| more) {}
            ended.store(true, Ordering::Relaxed);
        };
        thread.spawn(serve).map_err(unreachable)?;
        *connection = Some((std::process::id(), socket));
        Ok(())
    }

    /// As [`ensure`](Self::ensure), if a thread has ended since this was asked.
    ///
    /// # Errors
    /// As [`ensure`](Self::ensure).
    pub(super) fn renew(&self, address: &Address) -> Result<(), OpenError> {
        if !self.ended.load(Ordering::Relaxed) || !self.ended.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.forget();
        self.ensure(address)
    }

    /// The server that asked is gone: the next one is told anew.
    pub(super) fn forget(&self) {
        *self.connection() = None;
    }

    fn connection(&self) -> MutexGuard<'_, Option<(u32, Arc<OwnedFd>)>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryService {
    /// Ends the thread: without calls there is nothing to ask for. A forked child has a copy of
    /// the connection, which is its parent's.
    fn drop(&mut self) {
        match &*self.connection() {
            Some((process, socket)) if *process == std::process::id() => {
                let _ended_already = shutdown(socket, Shutdown::Both);
            }
            _ => {}
        }
    }
}

/// Answers one question; `false` at the end.
fn answer(socket: &OwnedFd, bounce: &Bounce) -> io::Result<bool> {
    let Some(packet) = Packet::receive(socket, LONG)? else { return Ok(false) };
    let (request, bytes) = packet.head::<MemoryRequest>().map_err(io::Error::other)?;
    let len = request.len as usize;
    let mut read = Vec::new();
    let done = match request.access {
        access::READ if len <= MEMORY_CHUNK => bounce.read(request.address, len).map(|bytes| read = bytes),
        access::WRITE if len == bytes.len() => bounce.write(request.address, bytes),
        _ => Err(Errno::EINVAL),
    };
    let errno = done.err().map_or(0, |errno| errno.raw().cast_unsigned());
    packet::send(socket, &MemoryReply { errno, pad: 0 }, &read, None)?;
    Ok(true)
}
