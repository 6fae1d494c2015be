//! Copies, buffer copies and fills: 64 bits and 32, and asynchronous copies by synchronous
//! ones.

use neuron_abi::arg::{self, MemBufCopy64, MemCopy64, MemCopyAsync64, Memset64};
use neuron_abi::cmd;

use crate::compat::{ASYNC_FORMS, BUFFER_COPY_FORMS, COPY_FORMS, MEMSET_FORMS};
use crate::error::NdlError;
use crate::open::OpenDevice;

const COPYING: &str = "copying";
const COPYING_BUFFER: &str = "copying a buffer";
const FILLING: &str = "filling memory";

/// Bytes of the longest asynchronous copy: a ring's 2032 descriptors of 64 KiB (`spec/ndl.md`
/// 4). A longer one is EINVAL in every form, which says nothing of the driver.
const LONGEST_ASYNC: u64 = 2032 * 65536;

impl OpenDevice {
    /// Copies between two allocations.
    pub(crate) fn copy(&self, wanted: &MemCopy64) -> Result<(), NdlError> {
        let attempt = |rung| match rung {
            // SAFETY: the argument holds no address.
            0 => unsafe { self.call(COPYING, cmd::MEM_COPY64, *wanted) }.map(drop),
            _ => self.copy32(wanted),
        };
        self.compat.copy.call(attempt, |rung| self.compat.switched(&COPY_FORMS, rung))
    }

    fn copy32(&self, wanted: &MemCopy64) -> Result<(), NdlError> {
        let argument = arg::MemCopy {
            src_mem_handle: wanted.src_mem_handle,
            dst_mem_handle: wanted.dst_mem_handle,
            size: self.narrow(COPYING, wanted.size)?,
            src_offset: self.narrow(COPYING, wanted.src_offset)?,
            dst_offset: self.narrow(COPYING, wanted.dst_offset)?,
            ..Default::default()
        };
        // SAFETY: the argument holds no address.
        unsafe { self.call(COPYING, cmd::MEM_COPY, argument) }.map(drop)
    }

    /// Starts a copy between two allocations, and returns its wait handle; 0 if it is over.
    pub(crate) fn copy_async(&self, wanted: &MemCopyAsync64) -> Result<u32, NdlError> {
        let ladder = &self.compat.async_copy;
        if wanted.size > LONGEST_ASYNC && !ladder.is_settled() {
            return self.copy_async_as(ladder.rung(), wanted);
        }
        let attempt = |rung| self.copy_async_as(rung, wanted);
        ladder.call(attempt, |rung| self.compat.switched(&ASYNC_FORMS, rung))
    }

    fn copy_async_as(&self, rung: u8, wanted: &MemCopyAsync64) -> Result<u32, NdlError> {
        match rung {
            0 => {
                // SAFETY: the prefetch address is a hint that no driver reads or writes through.
                let answer = unsafe { self.call(COPYING, cmd::MEM_COPY_ASYNC64, *wanted) }?;
                Ok(answer.wait_handle)
            }
            1 => {
                let argument = arg::MemCopyAsync {
                    src_mem_handle: wanted.src_mem_handle,
                    dst_mem_handle: wanted.dst_mem_handle,
                    size: self.narrow(COPYING, wanted.size)?,
                    src_offset: self.narrow(COPYING, wanted.src_offset)?,
                    dst_offset: self.narrow(COPYING, wanted.dst_offset)?,
                    host_prefetch_addr: wanted.host_prefetch_addr,
                    pwait_handle: wanted.pwait_handle,
                    ..Default::default()
                };
                // SAFETY: as above.
                let answer = unsafe { self.call(COPYING, cmd::MEM_COPY_ASYNC, argument) }?;
                Ok(answer.wait_handle)
            }
            _ => {
                self.copy(&MemCopy64 {
                    src_mem_handle: wanted.src_mem_handle,
                    dst_mem_handle: wanted.dst_mem_handle,
                    size: wanted.size,
                    src_offset: wanted.src_offset,
                    dst_offset: wanted.dst_offset,
                })?;
                Ok(0)
            }
        }
    }

    /// Copies between a buffer and an allocation.
    ///
    /// # Safety
    /// `size` bytes at `buffer` are valid to read, or to write if they come out of the
    /// allocation.
    pub(crate) unsafe fn copy_buffer(&self, wanted: &MemBufCopy64) -> Result<(), NdlError> {
        let attempt = |rung| match rung {
            // SAFETY: the buffer is valid by this function's contract.
            0 => unsafe { self.call(COPYING_BUFFER, cmd::MEM_BUF_COPY64, *wanted) }.map(drop),
            // SAFETY: as above.
            _ => unsafe { self.copy_buffer32(wanted) },
        };
        self.compat.buffer_copy.call(attempt, |rung| self.compat.switched(&BUFFER_COPY_FORMS, rung))
    }

    /// # Safety
    /// As [`copy_buffer`](Self::copy_buffer).
    unsafe fn copy_buffer32(&self, wanted: &MemBufCopy64) -> Result<(), NdlError> {
        let argument = arg::MemBufCopy {
            mem_handle: wanted.mem_handle,
            buffer: wanted.buffer,
            size: self.narrow(COPYING_BUFFER, wanted.size)?,
            offset: self.narrow(COPYING_BUFFER, wanted.offset)?,
            copy_to_mem_handle: wanted.copy_to_mem_handle,
            ..Default::default()
        };
        // SAFETY: the buffer is valid by this function's contract.
        unsafe { self.call(COPYING_BUFFER, cmd::MEM_BUF_COPY, argument) }.map(drop)
    }

    /// Fills part of an allocation. The offset has 64 bits in both forms; the older one refuses
    /// what does not fit into 32 all the same (`spec/ndl.md` 3.2).
    pub(crate) fn memset(&self, wanted: &Memset64) -> Result<(), NdlError> {
        let attempt = |rung| match rung {
            // SAFETY: the argument holds no address.
            0 => unsafe { self.call(FILLING, cmd::MEMSET64, *wanted) }.map(drop),
            _ => {
                let argument = arg::Memset {
                    mem_handle: wanted.mem_handle,
                    offset: self.narrow(FILLING, wanted.offset)?.into(),
                    value: wanted.value,
                    size: self.narrow(FILLING, wanted.size)?,
                };
                // SAFETY: as above.
                unsafe { self.call(FILLING, cmd::MEMSET, argument) }.map(drop)
            }
        };
        self.compat.memset.call(attempt, |rung| self.compat.switched(&MEMSET_FORMS, rung))
    }
}
