//! Statistics, and ways for other programs and drivers to reach memory (`spec/nrt-abi.md` 4.5). Of the
//! latter none is offered yet, and each call answers what its callers take for "not here".

use std::ffi::{c_char, c_int, c_void};

use crate::guard;
use crate::layout::MemoryStats;
use crate::pointers::{self, Out};
use crate::refusal::Refusal;
use crate::state;

/// Bytes in use on a logical core by this process, and bytes there are; as much as there is room for.
///
/// # Safety
/// `stats` is NULL or leads to `size_in` bytes; `size_out` is NULL or leads to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_vnc_memory_stats(
    vnc: u32,
    stats: *mut MemoryStats,
    size_in: usize,
    size_out: *mut usize,
) -> i32 {
    // SAFETY: passed on to the caller.
    let mut written = unsafe { Out::new(size_out, "size_out") };
    written.set_if_there(0);
    guard::call("nrt_get_vnc_memory_stats", || {
        state::with(|runtime| {
            written.check()?;
            let known = runtime.core(vnc.into())?.stats();
            // SAFETY: passed on to the caller.
            written.set(unsafe { pointers::cut_to(stats.cast::<c_void>(), size_in, &known, "stats") }?)
        })
    })
}

/// No memory is exported: NRT_FAILURE, after which callers register the address instead.
///
/// # Safety
/// `fd` is NULL or leads to an `int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_dmabuf_fd(_va: u64, _size: u64, fd: *mut c_int) -> i32 {
    // SAFETY: passed on to the caller.
    let mut fd = unsafe { Out::new(fd, "fd") };
    fd.set_if_there(-1);
    guard::call("nrt_get_dmabuf_fd", || {
        state::with(|_| {
            fd.check()?;
            Err(Refusal::failure("no memory is exported").quiet())
        })
    })
}

/// No HBM is mapped as a whole: NRT_INVALID.
///
/// # Safety
/// `addr` is NULL or leads to a pointer; `size` is NULL or leads to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_hbm_mmap_va(
    _device_id: c_int,
    _hbm_idx: c_int,
    addr: *mut *mut c_void,
    size: *mut usize,
) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { Out::new(addr, "addr") }.set_if_there(std::ptr::null_mut());
    // SAFETY: passed on to the caller.
    unsafe { Out::new(size, "size") }.set_if_there(0);
    guard::call("nrt_get_hbm_mmap_va", || {
        state::with(|_| Err(Refusal::invalid("no HBM is mapped as a whole").quiet()))
    })
}

/// No network adapter is attached to memory here: NRT_FAILURE.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_get_attached_efa_bdf(_va: *const c_void, _bdf: *mut c_char, _len: *mut usize) -> i32 {
    guard::call("nrt_get_attached_efa_bdf", || {
        state::with(|_| Err(Refusal::failure("no network adapter is attached").quiet()))
    })
}
