//! This process's bytes for a server that may not reach them itself: a connection on which the
//! server asks, and a thread that answers.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::PoisonError;

use neuron_abi::errno::Errno;

use crate::address::Address;
use crate::client::bounce::Bounce;
use crate::client::open::{Greeted, OpenError, greet};
use crate::message::{Hello, LONG, MEMORY_CHUNK, MemoryReply, MemoryRequest, access, role};
use crate::packet::{self, Packet};

/// Who answers for this process.
#[derive(Debug, Default)]
pub(super) struct MemoryService {
    /// The process that has a thread for it.
    process: Mutex<u32>,
}

impl MemoryService {
    /// Sees to it that the server's questions are answered.
    ///
    /// # Errors
    /// No connection, or no thread for it.
    pub(super) fn ensure(&self, address: &Address) -> Result<(), OpenError> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if *process == std::process::id() {
            return Ok(());
        }
        let unreachable = |source| OpenError::Unreachable { path: address.path().to_owned(), source };
        let Greeted { socket, .. } = greet(address, &Hello::new(role::MEMORY), &[])?;
        let bounce = Bounce::new().map_err(unreachable)?;
        let thread = std::thread::Builder::new().name("neuron-memory".to_owned());
        let serve = move || while answer(&socket, &bounce).is_ok_and(|more| more) {};
        thread.spawn(serve).map_err(unreachable)?;
        *process = std::process::id();
        Ok(())
    }

    /// The server that asked is gone: the next one is told anew.
    pub(super) fn forget(&self) {
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = 0;
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
