//! Tensor sets (`spec/nrt-abi.md` 4.6): `nrt_tensor_set_t` is `void`.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use neuron_abi::status::NrtStatus;

use crate::guard;
use crate::layout;
use crate::pointers::{self, Out, handle, number};
use crate::refusal::Refusal;
use crate::sets::TensorSet;
use crate::state::{self, SETS, TENSORS};

/// A new set, which is empty.
///
/// # Safety
/// `result` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_allocate_tensor_set(result: *mut *mut c_void) -> i32 {
    // SAFETY: passed on to the caller.
    let mut out = unsafe { Out::new(result, "result") };
    out.set_if_there(std::ptr::null_mut());
    guard::call("nrt_allocate_tensor_set", || {
        state::with(|_| {
            out.check()?;
            let too_many = || Refusal::new(NrtStatus::Resource, "16777216 tensor sets live; destroy some");
            out.set(handle(SETS.insert(Arc::new(TensorSet::default())).ok_or_else(too_many)?))
        })
    })
}

/// Ends a set, frees none of its tensors, and sets the caller's pointer to NULL, whatever it was.
///
/// # Safety
/// `tensor_set` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_destroy_tensor_set(tensor_set: *mut *mut c_void) {
    // SAFETY: passed on to the caller.
    let Some(given) = (unsafe { pointers::value_at(tensor_set) }) else { return };
    // SAFETY: passed on to the caller.
    unsafe { Out::new(tensor_set, "tensor_set") }.set_if_there(std::ptr::null_mut());
    let _destroyed = guard::value("nrt_destroy_tensor_set", || {
        if given.is_null() {
            return Ok(());
        }
        state::with(|_| SETS.remove(number(given)).map(drop).ok_or_else(|| Refusal::handle("tensor set")))
    });
}

/// Puts a tensor into a set, in the place of one of the same name.
///
/// # Safety
/// `tensor_name` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_add_tensor_to_tensor_set(
    tensor_set: *mut c_void,
    tensor_name: *const c_char,
    tensor: *mut layout::Tensor,
) -> i32 {
    guard::call("nrt_add_tensor_to_tensor_set", || {
        state::with_tensor(number(tensor), |_, _| {
            let set = SETS.get(number(tensor_set)).ok_or_else(|| Refusal::handle("tensor set"))?;
            // SAFETY: passed on to the caller.
            let name = unsafe { pointers::text(tensor_name) }.ok_or_else(|| Refusal::null("tensor_name"))?;
            set.put(name, number(tensor));
            Ok(())
        })
    })
}

/// The tensor of a name. NRT_INVALID if there is none, NRT_INVALID_HANDLE if it was freed.
///
/// # Safety
/// `tensor_name` is NULL or a text; `tensor` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_tensor_from_tensor_set(
    tensor_set: *mut c_void,
    tensor_name: *const c_char,
    tensor: *mut *mut layout::Tensor,
) -> i32 {
    // SAFETY: passed on to the caller.
    let mut out = unsafe { Out::new(tensor, "tensor") };
    out.set_if_there(std::ptr::null_mut());
    guard::call("nrt_get_tensor_from_tensor_set", || {
        state::with(|_| {
            out.check()?;
            let set = SETS.get(number(tensor_set)).ok_or_else(|| Refusal::handle("tensor set"))?;
            // SAFETY: passed on to the caller.
            let name = unsafe { pointers::text(tensor_name) }.ok_or_else(|| Refusal::null("tensor_name"))?;
            let found = set.get(name)?;
            TENSORS.get(found).ok_or_else(|| Refusal::handle("tensor"))?;
            out.set(handle(found))
        })
    })
}
