//! Copies between user memory and a chunk (`MEM_BUF_COPY`), and memset
//! (`spec/abi.md` 5.4, 5.5, `spec/dma-op.md` 6).

use neuron_abi::errno::Errno;

use super::Transfer;
use super::copy::ChunkCopy;
use crate::device::{Device, MEMSET_PATTERN_BYTES};
use crate::pool::{ChunkRef, Lifespan, Request};
use crate::user::UserMemory;

/// Bytes of a bounce chunk.
const BOUNCE_BYTES: u64 = 65536;

/// Which way a buffer copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferCopy {
    /// User memory into the chunk.
    ToChunk,
    /// The chunk into user memory.
    FromChunk,
}

impl Device {
    /// Copies `bytes` between user memory at `address` and the chunk at `offset`, which
    /// the caller has checked. Device chunks go through a 64 KiB bounce chunk.
    ///
    /// # Errors
    /// EFAULT, ENOMEM for the bounce chunk, or the copy's error. Pieces before the
    /// failing one stay copied.
    pub fn copy_buffer(
        &self,
        user: &dyn UserMemory,
        address: u64,
        chunk: &ChunkRef,
        offset: u64,
        bytes: u64,
        way: BufferCopy,
    ) -> Result<(), Errno> {
        if let Some(slice) = chunk.host_slice() {
            let part = slice.subslice(offset as usize, bytes as usize).map_err(|_| Errno::EINVAL)?;
            return match way {
                BufferCopy::ToChunk => user.read(address, part),
                BufferCopy::FromChunk => user.write(address, part),
            };
        }
        if bytes == 0 {
            return Ok(());
        }
        let request =
            Request { core: chunk.core_id(), ..Request::driver_host(BOUNCE_BYTES, 0, Lifespan::Local) };
        let bounce = self.pools().allocate(request)?;
        let memory = bounce.host_slice().ok_or(Errno::EINVAL)?;
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(BOUNCE_BYTES);
            let part = memory.subslice(0, piece as usize).map_err(|_| Errno::EINVAL)?;
            let at = address.checked_add(done).ok_or(Errno::EFAULT)?;
            let copy = |source: &ChunkRef, destination: &ChunkRef, from, to| ChunkCopy {
                source: source.clone(),
                destination: destination.clone(),
                source_offset: from,
                destination_offset: to,
                bytes: piece,
            };
            match way {
                BufferCopy::ToChunk => {
                    user.read(at, part)?;
                    self.copy(&copy(&bounce, chunk, 0, offset + done))?;
                }
                BufferCopy::FromChunk => {
                    self.copy(&copy(chunk, &bounce, offset + done, 0))?;
                    user.write(at, part)?;
                }
            }
            done += piece;
        }
        Ok(())
    }

    /// Writes `bytes` of user memory to a device address outside any chunk, through a bounce
    /// chunk of the whole size and one copy on the core's ring. The caller has checked the
    /// address.
    ///
    /// # Errors
    /// ENOMEM if the bounce chunk cannot be had (a core above 7 counts as that), EFAULT, or
    /// the copy's error.
    pub fn program(
        &self,
        user: &dyn UserMemory,
        core: u32,
        address: u64,
        destination: u64,
        bytes: u64,
    ) -> Result<(), Errno> {
        let request = Request { core, ..Request::driver_host(bytes, core, Lifespan::Local) };
        let bounce = self.pools().allocate(request).map_err(|_| Errno::ENOMEM)?;
        let memory = bounce.host_slice().ok_or(Errno::ENOMEM)?;
        user.read(address, memory.subslice(0, bytes as usize).map_err(|_| Errno::ENOMEM)?)?;
        self.transfer(core, Transfer::new(bounce.pa(), destination, bytes))
    }

    /// Fills `bytes` of the chunk from `offset` with the low byte of `value`: the first
    /// 64 KiB from a host pattern, the rest by copying those again and again. Always by
    /// DMA, host chunks too; nothing is touched for 0 bytes.
    ///
    /// # Errors
    /// The copy's error.
    pub fn memset(&self, chunk: &ChunkRef, offset: u64, bytes: u64, value: u32) -> Result<(), Errno> {
        if bytes == 0 {
            return Ok(());
        }
        let pattern = self.memset_pattern();
        let first = bytes.min(MEMSET_PATTERN_BYTES);
        if let Some(memory) = pattern.host_memory().and_then(|memory| memory.part(0, first as usize)) {
            memory.fill(value as u8);
        }
        let start = chunk.pa() + offset;
        self.transfer(chunk.core_id(), Transfer::new(pattern.pa(), start, first))?;
        let rest =
            Transfer { source: start, destination: start + first, bytes: bytes - first, source_moves: false };
        self.transfer(chunk.core_id(), rest)
    }
}
