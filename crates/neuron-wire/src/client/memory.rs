//! This process's bytes for a server that may not reach them itself: a connection on which the
//! server asks, and a thread that answers.
//!
//! An address that is none must be an answer and not a crash, so bytes go through a pipe: the
//! system refuses addresses with EFAULT.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::PoisonError;

use neuron_abi::errno::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::address::Address;
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

/// A pipe, whose ends refuse bad addresses.
#[derive(Debug)]
struct Bounce {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Bounce {
    fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { reader, writer })
    }

    /// `len` bytes at an address: at most [`MEMORY_CHUNK`], which a pipe holds.
    fn read(&self, address: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        if len == 0 {
            return Ok(bytes);
        }
        // SAFETY: only the system reads at the address, and refuses one that is not mapped; what
        // this process writes there meanwhile is its own race, as with any ioctl.
        let put = unsafe { libc::write(self.writer.as_raw_fd(), address as *const libc::c_void, len) };
        let put = moved(put);
        // What is in the pipe has to come out, whole or not.
        let held = *put.as_ref().unwrap_or(&0);
        let rest = bytes.get_mut(..held).unwrap_or_default();
        drain(&self.reader, rest)?;
        match put? {
            held if held == len => Ok(bytes),
            _ => Err(Errno::EFAULT),
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Ok(());
        }
        let put = rustix::io::retry_on_intr(|| rustix::io::write(&self.writer, bytes)).map_err(errno)?;
        // SAFETY: the server writes where the program told it to in an ioctl, which is the
        // program's promise that nothing forbids it; the system refuses what is not mapped.
        let got = unsafe { libc::read(self.reader.as_raw_fd(), address as *mut libc::c_void, put) };
        let got = moved(got);
        let held = *got.as_ref().unwrap_or(&0);
        drain(&self.reader, &mut vec![0; put - held])?;
        match got? {
            got if got == bytes.len() => Ok(()),
            _ => Err(Errno::EFAULT),
        }
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::new(error.raw_os_error()).unwrap_or(Errno::EIO)
}

/// Bytes that a call of the C library moved.
fn moved(returned: isize) -> Result<usize, Errno> {
    usize::try_from(returned)
        .map_err(|_| io::Error::last_os_error().raw_os_error().and_then(Errno::new).unwrap_or(Errno::EIO))
}

/// Takes exactly so many bytes out of the pipe.
fn drain(reader: &OwnedFd, mut into: &mut [u8]) -> Result<(), Errno> {
    while !into.is_empty() {
        let got = rustix::io::retry_on_intr(|| rustix::io::read(reader, &mut *into)).map_err(errno)?;
        into = into.get_mut(got..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_both_ways_and_bad_addresses_are_refused() {
        let bounce = Bounce::new().unwrap();
        let source = vec![7_u8; MEMORY_CHUNK];
        assert_eq!(bounce.read(source.as_ptr() as u64, source.len()), Ok(source));
        let mut target = vec![0_u8; 100];
        bounce.write(target.as_mut_ptr() as u64, &[9; 100]).unwrap();
        assert_eq!(target, [9; 100]);
        for address in [0, 8, 4095, u64::MAX - 100, 1 << 63] {
            assert_eq!(bounce.read(address, 64), Err(Errno::EFAULT), "{address:#x}");
            assert_eq!(bounce.write(address, &[1; 64]), Err(Errno::EFAULT), "{address:#x}");
        }
        static READ_ONLY: [u8; 64] = [3; 64];
        assert_eq!(bounce.write(READ_ONLY.as_ptr() as u64, &[1; 64]), Err(Errno::EFAULT));
        assert_eq!(bounce.read(READ_ONLY.as_ptr() as u64, 64), Ok(vec![3; 64]), "nothing stays in the pipe");
    }
}
