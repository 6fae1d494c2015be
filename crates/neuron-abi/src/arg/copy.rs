//! Arguments of everything that moves or fills bytes: copies between chunks and with user buffers, fills,
//! zero-copy, and writes to the on-chip engines (spec/abi.md 5).
//!
//! Where a command has two widths, the short form carries 32-bit sizes and offsets and the `64` form
//! 64-bit ones; nothing else differs. Offsets are bytes from the start of the chunk.

abi_struct! {
    /// Argument of [`MEM_COPY`](crate::cmd::MEM_COPY): synchronous chunk to chunk (`mem_copy`,
    /// spec/abi.md 5.1).
    MemCopy, size 32 {
        0 => src_mem_handle: u64, "in: source handle.";
        8 => dst_mem_handle: u64, "in: destination handle.";
        16 => size: u32, "in: bytes.";
        20 => src_offset: u32, "in: offset in the source chunk.";
        24 => dst_offset: u32, "in: offset in the destination chunk.";
        28 => _pad: [u8; 4], "Tail.";
    }

    /// Argument of [`MEM_COPY64`](crate::cmd::MEM_COPY64) (`mem_copy64`, spec/abi.md 5.1).
    MemCopy64, size 40 {
        0 => src_mem_handle: u64, "in: source handle.";
        8 => dst_mem_handle: u64, "in: destination handle.";
        16 => size: u64, "in: bytes.";
        24 => src_offset: u64, "in: offset in the source chunk.";
        32 => dst_offset: u64, "in: offset in the destination chunk.";
    }

    /// Argument of [`MEM_COPY_ASYNC`](crate::cmd::MEM_COPY_ASYNC) (`mem_copy_async`, spec/abi.md 5.2).
    MemCopyAsync, size 48 {
        0 => src_mem_handle: u64, "in: source handle.";
        8 => dst_mem_handle: u64, "in: destination handle.";
        16 => size: u32, "in: bytes.";
        20 => src_offset: u32, "in: offset in the source chunk.";
        24 => dst_offset: u32, "in: offset in the destination chunk.";
        28 => _pad: [u8; 4], "Hole.";
        32 => host_prefetch_addr: u64, "in: user address whose pages are faulted in while the DMA runs; 0 = none.";
        40 => pwait_handle: u32, "in: wait handle of the previous transfer ([`crate::enums::AsyncHandle`]).";
        44 => wait_handle: u32, "out: wait handle of this transfer; only an output on success.";
    }

    /// Argument of [`MEM_COPY_ASYNC64`](crate::cmd::MEM_COPY_ASYNC64) (`mem_copy_async64`,
    /// spec/abi.md 5.2).
    MemCopyAsync64, size 56 {
        0 => src_mem_handle: u64, "in: source handle.";
        8 => dst_mem_handle: u64, "in: destination handle.";
        16 => size: u64, "in: bytes.";
        24 => src_offset: u64, "in: offset in the source chunk.";
        32 => dst_offset: u64, "in: offset in the destination chunk.";
        40 => host_prefetch_addr: u64, "in: user address whose pages are faulted in while the DMA runs; 0 = none.";
        48 => pwait_handle: u32, "in: wait handle of the previous transfer ([`crate::enums::AsyncHandle`]).";
        52 => wait_handle: u32, "out: wait handle of this transfer; only an output on success.";
    }

    /// Argument of [`MEM_COPY_ASYNC_WAIT`](crate::cmd::MEM_COPY_ASYNC_WAIT) (`mem_copy_async_wait`,
    /// spec/abi.md 5.3).
    MemCopyAsyncWait, size 24 {
        0 => src_mem_handle: u64, "in: source handle; with the other one it only selects the ring.";
        8 => dst_mem_handle: u64, "in: destination handle.";
        16 => pwait_handle: u32, "in: the transfer to wait for, 1 or 2 ([`crate::enums::AsyncHandle`]).";
        20 => _pad: [u8; 4], "Tail.";
    }

    /// Argument of [`MEM_BUF_COPY`](crate::cmd::MEM_BUF_COPY): user buffer to or from a chunk
    /// (`mem_buf_copy`, spec/abi.md 5.4).
    MemBufCopy, size 32 {
        0 => mem_handle: u64, "in: handle.";
        8 => buffer: u64, "in: user address.";
        16 => size: u32, "in: bytes.";
        20 => offset: u32, "in: offset in the chunk.";
        24 => copy_to_mem_handle: u32, "in: non-zero writes into the chunk, zero reads from it.";
        28 => _pad: [u8; 4], "Tail.";
    }

    /// Argument of [`MEM_BUF_COPY64`](crate::cmd::MEM_BUF_COPY64) (`mem_buf_copy64`, spec/abi.md 5.4);
    /// also the argument of the old zero-copy form
    /// ([`MEM_BUF_ZEROCOPY64_OLD`](crate::cmd::MEM_BUF_ZEROCOPY64_OLD)).
    MemBufCopy64, size 40 {
        0 => mem_handle: u64, "in: handle.";
        8 => buffer: u64, "in: user address.";
        16 => size: u64, "in: bytes.";
        24 => offset: u64, "in: offset in the chunk.";
        32 => copy_to_mem_handle: u32, "in: non-zero writes into the chunk, zero reads from it.";
        36 => _pad: [u8; 4], "Tail.";
    }

    /// Argument of [`MEMSET`](crate::cmd::MEMSET) (`memset`, spec/abi.md 5.5).
    Memset, size 24 {
        0 => mem_handle: u64, "in: handle.";
        8 => offset: u64, "in: offset in the chunk; 64 bits in this form too.";
        16 => value: u32, "in: the fill byte; only the low 8 bits count.";
        20 => size: u32, "in: bytes.";
    }

    /// Argument of [`MEMSET64`](crate::cmd::MEMSET64) (`memset64`, spec/abi.md 5.5).
    Memset64, size 32 {
        0 => mem_handle: u64, "in: handle.";
        8 => offset: u64, "in: offset in the chunk.";
        16 => value: u32, "in: the fill byte; only the low 8 bits count.";
        20 => _pad: [u8; 4], "Hole.";
        24 => size: u64, "in: bytes.";
    }

    /// Argument of [`MEM_BUF_ZEROCOPY64`](crate::cmd::MEM_BUF_ZEROCOPY64): DMA straight from or to user
    /// pages (`mem_buf_copy64zc`, spec/abi.md 5.6).
    MemBufCopy64Zc, size 48 {
        0 => mem_handle: u64, "in: handle.";
        8 => buffer: u64, "in: user address.";
        16 => size: u64, "in: bytes.";
        24 => offset: u64, "in: offset in the chunk.";
        32 => is_copy_to_device: u32, "in: non-zero writes into the chunk.";
        36 => bar4_wr_threshold: u32, "in: up to this many bytes may be written through BAR4 by the CPU; 0 = never.";
        40 => h2t_qid: i32, "in: H2T queue of the core, or -1 for its default ([`crate::limits::DEFAULT_H2T_QUEUE`]).";
        44 => dummy: u32, "Ignored.";
    }

    /// Argument of [`MEM_BUF_ZEROCOPY64_BATCHES`](crate::cmd::MEM_BUF_ZEROCOPY64_BATCHES)
    /// (`mem_buf_copy64zc_batches`, spec/abi.md 5.7).
    MemBufCopy64ZcBatches, size 32 {
        0 => sequence_num: u64, "in: 0 = synchronous; otherwise names an asynchronous request (driver 2.27.4 on).";
        8 => batches_ptr: u64, "in: user address of an array of [`MemcpyBatch`].";
        16 => num_batches: u32, "in: batches, at least 1.";
        20 => is_copy_to_device: u16, "in: non-zero writes into the chunks.";
        22 => _pad: [u8; 2], "Hole.";
        24 => h2t_qid: i32, "in: H2T queue of the core, or -1 for its default.";
        28 => flags: u16, "in: ignored.";
        30 => _tail: [u8; 2], "Tail.";
    }

    /// One batch: operations on one chunk (`neuron_memcpy_batch_t`, spec/abi.md 5.7, spec/dmem.md 1.6).
    MemcpyBatch, size 40 {
        0 => mem_handle: u64, "in: handle.";
        8 => mem_handle_offset: u64, "in: added to the offset of each operation.";
        16 => ops_ptr: u64, "in: user address of an array of [`BatchOp`].";
        24 => num_ops: u32, "in: operations, at least 1.";
        28 => bar4_wr_threshold: u16, "in: as in [`MemBufCopy64Zc`]; all operations must qualify.";
        30 => flags: u16, "in: 0.";
        32 => context: u64, "in: the caller's; handed back with an asynchronous completion.";
    }

    /// One operation of a batch (`nrt_tensor_batch_op_t`, spec/abi.md 5.7).
    BatchOp, size 24 {
        0 => offset: u64, "in: offset, before the batch's own offset is added.";
        8 => size: u64, "in: bytes, not 0.";
        16 => buffer: u64, "in: user address, not 0.";
    }

    /// Argument of [`PROGRAM_ENGINE`](crate::cmd::PROGRAM_ENGINE): write to an on-chip region through
    /// core 0's engine (`program_engine`, spec/abi.md 5.8).
    ProgramEngine, size 24 {
        0 => dst: u64, "in: device address.";
        8 => buffer: u64, "in: user address.";
        16 => size: u32, "in: bytes.";
        20 => offset: u32, "in: added to both `dst` and `buffer`.";
    }

    /// Argument of [`PROGRAM_ENGINE_NC`](crate::cmd::PROGRAM_ENGINE_NC) (`program_engine_nc`,
    /// spec/abi.md 5.8).
    ProgramEngineNc, size 32 {
        0 => nc_id: u32, "in: the core whose engine carries the write.";
        4 => _pad: [u8; 4], "Hole.";
        8 => dst: u64, "in: device address.";
        16 => buffer: u64, "in: user address.";
        24 => size: u32, "in: bytes.";
        28 => offset: u32, "in: added to both `dst` and `buffer`.";
    }

    /// Argument of [`PROGRAM_ENGINE_NC64`](crate::cmd::PROGRAM_ENGINE_NC64) (`program_engine_nc64`,
    /// spec/abi.md 5.8).
    ProgramEngineNc64, size 40 {
        0 => nc_id: u32, "in: the core whose engine carries the write.";
        4 => _pad: [u8; 4], "Hole.";
        8 => dst: u64, "in: device address.";
        16 => buffer: u64, "in: user address.";
        24 => size: u64, "in: bytes.";
        32 => offset: u64, "in: added to both `dst` and `buffer`.";
    }
}
