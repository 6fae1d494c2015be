//! A kernel without one: the kernel backend's system calls, answered by another backend.

use std::path::Path;

use neuron_abi::cmd;
use neuron_abi::errno::Errno;

use crate::backend::{Backend, DeviceFile, Lane, Mapping};
use crate::kernel::Kernel;
use crate::kernel::syscalls::{Node, Syscalls};

/// The kernel backend, its nodes answered by `driver`. What the shipped driver tells by a
/// positive return value is told so.
pub fn kernel_over(driver: impl Backend + 'static) -> Kernel {
    Kernel::with("/dev", Box::new(Nodes(Box::new(driver))))
}

struct Nodes(Box<dyn Backend>);

fn index(path: &Path) -> Result<u8, Errno> {
    let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix("neuron")?.parse().ok());
    number.ok_or(Errno::ENOENT)
}

impl Syscalls for Nodes {
    fn exists(&self, path: &Path) -> bool {
        index(path).is_ok_and(|index| self.0.open(index, Lane::Misc).is_ok())
    }

    fn open(&self, path: &Path, lane: Lane) -> Result<Box<dyn Node>, Errno> {
        Ok(Box::new(Open(self.0.open(index(path)?, lane)?)))
    }
}

struct Open(Box<dyn DeviceFile>);

impl Node for Open {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<i32, Errno> {
        // SAFETY: passed on to the caller.
        match unsafe { self.0.ioctl(word, argument) } {
            Ok(()) => Ok(0),
            Err(Errno::EINVAL) if word == cmd::MEM_GET_EXTENDED_INFO.word => Ok(Errno::EINVAL.raw()),
            // What cannot be copied is told by how much of it.
            Err(Errno::EFAULT) => Ok(argument.len().try_into().unwrap_or(i32::MAX)),
            Err(errno) => Err(errno),
        }
    }

    fn mmap(&self, offset: u64, bytes: usize, writable: bool) -> Result<Mapping, Errno> {
        self.0.mmap(offset, bytes as u64, writable)
    }
}
