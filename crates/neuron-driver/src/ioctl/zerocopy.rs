//! Zero-copy and its completion queues (`spec/abi.md` 5.6, 5.7, 6.12). What is checked in
//! which order is decided here; the transfers are [`dma::zerocopy`](crate::dma::zerocopy)'s.

use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_abi::{arg, limits};
use vm_memory::VolatileSlice;
use zerocopy::{FromBytes, IntoBytes};

use super::Call;
use crate::dma::zerocopy::direct::DirectWrite;
use crate::dma::zerocopy::{Operation, Ticket};
use crate::pool::ChunkRef;
use crate::ring::H2tRing;
use crate::user::Access;

/// Most batches of a request and most operations of a batch (our choice: the shipped driver
/// allocates whatever it is told). More is E2BIG.
const MAX_BATCHES: u32 = 4096;
const MAX_OPERATIONS: u32 = 1 << 16;

const fn access(to_device: bool) -> Access {
    if to_device { Access::Read } else { Access::Write }
}

/// One operation of a batch, checked.
#[derive(Clone)]
struct Checked {
    operation: Operation,
    threshold: u64,
}

impl Checked {
    fn direct(&self) -> DirectWrite<'_> {
        let Operation { chunk, offset, address, bytes, .. } = &self.operation;
        DirectWrite { chunk, offset: *offset, address: *address, bytes: *bytes, threshold: self.threshold }
    }
}

impl Call<'_> {
    pub(super) fn mem_buf_zerocopy64(&self) -> Result<(), Errno> {
        let arg: arg::MemBufCopy64Zc = self.read()?;
        let chunk = self.part(arg.mem_handle, arg.offset, arg.size)?;
        let to_device = arg.is_copy_to_device != 0;
        let operation = Operation {
            chunk,
            offset: arg.offset,
            buffer: self.user.buffer(arg.buffer, arg.size, access(to_device))?,
            address: arg.buffer,
            bytes: arg.size,
            context: 0,
        };
        self.run(&[Checked { operation, threshold: arg.bar4_wr_threshold.into() }], to_device, arg.h2t_qid)
    }

    pub(super) fn mem_buf_zerocopy64_batches(&self) -> Result<(), Errno> {
        let arg: arg::MemBufCopy64ZcBatches = self.read()?;
        if arg.batches_ptr == 0 || arg.num_batches == 0 {
            return Err(Errno::EINVAL);
        }
        let batches: Vec<arg::MemcpyBatch> = self.array(arg.batches_ptr, arg.num_batches, MAX_BATCHES)?;
        if batches.iter().any(|batch| batch.num_ops == 0 || batch.ops_ptr == 0) {
            return Err(Errno::EINVAL);
        }
        let to_device = arg.is_copy_to_device != 0;
        if arg.sequence_num == 0 {
            // Batches before one that fails stay copied.
            return batches
                .iter()
                .try_for_each(|batch| self.run(&self.operations(batch, to_device)?, to_device, arg.h2t_qid));
        }
        self.request(&batches, to_device, arg.h2t_qid, arg.sequence_num)
    }

    /// The operations of a batch: handle, then each size, buffer, bounds and user range.
    fn operations(&self, batch: &arg::MemcpyBatch, to_device: bool) -> Result<Vec<Checked>, Errno> {
        let operations: Vec<arg::BatchOp> = self.array(batch.ops_ptr, batch.num_ops, MAX_OPERATIONS)?;
        self.device().pools().lookup(batch.mem_handle)?;
        let check = |operation: &arg::BatchOp| {
            if operation.size == 0 || operation.buffer == 0 {
                return Err(Errno::EINVAL);
            }
            let offset = operation.offset.checked_add(batch.mem_handle_offset).ok_or(Errno::EINVAL)?;
            let chunk = self.part(batch.mem_handle, offset, operation.size)?;
            let buffer = self.user.buffer(operation.buffer, operation.size, access(to_device))?;
            Ok(Checked {
                operation: Operation {
                    chunk,
                    offset,
                    buffer,
                    address: operation.buffer,
                    bytes: operation.size,
                    context: batch.context,
                },
                threshold: batch.bar4_wr_threshold.into(),
            })
        };
        operations.iter().map(check).collect()
    }

    /// Copies operations on one chunk and waits: by the processor if all may go that way,
    /// else by DMA.
    fn run(&self, checked: &[Checked], to_device: bool, qid: i32) -> Result<(), Errno> {
        if to_device {
            let writes: Vec<_> = checked.iter().map(Checked::direct).collect();
            if self.device().write_directly(self.user, &writes)? {
                return Ok(());
            }
        }
        let Some(first) = checked.first() else { return Ok(()) };
        let ring = self.ring(&first.operation.chunk, qid)?;
        let operations: Vec<_> = checked.iter().map(|checked| checked.operation.clone()).collect();
        self.device().zero_copy(&ring, &operations, access(to_device))
    }

    /// Hands an asynchronous request in. Everything is checked before anything starts, it
    /// goes by DMA whatever its size, and its batches are of one core, whose completion queue
    /// tells its end (our choices).
    fn request(
        &self,
        batches: &[arg::MemcpyBatch],
        to_device: bool,
        qid: i32,
        sequence: u64,
    ) -> Result<(), Errno> {
        let mut operations = Vec::new();
        for batch in batches {
            operations
                .extend(self.operations(batch, to_device)?.into_iter().map(|checked| checked.operation));
        }
        let Some(first) = operations.first() else { return Err(Errno::EINVAL) };
        let core = first.chunk.core_id();
        let ring = self.ring(&first.chunk, qid)?;
        if operations.iter().any(|operation| operation.chunk.core_id() != core) {
            return Err(Errno::EINVAL);
        }
        let ticket = Ticket { pid: self.pid, sequence };
        self.file.device().request_zero_copy(&ring, &operations, access(to_device), ticket)
    }

    fn ring(&self, chunk: &ChunkRef, qid: i32) -> Result<Arc<H2tRing>, Errno> {
        let qid = match qid {
            limits::DEFAULT_H2T_QUEUE => None,
            qid => Some(u32::try_from(qid).map_err(|_| Errno::ENOENT)?),
        };
        self.device().zero_copy_ring(chunk.core_id(), qid)
    }

    pub(super) fn async_h2t_completion_queues(&self) -> Result<(), Errno> {
        let arg: arg::GetAsyncH2tDmaComplQueues = self.read()?;
        if arg.nc_id >= self.device().geometry().cores {
            return Err(Errno::EINVAL);
        }
        let mut queues = [arg::ComplQueueMmap::default(); 16];
        for (qid, queue) in (0..).zip(&mut queues).filter(|(qid, _)| arg.qid_bitmap >> qid & 1 == 1) {
            // Where zero-copy is not offered there are none.
            let ring = self.device().zero_copy_ring(arg.nc_id, Some(qid)).map_err(|_| Errno::EINVAL)?;
            let (mmap_offset, mmap_size) = self.device().completion_queue(&ring)?;
            *queue = arg::ComplQueueMmap { mmap_offset, mmap_size };
        }
        self.reply(&arg::GetAsyncH2tDmaComplQueues { queues, ..arg })
    }

    /// `count` structures at a user address.
    fn array<T: FromBytes + IntoBytes>(&self, address: u64, count: u32, most: u32) -> Result<Vec<T>, Errno> {
        if count > most {
            return Err(Errno::E2BIG);
        }
        let mut values: Vec<T> = std::iter::repeat_with(T::new_zeroed).take(count as usize).collect();
        self.user.read(address, VolatileSlice::from(values.as_mut_slice().as_mut_bytes()))?;
        Ok(values)
    }
}
