//! What cannot be done here: models, profiles, traces (`spec/nrt-abi.md` 4.6, 7). Programs ask for these
//! names when they are loaded, so they are there. They answer NRT_FAILURE, set what they should have
//! given to NULL or 0, and print nothing.

use std::ffi::c_void;

use neuron_abi::status::NrtStatus;

use crate::guard::raw;
use crate::layout::{Model, TensorInfoArray};
use crate::pointers::Out;

fn refused() -> i32 {
    raw(NrtStatus::Failure)
}

/// Loads no model.
///
/// # Safety
/// `model` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_load(
    _neff: *const c_void,
    _size: usize,
    _vnc: i32,
    _vnc_count: i32,
    model: *mut *mut Model,
) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { Out::new(model, "model") }.set_if_there(std::ptr::null_mut());
    refused()
}

/// Loads no model.
///
/// # Safety
/// `model` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_load_collectives(
    _neff: *const c_void,
    _size: usize,
    _vnc: i32,
    _vnc_count: i32,
    _device_id: u32,
    _device_count: u32,
    model: *mut *mut Model,
) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { Out::new(model, "model") }.set_if_there(std::ptr::null_mut());
    refused()
}

/// There is no model to unload.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_unload(_model: *mut Model) -> i32 {
    refused()
}

/// There is no model to run.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_execute(_model: *mut Model, _input: *const c_void, _output: *mut c_void) -> i32 {
    refused()
}

/// There is no model to run.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_execute_repeat(
    _model: *mut Model,
    _input: *const c_void,
    _output: *mut c_void,
    _repeat_count: i32,
) -> i32 {
    refused()
}

/// There is no model to ask.
///
/// # Safety
/// `vnc_count` is NULL or leads to a `uint32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_model_vnc_count(_model: *const Model, vnc_count: *mut u32) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { Out::new(vnc_count, "vnc_count") }.set_if_there(0);
    refused()
}

/// There is no model to ask.
///
/// # Safety
/// `nc_count` is NULL or leads to a `uint32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_model_nc_count(_model: *const Model, nc_count: *mut u32) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { Out::new(nc_count, "nc_count") }.set_if_there(0);
    refused()
}

/// There is no model to ask.
///
/// # Safety
/// `tensor_info` is NULL or leads to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_model_tensor_info(
    _model: *mut Model,
    tensor_info: *mut *mut TensorInfoArray,
) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { Out::new(tensor_info, "tensor_info") }.set_if_there(std::ptr::null_mut());
    refused()
}

/// There is nothing of a model to free.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_free_model_tensor_info(_tensor_info: *mut TensorInfoArray) -> i32 {
    refused()
}

/// Functions of which nothing but the name is known.
macro_rules! refuse {
    ($($name:ident),+ $(,)?) => {$(
        /// Of which nothing but the name is known; answers NRT_FAILURE.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> i32 {
            refused()
        }
    )+};
}

/// As `refuse`, of those that free something and answer nothing.
macro_rules! ignore {
    ($($name:ident),+ $(,)?) => {$(
        /// Of which nothing but the name is known; does nothing.
        #[unsafe(no_mangle)]
        pub const extern "C" fn $name() {}
    )+};
}

refuse!(
    nrt_profile_start,
    nrt_profile_stop,
    nrt_sys_trace_config_allocate,
    nrt_sys_trace_config_set_capture_enabled_for_nc,
    nrt_sys_trace_fetch_events,
    nrt_sys_trace_fetch_options_allocate,
    nrt_sys_trace_fetch_options_set_nc_idx,
    nrt_sys_trace_start,
    nrt_sys_trace_stop,
);

ignore!(nrt_sys_trace_buffer_free, nrt_sys_trace_config_free, nrt_sys_trace_fetch_options_free);
