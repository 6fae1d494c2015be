//! Bytes of this process at addresses that somebody names, which may be none. That must be an
//! answer and not a crash, so bytes go through a pipe: the system refuses addresses with EFAULT.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use neuron_abi::errno::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::message::MEMORY_CHUNK;

/// A pipe, whose ends refuse bad addresses.
#[derive(Debug)]
pub struct Bounce {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Bounce {
    /// A new pipe.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { reader, writer })
    }

    /// `len` bytes at an address: at most [`MEMORY_CHUNK`], which a pipe holds.
    ///
    /// # Errors
    /// EFAULT; EINVAL for more.
    pub fn read(&self, address: u64, len: usize) -> Result<Vec<u8>, Errno> {
        if len > MEMORY_CHUNK {
            return Err(Errno::EINVAL);
        }
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

    /// Puts at most [`MEMORY_CHUNK`] bytes to an address, which has to be one where nothing in
    /// this process forbids it.
    ///
    /// # Errors
    /// EFAULT; EINVAL for more.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.len() > MEMORY_CHUNK {
            return Err(Errno::EINVAL);
        }
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
