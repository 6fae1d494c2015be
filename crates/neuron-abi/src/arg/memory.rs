//! Arguments of allocation, free, lookup and chunk dump, and of the ways to map memory elsewhere
//! (spec/abi.md 4, 9.2, 9.3). No copies: those are in `copy`.
//!
//! A *handle* is the driver's number for a chunk: `u64`, non-zero, unique per device (spec/mempool.md 6).
//! Memory types are raw `u32` because the driver stores them as given; [`crate::memory::Category`] names
//! them.

abi_struct! {
    /// Argument of [`MEM_ALLOC`](crate::cmd::MEM_ALLOC), the oldest form: no alignment, no category
    /// (`mem_alloc`, spec/abi.md 4.1).
    MemAlloc, size 32 {
        0 => size: u64, "in: bytes; the driver rounds up to the page size.";
        8 => host_memory: u32, "in: non-zero asks for host memory.";
        12 => dram_channel: u32, "in: HBM index; checked against the channel count even for host memory.";
        16 => dram_region: u32, "in: forced to 0 on devices with one region, which is all of them.";
        20 => nc_id: u32, "in: core 0..7; selects the copy engine and the accounting core.";
        24 => mem_handle: u64, "in: user address where the `u64` handle is written.";
    }

    /// Argument of [`MEM_ALLOC_V2`](crate::cmd::MEM_ALLOC_V2): with alignment (`mem_alloc_v2`,
    /// spec/abi.md 4.2).
    MemAllocV2, size 40 {
        0 => size: u64, "in: bytes; the driver rounds up to the page size.";
        8 => align: u64, "in: bytes; 0 and anything up to the page size mean \"page\". Host memory: only 0.";
        16 => host_memory: u32, "in: non-zero asks for host memory.";
        20 => dram_channel: u32, "in: HBM index; checked even for host memory.";
        24 => dram_region: u32, "in: forced to 0 on devices with one region.";
        28 => nc_id: u32, "in: core 0..7; selects the copy engine and the accounting core.";
        32 => mem_handle: u64, "in: user address where the `u64` handle is written.";
    }

    /// Argument of [`MEM_ALLOC_V2MT`](crate::cmd::MEM_ALLOC_V2MT): with alignment and category
    /// (`mem_alloc_v2_mem_type`, spec/abi.md 4.2).
    MemAllocV2MemType, size 48 {
        0 => size: u64, "in: bytes; the driver rounds up to the page size.";
        8 => align: u64, "in: bytes; 0 and anything up to the page size mean \"page\". Host memory: only 0.";
        16 => host_memory: u32, "in: non-zero asks for host memory.";
        20 => dram_channel: u32, "in: HBM index; checked even for host memory.";
        24 => dram_region: u32, "in: forced to 0 on devices with one region.";
        28 => nc_id: u32, "in: core 0..7; selects the copy engine and the accounting core.";
        32 => mem_type: u32, "in: category ([`crate::memory::Category`]); stored as given, even out of range.";
        36 => _pad: [u8; 4], "Hole, ignored.";
        40 => mem_handle: u64, "in: user address where the `u64` handle is written.";
    }

    /// Argument of [`MEM_ALLOC_V2MT64`](crate::cmd::MEM_ALLOC_V2MT64) (`mem_alloc_v2_mem_type64`,
    /// spec/abi.md 4.2).
    ///
    /// The same request as [`MemAllocV2MemType`]; the longer form lets a client probe for a driver that
    /// takes sizes of 4 GiB and more.
    MemAllocV2MemType64, size 56 {
        0 => size: u64, "in: bytes; the driver rounds up to the page size.";
        8 => align: u64, "in: bytes; 0 and anything up to the page size mean \"page\". Host memory: only 0.";
        16 => host_memory: u32, "in: non-zero asks for host memory.";
        20 => dram_channel: u32, "in: HBM index; checked even for host memory.";
        24 => dram_region: u32, "in: forced to 0 on devices with one region.";
        28 => nc_id: u32, "in: core 0..7; selects the copy engine and the accounting core.";
        32 => mem_type: u32, "in: category ([`crate::memory::Category`]); stored as given, even out of range.";
        36 => _pad: [u8; 4], "Hole, ignored.";
        40 => mem_handle: u64, "in: user address where the `u64` handle is written.";
        48 => pad: u32, "The word that makes this form longer; never read.";
        52 => _tail: [u8; 4], "Tail, ignored.";
    }

    /// Argument of [`MEM_FREE`](crate::cmd::MEM_FREE) (`mem_free`, spec/abi.md 4.3).
    MemFree, size 8 {
        0 => mem_handle: u64, "in: handle; one reference is dropped.";
    }

    /// Argument of [`MEM_GET_PA`](crate::cmd::MEM_GET_PA) (`mem_get_pa`, spec/abi.md 4.4).
    MemGetPa, size 16 {
        0 => mem_handle: u64, "in: handle.";
        8 => pa: u64, "in: user address where the `u64` physical address is written; host chunks carry the host tag.";
    }

    /// Argument of [`MEM_GET_INFO`](crate::cmd::MEM_GET_INFO) (`mem_get_info`, spec/abi.md 4.5).
    MemGetInfo, size 24 {
        0 => mem_handle: u64, "in: handle.";
        8 => mmap_offset: u64, "in: user address for the `u64` mmap offset (equal to the pa); 0 skips it.";
        16 => pa: u64, "in: user address for the `u64` physical address; always written, and first.";
    }

    /// Argument of [`MEM_GET_EXTENDED_INFO`](crate::cmd::MEM_GET_EXTENDED_INFO)
    /// (`mem_get_extended_info`, spec/abi.md 4.6).
    MemGetExtendedInfo, size 48 {
        0 => mem_handle: u64, "in, out: handle. The C driver overwrites it with a kernel pointer: do not read it back.";
        8 => version: u32, "out: 0. Input ignored.";
        12 => host_memory: u32, "out: 1 on the host, 0 on the device.";
        16 => mmap_offset: u64, "out: mmap offset, equal to the pa.";
        24 => pa: u64, "out: physical address; host chunks carry the host tag.";
        32 => pid: u64, "out: process (tgid) that allocated.";
        40 => size: u64, "out: size in bytes, as rounded.";
    }

    /// Argument of [`MEM_MC_GET_INFO`](crate::cmd::MEM_MC_GET_INFO), chunk by address
    /// (`mem_get_mc_mmap_info`, spec/abi.md 4.7).
    MemGetMcMmapInfo, size 24 {
        0 => pa: u64, "in: any address inside a chunk; with the host tag for host chunks.";
        8 => mmap_offset: u64, "out: start of the chunk.";
        16 => size: u64, "out: size of the chunk in bytes.";
    }

    /// Argument of [`MEM_MC_GET_INFO_V2`](crate::cmd::MEM_MC_GET_INFO_V2), chunk by address with its
    /// handle (`mem_get_mc_mmap_info_v2`, spec/abi.md 4.7).
    MemGetMcMmapInfoV2, size 32 {
        0 => pa: u64, "in: any address inside a chunk; with the host tag for host chunks.";
        8 => mmap_offset: u64, "out: start of the chunk.";
        16 => size: u64, "out: size of the chunk in bytes.";
        24 => mem_handle: u64, "out: handle; published now if the chunk had none.";
    }

    /// Argument of [`DUMP_MEM_CHUNKS`](crate::cmd::DUMP_MEM_CHUNKS): every chunk of one HBM, of all
    /// processes (`dump_mem_chunks`, spec/abi.md 4.8).
    DumpMemChunks, size 24 {
        0 => hbm_index: u32, "in: HBM index; not range checked (unknown: no entries, success).";
        4 => num_entries_in: u32, "in: room in `data`, in entries.";
        8 => num_entries_out: u32, "out: how many chunks there are. More than fit: EAGAIN and no entry copied.";
        12 => _pad: [u8; 4], "Hole.";
        16 => data: u64, "in: user address of an array of [`MemChunkEntry`].";
    }

    /// One chunk as [`DUMP_MEM_CHUNKS`](crate::cmd::DUMP_MEM_CHUNKS) lists it, in ascending `pa` order
    /// (spec/abi.md 4.8).
    MemChunkEntry, size 24 {
        0 => pa: u64, "out: device physical address.";
        8 => size: u64, "out: bytes.";
        16 => mem_type: u32, "out: category as it was given ([`crate::memory::Category`]).";
        20 => _pad: [u8; 4], "Tail.";
    }

    /// Argument of [`RESOURCE_MMAP_INFO`](crate::cmd::RESOURCE_MMAP_INFO): the mmap cookie of an on-chip
    /// block (`resource_mmap_info`, spec/abi.md 9.2).
    ResourceMmapInfo, size 32 {
        0 => block: u32, "in: [`crate::enums::Block`].";
        4 => block_id: u32, "in: index of the block.";
        8 => resource: u32, "in: [`crate::enums::Resource`].";
        12 => _pad: [u8; 4], "Hole.";
        16 => offset: u64, "out: mmap offset (a key, not always an address).";
        24 => size: u64, "out: bytes; mmap must ask for exactly this much.";
    }

    /// Argument of [`DMABUF_FD`](crate::cmd::DMABUF_FD): a dma-buf for mapped device memory
    /// (`dmabuf_fd`, spec/abi.md 9.3).
    DmabufFd, size 24 {
        0 => va: u64, "in: user address inside a mapping of the calling process.";
        8 => size: u64, "in: bytes.";
        16 => fd: u64, "in: user address where the `i32` file descriptor is written.";
    }
}
