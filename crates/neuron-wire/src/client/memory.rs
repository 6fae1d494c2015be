//! This process's bytes for a server that may not reach them itself: a connection on which the
//! server asks, and a thread that answers.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::net::{Shutdown, shutdown};

use crate::address::Address;
use crate::client::bounce::Bounce;
use crate::client::open::{Greeted, OpenError, greet};
use crate::message::{Hello, LONG, MEMORY_CHUNK, MemoryReply, MemoryRequest, access, role};
use crate::packet::{self, Packet, has_ended};

/// Who answers for this process.
#[derive(Debug, Default)]
pub(super) struct MemoryService {
    /// The connection that a thread answers on.
    connection: Mutex<Option<Connection>>,
    /// There is one, or was: without, calls look no further, and take no lock.
    is_used: AtomicBool,
    /// A thread has ended, since the server would not wait any longer (this process was stopped),
    /// or is gone.
    ended: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Connection {
    /// The process of the thread.
    process: u32,
    socket: Arc<OwnedFd>,
    /// Held while a question is answered.
    answering: Arc<Mutex<()>>,
}

impl Connection {
    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }
}

impl MemoryService {
    /// Sees to it that the server's questions are answered.
    ///
    /// # Errors
    /// No connection, or no thread for it.
    pub(super) fn ensure(&self, address: &Address) -> Result<(), OpenError> {
        let mut connection = self.connection();
        if connection.as_ref().is_some_and(Connection::is_own) {
            return Ok(());
        }
        let unreachable = |source| OpenError::Unreachable { path: address.path().to_owned(), source };
        let Greeted { socket, .. } = greet(address, &Hello::new(role::MEMORY), &[])?;
        let bounce = Bounce::new().map_err(unreachable)?;
        let thread = std::thread::Builder::new().name("neuron-memory".to_owned());
        let (socket, answering) = (Arc::new(socket), Arc::default());
        let (ended, own, held) = (Arc::clone(&self.ended), Arc::clone(&socket), Arc::clone(&answering));
        let serve = move || {
            while answer(&own, &bounce, &held).is_ok_and(|more| more) {}
            ended.store(true, Ordering::Relaxed);
        };
        thread.spawn(serve).map_err(unreachable)?;
        *connection = Some(Connection { process: std::process::id(), socket, answering });
        self.is_used.store(true, Ordering::Relaxed);
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

    /// A call has its answer, and its caller may free what the call was about: no question about
    /// that is being answered any more. The server has ended the connection before the call, if it
    /// gave one up.
    pub(super) fn settle(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            return;
        }
        let own = self.connection().as_ref().filter(|own| own.is_own()).map(|own| Arc::clone(&own.answering));
        if let Some(answering) = own {
            drop(answering.lock());
        }
    }

    /// The server that asked is gone, and gets no more answers: the next one is told anew.
    pub(super) fn forget(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            return;
        }
        self.end();
        self.settle();
        *self.connection() = None;
    }

    /// Ends the connection. A forked child has a copy of its parent's, and leaves it alone.
    fn end(&self) {
        if let Some(own) = self.connection().as_ref().filter(|own| own.is_own()) {
            let _ended_already = shutdown(&own.socket, Shutdown::Both);
        }
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryService {
    /// Ends the thread: without calls there is nothing to ask for.
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for a question and answers it; `false` at the end. What was asked before the server gave
/// up is not answered: the call has failed, and its memory may be something else by now.
fn answer(socket: &OwnedFd, bounce: &Bounce, answering: &Mutex<()>) -> io::Result<bool> {
    let mut asked = [PollFd::new(socket, PollFlags::IN)];
    retry_on_intr(|| poll(&mut asked, None))?;
    let _answering = answering.lock().unwrap_or_else(PoisonError::into_inner);
    if has_ended(socket) {
        return Ok(false);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::pair;

    #[test]
    fn a_question_is_answered_but_not_one_that_the_server_has_given_up() {
        let (server, client) = pair().unwrap();
        let (bounce, answering) = (Bounce::new().unwrap(), Mutex::default());
        let mut memory = vec![1_u8; 100];
        let address = memory.as_mut_ptr() as u64;
        let write = MemoryRequest { access: access::WRITE, len: 100, address };
        packet::send(&server, &write, &[2; 100], None).unwrap();
        assert!(answer(&client, &bounce, &answering).unwrap());
        let reply = Packet::receive(&server, LONG).unwrap().unwrap();
        assert_eq!(reply.whole::<MemoryReply>().unwrap().errno, 0);
        assert_eq!(memory, [2; 100]);

        packet::send(&server, &write, &[3; 100], None).unwrap();
        shutdown(&server, Shutdown::Both).unwrap();
        assert!(!answer(&client, &bounce, &answering).unwrap());
        assert_eq!(memory, [2; 100], "the call has failed, and this may be another's");
    }
}
