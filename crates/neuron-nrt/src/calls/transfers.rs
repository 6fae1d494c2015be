//! Reading, writing, filling, copying (`spec/nrt-abi.md` 4.4). All return when the bytes are there.

use std::ffi::{c_int, c_void};

use neuron_dmem::batch::Operation;

use crate::batch::{self, Direction, Pieces};
use crate::guard;
use crate::layout::{self, TensorBatch};
use crate::pointers::{self, number};
use crate::refusal::Refusal;
use crate::state::{self, TENSORS};

/// Copies from the tensor.
///
/// # Safety
/// `buf` is NULL or leads to `size` bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_read(
    tensor: *const layout::Tensor,
    buf: *mut c_void,
    offset: usize,
    size: usize,
) -> i32 {
    guard::call("nrt_tensor_read", || {
        state::with_tensor(number(tensor), |_, tensor| {
            let view = tensor.view();
            view.check(offset as u64, size as u64)?;
            // SAFETY: passed on to the caller.
            view.read(offset as u64, unsafe { pointers::buffer(buf, size, "buf") }?)
        })
    })
}

/// Copies to the tensor.
///
/// # Safety
/// `buf` is NULL or leads to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_write(
    tensor: *mut layout::Tensor,
    buf: *const c_void,
    offset: usize,
    size: usize,
) -> i32 {
    guard::call("nrt_tensor_write", || {
        state::with_tensor(number(tensor), |_, tensor| {
            let view = tensor.view();
            view.check(offset as u64, size as u64)?;
            // SAFETY: passed on to the caller; the bytes are only read.
            view.write(offset as u64, unsafe { pointers::buffer(buf.cast_mut(), size, "buf") }?)
        })
    })
}

/// Copies from one tensor to another, or within one as C's `memmove`.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_tensor_copy(
    src: *const layout::Tensor,
    src_offset: usize,
    dst: *mut layout::Tensor,
    dst_offset: usize,
    size: usize,
) -> i32 {
    guard::call("nrt_tensor_copy", || {
        state::with_tensor(number(src), |_, source| {
            let destination = TENSORS.get(number(dst)).ok_or_else(|| Refusal::handle("tensor"))?;
            let (source, destination) = (source.view(), destination.view());
            destination.copy_from(dst_offset as u64, &source, src_offset as u64, size as u64)
        })
    })
}

/// Fills a part of the tensor with the low byte of `value`.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_tensor_memset(
    tensor: *mut layout::Tensor,
    offset: u64,
    value: c_int,
    size: usize,
) -> i32 {
    guard::call("nrt_tensor_memset", || {
        state::with_tensor(number(tensor), |_, tensor| {
            tensor.view().fill(offset, size as u64, value.cast_unsigned() as u8)
        })
    })
}

/// Copies many pieces from many tensors. Nothing runs here that a transfer had to wait for, so the last
/// argument changes nothing.
///
/// # Safety
/// `batches` is NULL or leads to `num_batches` batches, whose `ops` are NULL or lead to `num_ops`
/// operations, whose buffers are NULL or lead to `size` bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_read_batch(
    batches: *const TensorBatch,
    num_batches: u64,
    _untracked: u8,
) -> i32 {
    // SAFETY: passed on to the caller.
    guard::call("nrt_tensor_read_batch", || unsafe { run(batches, num_batches, Direction::Read) })
}

/// Copies many pieces to many tensors; as [`nrt_tensor_read_batch`].
///
/// # Safety
/// As [`nrt_tensor_read_batch`]; the buffers are only read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_tensor_write_batch(
    batches: *const TensorBatch,
    num_batches: u64,
    _untracked: u8,
) -> i32 {
    // SAFETY: passed on to the caller.
    guard::call("nrt_tensor_write_batch", || unsafe { run(batches, num_batches, Direction::Write) })
}

/// # Safety
/// As [`nrt_tensor_read_batch`].
unsafe fn run(batches: *const TensorBatch, count: u64, direction: Direction) -> Result<(), Refusal> {
    state::with(|_| {
        // SAFETY: passed on to the caller.
        let foreign = unsafe { pointers::batches(batches, count) }?;
        let pieces = foreign.into_iter().map(|batch| {
            let tensor = TENSORS.get(number(batch.tensor)).ok_or_else(|| Refusal::handle("tensor"))?;
            let operation = |(offset, buffer)| Operation { offset, buffer };
            let operations = batch.operations.into_iter().map(operation).collect();
            Ok(Pieces { view: tensor.view(), operations })
        });
        batch::run(&pieces.collect::<Result<Vec<_>, Refusal>>()?, direction)
    })
}

/// Copies to an address that [`nrt_tensor_get_va`](super::tensors::nrt_tensor_get_va) gave, or behind it,
/// in one tensor's memory on the device.
///
/// # Safety
/// `src` is NULL or leads to `size` bytes. `dest` may be anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_memcpy_to_device(dest: *mut c_void, src: *const c_void, size: usize) -> i32 {
    guard::call("nrt_memcpy_to_device", || {
        state::with(|runtime| {
            let found = runtime.spans().holding(dest as usize, size);
            let unknown =
                || Refusal::invalid(format!("{size} bytes at {dest:p} are not in one tensor's memory"));
            let (storage, offset) = found.ok_or_else(unknown)?;
            // SAFETY: passed on to the caller; the bytes are only read.
            let bytes = unsafe { pointers::buffer(src.cast_mut(), size, "src") }?;
            let dmem = storage.dmem().ok_or_else(unknown)?;
            Ok(dmem.write_volatile(offset as u64, bytes)?)
        })
    })
}
