//! Many pieces of many tensors in one call.

use std::ptr::{null, null_mut};

use nrt::calls::transfers;
use nrt::layout::{BatchOperation, TensorBatch};

use crate::common::*;

fn operation(offset: u64, bytes: &mut [u8]) -> BatchOperation {
    BatchOperation { offset, size: bytes.len() as u64, buffer: bytes.as_mut_ptr().cast() }
}

fn batch(tensor: Handle, ops: &[BatchOperation]) -> TensorBatch {
    TensorBatch { tensor, ops: ops.as_ptr(), num_ops: ops.len() as u32 }
}

fn write_all(batches: &[TensorBatch]) -> i32 {
    // SAFETY: the batches lead to operations and buffers of the test.
    unsafe { transfers::nrt_tensor_write_batch(batches.as_ptr(), batches.len() as u64, 0) }
}

fn read_all(batches: &[TensorBatch]) -> i32 {
    // SAFETY: as above.
    unsafe { transfers::nrt_tensor_read_batch(batches.as_ptr(), batches.len() as u64, 1) }
}

#[test]
fn pieces_of_tensors_of_all_kinds_and_devices_go_in_one_call() {
    for (instance, cores) in [("trn1.32xlarge", [0, 1, 5]), ("trn2.48xlarge", [0, 1, 9])] {
        let _library = Library::on(instance);
        let [one, two, far] = cores.map(|core| allocate(DEVICE, core, 1 << 20));
        let whole = allocate(DEVICE, 0, 10_000);
        let slice = try_slice(whole, 5000, 5000).unwrap();
        let host = allocate(if instance == "trn1.32xlarge" { HOST } else { VIRTUAL }, 0, 10_000);
        let kinds = [one, two, slice, host, far, one];
        let mut pieces: Vec<[Vec<u8>; 2]> =
            (0..kinds.len()).map(|seed| [pattern(100, seed as u8), pattern(3001, 77 ^ seed as u8)]).collect();
        let places = |index: usize| if index == 5 { [50_000, 60_001] } else { [3, 500] };
        let operations: Vec<Vec<BatchOperation>> = pieces
            .iter_mut()
            .enumerate()
            .map(|(index, pair)| pair.iter_mut().zip(places(index)).map(|(b, at)| operation(at, b)).collect())
            .collect();
        let batches: Vec<_> =
            kinds.iter().zip(&operations).map(|(tensor, ops)| batch(*tensor, ops)).collect();
        assert_eq!(write_all(&batches), SUCCESS);
        for (index, tensor) in kinds.iter().enumerate() {
            for (bytes, at) in pieces[index].iter().zip(places(index)) {
                assert!(read(*tensor, at as usize, bytes.len()) == *bytes, "{instance} {index}");
            }
        }
        assert_eq!(read(whole, 5003, 100), pieces[2][0]);

        let mut back: Vec<[Vec<u8>; 2]> = kinds.iter().map(|_| [vec![0; 100], vec![0; 3001]]).collect();
        let operations: Vec<Vec<BatchOperation>> = back
            .iter_mut()
            .enumerate()
            .map(|(index, pair)| pair.iter_mut().zip(places(index)).map(|(b, at)| operation(at, b)).collect())
            .collect();
        let batches: Vec<_> =
            kinds.iter().zip(&operations).map(|(tensor, ops)| batch(*tensor, ops)).collect();
        assert_eq!(read_all(&batches), SUCCESS);
        assert!(back == pieces, "{instance}");
    }
}

#[test]
fn everything_is_checked_before_anything_moves() {
    let _library = Library::on("trn2.3xlarge");
    let tensor = allocate(DEVICE, 0, 1000);
    let slice = try_slice(tensor, 0, 100).unwrap();
    let host = allocate(VIRTUAL, 0, 100);
    assert_eq!(write(tensor, 0, &[7; 1000]), SUCCESS);
    let mut bytes = [1; 100];
    let good = [operation(0, &mut bytes)];
    let no_bytes = [BatchOperation { size: 0, ..good[0] }];
    let nowhere = [BatchOperation { buffer: null_mut(), ..good[0] }];
    let too_far = [BatchOperation { offset: 901, ..good[0] }];
    let wraps = [BatchOperation { offset: u64::MAX, ..good[0] }];
    let endless = [BatchOperation { size: u64::MAX, ..good[0] }];
    let first = batch(tensor, &good);
    for (wrong, status) in [
        (batch(tensor, &[]), INVALID),
        (TensorBatch { ops: null(), num_ops: 1, ..first }, INVALID),
        (batch(tensor, &no_bytes), INVALID),
        (batch(tensor, &nowhere), INVALID),
        (batch(tensor, &too_far), INVALID),
        (batch(tensor, &wraps), INVALID),
        (batch(tensor, &endless), INVALID),
        (batch(slice, &[BatchOperation { offset: 1, ..good[0] }]), INVALID),
        (batch(host, &[BatchOperation { offset: 1, ..good[0] }]), INVALID),
        (batch(null_mut(), &good), INVALID_HANDLE),
        (batch(8 as Handle, &good), INVALID_HANDLE),
    ] {
        assert_eq!(write_all(&[first, wrong]), status, "{wrong:?}");
        assert_eq!(read(tensor, 0, 1000), [7; 1000], "{wrong:?}");
        assert_eq!(read_all(&[first, wrong]), status, "{wrong:?}");
        assert_eq!(bytes, [1; 100], "{wrong:?}");
    }
    assert_eq!(write_all(&[]), INVALID);
    // SAFETY: NULL is allowed, and lengths that cannot be are refused before anything is read.
    unsafe {
        assert_eq!(transfers::nrt_tensor_write_batch(null(), 1, 0), INVALID);
        assert_eq!(transfers::nrt_tensor_read_batch([first].as_ptr(), u64::MAX, 0), INVALID);
    }
    assert_eq!(write_all(&[first]), SUCCESS);
    assert_eq!(read(tensor, 0, 101)[99..], [1, 7]);
}

/// Seed 000 §3, one ioctl for many tensors: a batch begins at the tensor's own offset in the memory that it
/// shares (`align_offset + tensor->_offset`), which is nobody's business but the library's.
#[test]
fn seed_000_a_batch_of_a_slice_begins_where_the_slice_does() {
    for instance in ["trn1.2xlarge", "trn2.3xlarge"] {
        let _library = Library::on(instance);
        let whole = allocate(DEVICE, 0, 1000);
        assert_eq!(write(whole, 0, &[0; 1000]), SUCCESS);
        let slice = try_slice(try_slice(whole, 100, 800).unwrap(), 200, 50).unwrap();
        let mut bytes = pattern(50, 3);
        assert_eq!(write_all(&[batch(slice, &[operation(0, &mut bytes)])]), SUCCESS);
        assert_eq!(read(whole, 300, 50), bytes);
        assert_eq!((read(whole, 0, 300), read(whole, 350, 650)), (vec![0; 300], vec![0; 650]));
        let mut back = [0; 49];
        assert_eq!(read_all(&[batch(slice, &[operation(1, &mut back)])]), SUCCESS);
        assert_eq!(back, bytes[1..]);
    }
}
