//! Arguments of the DMA engine, queue, descriptor and H2T ring commands (spec/abi.md 6).
//!
//! Rings themselves (descriptor layout, registers) are not here. `eng_id` counts the device's engines
//! (below 132), `qid` the queues of an engine (below 16); lengths and counts are in descriptors of
//! 16 bytes.

abi_struct! {
    /// Argument of [`DMA_ENG_INIT`](crate::cmd::DMA_ENG_INIT), which does nothing and does not read it
    /// (`dma_eng_init`, spec/abi.md 6.1).
    DmaEngInit, size 4 {
        0 => eng_id: u32, "Not read.";
    }

    /// Argument of [`DMA_ENG_SET_STATE`](crate::cmd::DMA_ENG_SET_STATE) (`dma_eng_set_state`,
    /// spec/abi.md 6.1).
    DmaEngSetState, size 8 {
        0 => eng_id: u32, "in: engine.";
        4 => state: u32, "in: 0 disable, 2 normal, 3 abort.";
    }

    /// Argument of [`DMA_ENG_GET_STATE`](crate::cmd::DMA_ENG_GET_STATE) (`dma_eng_get_state`,
    /// spec/abi.md 6.1).
    DmaEngGetState, size 16 {
        0 => eng_id: u32, "in: engine.";
        4 => _pad: [u8; 4], "Hole.";
        8 => state: u64, "in: user address where a [`DmaEngState`] is written.";
    }

    /// State of an engine (`dma_eng_state`, spec/abi.md 6.1).
    DmaEngState, size 20 {
        0 => revision_id: u32, "out: 4.";
        4 => max_queues: u32, "out: 16.";
        8 => num_queues: u32, "out: 16.";
        12 => tx_state: u32, "out: state of the TX (M2S) half.";
        16 => rx_state: u32, "out: state of the RX (S2M) half.";
    }

    /// Argument of [`DMA_QUEUE_INIT`](crate::cmd::DMA_QUEUE_INIT), and an entry of [`DmaQueueInitBatch`]
    /// (`dma_queue_init`, spec/abi.md 6.2).
    DmaQueueInit, size 48 {
        0 => eng_id: u32, "in: engine.";
        4 => qid: u32, "in: queue.";
        8 => tx_desc_count: u32, "in: TX ring length, descriptors.";
        12 => rx_desc_count: u32, "in: RX ring length, descriptors.";
        16 => tx_handle: u64, "in: chunk of the TX ring; 0 = none bound.";
        24 => rx_handle: u64, "in: chunk of the RX ring; 0 = none bound.";
        32 => rxc_handle: u64, "in: chunk of the completion ring; anything but 0 is refused.";
        40 => axi_port: u32, "in: non-zero adds the port-1 base, which is 0 on all generations.";
        44 => _pad: [u8; 4], "Tail.";
    }

    /// Argument of [`DMA_QUEUE_INIT_BATCH`](crate::cmd::DMA_QUEUE_INIT_BATCH) (`dma_queue_init_batch`,
    /// spec/abi.md 6.2).
    DmaQueueInitBatch, size 12296 {
        0 => count: u32, "in: entries used; at most 255 (256 and more: E2BIG).";
        4 => _pad: [u8; 4], "Hole.";
        8 => entries: [DmaQueueInit; 256], "in: run in order; the first failure stops, earlier ones stay.";
    }

    /// Argument of [`DMA_QUEUE_RELEASE`](crate::cmd::DMA_QUEUE_RELEASE), which frees nothing
    /// (`dma_queue_release`, spec/abi.md 6.3).
    DmaQueueRelease, size 8 {
        0 => eng_id: u32, "in: engine.";
        4 => qid: u32, "in: queue.";
    }

    /// Argument of [`DMA_QUEUE_COPY_START`](crate::cmd::DMA_QUEUE_COPY_START): rings the RX doorbell,
    /// then TX (`dma_queue_copy_start`, spec/abi.md 6.4).
    DmaQueueCopyStart, size 16 {
        0 => eng_id: u32, "in: engine.";
        4 => qid: u32, "in: queue.";
        8 => tx_desc_count: u32, "in: descriptors for TX; 0 leaves TX alone.";
        12 => rx_desc_count: u32, "in: descriptors for RX, not 0.";
    }

    /// Argument of [`DMA_ACK_COMPLETED`](crate::cmd::DMA_ACK_COMPLETED) (`dma_ack_completed`,
    /// spec/abi.md 6.5).
    DmaAckCompleted, size 12 {
        0 => eng_id: u32, "in: engine.";
        4 => qid: u32, "in: queue.";
        8 => count: u32, "in: descriptors to acknowledge, RX then TX.";
    }

    /// Argument of [`DMA_QUEUE_GET_STATE`](crate::cmd::DMA_QUEUE_GET_STATE) (`dma_queue_get_state`,
    /// spec/abi.md 6.6).
    DmaQueueGetState, size 24 {
        0 => eng_id: u32, "in: engine.";
        4 => qid: u32, "in: queue.";
        8 => tx: u64, "in: user address where TX's [`DmaQueueState`] is written.";
        16 => rx: u64, "in: user address where RX's [`DmaQueueState`] is written.";
    }

    /// State of one half of a queue (`dma_queue_state`, spec/abi.md 6.6).
    DmaQueueState, size 48 {
        0 => hw_status: u32, "out: ring status register.";
        4 => sw_status: u32, "out: the driver's shadow: 1 disabled, 2 enabled, 3 aborted.";
        8 => base_addr: u64, "out: ring base, low 6 bits cleared.";
        16 => length: u32, "out: ring length, 24 bits.";
        20 => head_pointer: u32, "out: head pointer, 24 bits.";
        24 => tail_pointer: u32, "out: tail pointer, 24 bits.";
        28 => _pad: [u8; 4], "Hole.";
        32 => completion_base_addr: u64, "out: completion ring base, unmasked.";
        40 => completion_head: u32, "out: completion head, 24 bits.";
        44 => _tail: [u8; 4], "Tail.";
    }

    /// Argument of [`DMA_COPY_DESCRIPTORS`](crate::cmd::DMA_COPY_DESCRIPTORS): stores descriptors the
    /// caller built into a ring's chunk (`dma_copy_descriptors`, spec/abi.md 6.7).
    DmaCopyDescriptors, size 32 {
        0 => mem_handle: u64, "in: chunk of the ring.";
        8 => buffer: u64, "in: user address of the descriptors.";
        16 => num_descs: u32, "in: descriptors; 0 is success.";
        20 => offset: u32, "in: bytes from the start of the chunk.";
        24 => queue_type: u32, "in: [`crate::enums::QueueType`]; only TX and RX are served.";
        28 => _pad: [u8; 4], "Tail.";
    }

    /// Argument of [`DMA_COPY_DESCRIPTORS64`](crate::cmd::DMA_COPY_DESCRIPTORS64)
    /// (`dma_copy_descriptors64`, spec/abi.md 6.7).
    DmaCopyDescriptors64, size 40 {
        0 => mem_handle: u64, "in: chunk of the ring.";
        8 => buffer: u64, "in: user address of the descriptors.";
        16 => num_descs: u32, "in: descriptors; 0 is success.";
        20 => _pad: [u8; 4], "Hole.";
        24 => offset: u64, "in: bytes from the start of the chunk.";
        32 => queue_type: u32, "in: [`crate::enums::QueueType`]; only TX and RX are served.";
        36 => _tail: [u8; 4], "Tail.";
    }

    /// Argument of [`DMA_DESCRIPTOR_COPYOUT`](crate::cmd::DMA_DESCRIPTOR_COPYOUT): reads descriptors of a
    /// live ring (`dma_descriptor_copyout`, spec/abi.md 6.8).
    DmaDescriptorCopyout, size 32 {
        0 => eng_id: u32, "in: engine.";
        4 => qid: u32, "in: queue.";
        8 => queue_type: u32, "in: 0 TX, 1 RX ([`crate::enums::QueueType`]); `type` in the spec.";
        12 => start_index: u32, "in: first descriptor.";
        16 => count: u32, "in: descriptors, not 0; past the ring's end: EFBIG.";
        20 => _pad: [u8; 4], "Hole.";
        24 => buffer: u64, "in: user address that receives `count` * 16 bytes.";
    }

    /// Argument of [`DMA_QUIESCE_QUEUES`](crate::cmd::DMA_QUIESCE_QUEUES), which is no longer served
    /// (`dma_quiesce_queues`, spec/abi.md 6.9).
    DmaQuiesceQueues, size 264 {
        0 => nc_id: u32, "Not read.";
        4 => engine_count: u32, "Not read.";
        8 => queue_mask: [u32; 64], "Not read.";
    }

    /// Argument of [`H2T_DMA_ALLOC_QUEUES`](crate::cmd::H2T_DMA_ALLOC_QUEUES) (`h2t_dma_alloc_queues`,
    /// spec/abi.md 6.10). 20 bytes, not the 24 that circulate.
    H2tDmaAllocQueues, size 20 {
        0 => sz: u16, "in: size of this struct; not checked.";
        2 => nc_id: u16, "in: core.";
        4 => copy_queue_cnt: u16, "in: copy rings wanted.";
        6 => service_queue_cnt: u16, "in: service rings wanted; together below 16.";
        8 => copy_queue_bmap: u32, "out: bit n: queue n is a copy ring of this call.";
        12 => service_queue_bmap: u32, "out: bit n: queue n is a service ring of this call.";
        16 => copy_default_queue: u32, "out: the core's default queue.";
    }

    /// Argument of [`H2T_DMA_FREE_QUEUES`](crate::cmd::H2T_DMA_FREE_QUEUES) (`h2t_dma_free_queues`,
    /// spec/abi.md 6.11).
    H2tDmaFreeQueues, size 8 {
        0 => sz: u16, "in: size of this struct.";
        2 => nc_id: u8, "in: core.";
        3 => fill0: u8, "Ignored.";
        4 => queue_bmap: u32, "in: queues to release, bits 0..15.";
    }

    /// Argument of [`GET_ASYNC_H2T_DMA_COMPL_QUEUES`](crate::cmd::GET_ASYNC_H2T_DMA_COMPL_QUEUES)
    /// (spec/abi.md 6.12).
    GetAsyncH2tDmaComplQueues, size 264 {
        0 => nc_id: u32, "in: core.";
        4 => qid_bitmap: u32, "in: queues asked for.";
        8 => queues: [ComplQueueMmap; 16], "out: by queue number; zero where not asked for.";
    }

    /// Where one completion queue can be mapped (spec/abi.md 6.12).
    ComplQueueMmap, size 16 {
        0 => mmap_offset: u64, "out: mmap offset, the physical address of the queue's chunk.";
        8 => mmap_size: u64, "out: bytes.";
    }

    /// Start of a completion queue in memory (spec/dma-op.md 8). Only the fields are established, not where
    /// they are: this order and these offsets are our choice. Indices run freely; the slot of an entry is its
    /// index modulo the capacity.
    CompletionHeader, size 16 {
        0 => capacity: u32, "Entries.";
        4 => head: u32, "Next entry to read: written by the reader only.";
        8 => tail: u32, "Next entry to write: written by the driver only, after the entry.";
        12 => _pad: [u8; 4], "Tail.";
    }

    /// The end of one asynchronous request (spec/dma-op.md 8).
    CompletionEntry, size 24 {
        0 => compl_ret: i64, "0, or the negative errno of its first failure.";
        8 => context: u64, "The context word of the batch that ended it.";
        16 => sequence_num: u64, "The request's number.";
    }
}
