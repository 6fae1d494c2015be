//! Allocating and freeing, slices, sizes, addresses.

use std::ptr::{null, null_mut};

use nrt::calls::tensors;
use nrt::layout::AllocationInfo;

use crate::common::*;

fn place(tensor: Handle) -> Result<AllocationInfo, i32> {
    let mut place = AllocationInfo::default();
    // SAFETY: the pointer is of a local value.
    match unsafe { tensors::nrt_tensor_get_device_allocation_info(tensor, &raw mut place) } {
        SUCCESS => Ok(place),
        status => Err(status),
    }
}

#[test]
fn a_tensor_is_as_long_as_was_asked_for() {
    let _library = Library::on("trn1.2xlarge");
    for (placement, size) in [(DEVICE, 1), (DEVICE, 4097), (HOST, 4095), (VIRTUAL, 5), (DEVICE, 5 << 30)] {
        let tensor = allocate(placement, 0, size);
        assert_eq!(tensors::nrt_tensor_get_size(tensor), size);
        free(tensor);
    }
}

#[test]
fn what_cannot_be_allocated_is_refused() {
    let _library = Library::on("trn1.2xlarge");
    for (placement, vnc, size, status) in [
        (DEVICE, 2, 4096, INVALID),
        (DEVICE, -1, 4096, INVALID),
        (HOST, 2, 4096, INVALID),
        (HOST, -2, 4096, INVALID),
        (VIRTUAL, i32::MAX, 4096, INVALID),
        (3, 0, 4096, INVALID),
        (-1, 0, 4096, INVALID),
        (DEVICE, 0, 0, INVALID),
        (VIRTUAL, 0, 0, INVALID),
        (HOST, 0, 4 << 20, INVALID),
        (DEVICE, 0, 17 << 30, RESOURCE),
        (DEVICE, 0, usize::MAX, FAILURE),
        (VIRTUAL, 0, usize::MAX / 2, FAIL_HOST_MEM_ALLOC),
    ] {
        assert_eq!(try_allocate(placement, vnc, size), Err(status), "{placement} {vnc} {size}");
    }
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { tensors::nrt_tensor_allocate(DEVICE, 0, 1, null(), null_mut()) }, INVALID);
    let most = allocate(HOST, -1, (4 << 20) - 1);
    assert_eq!(write(most, (4 << 20) - 2, &[1]), SUCCESS);
}

#[test]
fn a_full_device_is_told_as_such_and_has_room_again_when_something_is_freed() {
    let _library = Library::on("trn1.2xlarge");
    let most = allocate(DEVICE, 0, 14 << 30);
    assert_eq!(try_allocate(DEVICE, 0, 2 << 30), Err(RESOURCE));
    assert!(try_allocate(DEVICE, 1, 2 << 30).is_ok(), "the other core has an HBM of its own");
    free(most);
    assert!(try_allocate(DEVICE, 0, 2 << 30).is_ok());
}

#[test]
fn host_tensors_are_refused_from_trainium2_on() {
    let _library = Library::on("trn2.3xlarge");
    assert_eq!(try_allocate(HOST, 0, 4096), Err(RESOURCE));
    assert!(try_allocate(VIRTUAL, -1, 4096).is_ok());
}

#[test]
fn a_slice_shares_its_sources_memory_and_keeps_it() {
    let _library = Library::on("trn1.2xlarge");
    for placement in [DEVICE, HOST, VIRTUAL] {
        let whole = allocate(placement, 0, 10_000);
        assert_eq!(write(whole, 0, &pattern(10_000, 1)), SUCCESS);
        let slice = try_slice(whole, 1000, 5000).unwrap();
        let inner = try_slice(slice, 10, 100).unwrap();
        assert_eq!(tensors::nrt_tensor_get_size(inner), 100);
        assert_eq!(read(inner, 0, 100), pattern(10_000, 1)[1010..1110]);
        assert_eq!(write(inner, 50, &[9; 50]), SUCCESS);
        assert_eq!(read(whole, 1060, 50), [9; 50]);
        assert_eq!(read(whole, 1110, 1), pattern(10_000, 1)[1110..1111]);
        let at = |tensor| tensors::nrt_tensor_get_va(tensor) as usize;
        assert_eq!((at(slice), at(inner)), (at(whole) + 1000, at(whole) + 1010));
        free(whole);
        free(slice);
        assert_eq!(read(inner, 50, 50), [9; 50], "the memory lives as long as one of them");
        free(inner);
    }
}

#[test]
fn memory_that_a_slice_keeps_is_free_when_the_slice_is() {
    let _library = Library::on("trn1.2xlarge");
    let whole = allocate(DEVICE, 0, 14 << 30);
    let slice = try_slice(whole, 0, 1).unwrap();
    free(whole);
    assert_eq!(try_allocate(DEVICE, 0, 14 << 30), Err(RESOURCE));
    free(slice);
    assert!(try_allocate(DEVICE, 0, 14 << 30).is_ok());
}

#[test]
fn a_slice_that_does_not_fit_is_refused() {
    let _library = Library::on("trn1.2xlarge");
    let whole = allocate(DEVICE, 0, 1000);
    let slice = try_slice(whole, 500, 100).unwrap();
    for (source, offset, size) in [
        (whole, 0, 1001),
        (whole, 1000, 1),
        (whole, usize::MAX, 2),
        (whole, 1, usize::MAX),
        (slice, 0, 101),
        (slice, 100, 1),
        (whole, 0, 0),
    ] {
        assert_eq!(try_slice(source, offset, size), Err(INVALID), "{offset} {size}");
    }
    assert_eq!(try_slice(null_mut(), 0, 1), Err(INVALID_HANDLE));
    // SAFETY: NULL is allowed.
    let nowhere = unsafe { tensors::nrt_tensor_allocate_slice(whole, 0, 1, null(), null_mut()) };
    assert_eq!(nowhere, INVALID);
}

#[test]
fn a_buffer_takes_the_place_of_a_tensors_memory() {
    let _library = Library::on("trn1.2xlarge");
    let mut tensor: Handle = null_mut();
    // SAFETY: the pointers are of local ones; the buffer outlives the tensor.
    unsafe {
        assert_eq!(tensors::nrt_tensor_allocate_empty(c"t".as_ptr(), &raw mut tensor), SUCCESS);
        assert_eq!(tensors::nrt_tensor_get_size(tensor), 0);
        assert_eq!((write(tensor, 0, &[1]), write(tensor, 0, &[])), (INVALID, SUCCESS));
        assert!(tensors::nrt_tensor_get_va(tensor).is_null());
        let mut buffer = pattern(300, 3);
        let attach = |tensor, pointer, size| tensors::nrt_tensor_attach_buffer(tensor, pointer, size);
        assert_eq!(attach(tensor, buffer.as_mut_ptr().cast(), 300), SUCCESS);
        assert_eq!(tensors::nrt_tensor_get_size(tensor), 300);
        assert_eq!(tensors::nrt_tensor_get_va(tensor), buffer.as_mut_ptr().cast());
        assert_eq!(read(tensor, 0, 300), pattern(300, 3));
        assert_eq!(write(tensor, 299, &[7]), SUCCESS);
        assert_eq!(buffer[299], 7);
        assert_eq!(attach(tensor, null_mut(), 1), INVALID);
        assert_eq!(attach(tensor, buffer.as_mut_ptr().cast(), 0), INVALID);
        assert_eq!(attach(null_mut(), buffer.as_mut_ptr().cast(), 1), INVALID_HANDLE);

        let on_device = allocate(DEVICE, 0, 14 << 30);
        let slice = try_slice(on_device, 0, 4096).unwrap();
        assert_eq!(attach(on_device, buffer.as_mut_ptr().cast(), 300), SUCCESS);
        assert_eq!(place(on_device), Err(INVALID), "it is in host memory now");
        assert_eq!(try_allocate(DEVICE, 0, 14 << 30), Err(RESOURCE), "its slice keeps what it had");
        free(slice);
        assert!(try_allocate(DEVICE, 0, 14 << 30).is_ok());
        free(tensor);
        free(on_device);
        assert_eq!(buffer[299], 7, "the buffer is the caller's");
    }
}

#[test]
fn device_memory_has_a_place_and_other_memory_has_none() {
    let _library = Library::on("trn2.3xlarge");
    let first = allocate(DEVICE, 0, 5000);
    let third = allocate(DEVICE, 3, 4096);
    let told = place(first).unwrap();
    assert!(told.size >= 5000 && told.hbm_index == 0);
    assert_eq!(place(third).unwrap().hbm_index, 3);
    let slice = try_slice(first, 1000, 10).unwrap();
    assert_eq!(place(slice).unwrap().physical_address, told.physical_address + 1000);
    assert_eq!(place(allocate(VIRTUAL, 0, 10)), Err(INVALID));
    assert_eq!(place(null_mut()), Err(INVALID_HANDLE));
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { tensors::nrt_tensor_get_device_allocation_info(first, null_mut()) }, INVALID);
}

#[test]
fn no_run_has_ever_written_a_tensor() {
    let _library = Library::on("trn1.2xlarge");
    let tensor = allocate(DEVICE, 0, 64);
    let check = tensors::nrt_tensor_check_output_completion;
    assert_eq!(check(tensor, -1, 0), SUCCESS);
    assert_eq!(check(tensor, i64::MAX, 1), TIMEOUT, "at once");
    assert_eq!(check(tensor, -1, 1), FAILURE, "it would wait for ever");
    assert_eq!((check(null_mut(), 0, 0), check(8 as Handle, 0, 0)), (INVALID, INVALID_HANDLE));
    assert_eq!(tensors::nrt_tensor_reset_output_completion(tensor), SUCCESS);
    assert_eq!(tensors::nrt_tensor_reset_output_completion(null_mut()), INVALID);
}
