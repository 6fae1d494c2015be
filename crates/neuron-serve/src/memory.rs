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

use crate::state::end;

/// How long an answer is waited for (our choice). The driver may hold a ring's lock meanwhile, so
/// a client that is stopped must not stop others for good.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client's connection for its memory, once it has made one.
#[derive(Debug, Default)]
pub(crate) struct SocketMemory {
    socket: Mutex<Option<Arc<OwnedFd>>>,
    /// One question at a time.
    exchange: Mutex<()>,
}

impl SocketMemory {
    /// The client answers here from now on. It is greeted before it is asked.
    ///
    /// # Errors
    /// It was not greeted.
    pub(crate) fn attach(
        &self,
        socket: &Arc<OwnedFd>,
        greet: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let _nobody_asks = self.exchange();
        let _a_client_that_is_slow_is_waited_for = set_socket_timeout(socket, Timeout::Recv, Some(PATIENCE));
        *self.socket() = Some(Arc::clone(socket));
        greet()
    }

    /// Waits until the client's end, or this one's.
    pub(crate) fn wait_for_end(&self, socket: &Arc<OwnedFd>) {
        let mut ends = [PollFd::new(socket, PollFlags::empty())];
        while matches!(poll(&mut ends, None), Err(SystemErrno::INTR)) {}
        let mut own = self.socket();
        if own.as_ref().is_some_and(|own| Arc::ptr_eq(own, socket)) {
            *own = None;
        }
    }

    /// There is nothing more to be had.
    pub(crate) fn end(&self) {
        if let Some(socket) = self.socket().take() {
            end(&socket);
        }
    }

    fn socket(&self) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange(&self) -> MutexGuard<'_, ()> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: MemoryRequest, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
        let _one = self.exchange();
        let socket = self.socket().clone().ok_or(Errno::EFAULT)?;
        let answered = (|| {
            packet::send(&socket, &request, bytes, None).ok()?;
            let packet = Packet::receive(&socket, LONG).ok()??;
            let (reply, bytes) = packet.head::<MemoryReply>().ok()?;
            let wanted = if request.access == access::READ { request.len as usize } else { 0 };
            match Errno::new(reply.errno.cast_signed()) {
                Some(errno) => Some(Err(errno)),
                None => (bytes.len() == wanted).then(|| Ok(bytes.to_vec())),
            }
        })();
        // Whoever does not answer, or answers something else, would answer the next question with it.
        answered.unwrap_or_else(|| {
            self.end();
            Err(Errno::EFAULT)
        })
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
