//! ioctl and mmap on an open device.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd as _, OwnedFd};

use neuron_abi::cmd;
use neuron_wire::Answer;
use neuron_wire::client::bounce::Bounce;
use rustix::io::Errno;

use crate::c::{self, Answer as _, Mapped};
use crate::descriptors::{self, Known};
use crate::known::Device;
use crate::mappings;
use crate::state::{self, Server, TABLES};

/// Words that the kernel answers for any file, before a driver is asked.
const GENERIC: [u32; 6] = [
    libc::FIOCLEX as u32,
    libc::FIONCLEX as u32,
    libc::FIONBIO as u32,
    libc::FIOASYNC as u32,
    libc::FIONREAD as u32,
    // FIOQSIZE
    0x5460,
];

/// Where in the argument of `DMABUF_FD` the address of the number is.
const DMABUF_FD_PLACE: u64 = std::mem::offset_of!(neuron_abi::arg::DmabufFd, fd) as u64;

/// An ioctl; `real` is the C library's. What no file but an open device would take is found out by
/// what the system says of a socket, so that other files pay nothing.
pub(crate) fn ioctl(fd: c_int, word: u32, argument: u64, real: impl FnOnce() -> c_int) -> c_int {
    let Some(server) = state::server().filter(|_| !GENERIC.contains(&word)) else { return real() };
    match descriptors::known(fd) {
        Known::Device(device) => return c::answer(c::quietly(|| call(server, device, word, argument))),
        Known::Other => return real(),
        Known::Unknown => {}
    }
    let before = c::errno();
    let result = real();
    let refused = [libc::ENOTTY, libc::EFAULT, libc::EINVAL, libc::EOPNOTSUPP];
    if result != -1 || !refused.contains(&c::errno()) {
        return result;
    }
    match c::quietly(|| descriptors::device(server, fd)) {
        Some(device) => {
            c::set_errno(before);
            c::answer(c::quietly(|| call(server, device, word, argument)))
        }
        None => result,
    }
}

fn call(server: &Server, device: Device, word: u32, argument: u64) -> Result<c_int, Errno> {
    let answer = state::calls(server).ioctl(device.file, word, argument);
    let Answer { descriptor, .. } = answer.map_err(|error| state::refused(server, &error))?;
    if let Some(descriptor) = descriptor
        && word == cmd::DMABUF_FD.word
    {
        exported(descriptor, argument).map_err(|errno| Errno::from_raw_os_error(errno.raw()))?;
    }
    Ok(0)
}

/// Puts the number of an exported buffer's descriptor where the argument says.
fn exported(descriptor: OwnedFd, argument: u64) -> Result<(), neuron_abi::errno::Errno> {
    let io = |error: std::io::Error| {
        error.raw_os_error().and_then(neuron_abi::errno::Errno::new).unwrap_or(neuron_abi::errno::Errno::EIO)
    };
    let bounce = Bounce::new().map_err(io)?;
    let place = bounce.read(argument.wrapping_add(DMABUF_FD_PLACE), 8)?;
    let place = place.try_into().map(u64::from_le_bytes).map_err(|_| neuron_abi::errno::Errno::EFAULT)?;
    bounce.write(place, &descriptor.as_raw_fd().to_le_bytes())?;
    let _the_program_has_it = descriptor.into_raw_fd();
    Ok(())
}

/// The arguments of `mmap(2)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) protection: c_int,
    pub(crate) flags: c_int,
    pub(crate) fd: c_int,
    pub(crate) offset: i64,
}

/// An mmap; `real` is the C library's, with another descriptor and offset. A socket cannot be
/// mapped, so that other files pay nothing.
pub(crate) fn mmap(wanted: Wanted, real: impl Fn(c_int, i64) -> Mapped) -> Mapped {
    let pass = || real(wanted.fd, wanted.offset);
    let before = c::errno();
    let mapped =
        if wanted.flags & libc::MAP_FIXED == 0 { pass() } else { unmaps(wanted.address, wanted.bytes, pass) };
    if mapped != Mapped(libc::MAP_FAILED)
        || c::errno() != libc::ENODEV
        || wanted.fd < 0
        || wanted.flags & libc::MAP_ANONYMOUS != 0
    {
        return mapped;
    }
    let Some(server) = state::server() else { return mapped };
    match c::quietly(|| descriptors::device(server, wanted.fd)) {
        Some(device) => {
            c::set_errno(before);
            c::answer(c::quietly(|| map(server, device, wanted, real)))
        }
        None => mapped,
    }
}

fn page() -> u64 {
    rustix::param::page_size() as u64
}

fn map(
    server: &Server,
    device: Device,
    wanted: Wanted,
    real: impl Fn(c_int, i64) -> Mapped,
) -> Result<Mapped, Errno> {
    let private = wanted.flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
    let to_write = wanted.protection & libc::PROT_WRITE != 0;
    let access = device.access.cast_signed();
    if access == libc::O_WRONLY || (access == libc::O_RDONLY && to_write && !private) {
        return Err(Errno::ACCESS);
    }
    // Our choice: a copy on write of device memory is nothing that a driver would give.
    if private && to_write {
        return Err(Errno::INVAL);
    }
    let bytes = wanted.bytes.checked_next_multiple_of(page()).ok_or(Errno::NOMEM)?;
    let calls = state::calls(server);
    let offset = wanted.offset.cast_unsigned();
    let answer = calls.mmap(device.file, offset, bytes, to_write);
    let Answer { a, b: mapping, descriptor, .. } = answer.map_err(|error| state::refused(server, &error))?;
    let mapped = descriptor.ok_or(Errno::IO).and_then(|memory| {
        let offset = i64::try_from(a).map_err(|_| Errno::OVERFLOW)?;
        placed(memory.as_fd(), offset, bytes, mapping, real)
    });
    let (address, gone) = match mapped {
        Ok(mapped) => mapped,
        Err(error) => {
            tell_gone(server, &[mapping]);
            return Err(error);
        }
    };
    tell_gone(server, &gone);
    // The memory is there in any case; that the server is gone the next call will tell.
    let _told = calls.place(device.file, mapping, address.0 as u64);
    Ok(address)
}

/// Maps the memory; the other mappings that are gone by that.
fn placed(
    memory: BorrowedFd<'_>,
    offset: i64,
    bytes: u64,
    mapping: u64,
    real: impl Fn(c_int, i64) -> Mapped,
) -> Result<(Mapped, Vec<u64>), Errno> {
    let done = TABLES.with(|tables| {
        let mapped = real(memory.as_raw_fd(), offset);
        if mapped == Mapped::FAILED {
            return Err(Errno::from_raw_os_error(c::errno()));
        }
        c::keep_to_process(mapped, bytes as usize);
        let gone = tables.mappings.cut(mapped.0 as u64, bytes);
        tables.mappings.add(mapped.0 as u64, bytes, mapping);
        Ok((mapped, gone))
    });
    done.unwrap_or(Err(Errno::DEADLK))
}

fn tell_gone(server: &Server, mappings: &[u64]) {
    for &mapping in mappings {
        // Without a server there is nothing left to tell.
        let _told = state::calls(server).unmap(mapping);
    }
}

/// Something that unmaps a range if it succeeds, or maps something else there.
pub(crate) fn unmaps<T: PartialEq + c::Answer>(address: u64, bytes: u64, real: impl FnOnce() -> T) -> T {
    if mappings::is_none() {
        return real();
    }
    let mut real = Some(real);
    let done = TABLES.with(|tables| {
        let bytes = bytes.checked_next_multiple_of(page())?;
        if !tables.mappings.touches(address, bytes) {
            return None;
        }
        let result = real.take()?();
        let gone = if result == T::FAILED { Vec::new() } else { tables.mappings.cut(address, bytes) };
        Some((result, gone))
    });
    match (done.flatten(), real) {
        (Some((result, gone)), _) => {
            if let Some(server) = state::server() {
                c::quietly(|| tell_gone(server, &gone));
            }
            result
        }
        (None, Some(real)) => real(),
        // Taken without an answer: never, since the answer follows at once.
        (None, None) => T::FAILED,
    }
}

/// `mremap(2)`: a mapping of a device does not grow; it may shrink and move.
pub(crate) fn mremap(
    address: u64,
    before: u64,
    after: u64,
    may_move_to: Option<u64>,
    real: impl FnOnce() -> Mapped,
) -> Mapped {
    if mappings::is_none() {
        return real();
    }
    let rounded = |bytes: u64| bytes.checked_next_multiple_of(page()).unwrap_or(u64::MAX);
    let (before, after) = (rounded(before), rounded(after));
    let mut real = Some(real);
    let done = TABLES.with(|tables| {
        let ours = tables.mappings.touches(address, before.max(1));
        if ours && (after > before || before == 0) {
            return Some((Err(Errno::FAULT), Vec::new()));
        }
        let replaced = may_move_to.filter(|&to| tables.mappings.touches(to, after));
        if !ours && replaced.is_none() {
            return None;
        }
        let result = real.take()?();
        if result == Mapped::FAILED {
            return Some((Ok(result), Vec::new()));
        }
        let mut gone = replaced.map(|to| tables.mappings.cut(to, after)).unwrap_or_default();
        if ours {
            gone.extend(tables.mappings.cut(address.saturating_add(after), before - after));
            tables.mappings.moved(address, after, result.0 as u64);
        }
        Some((Ok(result), gone))
    });
    match (done.flatten(), real) {
        (Some((result, gone)), _) => {
            if let Some(server) = state::server() {
                c::quietly(|| tell_gone(server, &gone));
            }
            c::answer(result)
        }
        (None, Some(real)) => real(),
        (None, None) => Mapped::FAILED,
    }
}
