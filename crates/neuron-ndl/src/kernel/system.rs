//! The system calls themselves: the one place of this backend that is `unsafe`.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::ptr::null_mut;

use neuron_abi::errno::Errno;
use rustix::fs::{Access, Mode, OFlags};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use rustix::mm::{MapFlags, ProtFlags};
use vm_memory::MmapRegion;

use super::syscalls::{Node, Syscalls};
use crate::backend::{Lane, Mapping};

/// The running kernel.
pub(super) struct System;

/// A node's descriptor.
struct Fd(OwnedFd);

impl Syscalls for System {
    fn exists(&self, path: &Path) -> bool {
        rustix::fs::access(path, Access::EXISTS).is_ok()
    }

    fn open(&self, path: &Path, lane: Lane) -> Result<Box<dyn Node>, Errno> {
        let mode = match lane {
            Lane::Full => OFlags::RDWR,
            Lane::ReadOnly => OFlags::RDONLY,
            Lane::Misc => OFlags::WRONLY,
        };
        let fd = rustix::fs::open(path, mode | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
        Ok(Box::new(Fd(fd)))
    }
}

impl Node for Fd {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<i32, Errno> {
        let call = Call { word, argument: argument.as_mut_ptr().cast() };
        // SAFETY: the caller promises that `argument` is as long as the command's structure and
        // that addresses inside are valid; the node is a device's, or refuses the word.
        unsafe { rustix::ioctl::ioctl(&self.0, call) }.map_err(errno)
    }

    fn mmap(&self, offset: u64, bytes: usize, writable: bool) -> Result<Mapping, Errno> {
        let write = if writable { ProtFlags::WRITE } else { ProtFlags::empty() };
        let protection = ProtFlags::READ | write;
        // SAFETY: the kernel chooses an address that nothing else is at.
        let mapped =
            unsafe { rustix::mm::mmap(null_mut(), bytes, protection, MapFlags::SHARED, &self.0, offset) };
        let pages = Pages { address: mapped.map_err(errno)?, bytes };
        let (protection, flags) = (protection.bits().cast_signed(), MapFlags::SHARED.bits().cast_signed());
        // SAFETY: the pages are mapped as said until `pages`, which the mapping holds, is dropped
        // after the region.
        let region = unsafe { MmapRegion::build_raw(pages.address.cast(), bytes, protection, flags) };
        let region = region.map_err(|_| Errno::EINVAL)?;
        let hold = Some(Box::new(pages) as _);
        Ok(if writable { Mapping::new(region, hold) } else { Mapping::read_only(region, hold) })
    }
}

/// Mapped pages. Dropping unmaps them.
struct Pages {
    address: *mut c_void,
    bytes: usize,
}

// SAFETY: the address is only kept to be unmapped, which any thread may do.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives nothing away.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `mmap` above, and its region is gone. It cannot fail: the range is
        // one that was mapped.
        let _unmapped = unsafe { rustix::mm::munmap(self.address, self.bytes) };
    }
}

/// An ioctl of any word, whose return value is kept: the shipped driver returns positive
/// numbers on failure.
struct Call {
    word: u32,
    argument: *mut c_void,
}

// SAFETY: the word is the caller's, who promises that the pointer is what it takes; the output
// is the return value, and no memory is read to make it.
unsafe impl Ioctl for Call {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        Opcode::from(self.word)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::new(error.raw_os_error()).unwrap_or(Errno::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use vm_memory::Bytes;

    const FIONREAD: u32 = 0x541B;

    #[test]
    fn each_lane_opens_in_its_mode_and_closes_on_exec() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node");
        std::fs::write(&path, b"").unwrap();
        for (lane, mode) in
            [(Lane::Full, OFlags::RDWR), (Lane::ReadOnly, OFlags::RDONLY), (Lane::Misc, OFlags::WRONLY)]
        {
            let before = open_files(&path);
            let node = System.open(&path, lane).unwrap();
            let opened = open_files(&path);
            assert_eq!(opened.len(), before.len() + 1);
            assert_eq!(opened[0] & 0o3, mode.bits(), "{lane:?}");
            assert_ne!(opened[0] & OFlags::CLOEXEC.bits(), 0, "{lane:?}");
            drop(node);
            assert_eq!(open_files(&path), before);
        }
    }

    /// Flags of this process's descriptors of a file.
    fn open_files(path: &Path) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc/self/fd").unwrap();
        let numbers = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            (std::fs::read_link(entry.path()).ok()? == path).then(|| entry.file_name().into_string().ok())?
        });
        let flags = numbers.map(|number| {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
            let line = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim().to_owned();
            u32::from_str_radix(&line, 8).unwrap()
        });
        flags.collect()
    }

    #[test]
    fn an_ioctl_writes_into_its_argument_and_a_foreign_word_is_refused() {
        let (reader, writer) = std::io::pipe().unwrap();
        rustix::io::write(writer.as_fd(), b"seven b").unwrap();
        let node = Fd(reader.into());
        let mut argument = [0_u8; 4];
        // SAFETY: FIONREAD writes an int.
        assert_eq!(unsafe { node.ioctl(FIONREAD, &mut argument) }, Ok(0));
        assert_eq!(u32::from_ne_bytes(argument), 7);
        // SAFETY: a pipe does not know the word.
        assert_eq!(unsafe { node.ioctl(0x8008_4E16, &mut [0; 8]) }, Err(Errno::ENOTTY));
    }

    #[test]
    fn mappings_are_shared_keep_their_rights_and_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node");
        std::fs::write(&path, vec![7_u8; 3 * 4096]).unwrap();
        let node = System.open(&path, Lane::Full).unwrap();
        let mapping = node.mmap(4096, 8192, true).unwrap();
        assert!(mapping.is_writable());
        drop(node);
        mapping.slice().write_obj(0x5a_u8, 4095).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[8191], 0x5a);
        let address = mapping.slice().ptr_guard().as_ptr() as usize;
        assert!(maps(address).unwrap().contains("rw-s"));
        drop(mapping);
        assert!(maps(address).is_none_or(|line| !line.contains("node")), "unmapped");

        let node = System.open(&path, Lane::ReadOnly).unwrap();
        let mapping = node.mmap(0, 4096, false).unwrap();
        assert!(!mapping.is_writable());
        let address = mapping.slice().ptr_guard().as_ptr() as usize;
        assert!(maps(address).unwrap().contains("r--s"));
        assert_eq!(node.mmap(0, 4096, true).err(), Some(Errno::EACCES));
        let misc = System.open(&path, Lane::Misc).unwrap();
        assert_eq!(misc.mmap(0, 4096, false).err(), Some(Errno::EACCES));
    }

    /// This process's mapping that starts at an address.
    fn maps(address: usize) -> Option<String> {
        let all = std::fs::read_to_string("/proc/self/maps").unwrap();
        let start = format!("{address:x}-");
        all.lines().find(|line| line.starts_with(&start)).map(str::to_owned)
    }

    #[test]
    fn what_is_missing_or_forbidden_is_its_errno() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("neuron0");
        assert!(!System.exists(&missing));
        assert_eq!(System.open(&missing, Lane::Full).err(), Some(Errno::ENOENT));
        assert!(System.exists(directory.path()));
        // EISDIR, which has no name here.
        assert_eq!(System.open(directory.path(), Lane::Full).err(), Errno::new(21));
    }
}
