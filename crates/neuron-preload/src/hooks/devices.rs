//! ioctl, mmap, munmap, mremap.

use std::ffi::{c_int, c_ulong, c_void};

use libc::off_t;

use super::Real;
use crate::c::Mapped;
use crate::device::{self, Wanted};

interpose! {
    fn ioctl(fd: c_int, word: c_ulong, argument: *mut c_void) -> c_int {
        // The kernel takes 32 bits of the word.
        device::ioctl(fd, word as u32, argument as u64, || Real::ioctl(fd, word, argument))
    }
    fn mmap(
        address: *mut c_void,
        len: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: off_t,
    ) -> Mapped {
        let wanted = Wanted { address: address as u64, bytes: len as u64, protection, flags, fd, offset };
        device::mmap(wanted, |fd, offset| Real::mmap(address, len, protection, flags, fd, offset))
    }
    fn mmap64(
        address: *mut c_void,
        len: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: off_t,
    ) -> Mapped {
        let wanted = Wanted { address: address as u64, bytes: len as u64, protection, flags, fd, offset };
        device::mmap(wanted, |fd, offset| Real::mmap64(address, len, protection, flags, fd, offset))
    }
    fn munmap(address: *mut c_void, len: usize) -> c_int {
        device::unmaps(address as u64, len as u64, || Real::munmap(address, len))
    }
    fn mremap(address: *mut c_void, before: usize, after: usize, flags: c_int, to: *mut c_void) -> Mapped {
        let fixed = (flags & libc::MREMAP_FIXED != 0).then_some(to as u64);
        device::mremap(address as u64, before as u64, after as u64, fixed, || {
            Real::mremap(address, before, after, flags, to)
        })
    }
}
