//! What C gives: places for results, texts, buffers, handles. Each pointer is looked at here once, and
//! what comes out can be used without `unsafe`. That a pointer which is not NULL leads to what the
//! function's prototype says is the caller's promise; handles need none, they are never followed.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use vm_memory::VolatileSlice;
use zerocopy::{Immutable, IntoBytes};

use crate::layout::{self, BatchOperation, TensorBatch};
use crate::refusal::Refusal;

/// A place for a result.
#[derive(Debug)]
pub(crate) struct Out<'a, T> {
    place: Option<NonNull<T>>,
    name: &'static str,
    _borrowed: PhantomData<&'a mut T>,
}

impl<T: Copy> Out<'_, T> {
    /// The place that `pointer` leads to; `name` is the argument's.
    ///
    /// # Safety
    /// `pointer` is NULL, or a `T` can be written there as long as this lives.
    pub(crate) const unsafe fn new(pointer: *mut T, name: &'static str) -> Self {
        Self { place: NonNull::new(pointer), name, _borrowed: PhantomData }
    }

    /// Writes a result.
    ///
    /// # Errors
    /// NRT_INVALID if the place is NULL.
    pub(crate) fn set(&mut self, value: T) -> Result<(), Refusal> {
        let place = self.place.ok_or_else(|| Refusal::null(self.name))?;
        // SAFETY: by `new`, a `T` can be written there. Nothing is said of its alignment.
        unsafe { place.as_ptr().write_unaligned(value) };
        Ok(())
    }

    /// Writes it if there is a place.
    pub(crate) fn set_if_there(&mut self, value: T) {
        let _there_is_none = self.set(value);
    }

    /// There has to be a place.
    ///
    /// # Errors
    /// NRT_INVALID if it is NULL.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.place.map(drop).ok_or_else(|| Refusal::null(self.name))
    }
}

/// The value at a pointer that is read and written; `None` if it is NULL.
///
/// # Safety
/// `pointer` is NULL, or a `T` can be read there.
pub(crate) unsafe fn value_at<T: Copy>(pointer: *const T) -> Option<T> {
    // SAFETY: by our contract a `T` can be read there if it is not NULL.
    (!pointer.is_null()).then(|| unsafe { pointer.read_unaligned() })
}

/// Writes as much of a structure as there is room for, and returns how much that is.
///
/// # Safety
/// `pointer` is NULL, or `room` bytes can be written there.
pub(crate) unsafe fn cut_to<T: IntoBytes + Immutable + ?Sized>(
    pointer: *mut c_void,
    room: usize,
    value: &T,
    name: &'static str,
) -> Result<usize, Refusal> {
    if pointer.is_null() {
        return Err(Refusal::null(name));
    }
    let bytes = value.as_bytes();
    let count = bytes.len().min(room);
    // SAFETY: `count` bytes are in `bytes`, and can be written at `pointer` by our contract; a local
    // structure and the caller's do not overlap.
    unsafe { bytes.as_ptr().copy_to_nonoverlapping(pointer.cast(), count) };
    Ok(count)
}

/// A text without its NUL; `None` if it is NULL.
///
/// # Safety
/// `pointer` is NULL, or leads to a text that ends in NUL and that nobody changes as long as this lives.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: by our contract there is a text if it is not NULL.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// A name for logs, whatever its encoding.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn name(pointer: *const c_char) -> Option<String> {
    // SAFETY: passed on to the caller.
    unsafe { text(pointer) }.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// A buffer of the caller. One without bytes may be anywhere.
///
/// # Safety
/// `size` bytes at `pointer` can be read as long as this lives, and written if the call says so, unless
/// `pointer` is NULL. Others may read and write them meanwhile.
pub(crate) unsafe fn buffer<'a>(
    pointer: *mut c_void,
    size: usize,
    name: &'static str,
) -> Result<VolatileSlice<'a>, Refusal> {
    let start = match NonNull::new(pointer.cast::<u8>()) {
        _ if size == 0 => NonNull::dangling(),
        Some(start) => start,
        None => return Err(Refusal::null(name)),
    };
    if size > isize::MAX as usize || (start.as_ptr() as usize).checked_add(size).is_none() {
        return Err(Refusal::invalid(format!("no buffer is of {size} bytes")));
    }
    // SAFETY: by our contract the bytes are there as long as the slice lives; volatile access is what is
    // made of it.
    Ok(unsafe { VolatileSlice::new(start.as_ptr(), size) })
}

/// The number that a handle is.
pub(crate) fn number<T>(handle: *const T) -> u64 {
    handle as usize as u64
}

/// The handle that a number is.
pub(crate) fn handle<T>(number: u64) -> *mut T {
    std::ptr::without_provenance_mut(number as usize)
}

/// A buffer of the caller that stays a tensor's memory.
#[derive(Debug)]
pub(crate) struct Foreign {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address and a length; the bytes are reached by volatile access only, which the caller
// allowed from any thread when it attached them.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Foreign {
    /// The caller's buffer.
    ///
    /// # Safety
    /// As [`buffer`], from any thread, for as long as this lives.
    pub(crate) unsafe fn new(pointer: *mut c_void, bytes: usize) -> Result<Self, Refusal> {
        if bytes == 0 {
            return Err(Refusal::invalid("a buffer needs at least one byte"));
        }
        // SAFETY: passed on to the caller.
        let slice = unsafe { buffer(pointer, bytes, "buffer") }?;
        let start = NonNull::new(slice.ptr_guard_mut().as_ptr()).ok_or_else(|| Refusal::null("buffer"))?;
        Ok(Self { start, bytes })
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn slice(&self) -> VolatileSlice<'_> {
        // SAFETY: by `new`, the bytes are there as long as this lives.
        unsafe { VolatileSlice::new(self.start.as_ptr(), self.bytes) }
    }
}

/// A batch of the caller.
pub(crate) struct ForeignBatch<'a> {
    /// Handle of the tensor.
    pub(crate) tensor: *const layout::Tensor,
    /// Offsets in the tensor, and the host's side.
    pub(crate) operations: Vec<(u64, VolatileSlice<'a>)>,
}

/// The batches of an array.
///
/// # Safety
/// `pointer` is NULL, or leads to `count` batches, each of whose `ops` is NULL or leads to `num_ops`
/// operations, whose buffers are as in [`buffer`], as long as this lives.
pub(crate) unsafe fn batches<'a>(
    pointer: *const TensorBatch,
    count: u64,
) -> Result<Vec<ForeignBatch<'a>>, Refusal> {
    // SAFETY: passed on to the caller.
    let batches = unsafe { array(pointer, count, "batches") }?;
    let read = |batch: TensorBatch| {
        // SAFETY: passed on to the caller.
        let operations = unsafe { array::<BatchOperation>(batch.ops, batch.num_ops.into(), "ops") }?;
        let read = |operation: BatchOperation| {
            let size = usize::try_from(operation.size).unwrap_or(usize::MAX);
            // SAFETY: passed on to the caller.
            let bytes = unsafe { buffer(operation.buffer, size, "buffer") }?;
            Ok((operation.offset, bytes))
        };
        let operations = operations.into_iter().map(read).collect::<Result<_, Refusal>>()?;
        Ok(ForeignBatch { tensor: batch.tensor, operations })
    };
    batches.into_iter().map(read).collect()
}

/// A copy of an array.
///
/// # Safety
/// `pointer` is NULL, or leads to `count` values.
unsafe fn array<T: Copy>(pointer: *const T, count: u64, name: &'static str) -> Result<Vec<T>, Refusal> {
    if pointer.is_null() {
        return Err(Refusal::null(name));
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= isize::MAX as usize / size_of::<T>());
    let count = count.ok_or_else(|| Refusal::invalid(format!("`{name}` is longer than memory is")))?;
    let value = |number| {
        let place = pointer.wrapping_add(number);
        // SAFETY: by our contract there are `count` values. Nothing is said of their alignment.
        unsafe { place.read_unaligned() }
    };
    Ok((0..count).map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_cannot_be_is_refused() {
        let mut byte = 0_u8;
        let pointer: *mut c_void = (&raw mut byte).cast();
        // SAFETY: the sizes that are not refused are 0 and 1.
        let of = |pointer, size| unsafe { buffer(pointer, size, "buf") }.map(|slice| slice.len()).ok();
        assert_eq!(of(pointer, 1), Some(1));
        assert_eq!((of(pointer, 0), of(std::ptr::null_mut(), 0)), (Some(0), Some(0)));
        assert_eq!((of(std::ptr::null_mut(), 1), of(pointer, usize::MAX)), (None, None));
        assert_eq!(of(handle(u64::MAX - 1), 2), None, "it would end behind the last address");
    }

    #[test]
    fn a_result_goes_to_a_place_of_any_alignment_and_to_none_that_is_null() {
        let mut bytes = [0_u8; 9];
        // SAFETY: eight bytes are there from the second on.
        let mut out = unsafe { Out::new(bytes[1..].as_mut_ptr().cast::<u64>(), "out") };
        assert!(out.set(u64::MAX).is_ok());
        assert_eq!(bytes, [0, 255, 255, 255, 255, 255, 255, 255, 255]);
        // SAFETY: NULL is allowed.
        let mut none = unsafe { Out::<u64>::new(std::ptr::null_mut(), "out") };
        assert!(none.check().is_err() && none.set(1).is_err());
    }
}
