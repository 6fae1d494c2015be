//! Many threads on one library.

use std::sync::atomic::{AtomicBool, Ordering};

use nrt::calls::{info, life, tensors, transfers};
use nrt::layout::{InstanceInfo, Version};

use crate::common::*;

#[test]
fn threads_allocate_copy_and_free_without_seeing_each_other() {
    let _library = Library::on("trn2.3xlarge");
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            scope.spawn(move || {
                let core = i32::from(thread % 4);
                for round in 0..20_u8 {
                    let size = 10_000 + usize::from(thread) * 333;
                    let (one, two) = (allocate(DEVICE, core, size), allocate(DEVICE, core, size));
                    let bytes = pattern(size, thread ^ round << 3);
                    assert_eq!(write(one, 0, &bytes), SUCCESS);
                    assert_eq!(transfers::nrt_tensor_copy(one, 0, two, 0, size), SUCCESS);
                    let slice = try_slice(two, 7, size - 7).unwrap();
                    free(two);
                    assert!(read(slice, 0, size - 7) == bytes[7..]);
                    assert!(at_address(slice) == &bytes[7..]);
                    free(one);
                    free(slice);
                }
            });
        }
    });
}

#[test]
fn one_tensor_is_freed_once_however_many_threads_do() {
    let _library = Library::on("trn1.2xlarge");
    for _ in 0..50 {
        let tensor = allocate(DEVICE, 0, 4096) as usize;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let status = write(tensor as Handle, 0, &[1; 4096]);
                    assert!(status == SUCCESS || status == INVALID_HANDLE, "{status}");
                    free(tensor as Handle);
                });
            }
        });
        assert_eq!(tensors::nrt_tensor_get_size(tensor as Handle), 0);
    }
}

/// `spec/nrt-abi.md` 6.1: a client asks for both beside a thread that opens and closes.
#[test]
fn opening_and_closing_disturbs_nobody() {
    let _library = Library::closed(&[("NEURON_MEM_INSTANCE", "trn1.2xlarge")]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut machine =
                    InstanceInfo { family: 0, size: 0, arch_name: [0; 16], device_revision: [0; 8] };
                let mut version = Version {
                    rt_major: 0,
                    rt_minor: 0,
                    rt_patch: 0,
                    rt_maintenance: 0,
                    rt_detail: [0; 128],
                    git_hash: [0; 64],
                };
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the pointers are of local values of this size.
                    unsafe {
                        assert_eq!(info::nrt_get_instance_info(&raw mut machine, 32), SUCCESS);
                        assert_eq!(info::nrt_get_version(&raw mut version, 224), SUCCESS);
                    }
                    assert_eq!((machine.family, version.rt_major, visible()), (2, 2, 2));
                    match try_allocate(DEVICE, 0, 8192) {
                        Ok(tensor) => {
                            let status = write(tensor, 1, &[3; 4096]);
                            assert!(
                                [SUCCESS, UNINITIALIZED, CLOSED, INVALID_HANDLE].contains(&status),
                                "{status}"
                            );
                            free(tensor);
                        }
                        Err(status) => assert!([UNINITIALIZED, CLOSED].contains(&status), "{status}"),
                    }
                }
            });
        }
        for _ in 0..20 {
            assert_eq!(init(), SUCCESS);
            std::thread::yield_now();
            life::nrt_close();
        }
        done.store(true, Ordering::Relaxed);
    });
}
