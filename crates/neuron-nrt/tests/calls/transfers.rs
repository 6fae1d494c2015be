//! Reading, writing, filling, copying.

use std::ptr::{null, null_mut};

use nrt::calls::transfers;

use crate::common::*;

const SIZE: usize = (3 << 20) + 4321;

/// Every placement on Trainium1, those that there are on Trainium2, with and without a bounce.
fn everywhere(mut test: impl FnMut(i32)) {
    for set in [
        [("NEURON_MEM_INSTANCE", "trn1.2xlarge"), ("NEURON_RT_DBG_ZEROCOPY", "")],
        [("NEURON_MEM_INSTANCE", "trn2.3xlarge"), ("NEURON_RT_DBG_ZEROCOPY", "0")],
        [("NEURON_MEM_INSTANCE", "trn2.3xlarge"), ("NEURON_RT_DBG_ZEROCOPY", "1")],
    ] {
        let _library = Library::with(&set);
        for placement in [DEVICE, HOST, VIRTUAL] {
            if placement != HOST || set[0].1 == "trn1.2xlarge" {
                test(placement);
            }
        }
    }
}

#[test]
fn what_is_written_is_read_at_any_offset_and_length() {
    everywhere(|placement| {
        let tensor = allocate(placement, 0, SIZE);
        let mut expected = pattern(SIZE, 5);
        assert_eq!(write(tensor, 0, &expected), SUCCESS);
        for (offset, len) in
            [(0, 1), (1, 3), (4095, 2), (SIZE - 1, 1), (777, 20_000), (12_345, (2 << 20) + 1)]
        {
            let bytes = pattern(len, offset as u8);
            assert_eq!(write(tensor, offset, &bytes), SUCCESS);
            expected[offset..offset + len].copy_from_slice(&bytes);
        }
        assert!(read(tensor, 0, SIZE) == expected);
        assert!(read(tensor, 4097, 1 << 20) == expected[4097..4097 + (1 << 20)]);
        free(tensor);
    });
}

#[test]
fn what_is_out_of_range_is_refused_before_anything_moves() {
    everywhere(|placement| {
        let (tensor, other) = (allocate(placement, 0, 1000), allocate(placement, 0, 1000));
        assert_eq!(write(tensor, 0, &[1; 1000]), SUCCESS);
        assert_eq!(write(tensor, 1, &[2; 1000]), INVALID);
        assert_eq!(write(tensor, usize::MAX, &[2; 2]), INVALID);
        let mut bytes = [3; 1001];
        assert_eq!((try_read(tensor, 0, &mut bytes), bytes), (INVALID, [3; 1001]));
        assert_eq!(transfers::nrt_tensor_memset(tensor, 900, 2, 101), INVALID);
        assert_eq!(transfers::nrt_tensor_memset(tensor, u64::MAX, 2, 2), INVALID);
        assert_eq!(transfers::nrt_tensor_copy(tensor, 1, other, 0, 1000), INVALID);
        assert_eq!(transfers::nrt_tensor_copy(other, 0, tensor, 1, 1000), INVALID);
        assert_eq!(read(tensor, 0, 1000), [1; 1000]);
        // The driver's blocks are whole pages: the rest of the last one is nobody's.
        assert_eq!(write(tensor, 1000, &[1]), INVALID);
        for tensor in [tensor, other] {
            free(tensor);
        }
    });
}

#[test]
fn no_bytes_are_moved_without_complaint_and_null_is_no_buffer() {
    let _library = Library::on("trn1.2xlarge");
    let tensor = allocate(DEVICE, 0, 100);
    // SAFETY: NULL is allowed, and nothing is read or written.
    unsafe {
        assert_eq!(transfers::nrt_tensor_read(tensor, null_mut(), 100, 0), SUCCESS);
        assert_eq!(transfers::nrt_tensor_write(tensor, null(), 0, 0), SUCCESS);
        assert_eq!(transfers::nrt_tensor_read(tensor, null_mut(), 101, 0), INVALID);
        assert_eq!(transfers::nrt_tensor_read(tensor, null_mut(), 0, 1), INVALID);
        assert_eq!(transfers::nrt_tensor_write(tensor, null(), 0, 1), INVALID);
        assert_eq!(transfers::nrt_tensor_write(tensor, null(), 0, usize::MAX), INVALID);
    }
    assert_eq!(transfers::nrt_tensor_memset(tensor, 100, 1, 0), SUCCESS);
    assert_eq!(transfers::nrt_tensor_copy(tensor, 100, tensor, 0, 0), SUCCESS);
}

#[test]
fn a_handle_that_is_none_is_refused_everywhere() {
    let _library = Library::on("trn1.2xlarge");
    let tensor = allocate(DEVICE, 0, 64);
    let freed = allocate(DEVICE, 0, 64);
    free(freed);
    for wrong in [null_mut(), freed, 8 as Handle, usize::MAX as Handle, (tensor as usize + 1) as Handle] {
        assert_eq!(write(wrong, 0, &[1]), INVALID_HANDLE, "{wrong:p}");
        assert_eq!(try_read(wrong, 0, &mut [1]), INVALID_HANDLE);
        assert_eq!(transfers::nrt_tensor_copy(wrong, 0, tensor, 0, 1), INVALID_HANDLE);
        assert_eq!(transfers::nrt_tensor_copy(tensor, 0, wrong, 0, 1), INVALID_HANDLE);
        assert_eq!(transfers::nrt_tensor_memset(wrong, 0, 1, 1), INVALID_HANDLE);
        assert_eq!(nrt::calls::tensors::nrt_tensor_get_size(wrong), 0);
        assert!(nrt::calls::tensors::nrt_tensor_get_va(wrong).is_null());
    }
}

#[test]
fn filling_takes_the_low_byte() {
    everywhere(|placement| {
        let tensor = allocate(placement, 0, SIZE);
        assert_eq!(transfers::nrt_tensor_memset(tensor, 0, 0, SIZE), SUCCESS);
        for (offset, len, value, byte) in
            [(0, 1, 255, 255), (3, 70_001, 0x1234, 0x34), (SIZE - 5, 5, -1, 255)]
        {
            assert_eq!(transfers::nrt_tensor_memset(tensor, offset as u64, value, len), SUCCESS);
            assert!(read(tensor, offset, len) == vec![byte; len], "{offset}");
        }
        assert_eq!((read(tensor, 1, 2), read(tensor, SIZE - 6, 1)), (vec![0, 0], vec![0]));
        assert!(read(tensor, 70_004, 1000) == vec![0; 1000]);
        free(tensor);
    });
}

#[test]
fn tensors_are_copied_between_all_places() {
    everywhere(|from| {
        for to in [DEVICE, VIRTUAL] {
            let (source, destination) = (allocate(from, 0, SIZE), allocate(to, 0, SIZE));
            let bytes = pattern(SIZE, 9);
            assert_eq!(write(source, 0, &bytes), SUCCESS);
            assert_eq!(transfers::nrt_tensor_memset(destination, 0, 0, SIZE), SUCCESS);
            assert_eq!(transfers::nrt_tensor_copy(source, 16, destination, 33, SIZE - 50), SUCCESS);
            let copied = read(destination, 0, SIZE);
            assert!(copied[33..SIZE - 17] == bytes[16..SIZE - 34], "{from} to {to}");
            assert!(copied[..33] == [0; 33] && copied[SIZE - 17..] == [0; 17]);
            assert_eq!(transfers::nrt_tensor_copy(destination, 40, source, 1, 7), SUCCESS, "and back");
            assert_eq!(read(source, 1, 7), bytes[23..30]);
            free(source);
            free(destination);
        }
    });
}

#[test]
fn a_copy_within_one_tensor_is_a_move() {
    everywhere(|placement| {
        let tensor = allocate(placement, 0, SIZE);
        for (from, to, len) in [
            (0, 1, SIZE - 1),
            (1, 0, SIZE - 1),
            (0, 1 << 20, 2 << 20),
            (1 << 20, 5, 2 << 20),
            (7, 7, 100),
            (0, 2 << 20, 1 << 20),
        ] {
            let mut expected = pattern(SIZE, to as u8);
            assert_eq!(write(tensor, 0, &expected), SUCCESS);
            expected.copy_within(from..from + len, to);
            assert_eq!(transfers::nrt_tensor_copy(tensor, from, tensor, to, len), SUCCESS);
            assert!(read(tensor, 0, SIZE) == expected, "{placement}: {from} to {to}, {len}");
        }
        free(tensor);
    });
}

#[test]
fn slices_of_one_tensor_that_overlap_are_a_move_too() {
    let _library = Library::on("trn2.3xlarge");
    let whole = allocate(DEVICE, 0, 10_000);
    let (low, high) = (try_slice(whole, 0, 9000).unwrap(), try_slice(whole, 100, 9000).unwrap());
    let mut expected = pattern(10_000, 1);
    assert_eq!(write(whole, 0, &expected), SUCCESS);
    assert_eq!(transfers::nrt_tensor_copy(low, 0, high, 0, 9000), SUCCESS);
    expected.copy_within(0..9000, 100);
    assert!(read(whole, 0, 10_000) == expected);
}

#[test]
fn tensors_of_different_cores_are_not_copied() {
    for (instance, lnc, cores) in
        [("trn1.2xlarge", "", [0, 1]), ("trn2.3xlarge", "1", [0, 1]), ("trn1.32xlarge", "", [0, 2])]
    {
        let _library = Library::with(&[("NEURON_MEM_INSTANCE", instance), ("NEURON_LOGICAL_NC_CONFIG", lnc)]);
        let [one, other] = cores.map(|core| allocate(DEVICE, core, 64));
        assert_eq!(write(other, 0, &[4; 64]), SUCCESS);
        assert_eq!(transfers::nrt_tensor_copy(one, 0, other, 0, 64), INVALID, "{instance}");
        assert_eq!(read(other, 0, 64), [4; 64]);
    }
}
