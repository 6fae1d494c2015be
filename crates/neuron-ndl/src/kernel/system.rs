//! The system calls themselves: the one place of this backend that is `unsafe`. They are the C
//! library's functions, so that a library which is loaded before it can answer them, as that of
//! `neuron-mem run` does.

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

use neuron_abi::errno::Errno;
use vm_memory::MmapRegion;

use super::syscalls::{Node, Syscalls};
use crate::backend::{Lane, Mapping};

/// The running kernel.
pub(super) struct System;

/// A node's descriptor.
struct Fd(OwnedFd);

/// The value of a call that says -1 when it failed.
fn returned(value: c_int) -> Result<c_int, Errno> {
    if value == -1 { Err(last_error()) } else { Ok(value) }
}

fn last_error() -> Errno {
    io::Error::last_os_error().raw_os_error().and_then(Errno::new).unwrap_or(Errno::EIO)
}

/// A path for C; one with a zero in it is nowhere.
fn for_c(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::ENOENT)
}

impl Syscalls for System {
    fn exists(&self, path: &Path) -> bool {
        let Ok(path) = for_c(path) else { return false };
        // SAFETY: the path ends with a zero and outlives the call.
        unsafe { libc::access(path.as_ptr(), libc::F_OK) == 0 }
    }

    fn open(&self, path: &Path, lane: Lane) -> Result<Box<dyn Node>, Errno> {
        let mode = match lane {
            Lane::Full => libc::O_RDWR,
            Lane::ReadOnly => libc::O_RDONLY,
            Lane::Misc => libc::O_WRONLY,
        };
        let path = for_c(path)?;
        // SAFETY: the path ends with a zero and outlives the call.
        let fd = returned(unsafe { libc::open(path.as_ptr(), mode | libc::O_CLOEXEC) })?;
        // SAFETY: it has just been opened, and nobody else knows it.
        Ok(Box::new(Fd(unsafe { OwnedFd::from_raw_fd(fd) })))
    }
}

impl Node for Fd {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<i32, Errno> {
        let argument = argument.as_mut_ptr();
        // SAFETY: the caller promises that `argument` is as long as the command's structure and
        // that addresses inside are valid; the node is a device's, or refuses the word.
        returned(unsafe { libc::ioctl(self.0.as_raw_fd(), word as libc::Ioctl, argument) })
    }

    fn mmap(&self, offset: u64, bytes: usize, writable: bool) -> Result<Mapping, Errno> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let (fd, flags) = (self.0.as_raw_fd(), libc::MAP_SHARED);
        // The bits are the cookie's, whatever they say as a signed number.
        let offset = offset.cast_signed();
        // SAFETY: the kernel chooses an address that nothing else is at.
        let address = unsafe { libc::mmap(null_mut(), bytes, protection, flags, fd, offset) };
        if address == libc::MAP_FAILED {
            return Err(last_error());
        }
        let pages = Pages { address, bytes };
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
        let _unmapped = unsafe { libc::munmap(self.address, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::OFlags;
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
