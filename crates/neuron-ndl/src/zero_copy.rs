//! Copies between a caller's own memory and an allocation without a bounce
//! (`spec/ndl.md` 3.1, `spec/dma-op.md` 7).
//!
//! An asynchronous request is an `unsafe` call: the driver goes on using the caller's memory
//! after it returned, which no borrow can express.

use std::sync::atomic::Ordering;

use neuron_abi::arch::Generation;
use neuron_abi::arg::{self, CompletionEntry, CompletionHeader};
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::limits::{COMPLETION_QUEUE_ENTRIES, DEFAULT_H2T_QUEUE};
use vm_memory::{Bytes, VolatileSlice};
use zerocopy::FromBytes;

use crate::backend::Mapping;
use crate::device::Device;
use crate::error::NdlError;
use crate::host_bytes::HostBytes;
use crate::memory::Memory;

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Into the allocation.
    In,
    /// Out of it.
    Out,
}

/// How a zero-copy goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroCopyOptions {
    /// H2T queue of the core; `None` for its default one.
    pub queue: Option<u8>,
    /// Writes of up to so many bytes may be done by the processor, through the HBM window;
    /// the driver takes at most 8192. 0 for never.
    pub direct_write: u32,
}

impl ZeroCopyOptions {
    fn queue(self) -> i32 {
        self.queue.map_or(DEFAULT_H2T_QUEUE, i32::from)
    }
}

/// Operations on one allocation. `B` is the caller's memory: [`VolatileSlice`], or
/// [`HostBytes`] where it is only read.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a, B = VolatileSlice<'a>> {
    /// The allocation.
    pub memory: &'a Memory,
    /// Added to the offset of each operation.
    pub offset: u64,
    /// What is copied.
    pub operations: &'a [Operation<B>],
    /// Handed back with an asynchronous request's end.
    pub context: u64,
}

/// One piece of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Operation<B> {
    /// Offset in the allocation, before the batch's.
    pub offset: u64,
    /// The caller's memory.
    pub buffer: B,
}

/// One piece of a batch in either direction.
pub type BatchOperation<'a> = Operation<VolatileSlice<'a>>;

/// Address and bytes of the caller's memory.
trait Buffer {
    fn address(&self) -> u64;
    fn bytes(&self) -> u64;
}

impl Buffer for VolatileSlice<'_> {
    fn address(&self) -> u64 {
        self.ptr_guard_mut().as_ptr() as u64
    }

    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl Buffer for HostBytes<'_> {
    fn address(&self) -> u64 {
        self.address()
    }

    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl Device {
    /// Whether to expect zero-copy to work: the driver has it, and the device is not of the
    /// generation whose driver refuses it unless a parameter says otherwise
    /// (`spec/device.md` 4).
    pub fn offers_zero_copy(&self) -> bool {
        self.facts().features.contains(Features::ZEROCOPY) && self.facts().generation != Generation::V2
    }

    /// Whether to expect [`zero_copy_batches`](Self::zero_copy_batches) to work. No flag tells,
    /// but the command came with the release that first reports zero-copy (`spec/abi.md` 3, 7).
    pub fn offers_batches(&self) -> bool {
        self.offers_zero_copy()
    }

    /// Copies between `buffer` and the allocation at `offset`, and returns when the bytes are
    /// there. A driver that does not report zero-copy may have it all the same, in a form that
    /// reads the same fields (`spec/ndl.md` 8.1): asked by name it is tried, and EINVAL is no.
    ///
    /// # Errors
    /// EINVAL outside the allocation or where zero-copy is not offered; ENOENT for a queue
    /// that is no H2T queue of the allocation's core; ENOMEM when the buffer's pages cannot
    /// be pinned; ETIMEDOUT when the engine does not answer.
    pub fn zero_copy(
        &self,
        memory: &Memory,
        offset: u64,
        buffer: VolatileSlice<'_>,
        direction: Direction,
        options: ZeroCopyOptions,
    ) -> Result<(), NdlError> {
        let address = buffer.ptr_guard_mut().as_ptr() as u64;
        // SAFETY: a volatile slice is valid memory for its lifetime, which covers the call.
        unsafe { self.zero_copy_at(memory, offset, (address, buffer.len()), direction, options) }
    }

    /// As [`zero_copy`](Self::zero_copy) into the allocation, from memory that nobody changes.
    ///
    /// # Errors
    /// As [`zero_copy`](Self::zero_copy).
    pub fn zero_copy_in(
        &self,
        memory: &Memory,
        offset: u64,
        from: &[u8],
        options: ZeroCopyOptions,
    ) -> Result<(), NdlError> {
        let buffer = (from.as_ptr() as u64, from.len());
        // SAFETY: `from` is borrowed for the call and only read in this direction.
        unsafe { self.zero_copy_at(memory, offset, buffer, Direction::In, options) }
    }

    /// # Safety
    /// `buffer`, address and length, is valid to read ([`Direction::In`]) or write.
    unsafe fn zero_copy_at(
        &self,
        memory: &Memory,
        offset: u64,
        buffer: (u64, usize),
        direction: Direction,
        options: ZeroCopyOptions,
    ) -> Result<(), NdlError> {
        let argument = arg::MemBufCopy64Zc {
            mem_handle: memory.handle(),
            buffer: buffer.0,
            size: buffer.1 as u64,
            offset,
            is_copy_to_device: (direction == Direction::In).into(),
            bar4_wr_threshold: options.direct_write,
            h2t_qid: options.queue(),
            dummy: 0,
        };
        // SAFETY: the buffer is valid by this function's contract.
        unsafe { self.open_device().call("copying without a bounce", cmd::MEM_BUF_ZEROCOPY64, argument) }?;
        Ok(())
    }

    /// Copies batch by batch, and returns when the bytes are there. Batches before one that
    /// fails stay copied.
    ///
    /// # Errors
    /// As [`zero_copy`](Self::zero_copy); EINVAL for no batch, one without operations, or an
    /// operation of no bytes.
    pub fn zero_copy_batches(
        &self,
        batches: &[Batch<'_>],
        direction: Direction,
        options: ZeroCopyOptions,
    ) -> Result<(), NdlError> {
        // SAFETY: without a number the call returns only when nothing uses the buffers any
        // more, and they are valid for their borrow.
        unsafe { self.batches(batches, direction, options, 0) }
    }

    /// As [`zero_copy_batches`](Self::zero_copy_batches) into the allocations, also from memory
    /// that nobody changes.
    ///
    /// # Errors
    /// As [`zero_copy_batches`](Self::zero_copy_batches).
    pub fn zero_copy_batches_in(
        &self,
        batches: &[Batch<'_, HostBytes<'_>>],
        options: ZeroCopyOptions,
    ) -> Result<(), NdlError> {
        // SAFETY: as above, and in this direction they are only read.
        unsafe { self.batches(batches, Direction::In, options, 0) }
    }

    /// Hands batches of one core in and returns at once. The end is told through the core's
    /// completion queue, with `sequence`, which is not 0.
    ///
    /// # Errors
    /// As [`zero_copy_batches`](Self::zero_copy_batches); EINVAL for a `sequence` of 0 or
    /// batches of several cores; EBUSY when the queue is full, E2BIG for what never fits.
    /// Nothing is copied then, and no end is told.
    ///
    /// # Safety
    /// If it returns `Ok`, all buffers stay valid and unborrowed until the end of the request
    /// was read from the completion queue.
    pub unsafe fn request_zero_copy(
        &self,
        batches: &[Batch<'_>],
        direction: Direction,
        options: ZeroCopyOptions,
        sequence: u64,
    ) -> Result<(), NdlError> {
        if sequence == 0 {
            return Err(self.refused("requesting copies without a bounce"));
        }
        // SAFETY: passed on to the caller.
        unsafe { self.batches(batches, direction, options, sequence) }
    }

    /// # Safety
    /// The buffers are valid for as long as the driver uses them, which writes them with
    /// [`Direction::Out`]: the call, or with a sequence number until the request's end.
    unsafe fn batches<B: Buffer>(
        &self,
        batches: &[Batch<'_, B>],
        direction: Direction,
        options: ZeroCopyOptions,
        sequence_num: u64,
    ) -> Result<(), NdlError> {
        let operations: Vec<Vec<arg::BatchOp>> = batches
            .iter()
            .map(|batch| {
                let operation = |operation: &Operation<B>| arg::BatchOp {
                    offset: operation.offset,
                    size: operation.buffer.bytes(),
                    buffer: operation.buffer.address(),
                };
                batch.operations.iter().map(operation).collect()
            })
            .collect();
        let described: Vec<_> = batches
            .iter()
            .zip(&operations)
            .map(|(batch, operations)| arg::MemcpyBatch {
                mem_handle: batch.memory.handle(),
                mem_handle_offset: batch.offset,
                ops_ptr: operations.as_ptr() as u64,
                num_ops: operations.len() as u32,
                // The field has 16 bits of the setting's 32: 0x10000 is as much as fits, not none
                // (`spec/dmem.md` 9.9). The driver takes at most 8192 anyway.
                bar4_wr_threshold: options.direct_write.min(u16::MAX.into()) as u16,
                flags: 0,
                context: batch.context,
            })
            .collect();
        let argument = arg::MemBufCopy64ZcBatches {
            sequence_num,
            batches_ptr: described.as_ptr() as u64,
            num_batches: described.len() as u32,
            is_copy_to_device: (direction == Direction::In).into(),
            h2t_qid: options.queue(),
            ..Default::default()
        };
        let operation = "copying batches without a bounce";
        // SAFETY: both arrays are local and outlive the call, in which the driver reads them;
        // the buffers are the caller's promise.
        unsafe { self.open_device().call(operation, cmd::MEM_BUF_ZEROCOPY64_BATCHES, argument) }?;
        Ok(())
    }

    /// Maps the completion queue of a core's H2T queue. One reader at a time reads a queue.
    ///
    /// # Errors
    /// EINVAL for a queue that is no H2T queue of the core.
    pub fn completion_queue(&self, core: u32, queue: u8) -> Result<CompletionReader, NdlError> {
        let operation = "asking for a completion queue";
        let argument = arg::GetAsyncH2tDmaComplQueues {
            nc_id: core,
            qid_bitmap: 1_u32.checked_shl(queue.into()).unwrap_or(0),
            ..Default::default()
        };
        // SAFETY: the argument holds no address.
        let answer =
            unsafe { self.open_device().call(operation, cmd::GET_ASYNC_H2T_DMA_COMPL_QUEUES, argument) }?;
        let found = answer.queues.get(usize::from(queue)).filter(|found| found.mmap_size > 0);
        let found = found.ok_or_else(|| self.refused(operation))?;
        let mapping =
            self.open_device().map("mapping a completion queue", found.mmap_offset, found.mmap_size)?;
        let head = mapping.slice().load(HEAD, Ordering::Acquire).map_err(|_| self.refused(operation))?;
        Ok(CompletionReader { mapping, head })
    }

    fn refused(&self, operation: &'static str) -> NdlError {
        NdlError::new(self.facts().index, operation, Errno::EINVAL)
    }
}

const HEAD: usize = std::mem::offset_of!(CompletionHeader, head);
const TAIL: usize = std::mem::offset_of!(CompletionHeader, tail);

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// How it ended.
    pub result: Result<(), Errno>,
    /// The context of the batch that ended it.
    pub context: u64,
    /// The request's number.
    pub sequence: u64,
}

/// The reading side of a completion queue (`spec/dma-op.md` 8).
#[derive(Debug)]
pub struct CompletionReader {
    mapping: Mapping,
    head: u32,
}

impl CompletionReader {
    /// Takes the oldest end that was not read yet, if there is one.
    pub fn poll(&mut self) -> Option<Completion> {
        let memory = self.mapping.slice();
        let tail = memory.load::<u32>(TAIL, Ordering::Acquire).ok()?;
        if tail == self.head {
            return None;
        }
        let slot = (self.head % COMPLETION_QUEUE_ENTRIES) as usize;
        let at = size_of::<CompletionHeader>() + slot * size_of::<CompletionEntry>();
        let mut bytes = [0; size_of::<CompletionEntry>()];
        memory.read_slice(&mut bytes, at).ok()?;
        let entry = CompletionEntry::read_from_bytes(&bytes).ok()?;
        self.head = self.head.wrapping_add(1);
        memory.store(self.head, HEAD, Ordering::Release).ok()?;
        let result = match entry.compl_ret {
            0 => Ok(()),
            // What is no errno cannot be told from a damaged queue.
            failed => Err(Errno::from_negated(failed).unwrap_or(Errno::EIO)),
        };
        Some(Completion { result, context: entry.context, sequence: entry.sequence_num })
    }
}
