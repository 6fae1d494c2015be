//! The library as a C program sees it: one for the process, opened and closed.

#![allow(dead_code, reason = "each test takes of it what it needs")]

use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nrt::calls::{info, life, tensors, transfers};
use nrt::layout::Tensor;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const FAILURE: i32 = 1;
pub(crate) const INVALID: i32 = 2;
pub(crate) const INVALID_HANDLE: i32 = 3;
pub(crate) const RESOURCE: i32 = 4;
pub(crate) const TIMEOUT: i32 = 5;
pub(crate) const FAIL_HOST_MEM_ALLOC: i32 = 11;
pub(crate) const UNINITIALIZED: i32 = 13;
pub(crate) const CLOSED: i32 = 14;

pub(crate) const DEVICE: i32 = 0;
pub(crate) const HOST: i32 = 1;
pub(crate) const VIRTUAL: i32 = 2;

pub(crate) type Handle = *mut Tensor;

/// What the library reads.
const VARIABLES: [&str; 9] = [
    "NEURON_MEM_BACKEND",
    "NEURON_MEM_INSTANCE",
    "NEURON_MEM_LOG",
    "NEURON_RT_VISIBLE_CORES",
    "NEURON_RT_NUM_CORES",
    "NEURON_LOGICAL_NC_CONFIG",
    "NEURON_RT_MAP_HBM",
    "NEURON_RT_DBG_ZEROCOPY",
    "NEURON_RT_OOM_DUMP_DIRECTORY",
];

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The library, to this test alone. Closed when it goes.
pub(crate) struct Library {
    _alone: MutexGuard<'static, ()>,
}

impl Library {
    /// Not open, in this environment.
    pub(crate) fn closed(set: &[(&str, &str)]) -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        life::nrt_close();
        for name in VARIABLES {
            // SAFETY: only Rust code reads the environment in this process, behind the standard
            // library's lock.
            unsafe { std::env::remove_var(name) };
        }
        for (name, value) in set.iter().chain(&[("NEURON_RT_OOM_DUMP_DIRECTORY", "")]) {
            // SAFETY: as above.
            unsafe { std::env::set_var(name, value) };
        }
        Self { _alone: alone }
    }

    /// Open on this instance type.
    pub(crate) fn on(instance: &str) -> Self {
        Self::with(&[("NEURON_MEM_INSTANCE", instance)])
    }

    /// Open in this environment.
    pub(crate) fn with(set: &[(&str, &str)]) -> Self {
        let library = Self::closed(set);
        assert_eq!(init(), SUCCESS);
        library
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        life::nrt_close();
    }
}

pub(crate) fn init() -> i32 {
    life::nrt_init(1, c"".as_ptr(), c"".as_ptr())
}

pub(crate) fn status_name(status: i32) -> Option<&'static str> {
    let name = info::nrt_get_status_as_str(status);
    // SAFETY: the text is static.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap())
}

pub(crate) fn visible() -> u32 {
    count(info::nrt_get_visible_vnc_count)
}

pub(crate) fn count(call: unsafe extern "C" fn(*mut u32) -> i32) -> u32 {
    let mut count = u32::MAX;
    // SAFETY: the pointer is of a local number.
    assert_eq!(unsafe { call(&raw mut count) }, SUCCESS);
    count
}

/// Allocates, or says why not. A refusal leaves NULL.
pub(crate) fn try_allocate(placement: i32, vnc: i32, size: usize) -> Result<Handle, i32> {
    let name = CString::new("a tensor").unwrap();
    let mut tensor: Handle = 8 as Handle;
    // SAFETY: the name is a text, the other pointer of a local one.
    let status =
        unsafe { tensors::nrt_tensor_allocate(placement, vnc, size, name.as_ptr(), &raw mut tensor) };
    if status == SUCCESS {
        Ok(tensor)
    } else {
        assert_eq!(tensor, null_mut());
        Err(status)
    }
}

pub(crate) fn allocate(placement: i32, vnc: i32, size: usize) -> Handle {
    try_allocate(placement, vnc, size).unwrap()
}

pub(crate) fn try_slice(source: Handle, offset: usize, size: usize) -> Result<Handle, i32> {
    let mut slice: Handle = 8 as Handle;
    // SAFETY: NULL is a name, the other pointer of a local one.
    let status =
        unsafe { tensors::nrt_tensor_allocate_slice(source, offset, size, std::ptr::null(), &raw mut slice) };
    if status == SUCCESS {
        Ok(slice)
    } else {
        assert_eq!(slice, null_mut());
        Err(status)
    }
}

pub(crate) fn free(mut tensor: Handle) {
    // SAFETY: the pointer is of a local one.
    unsafe { tensors::nrt_tensor_free(&raw mut tensor) };
    assert_eq!(tensor, null_mut());
}

pub(crate) fn write(tensor: Handle, offset: usize, bytes: &[u8]) -> i32 {
    // SAFETY: the bytes are there.
    unsafe { transfers::nrt_tensor_write(tensor, bytes.as_ptr().cast(), offset, bytes.len()) }
}

pub(crate) fn try_read(tensor: Handle, offset: usize, bytes: &mut [u8]) -> i32 {
    // SAFETY: the bytes are there.
    unsafe { transfers::nrt_tensor_read(tensor, bytes.as_mut_ptr().cast(), offset, bytes.len()) }
}

pub(crate) fn read(tensor: Handle, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    assert_eq!(try_read(tensor, offset, &mut bytes), SUCCESS);
    bytes
}

/// All bytes of a tensor at its address.
pub(crate) fn at_address(tensor: Handle) -> &'static mut [u8] {
    let va = tensors::nrt_tensor_get_va(tensor);
    assert!(!va.is_null());
    // SAFETY: the memory is mapped as long as the tensor lives, which the test sees to; nobody writes it
    // while the test looks at it.
    unsafe { std::slice::from_raw_parts_mut(va.cast::<u8>(), tensors::nrt_tensor_get_size(tensor)) }
}

pub(crate) fn memcpy_to_device(dest: *mut c_void, bytes: &[u8]) -> i32 {
    // SAFETY: the bytes are there.
    unsafe { transfers::nrt_memcpy_to_device(dest, bytes.as_ptr().cast(), bytes.len()) }
}

pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add((index >> 8) as u8) ^ seed).collect()
}
