//! Tensor sets, and what cannot be done here.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use nrt::calls::{life, models, sets};

use crate::common::*;

fn new() -> *mut c_void {
    let mut set = null_mut();
    // SAFETY: the pointer is of a local one.
    assert_eq!(unsafe { sets::nrt_allocate_tensor_set(&raw mut set) }, SUCCESS);
    assert!(!set.is_null());
    set
}

fn add(set: *mut c_void, name: &CStr, tensor: Handle) -> i32 {
    // SAFETY: the name is a text.
    unsafe { sets::nrt_add_tensor_to_tensor_set(set, name.as_ptr(), tensor) }
}

fn get(set: *mut c_void, name: &CStr) -> Result<Handle, i32> {
    let mut tensor: Handle = 8 as Handle;
    // SAFETY: the name is a text, the other pointer of a local one.
    match unsafe { sets::nrt_get_tensor_from_tensor_set(set, name.as_ptr(), &raw mut tensor) } {
        SUCCESS => Ok(tensor),
        status => {
            assert!(tensor.is_null());
            Err(status)
        }
    }
}

fn destroy(mut set: *mut c_void) {
    // SAFETY: the pointer is of a local one.
    unsafe { sets::nrt_destroy_tensor_set(&raw mut set) };
    assert!(set.is_null());
}

#[test]
fn a_set_has_tensors_by_name_and_frees_none() {
    let _library = Library::on("trn1.2xlarge");
    let (set, one, two) = (new(), allocate(DEVICE, 0, 64), allocate(VIRTUAL, 0, 64));
    assert_eq!((add(set, c"a", one), add(set, c"b", one), add(set, c"b", two)), (SUCCESS, SUCCESS, SUCCESS));
    assert_eq!((get(set, c"a"), get(set, c"b"), get(set, c"c")), (Ok(one), Ok(two), Err(INVALID)));
    free(two);
    assert_eq!(get(set, c"b"), Err(INVALID_HANDLE));
    destroy(set);
    assert_eq!(write(one, 0, &[1; 64]), SUCCESS);
    assert_eq!(get(set, c"a"), Err(INVALID_HANDLE));
    destroy(set);
    // SAFETY: NULL is allowed.
    unsafe { sets::nrt_destroy_tensor_set(null_mut()) };
}

#[test]
fn a_set_is_no_tensor_and_a_tensor_no_set() {
    let _library = Library::on("trn1.2xlarge");
    let (set, tensor) = (new(), allocate(DEVICE, 0, 64));
    assert_eq!(write(set.cast(), 0, &[1]), INVALID_HANDLE);
    free(set.cast());
    assert_eq!(add(tensor.cast(), c"a", tensor), INVALID_HANDLE);
    assert_eq!(add(set, c"a", set.cast()), INVALID_HANDLE);
    destroy(tensor.cast());
    assert_eq!(add(set, c"a", tensor), SUCCESS, "both live");
    // SAFETY: NULL is allowed.
    unsafe {
        assert_eq!(sets::nrt_add_tensor_to_tensor_set(set, null(), tensor), INVALID);
        assert_eq!(sets::nrt_get_tensor_from_tensor_set(set, c"a".as_ptr(), null_mut()), INVALID);
        let mut other = tensor;
        assert_eq!(sets::nrt_get_tensor_from_tensor_set(set, null(), &raw mut other), INVALID);
        assert!(other.is_null());
        assert_eq!(sets::nrt_allocate_tensor_set(null_mut()), INVALID);
    }
    life::nrt_close();
    assert_eq!(init(), SUCCESS);
    assert_eq!(get(set, c"a"), Err(INVALID_HANDLE), "it ended with the close");
}

#[test]
fn models_fail_and_what_they_should_give_is_null() {
    let _library = Library::on("trn1.2xlarge");
    let mut model = 8 as *mut nrt::layout::Model;
    let mut told = std::ptr::dangling_mut::<nrt::layout::TensorInfoArray>();
    let mut count = 9;
    // SAFETY: the pointers are of local values, or NULL.
    unsafe {
        assert_eq!(models::nrt_load(null(), 0, 0, 1, &raw mut model), FAILURE);
        assert!(model.is_null());
        model = 8 as *mut _;
        assert_eq!(models::nrt_load_collectives(null(), 0, 0, 1, 0, 1, &raw mut model), FAILURE);
        assert!(model.is_null());
        assert_eq!(models::nrt_get_model_tensor_info(model, &raw mut told), FAILURE);
        assert!(told.is_null());
        assert_eq!(models::nrt_get_model_vnc_count(model, &raw mut count), FAILURE);
        assert_eq!(count, 0);
        assert_eq!(models::nrt_get_model_nc_count(model, null_mut()), FAILURE);
        assert_eq!(models::nrt_load(null(), 0, 0, 1, null_mut()), FAILURE);
    }
    assert_eq!(models::nrt_execute(model, null(), null_mut()), FAILURE);
    assert_eq!(models::nrt_execute_repeat(model, null(), null_mut(), 3), FAILURE);
    assert_eq!(
        (models::nrt_unload(8 as *mut _), models::nrt_free_model_tensor_info(told)),
        (FAILURE, FAILURE)
    );
    assert_eq!((models::nrt_profile_start(), models::nrt_sys_trace_start()), (FAILURE, FAILURE));
    models::nrt_sys_trace_config_free();
}
