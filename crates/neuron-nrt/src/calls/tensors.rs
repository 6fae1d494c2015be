//! Allocating and freeing, slices, sizes, addresses (`spec/nrt-abi.md` 4.3).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use neuron_abi::status::NrtStatus;

use crate::guard;
use crate::layout::{self, AllocationInfo};
use crate::pointers::{self, Foreign, Out, handle, number};
use crate::refusal::Refusal;
use crate::state::{self, TENSORS};
use crate::tensor::Tensor;

/// A handle for a new tensor.
fn given(tensor: Tensor) -> Result<*mut layout::Tensor, Refusal> {
    let too_many = || Refusal::new(NrtStatus::Resource, "16777216 tensors live; free some");
    TENSORS.insert(Arc::new(tensor)).map(handle).ok_or_else(too_many)
}

/// Allocates on a logical core. Core -1 is any, for HOST and VIRTUAL ones.
///
/// # Safety
/// `name` is NULL or a text; `tensor` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_allocate(
    placement: i32,
    vnc: c_int,
    size: usize,
    name: *const c_char,
    tensor: *mut *mut layout::Tensor,
) -> i32 {
    // SAFETY: passed on to the caller.
    let mut out = unsafe { Out::new(tensor, "tensor") };
    out.set_if_there(std::ptr::null_mut());
    guard::call("nrt_tensor_allocate", || {
        state::with(|runtime| {
            out.check()?;
            // SAFETY: passed on to the caller.
            let name = unsafe { pointers::name(name) };
            out.set(given(Tensor::allocate(runtime, placement, vnc, size, name.as_deref())?)?)
        })
    })
}

/// Frees, unless a slice lives, and sets the caller's pointer to NULL, whatever it was.
///
/// # Safety
/// `tensor` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_free(tensor: *mut *mut layout::Tensor) {
    // SAFETY: passed on to the caller.
    let Some(given) = (unsafe { pointers::value_at(tensor) }) else { return };
    // SAFETY: passed on to the caller.
    let mut out = unsafe { Out::new(tensor, "tensor") };
    out.set_if_there(std::ptr::null_mut());
    let _freed = guard::value("nrt_tensor_free", || {
        if given.is_null() {
            return Ok(());
        }
        state::with(|_| TENSORS.remove(number(given)).map(drop).ok_or_else(|| Refusal::handle("tensor")))
    });
}

/// A tensor without memory, until a buffer is attached.
///
/// # Safety
/// `name` is NULL or a text; `tensor` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_allocate_empty(
    _name: *const c_char,
    tensor: *mut *mut layout::Tensor,
) -> i32 {
    // SAFETY: passed on to the caller.
    let mut out = unsafe { Out::new(tensor, "tensor") };
    out.set_if_there(std::ptr::null_mut());
    guard::call("nrt_tensor_allocate_empty", || {
        state::with(|_| {
            out.check()?;
            out.set(given(Tensor::empty())?)
        })
    })
}

/// Makes a buffer of the caller the tensor's memory, in place of what it had, and its placement VIRTUAL.
///
/// # Safety
/// `buffer` is NULL, or leads to `size` bytes that stay there until the tensor and its slices are freed
/// or another buffer is attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_attach_buffer(
    tensor: *mut layout::Tensor,
    buffer: *mut c_void,
    size: usize,
) -> i32 {
    guard::call("nrt_tensor_attach_buffer", || {
        state::with_tensor(number(tensor), |_, tensor| {
            // SAFETY: passed on to the caller.
            tensor.attach(unsafe { Foreign::new(buffer, size) }?);
            Ok(())
        })
    })
}

/// A part of a tensor, which shares its memory and keeps it.
///
/// # Safety
/// `name` is NULL or a text; `slice` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_allocate_slice(
    source: *const layout::Tensor,
    offset: usize,
    size: usize,
    _name: *const c_char,
    slice: *mut *mut layout::Tensor,
) -> i32 {
    // SAFETY: passed on to the caller.
    let mut out = unsafe { Out::new(slice, "slice") };
    out.set_if_there(std::ptr::null_mut());
    guard::call("nrt_tensor_allocate_slice", || {
        state::with_tensor(number(source), |_, source| {
            out.check()?;
            out.set(given(source.slice(offset, size)?)?)
        })
    })
}

/// Bytes of the tensor; of a slice, its own. 0 if it is none.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_tensor_get_size(tensor: *const layout::Tensor) -> usize {
    let size = guard::value("nrt_tensor_get_size", || {
        state::with_tensor(number(tensor), |_, tensor| Ok(tensor.view().size as usize))
    });
    size.unwrap_or(0)
}

/// Address of the tensor's first byte in this process, NULL if it has none.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_tensor_get_va(tensor: *const layout::Tensor) -> *mut c_void {
    let address = guard::value("nrt_tensor_get_va", || {
        state::with_tensor(number(tensor), |runtime, tensor| tensor.view().address(runtime))
    });
    address.map_or(std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut)
}

/// Where in the device's memory the tensor is.
///
/// # Safety
/// `info` is NULL or leads to an `nrt_tensor_device_allocation_info_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_get_device_allocation_info(
    tensor: *const layout::Tensor,
    info: *mut AllocationInfo,
) -> i32 {
    // SAFETY: passed on to the caller.
    let mut out = unsafe { Out::new(info, "info") };
    guard::call("nrt_tensor_get_device_allocation_info", || {
        state::with_tensor(number(tensor), |_, tensor| {
            out.check()?;
            out.set(tensor.view().allocation()?)
        })
    })
}

/// Whether so many runs have written the tensor. None runs here, so the answer to anything but 0 is that
/// it took too long, at once; a caller that would wait for ever gets NRT_FAILURE (our choice).
#[unsafe(no_mangle)]
pub extern "C" fn nrt_tensor_check_output_completion(
    output: *const layout::Tensor,
    timeout_us: i64,
    expected: u64,
) -> i32 {
    guard::call("nrt_tensor_check_output_completion", || {
        if output.is_null() {
            return Err(Refusal::null("output"));
        }
        state::with_tensor(number(output), |_, _| match (expected, timeout_us) {
            (0, _) => Ok(()),
            (_, ..0) => Err(Refusal::failure("no model runs here, so this would wait for ever")),
            (..) => {
                Err(Refusal::new(NrtStatus::Timeout, "no model runs here, so none has written the tensor"))
            }
        })
    })
}

/// Counts the runs that write the tensor anew.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_tensor_reset_output_completion(output: *mut layout::Tensor) -> i32 {
    guard::call("nrt_tensor_reset_output_completion", || {
        if output.is_null() {
            return Err(Refusal::null("output"));
        }
        state::with_tensor(number(output), |_, _| Ok(()))
    })
}
