//! Copies, buffer copies and memset (`spec/abi.md` 5). The 32-bit forms are widened and
//! take the same way.

use neuron_abi::arg;
use neuron_abi::errno::Errno;

use super::Call;
use crate::dma::buffer::BufferCopy;
use crate::dma::copy::ChunkCopy;
use crate::pool::ChunkRef;

impl Call<'_> {
    /// The chunk of a handle, if `[offset, offset + size)` is inside (`spec/abi.md` 5.9).
    pub(super) fn part(&self, handle: u64, offset: u64, size: u64) -> Result<ChunkRef, Errno> {
        let pools = self.device().pools();
        let chunk = pools.lookup(handle)?;
        let allowed = pools.bounds(&chunk);
        if size <= allowed && offset <= allowed - size { Ok(chunk) } else { Err(Errno::EINVAL) }
    }

    /// Both ends of a copy: handles, then bounds, source first.
    fn ends(&self, arg: &arg::MemCopy64) -> Result<ChunkCopy, Errno> {
        Ok(ChunkCopy {
            source: self.part(arg.src_mem_handle, arg.src_offset, arg.size)?,
            destination: self.part(arg.dst_mem_handle, arg.dst_offset, arg.size)?,
            source_offset: arg.src_offset,
            destination_offset: arg.dst_offset,
            bytes: arg.size,
        })
    }

    pub(super) fn mem_copy(&self) -> Result<(), Errno> {
        let arg: arg::MemCopy = self.read()?;
        self.copy(&arg::MemCopy64 {
            src_mem_handle: arg.src_mem_handle,
            dst_mem_handle: arg.dst_mem_handle,
            size: arg.size.into(),
            src_offset: arg.src_offset.into(),
            dst_offset: arg.dst_offset.into(),
        })
    }

    pub(super) fn mem_copy64(&self) -> Result<(), Errno> {
        self.copy(&self.read()?)
    }

    fn copy(&self, arg: &arg::MemCopy64) -> Result<(), Errno> {
        self.device().copy(&self.ends(arg)?)
    }

    pub(super) fn mem_copy_async(&self) -> Result<(), Errno> {
        let arg: arg::MemCopyAsync = self.read()?;
        let wide = arg::MemCopy64 {
            src_mem_handle: arg.src_mem_handle,
            dst_mem_handle: arg.dst_mem_handle,
            size: arg.size.into(),
            src_offset: arg.src_offset.into(),
            dst_offset: arg.dst_offset.into(),
        };
        let wait_handle = self.copy_async(&wide, arg.pwait_handle)?;
        self.reply(&arg::MemCopyAsync { wait_handle, ..arg })
    }

    pub(super) fn mem_copy_async64(&self) -> Result<(), Errno> {
        let arg: arg::MemCopyAsync64 = self.read()?;
        let ends = arg::MemCopy64 {
            src_mem_handle: arg.src_mem_handle,
            dst_mem_handle: arg.dst_mem_handle,
            size: arg.size,
            src_offset: arg.src_offset,
            dst_offset: arg.dst_offset,
        };
        let wait_handle = self.copy_async(&ends, arg.pwait_handle)?;
        self.reply(&arg::MemCopyAsync64 { wait_handle, ..arg })
    }

    /// The prefetch address is a hint, which this driver does not need.
    fn copy_async(&self, ends: &arg::MemCopy64, previous: u32) -> Result<u32, Errno> {
        self.device().copy_async(&self.ends(ends)?, previous, self.pid)
    }

    pub(super) fn mem_copy_async_wait(&self) -> Result<(), Errno> {
        let arg: arg::MemCopyAsyncWait = self.read()?;
        let pools = self.device().pools();
        let (source, destination) = (pools.lookup(arg.src_mem_handle)?, pools.lookup(arg.dst_mem_handle)?);
        self.device().copy_wait(&source, &destination, arg.pwait_handle, self.pid)
    }

    pub(super) fn mem_buf_copy(&self) -> Result<(), Errno> {
        let arg: arg::MemBufCopy = self.read()?;
        self.buf_copy(arg.mem_handle, arg.buffer, arg.size.into(), arg.offset.into(), arg.copy_to_mem_handle)
    }

    pub(super) fn mem_buf_copy64(&self) -> Result<(), Errno> {
        let arg: arg::MemBufCopy64 = self.read()?;
        self.buf_copy(arg.mem_handle, arg.buffer, arg.size, arg.offset, arg.copy_to_mem_handle)
    }

    fn buf_copy(&self, handle: u64, buffer: u64, size: u64, offset: u64, to_chunk: u32) -> Result<(), Errno> {
        let chunk = self.part(handle, offset, size)?;
        let way = if to_chunk != 0 { BufferCopy::ToChunk } else { BufferCopy::FromChunk };
        self.device().copy_buffer(self.user, buffer, &chunk, offset, size, way)
    }

    pub(super) fn memset(&self) -> Result<(), Errno> {
        let arg: arg::Memset = self.read()?;
        self.fill(arg.mem_handle, arg.offset, arg.size.into(), arg.value)
    }

    pub(super) fn memset64(&self) -> Result<(), Errno> {
        let arg: arg::Memset64 = self.read()?;
        self.fill(arg.mem_handle, arg.offset, arg.size, arg.value)
    }

    fn fill(&self, handle: u64, offset: u64, size: u64, value: u32) -> Result<(), Errno> {
        let chunk = self.part(handle, offset, size)?;
        self.device().memset(&chunk, offset, size, value)
    }
}
