//! A client's bytes over its socket, where the system keeps processes from each other's memory.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuron_abi::errno::Errno;
use neuron_ndl::software::ProcessMemory;
use neuron_wire::message::{LONG, MEMORY_CHUNK, MemoryReply, MemoryRequest, access};
use neuron_wire::packet::{self, Packet};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno as SystemErrno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use vm_memory::VolatileSlice;

use crate::sockets::{end, has_ended};

/// A client's connections for its memory, once it has made one. A program with several libraries
/// that make calls has several; any will do.
#[derive(Debug, Default)]
pub(crate) struct SocketMemory {
    sockets: Mutex<Vec<Arc<OwnedFd>>>,
    /// One question at a time.
    exchange: Mutex<()>,
}

impl SocketMemory {
    /// The client answers here from now on. It is greeted before it is asked, and waited for
    /// only so long: the driver may hold a ring's lock meanwhile, so a client that is stopped must
    /// not stop others for good.
    ///
    /// # Errors
    /// It was not greeted.
    pub(crate) fn attach(
        &self,
        socket: &Arc<OwnedFd>,
        patience: Duration,
        greet: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let _nobody_asks = self.exchange();
        for way in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(socket, way, Some(patience)).map_err(|_| Errno::EINVAL)?;
        }
        self.sockets().push(Arc::clone(socket));
        greet()
    }

    /// Waits until the client's end, or this one's.
    pub(crate) fn wait_for_end(&self, socket: &Arc<OwnedFd>) {
        let mut ends = [PollFd::new(socket, PollFlags::empty())];
        while matches!(poll(&mut ends, None), Err(SystemErrno::INTR)) {}
        self.forget(socket);
    }

    /// There is nothing more to be had.
    pub(crate) fn end(&self) {
        self.sockets().drain(..).for_each(end);
    }

    fn forget(&self, socket: &Arc<OwnedFd>) {
        self.sockets().retain(|other| !Arc::ptr_eq(other, socket));
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<Arc<OwnedFd>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange(&self) -> MutexGuard<'_, ()> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: MemoryRequest, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
        let _one = self.exchange();
        loop {
            let socket = self.sockets().last().cloned().ok_or(Errno::EFAULT)?;
            match exchange(&socket, request, bytes) {
                Exchanged::Answer(answer) => return answer,
                // A library is done: another one of the program may be there to be asked.
                Exchanged::Ended => self.forget(&socket),
                // It would answer the next question with it.
                Exchanged::Nonsense => {
                    end(&socket);
                    self.forget(&socket);
                    return Err(Errno::EFAULT);
                }
            }
        }
    }
}

enum Exchanged {
    Answer(Result<Vec<u8>, Errno>),
    /// The connection has ended.
    Ended,
    /// No answer in time, or none to this.
    Nonsense,
}

fn exchange(socket: &OwnedFd, request: MemoryRequest, bytes: &[u8]) -> Exchanged {
    let received = packet::send(socket, &request, bytes, None).and_then(|()| Packet::receive(socket, LONG));
    let packet = match received {
        Ok(Some(packet)) => packet,
        _ if has_ended(socket) => return Exchanged::Ended,
        _ => return Exchanged::Nonsense,
    };
    let wanted = if request.access == access::READ { request.len as usize } else { 0 };
    match packet.head::<MemoryReply>() {
        Ok((reply, bytes)) => match Errno::new(reply.errno.cast_signed()) {
            Some(errno) => Exchanged::Answer(Err(errno)),
            None if bytes.len() == wanted => Exchanged::Answer(Ok(bytes.to_vec())),
            None => Exchanged::Nonsense,
        },
        Err(_) => Exchanged::Nonsense,
    }
}

impl ProcessMemory for SocketMemory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        for done in (0..into.len()).step_by(MEMORY_CHUNK) {
            let part = into.offset(done).map_err(|_| Errno::EFAULT)?;
            let len = part.len().min(MEMORY_CHUNK);
            let request =
                MemoryRequest { access: access::READ, len: len as u32, address: address + done as u64 };
            part.copy_from(&self.ask(request, &[])?);
        }
        Ok(())
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        let mut bytes = vec![0; from.len().min(MEMORY_CHUNK)];
        for done in (0..from.len()).step_by(MEMORY_CHUNK) {
            let part = from.offset(done).map_err(|_| Errno::EFAULT)?;
            let len = part.copy_to(&mut bytes);
            let chunk = bytes.get(..len).unwrap_or_default();
            let request =
                MemoryRequest { access: access::WRITE, len: len as u32, address: address + done as u64 };
            self.ask(request, chunk)?;
        }
        Ok(())
    }
}
