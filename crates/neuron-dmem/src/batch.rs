//! Many pieces of many dmems by one call of the driver (`dmem_batch_transfer_common`,
//! seed 000 §3, `spec/dmem.md` 6.4).
//!
//! Everything is checked before anything moves. After that it is **not** all or nothing: the
//! driver goes batch by batch, and batches before one that fails stay copied.
//!
//! A batch goes without a bounce on either [`Path`](crate::transfer::Path). Where the device
//! does not offer that, its operations are copied one by one as single copies would be
//! (`spec/ndl.md` 3.2, our choice): when the driver answers EINVAL or ENOTTY, which after our
//! checks can mean nothing else, to a device that does not say it has zero-copy
//! ([`Device::offers_zero_copy`]). A driver before the command says so, and so does V2, whose
//! driver has the command and refuses it. On any other device EINVAL stays an error. What small
//! writes did before the refusal is done again, with the same bytes.
//!
//! ```
//! use neuron_abi::memory::UsageType;
//! use neuron_dmem::batch::{self, Batch, Operation};
//! use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
//! use neuron_ndl::{Device, HostBytes, software::Machine};
//!
//! let machine = Machine::new("trn2.3xlarge")?;
//! let memory = DeviceMemory::new(Device::open(&machine, 0)?);
//! let model = Allocator::new(&memory, AllocatorKind::Model, 0)?;
//! let tensor = model.allocate(&AllocRequest::device(1 << 20, UsageType::Tensor))?;
//!
//! let piece = |offset, bytes| Operation { offset, buffer: HostBytes::Plain(bytes) };
//! let operations = [piece(0, &[1; 100]), piece(4096, &[2; 5000])];
//! batch::copy_in(&[Batch { dmem: &tensor, offset: 0, operations: &operations }])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_abi::memory::MemLocation;
use neuron_ndl::{Device, Direction, HostBytes, NdlError, ZeroCopyOptions};
use vm_memory::VolatileSlice;

pub use neuron_ndl::Operation;

use crate::device::DeviceMemory;
use crate::dmem::Dmem;
use crate::error::{BatchProblem, DmemError, TransferDirection};
use crate::trace::{About, EventNumber};
use crate::transfer::{self, Target};

/// Operations on one dmem (`nrt_tensor_batch_t`).
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a, B> {
    /// The dmem.
    pub dmem: &'a Dmem,
    /// Added to the offset of each operation.
    pub offset: u64,
    /// What is copied. Offsets are bytes of the dmem, behind the batch's.
    pub operations: &'a [Operation<B>],
}

/// Copies all operations of all batches to their dmems, which are of one device.
///
/// # Errors
/// NRT_INVALID, with nothing copied, for no batches, one without operations, an operation
/// without bytes or outside its dmem, and dmems of different devices. NRT_FAILURE when the
/// driver fails: earlier batches stay copied.
pub fn copy_in(batches: &[Batch<'_, HostBytes<'_>>]) -> Result<(), DmemError> {
    run(batches, EventNumber::COPY_IN)
}

/// Copies all operations of all batches from their dmems, which are of one device.
///
/// # Errors
/// As [`copy_in`].
pub fn copy_out(batches: &[Batch<'_, VolatileSlice<'_>>]) -> Result<(), DmemError> {
    run(batches, EventNumber::COPY_OUT)
}

/// Checks, then copies: by one call, or piece by piece. A batch brings its event's number to the
/// trace; which the runtime's callers bring is not known, so it is the single copy's (our
/// choice). Batches that are not valid are no event (seed 000 §3: it begins behind the checks).
fn run<B: Bytes>(batches: &[Batch<'_, B>], event: EventNumber) -> Result<(), DmemError> {
    let Checked { first, bytes } = checked(batches)?;
    let (owner, request) = (first.owner(), first.target().memory.request());
    let location = if request.host { MemLocation::Host } else { MemLocation::Device };
    let about = About { location, hbm: request.hbm, usage: None, size: bytes, hint: None };
    let event = owner.tracer().begin(event, first.core(), about);
    for batch in batches {
        let bytes = || batch.operations.iter().map(|operation| operation.buffer.len() as u64).sum();
        batch.dmem.copies(B::DIRECTION == TransferDirection::In, bytes);
    }
    let copied = match by_one_call(owner, first.core(), batches, bytes) {
        Err(NdlError { errno: Errno::EINVAL | Errno::ENOTTY, .. }) if !owner.device().offers_zero_copy() => {
            piece_by_piece(batches)
        }
        copied => copied.map_err(|source| DmemError::BatchTransfer {
            direction: B::DIRECTION,
            batches: batches.len(),
            bytes,
            source,
        }),
    };
    event.close(copied)
}

/// The caller's memory in one of the directions.
trait Bytes: Copy {
    const DIRECTION: TransferDirection;

    fn len(self) -> usize;

    fn batches(
        device: &Device,
        batches: &[neuron_ndl::Batch<'_, Self>],
        options: ZeroCopyOptions,
    ) -> Result<(), NdlError>;

    fn single(self, target: Target<'_>, offset: u64) -> Result<(), DmemError>;
}

impl Bytes for HostBytes<'_> {
    const DIRECTION: TransferDirection = TransferDirection::In;

    fn len(self) -> usize {
        Self::len(&self)
    }

    fn batches(
        device: &Device,
        batches: &[neuron_ndl::Batch<'_, Self>],
        options: ZeroCopyOptions,
    ) -> Result<(), NdlError> {
        device.zero_copy_batches_in(batches, options)
    }

    fn single(self, target: Target<'_>, offset: u64) -> Result<(), DmemError> {
        transfer::copy_in(target, offset, self)
    }
}

impl Bytes for VolatileSlice<'_> {
    const DIRECTION: TransferDirection = TransferDirection::Out;

    fn len(self) -> usize {
        Self::len(&self)
    }

    fn batches(
        device: &Device,
        batches: &[neuron_ndl::Batch<'_, Self>],
        options: ZeroCopyOptions,
    ) -> Result<(), NdlError> {
        device.zero_copy_batches(batches, Direction::Out, options)
    }

    fn single(self, target: Target<'_>, offset: u64) -> Result<(), DmemError> {
        transfer::copy_out(target, offset, self)
    }
}

/// Batches that can be copied.
struct Checked<'a> {
    /// The first one's dmem.
    first: &'a Dmem,
    /// Bytes of all operations.
    bytes: u64,
}

/// Checks all there is to check.
fn checked<'a, B: Bytes>(batches: &[Batch<'a, B>]) -> Result<Checked<'a>, DmemError> {
    let first = batches.first().ok_or(DmemError::NoBatches)?.dmem;
    let mut bytes = 0_u64;
    for (position, batch) in batches.iter().enumerate() {
        let (device, first) = (batch.dmem.owner().device(), first.owner().device());
        let checked = match Arc::ptr_eq(device, first) {
            true => check(batch),
            false => {
                Err(BatchProblem::OtherDevice { device: device.facts().index, first: first.facts().index })
            }
        };
        let invalid = |problem| DmemError::InvalidBatch { batch: position, batches: batches.len(), problem };
        bytes = bytes.saturating_add(checked.map_err(invalid)?);
    }
    Ok(Checked { first, bytes })
}

/// The bytes of a batch's operations.
fn check<B: Bytes>(batch: &Batch<'_, B>) -> Result<u64, BatchProblem> {
    if batch.operations.is_empty() {
        return Err(BatchProblem::NoOperations);
    }
    let (base, size) = (batch.offset, batch.dmem.size());
    batch.operations.iter().enumerate().try_fold(0_u64, |sum, (position, operation)| {
        let bytes = operation.buffer.len() as u64;
        if bytes == 0 {
            return Err(BatchProblem::NoBytes { operation: position });
        }
        let offset = operation.offset;
        let end = offset.checked_add(base).and_then(|start| start.checked_add(bytes));
        match end {
            Some(end) if end <= size => Ok(sum.saturating_add(bytes)),
            _ => Err(BatchProblem::OutOfBounds { operation: position, offset, base, bytes, size }),
        }
    })
}

/// `owner` and `core` are the first batch's, whose settings are all batches'.
fn by_one_call<B: Bytes>(
    owner: &DeviceMemory,
    core: u32,
    batches: &[Batch<'_, B>],
    bytes: u64,
) -> Result<(), NdlError> {
    let described: Vec<_> = batches
        .iter()
        .map(|batch| {
            let target = batch.dmem.target();
            neuron_ndl::Batch {
                memory: target.memory,
                offset: target.align_offset + batch.offset,
                operations: batch.operations,
                context: 0,
            }
        })
        .collect();
    let device = owner.device();
    let direct_write = owner.path().direct_write(device.facts().generation);
    let _parts = owner.tracer().lanes(core).whole(bytes, false);
    B::batches(device, &described, ZeroCopyOptions { queue: None, direct_write })
}

fn piece_by_piece<B: Bytes>(batches: &[Batch<'_, B>]) -> Result<(), DmemError> {
    batches.iter().try_for_each(|batch| {
        batch.operations.iter().try_for_each(|operation| {
            operation.buffer.single(batch.dmem.target(), batch.offset + operation.offset)
        })
    })
}
