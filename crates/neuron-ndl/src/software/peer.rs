//! The memory of another process, by the system's calls for that.

use std::io;
use std::os::fd::OwnedFd;

use neuron_abi::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use vm_memory::VolatileSlice;

use super::served::ProcessMemory;

/// Another process's memory, reached with `process_vm_readv` and `process_vm_writev`: as the
/// system allows, which is as it allows to trace the process.
///
/// What is written is what the process asked for by an ioctl; that a process can be written to
/// at all is the system's business, as with `/proc/PID/mem`.
#[derive(Debug)]
pub struct PeerMemory {
    pid: Pid,
    /// Tells a dead process from a new one of its number.
    alive: OwnedFd,
}

impl PeerMemory {
    /// Of the process of a number.
    ///
    /// # Errors
    /// ESRCH if there is none; ENOSYS before Linux 5.3.
    pub fn of(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { pid, alive: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Readable once the process is dead.
    pub const fn death(&self) -> &OwnedFd {
        &self.alive
    }

    /// Whether the process is dead.
    pub fn is_dead(&self) -> bool {
        let mut ends = [PollFd::new(&self.alive, PollFlags::IN)];
        !matches!(poll(&mut ends, Some(&Timespec::default())), Ok(0))
    }

    /// Whether the system lets this process read `probe` where the other one says it is.
    pub fn reaches(&self, address: u64, probe: u64) -> bool {
        let mut found = [0; 8];
        self.read(address, VolatileSlice::from(&mut found[..])).is_ok() && u64::from_ne_bytes(found) == probe
    }

    fn transfer(&self, address: u64, local: &VolatileSlice<'_>, call: Transfer) -> Result<(), Errno> {
        if self.is_dead() {
            return Err(Errno::EFAULT);
        }
        let guard = local.ptr_guard_mut();
        let here = libc::iovec { iov_base: guard.as_ptr().cast(), iov_len: local.len() };
        let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: local.len() };
        // SAFETY: `here` is memory that may be read and written while others do so, as a
        // volatile slice promises; the system checks the other process's addresses.
        let moved =
            unsafe { call(self.pid.as_raw_nonzero().get(), &raw const here, 1, &raw const there, 1, 0) };
        match usize::try_from(moved) {
            Ok(moved) if moved == local.len() => Ok(()),
            _ => Err(Errno::EFAULT),
        }
    }
}

type Transfer = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

impl ProcessMemory for PeerMemory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        self.transfer(address, &into, libc::process_vm_readv)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        self.transfer(address, &from, libc::process_vm_writev)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_process_are_read_and_written_where_it_says_and_refused_elsewhere() {
        let memory = PeerMemory::of(std::process::id().cast_signed()).unwrap();
        let mut there = vec![5_u8; 3 * 4096];
        let address = there.as_mut_ptr() as u64;
        let mut here = [0_u8; 4096];
        memory.read(address + 100, VolatileSlice::from(&mut here[..])).unwrap();
        assert_eq!(here, [5; 4096]);
        here.fill(6);
        memory.write(address, VolatileSlice::from(&mut here[..])).unwrap();
        assert_eq!((there[0], there[4095], there[4096]), (6, 6, 5));
        for address in [0, 4096, 1 << 63] {
            assert_eq!(memory.read(address, VolatileSlice::from(&mut here[..])), Err(Errno::EFAULT));
        }
        let probe = Box::new(77_u64);
        assert!(memory.reaches(&raw const *probe as u64, 77));
        assert!(!memory.reaches(&raw const *probe as u64, 78));
    }

    #[test]
    fn a_dead_process_has_no_memory() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let memory = PeerMemory::of(child.id().cast_signed()).unwrap();
        assert!(!memory.is_dead());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(memory.is_dead());
        let mut bytes = [0_u8; 8];
        assert_eq!(memory.read(1 << 20, VolatileSlice::from(&mut bytes[..])), Err(Errno::EFAULT));
    }
}
