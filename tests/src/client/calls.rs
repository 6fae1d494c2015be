//! Commands as methods. Each returns what the ioctl returned, 0 or a negative errno, so
//! that a test can expect either.

use neuron_abi::arg;
use neuron_abi::cmd;

use super::{Chunk, Client};

/// `previous` of an asynchronous copy that waits for nothing.
pub const NONE: u32 = u32::MAX;
/// User address of buffers.
const BUFFER: u64 = 0x7000_1000_0000;

impl Client {
    /// Frees a chunk.
    pub fn free(&self, chunk: Chunk) -> i64 {
        self.call(&cmd::MEM_FREE, &mut arg::MemFree { mem_handle: chunk.handle })
    }

    /// Copies the first `size` bytes of a chunk to the start of another one.
    pub fn copy(&self, source: Chunk, destination: Chunk, size: u64) -> i64 {
        let mut argument = arg::MemCopy64 {
            src_mem_handle: source.handle,
            dst_mem_handle: destination.handle,
            size,
            ..Default::default()
        };
        self.call(&cmd::MEM_COPY64, &mut argument)
    }

    /// Starts such a copy after `previous`, or [`NONE`]. Returns its handle too, 0 if it was
    /// refused.
    pub fn copy_async(&self, source: Chunk, destination: Chunk, size: u64, previous: u32) -> (i64, u32) {
        let mut argument = arg::MemCopyAsync64 {
            src_mem_handle: source.handle,
            dst_mem_handle: destination.handle,
            size,
            pwait_handle: previous,
            ..Default::default()
        };
        (self.call(&cmd::MEM_COPY_ASYNC64, &mut argument), argument.wait_handle)
    }

    /// Waits for a copy on the ring of a chunk's core.
    pub fn wait(&self, chunk: Chunk, handle: u32) -> i64 {
        let mut argument = arg::MemCopyAsyncWait {
            src_mem_handle: chunk.handle,
            dst_mem_handle: chunk.handle,
            pwait_handle: handle,
            ..Default::default()
        };
        self.call(&cmd::MEM_COPY_ASYNC_WAIT, &mut argument)
    }

    /// Fills the first `size` bytes of a chunk.
    pub fn memset(&self, chunk: Chunk, value: u8, size: u64) -> i64 {
        let mut argument =
            arg::Memset64 { mem_handle: chunk.handle, value: value.into(), size, ..Default::default() };
        self.call(&cmd::MEMSET64, &mut argument)
    }

    /// Writes bytes of the process into a chunk.
    pub fn write(&self, chunk: Chunk, offset: u64, bytes: &[u8]) -> i64 {
        self.space().map(BUFFER, bytes.to_vec());
        self.buffer(chunk, offset, bytes.len() as u64, 1)
    }

    /// Reads bytes of a chunk. They are zeros where nothing was read.
    pub fn read(&self, chunk: Chunk, offset: u64, size: usize) -> (i64, Vec<u8>) {
        self.space().map(BUFFER, vec![0; size]);
        let ret = self.buffer(chunk, offset, size as u64, 0);
        (ret, self.space().bytes(BUFFER, size).unwrap_or_default())
    }

    fn buffer(&self, chunk: Chunk, offset: u64, size: u64, copy_to_mem_handle: u32) -> i64 {
        let mut argument = arg::MemBufCopy64 {
            mem_handle: chunk.handle,
            buffer: BUFFER,
            size,
            offset,
            copy_to_mem_handle,
            ..Default::default()
        };
        self.call(&cmd::MEM_BUF_COPY64, &mut argument)
    }

    /// Binds both rings of a queue, `count` descriptors each. Without a chunk there is no
    /// ring in that direction.
    pub fn bind(&self, (engine, qid): (u32, u32), count: u32, rings: [Option<Chunk>; 2]) -> i64 {
        let [tx_handle, rx_handle] = rings.map(|chunk| chunk.map_or(0, |chunk| chunk.handle));
        let mut argument = arg::DmaQueueInit {
            eng_id: engine,
            qid,
            tx_desc_count: count,
            rx_desc_count: count,
            tx_handle,
            rx_handle,
            ..Default::default()
        };
        self.call(&cmd::DMA_QUEUE_INIT, &mut argument)
    }

    /// Resets the cores of a map, or the device for all ones.
    pub fn reset(&self, map: u32) -> i64 {
        self.call(&cmd::NC_RESET, &mut arg::DeviceReset { nc_map: map, request_id: 0 })
    }

    /// Collects how a process's reset went: what the ioctl returned, and 0 for a success.
    pub fn reset_outcome(&self, pid: i32) -> (i64, i32) {
        let mut ready = arg::DeviceReady { request_id: pid.cast_unsigned(), result: -1 };
        (self.call(&cmd::NC_RESET_READY, &mut ready), ready.result)
    }
}
