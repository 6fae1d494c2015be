//! Device memory at addresses of this process, and what is in use.

use std::ffi::c_void;
use std::ptr::null_mut;

use neuron_dmem::log::LogFile;
use nrt::calls::{sharing, tensors, transfers};
use nrt::layout::MemoryStats;

use crate::common::*;

fn stats(vnc: u32) -> MemoryStats {
    let (mut stats, mut written) = (MemoryStats { bytes_used: 9, bytes_limit: 9 }, 0);
    // SAFETY: the pointers are of local values.
    let status = unsafe { sharing::nrt_get_vnc_memory_stats(vnc, &raw mut stats, 16, &raw mut written) };
    assert_eq!((status, written), (SUCCESS, 16));
    stats
}

#[test]
fn an_address_shows_what_the_calls_write_and_the_calls_what_is_written_there() {
    for instance in ["trn1.2xlarge", "trn2.3xlarge"] {
        let _library = Library::on(instance);
        let tensor = allocate(DEVICE, 1, 100_000);
        assert_eq!(write(tensor, 0, &pattern(100_000, 1)), SUCCESS);
        let bytes = at_address(tensor);
        assert!(*bytes == pattern(100_000, 1));
        bytes[50_000..50_010].fill(0xab);
        assert_eq!(read(tensor, 49_999, 12)[1..11], [0xab; 10]);
        assert_eq!(transfers::nrt_tensor_memset(tensor, 7, 0x11, 70_000), SUCCESS);
        assert!(bytes[7..70_007].iter().all(|byte| *byte == 0x11));
        let copy = allocate(DEVICE, 1, 100_000);
        at_address(copy).copy_from_slice(bytes);
        assert_eq!(transfers::nrt_tensor_copy(copy, 0, tensor, 1, 99_999), SUCCESS);
        assert!(bytes[1..] == at_address(copy)[..99_999]);
    }
}

#[test]
fn addresses_of_living_tensors_do_not_overlap_and_stay() {
    let _library = Library::on("trn1.2xlarge");
    let made: Vec<_> = [1, 4096, 5000, 100_000].map(|size| allocate(DEVICE, 0, size)).into();
    let mut ranges: Vec<_> = made
        .iter()
        .map(|tensor| {
            let start = tensors::nrt_tensor_get_va(*tensor) as usize;
            assert_eq!(tensors::nrt_tensor_get_va(*tensor) as usize, start);
            (start, start + tensors::nrt_tensor_get_size(*tensor))
        })
        .collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:x?}");
}

#[test]
fn without_mapping_device_memory_has_no_address() {
    let _library = Library::with(&[("NEURON_RT_MAP_HBM", "0")]);
    assert!(tensors::nrt_tensor_get_va(allocate(DEVICE, 0, 64)).is_null());
    assert!(!tensors::nrt_tensor_get_va(allocate(HOST, 0, 64)).is_null());
}

#[test]
fn bytes_are_copied_to_an_address_in_one_tensors_memory_only() {
    let _library = Library::on("trn1.2xlarge");
    let tensor = allocate(DEVICE, 0, 10_000);
    let hidden = allocate(DEVICE, 0, 10_000);
    let va = tensors::nrt_tensor_get_va(tensor);
    let at = |offset: usize| va.wrapping_byte_add(offset);
    assert_eq!(memcpy_to_device(at(0), &pattern(10_000, 1)), SUCCESS);
    assert_eq!(memcpy_to_device(at(4001), &[6; 3]), SUCCESS);
    assert_eq!(read(tensor, 4000, 5), [pattern(10_000, 1)[4000], 6, 6, 6, pattern(10_000, 1)[4004]]);
    assert_eq!(memcpy_to_device(at(10_000), &[]), SUCCESS);
    let mut local = [0_u8; 64];
    for (dest, len) in [
        (at(9_999), 2),
        (at(10_000), 1),
        (va.wrapping_byte_sub(1), 1),
        (null_mut(), 1),
        (usize::MAX as *mut c_void, 8),
        (local.as_mut_ptr().cast(), 64),
        (hidden.cast(), 1),
    ] {
        assert_eq!(memcpy_to_device(dest, &vec![1; len]), INVALID, "{dest:p}");
    }
    assert_eq!(local, [0; 64]);
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { transfers::nrt_memcpy_to_device(va, std::ptr::null(), 1) }, INVALID);
    let slice = try_slice(tensor, 100, 10).unwrap();
    free(tensor);
    assert_eq!(memcpy_to_device(tensors::nrt_tensor_get_va(slice), &[8; 10]), SUCCESS);
    assert_eq!(read(slice, 0, 10), [8; 10]);
    free(slice);
    assert_eq!(memcpy_to_device(at(0), &[1]), INVALID, "the memory is gone");
}

#[test]
fn statistics_are_those_of_the_usage_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let _library =
        Library::with(&[("NEURON_MEM_INSTANCE", "trn2.3xlarge"), ("NEURON_MEM_LOG", file.to_str().unwrap())]);
    let logged = |logical: u32| -> u64 {
        let mut log = LogFile::open(&file).unwrap();
        log.refresh().unwrap();
        let cores = [2 * logical, 2 * logical + 1];
        let statistics = log.statistics();
        cores.map(|core| statistics.core(core).current).iter().sum()
    };
    let limit = (24 << 30) - (16 << 20);
    assert_eq!(stats(0), MemoryStats { bytes_used: 0, bytes_limit: limit });
    let (one, two) = (allocate(DEVICE, 0, 4097), allocate(DEVICE, 3, 5 << 30));
    let virtual_one = allocate(VIRTUAL, 0, 1000);
    let slice = try_slice(one, 0, 10).unwrap();
    for vnc in 0..4 {
        assert_eq!(stats(vnc).bytes_used as u64, logged(vnc), "core {vnc}");
    }
    assert_eq!([0, 1, 3].map(|vnc| stats(vnc).bytes_used), [4097, 0, 5 << 30]);
    free(one);
    free(virtual_one);
    assert_eq!(stats(0).bytes_used, 4097, "a slice lives");
    free(slice);
    free(two);
    assert_eq!((stats(0).bytes_used, stats(3).bytes_used, logged(3)), (0, 0, 0));
}

#[test]
fn several_devices_have_a_log_each() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let _library = Library::with(&[
        ("NEURON_MEM_INSTANCE", "trn1.32xlarge"),
        ("NEURON_RT_VISIBLE_CORES", "1-2"),
        ("NEURON_MEM_LOG", file.to_str().unwrap()),
    ]);
    allocate(DEVICE, 1, 4096);
    let devices =
        [0, 1].map(|device| LogFile::open(format!("{}.{device}", file.display())).unwrap().device());
    assert_eq!(devices, [0, 1]);
}

#[test]
fn a_short_record_of_statistics_gets_what_fits() {
    let _library = Library::on("trn1.2xlarge");
    allocate(DEVICE, 0, 64);
    let ask = |vnc, size| {
        let (mut stats, mut written) = (MemoryStats { bytes_used: 9, bytes_limit: 9 }, 99);
        // SAFETY: the pointers are of local values, and at most 16 bytes are written.
        let status =
            unsafe { sharing::nrt_get_vnc_memory_stats(vnc, &raw mut stats, size, &raw mut written) };
        (status, stats.bytes_used, stats.bytes_limit, written)
    };
    let limit = (16 << 30) - (16 << 20);
    assert_eq!(ask(0, 16), (SUCCESS, 64, limit, 16));
    assert_eq!(ask(0, 1000), (SUCCESS, 64, limit, 16), "a later program's record is longer");
    assert_eq!(ask(0, 8), (SUCCESS, 64, 9, 8));
    assert_eq!(ask(2, 16), (INVALID, 9, 9, 0));
    assert_eq!(ask(u32::MAX, 16), (INVALID, 9, 9, 0));
    let mut written = 1;
    // SAFETY: NULL is allowed.
    unsafe {
        assert_eq!(sharing::nrt_get_vnc_memory_stats(0, null_mut(), 16, &raw mut written), INVALID);
        let mut stats = MemoryStats { bytes_used: 9, bytes_limit: 9 };
        assert_eq!(sharing::nrt_get_vnc_memory_stats(0, &raw mut stats, 16, null_mut()), INVALID);
    }
}

#[test]
fn what_is_not_shared_is_told_as_its_callers_expect() {
    let _library = Library::on("trn1.2xlarge");
    let va = tensors::nrt_tensor_get_va(allocate(DEVICE, 0, 4096));
    let (mut fd, mut addr, mut size) = (7, 8 as *mut c_void, 9_usize);
    // SAFETY: the pointers are of local values.
    unsafe {
        assert_eq!(sharing::nrt_get_dmabuf_fd(va as u64, 4096, &raw mut fd), FAILURE);
        assert_eq!(sharing::nrt_get_hbm_mmap_va(0, 0, &raw mut addr, &raw mut size), INVALID);
    }
    assert_eq!((fd, addr, size), (-1, null_mut(), 0));
    assert_eq!(sharing::nrt_get_attached_efa_bdf(va, null_mut(), null_mut()), FAILURE);
}
