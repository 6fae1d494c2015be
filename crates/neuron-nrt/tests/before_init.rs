//! A process that never calls `nrt_init`: what needs the devices says so, the rest answers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "what C would do, call after call")]

mod common;

use std::ptr::{null, null_mut};

use common::*;
use nrt::calls::{info, life, models, sets, sharing, tensors, transfers};
use nrt::layout::{AllocationInfo, InstanceInfo, MemoryStats};

/// One test: another one could open the library.
#[test]
fn before_init_nothing_crashes_and_what_needs_devices_says_uninitialized() {
    let tensor = 0x1234_5678 as Handle;
    assert_eq!(try_allocate(DEVICE, 0, 4096), Err(UNINITIALIZED));
    assert_eq!(try_slice(tensor, 0, 1), Err(UNINITIALIZED));
    free(tensor);
    free(null_mut());
    assert_eq!(tensors::nrt_tensor_get_size(tensor), 0);
    assert!(tensors::nrt_tensor_get_va(tensor).is_null());
    assert_eq!(write(tensor, 0, &[1]), UNINITIALIZED);
    assert_eq!(try_read(tensor, 0, &mut [1]), UNINITIALIZED);
    assert_eq!(transfers::nrt_tensor_copy(tensor, 0, tensor, 0, 1), UNINITIALIZED);
    assert_eq!(transfers::nrt_tensor_memset(tensor, 0, 1, 1), UNINITIALIZED);
    assert_eq!(memcpy_to_device(tensor.cast(), &[1]), UNINITIALIZED);
    assert_eq!(tensors::nrt_tensor_check_output_completion(tensor, 0, 0), UNINITIALIZED);

    let (mut stats, mut written) = (MemoryStats { bytes_used: 0, bytes_limit: 0 }, 9);
    // SAFETY: all pointers are of local values, or NULL.
    unsafe {
        assert_eq!(sharing::nrt_get_vnc_memory_stats(0, &raw mut stats, 16, &raw mut written), UNINITIALIZED);
        assert_eq!(written, 0);
        let mut place = AllocationInfo::default();
        let status = tensors::nrt_tensor_get_device_allocation_info(tensor, &raw mut place);
        assert_eq!(status, UNINITIALIZED);
        let mut other: Handle = tensor;
        assert_eq!(tensors::nrt_tensor_allocate_empty(null(), &raw mut other), UNINITIALIZED);
        assert_eq!(other, null_mut());
        assert_eq!(tensors::nrt_tensor_attach_buffer(tensor, null_mut(), 0), UNINITIALIZED);
        assert_eq!(transfers::nrt_tensor_read_batch(null(), 1, 0), UNINITIALIZED);
        assert_eq!(transfers::nrt_tensor_write_batch(null(), 1, 0), UNINITIALIZED);
        let mut set = tensor.cast();
        assert_eq!(sets::nrt_allocate_tensor_set(&raw mut set), UNINITIALIZED);
        assert!(set.is_null());
        assert_eq!(sets::nrt_get_tensor_from_tensor_set(set, null(), &raw mut other), UNINITIALIZED);
        sets::nrt_destroy_tensor_set(&raw mut set);
        let mut fd = 5;
        assert_eq!(sharing::nrt_get_dmabuf_fd(0, 0, &raw mut fd), UNINITIALIZED);
        assert_eq!(fd, -1);
        let mut model = tensor.cast();
        assert_eq!(models::nrt_load(null(), 0, 0, 1, &raw mut model), FAILURE);
        assert!(model.is_null());
    }

    assert_eq!((count(info::nrt_get_total_nc_count), count(info::nrt_get_total_vnc_count)), (2, 2));
    assert_eq!((count(info::nrt_get_visible_nc_count), visible()), (2, 2));
    assert_eq!(status_name(UNINITIALIZED), Some("NRT_UNINITIALIZED"));
    let mut machine = InstanceInfo { family: 0, size: 0, arch_name: [1; 16], device_revision: [1; 8] };
    // SAFETY: the pointer is of a local value of this size.
    assert_eq!(unsafe { info::nrt_get_instance_info(&raw mut machine, 32) }, SUCCESS);
    assert_eq!((machine.family, machine.size), (2, 1), "trn1.2xlarge");
    life::nrt_close();
    assert_eq!(try_allocate(DEVICE, 0, 4096), Err(UNINITIALIZED), "closing what was never open is nothing");
}
