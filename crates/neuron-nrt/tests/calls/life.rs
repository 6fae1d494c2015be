//! Opening and closing.

use std::ptr::null_mut;

use nrt::calls::{life, tensors};

use crate::common::*;

#[test]
fn it_opens_again_after_it_was_closed() {
    let _library = Library::on("trn1.2xlarge");
    for round in 0..3 {
        let tensor = allocate(DEVICE, 0, 8192);
        assert_eq!(write(tensor, 0, &[round; 8192]), SUCCESS);
        assert_eq!(read(tensor, 0, 8192), [round; 8192]);
        life::nrt_close();
        assert_eq!(try_allocate(DEVICE, 0, 4096), Err(CLOSED));
        assert_eq!(init(), SUCCESS);
    }
}

#[test]
fn a_second_init_changes_nothing_and_one_close_ends_it() {
    let _library = Library::on("trn1.2xlarge");
    let tensor = allocate(DEVICE, 1, 4096);
    assert_eq!(write(tensor, 0, &[7; 4096]), SUCCESS);
    assert_eq!(init(), SUCCESS);
    assert_eq!(read(tensor, 0, 4096), [7; 4096]);
    life::nrt_close();
    assert_eq!(try_read(tensor, 0, &mut [0]), CLOSED);
}

#[test]
fn what_is_left_at_the_close_is_freed_and_its_handles_are_none_for_ever() {
    let _library = Library::on("trn1.2xlarge");
    let (left, other) = (allocate(DEVICE, 0, 12 << 30), allocate(VIRTUAL, -1, 10));
    life::nrt_close();
    // Each of these would read freed memory if it followed the handle.
    assert_eq!(write(left, 0, &[1]), CLOSED);
    assert_eq!(tensors::nrt_tensor_get_size(left), 0);
    assert!(tensors::nrt_tensor_get_va(other).is_null());
    free(left);
    assert_eq!(init(), SUCCESS);
    assert_eq!(write(left, 0, &[1]), INVALID_HANDLE);
    free(other);
    let new = allocate(DEVICE, 0, 12 << 30);
    assert_ne!(new, left, "a handle is not given out twice");
    assert_eq!(write(left, 0, &[1]), INVALID_HANDLE);
}

#[test]
fn versions_may_be_anything_and_an_unknown_framework_is_refused() {
    let _library = Library::closed(&[]);
    for framework in [-1, 6, i32::MAX] {
        assert_eq!(life::nrt_init(framework, c"".as_ptr(), c"".as_ptr()), INVALID);
    }
    // The third argument is left undefined by a client: nothing may be read there.
    for framework in 0..=5 {
        assert_eq!(life::nrt_init(framework, std::ptr::null(), 8 as *const _), SUCCESS, "{framework}");
        life::nrt_close();
    }
}

#[test]
fn the_environment_is_read_at_each_init() {
    let _library =
        Library::with(&[("NEURON_MEM_INSTANCE", "trn1.32xlarge"), ("NEURON_RT_VISIBLE_CORES", "3-5")]);
    assert_eq!(visible(), 3);
    let last = allocate(DEVICE, 2, 100);
    assert_eq!(write(last, 0, &[5; 100]), SUCCESS);
    assert_eq!(try_allocate(DEVICE, 3, 100), Err(INVALID));
    drop(_library);
    let _library = Library::with(&[("NEURON_MEM_INSTANCE", "trn2.48xlarge"), ("NEURON_RT_NUM_CORES", "6")]);
    assert_eq!(visible(), 6);
    allocate(DEVICE, 5, 100);
}

#[test]
fn an_environment_that_cannot_be_followed_keeps_it_closed() {
    for (variable, value, status) in [
        ("NEURON_RT_VISIBLE_CORES", "0,2", INVALID),
        ("NEURON_RT_VISIBLE_CORES", "x", INVALID),
        ("NEURON_RT_VISIBLE_CORES", "1-2", INVALID),
        ("NEURON_RT_NUM_CORES", "3", RESOURCE),
        ("NEURON_RT_NUM_CORES", "many", INVALID),
        ("NEURON_MEM_BACKEND", "unix:", INVALID),
        ("NEURON_MEM_BACKEND", "unix:/nowhere/at/all", FAILURE),
        ("NEURON_MEM_BACKEND", "cuda", INVALID),
        ("NEURON_MEM_INSTANCE", "trn9.huge", INVALID),
        ("NEURON_MEM_LOG", "/nowhere/at/all", FAILURE),
    ] {
        let _library = Library::closed(&[(variable, value)]);
        assert_eq!(init(), status, "{variable}={value}");
        let refused = try_allocate(DEVICE, 0, 4096).unwrap_err();
        assert!(refused == UNINITIALIZED || refused == CLOSED, "{refused}");
    }
}

#[test]
fn without_devices_of_the_kernel_it_does_not_open() {
    if std::path::Path::new("/dev/neuron0").exists() {
        println!("skipped: this machine has devices");
        return;
    }
    let _library = Library::closed(&[("NEURON_MEM_BACKEND", "kernel")]);
    assert_eq!(init(), FAILURE);
    let mut count = 9;
    // SAFETY: the pointer is of a local number.
    assert_eq!(unsafe { nrt::calls::info::nrt_get_total_nc_count(&raw mut count) }, FAILURE);
    assert_eq!(count, 0);
}

#[test]
fn freeing_is_harmless_whatever_it_is_given() {
    let _library = Library::on("trn1.2xlarge");
    // SAFETY: NULL is allowed.
    unsafe { tensors::nrt_tensor_free(null_mut()) };
    let tensor = allocate(DEVICE, 0, 64);
    for wrong in [null_mut(), 8 as Handle, usize::MAX as Handle, tensor] {
        free(wrong);
    }
    free(tensor);
    assert_eq!(write(tensor, 0, &[1]), INVALID_HANDLE);
}
