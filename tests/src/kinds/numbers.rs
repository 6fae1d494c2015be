//! Command words, and sizes of their argument structures.

use neuron_abi::{arg, cmd};

use crate::vectors::difference::ZEROCOPY_ARGUMENT;
use crate::vectors::{Mismatch, Object, Outcome, equal, equal_hex};

/// The kind of a case: a command's word, or a structure's size.
pub fn kind(case: &Object<'_>) -> Option<String> {
    Some(if case.has("struct_for") { "structure" } else { "command" }.to_owned())
}

/// Compares one case.
///
/// # Errors
/// What differs.
pub fn check(case: &Object<'_>) -> Result<Outcome, Mismatch> {
    if case.has("struct_for") { structure(case) } else { command(case) }
}

fn command(case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let name = case.text("name")?;
    let ours = cmd::ALL
        .iter()
        .find(|command| command.name == name)
        .ok_or_else(|| Mismatch::new(format!("we have no command {name}")))?;
    equal("found by its word", cmd::lookup(ours.word).map(|command| command.name), Some(name))?;
    equal("number", u64::from(ours.nr()), case.number("nr")?)?;
    equal("direction", ours.dir() as u64, case.number("dir")?)?;
    let (word, size) = (case.word("cmd")?, case.number("size")?);
    if name == "MEM_BUF_ZEROCOPY64" && size == 40 {
        equal_hex("recorded word", word, 0xc028_4e7c)?;
        equal_hex("word", ours.word, 0xc030_4e7c)?;
        equal("size", ours.size(), 48)?;
        return Ok(Outcome::Differs(vec![ZEROCOPY_ARGUMENT]));
    }
    equal_hex("word", ours.word, word)?;
    equal("size", ours.size() as u64, size)?;
    Ok(Outcome::Compared)
}

fn structure(case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let name = case.text("struct_for")?;
    let (_, ours) = STRUCTURES
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| Mismatch::new(format!("we have no structure {name}")))?;
    equal("size", *ours as u64, case.number("size")?)?;
    Ok(Outcome::Compared)
}

/// Sizes by the C structure's name without its prefix.
macro_rules! structures {
    ($($name:literal $type:ident,)*) => {
        const STRUCTURES: &[(&str, usize)] = &[$(($name, size_of::<arg::$type>()),)*];
    };
}

structures! {
    "device_reset" DeviceReset,
    "device_ready" DeviceReady,
    "cinit_set" CinitSet,
    "semaphore" Semaphore,
    "event" Event,
    "bar_rw" BarRw,
    "post_metric" PostMetric,
    "read_hw_counters" ReadHwCounters,
    "neuron_ds_info" NeuronDsInfo,
    "crwl" Crwl,
    "crwl_nc_map" CrwlNcMap,
    "printk" Printk,
    "mem_copy" MemCopy,
    "mem_copy64" MemCopy64,
    "mem_copy_async" MemCopyAsync,
    "mem_copy_async64" MemCopyAsync64,
    "mem_copy_async_wait" MemCopyAsyncWait,
    "mem_buf_copy" MemBufCopy,
    "mem_buf_copy64" MemBufCopy64,
    "mem_buf_copy64zc" MemBufCopy64Zc,
    "mem_buf_copy64zc_batches" MemBufCopy64ZcBatches,
    "memset" Memset,
    "memset64" Memset64,
    "program_engine" ProgramEngine,
    "program_engine_nc" ProgramEngineNc,
    "program_engine_nc64" ProgramEngineNc64,
    "device_basic_info" DeviceBasicInfo,
    "device_driver_info" DeviceDriverInfo,
    "compatible_version" CompatibleVersion,
    "device_info" DeviceInfo,
    "device_bdf" DeviceBdf,
    "device_bdf_ext" DeviceBdfExt,
    "get_apps_info" GetAppsInfo,
    "app_info" AppInfo,
    "dma_eng_init" DmaEngInit,
    "dma_eng_set_state" DmaEngSetState,
    "dma_eng_get_state" DmaEngGetState,
    "dma_eng_state" DmaEngState,
    "dma_queue_init" DmaQueueInit,
    "dma_queue_init_batch" DmaQueueInitBatch,
    "dma_queue_release" DmaQueueRelease,
    "dma_queue_copy_start" DmaQueueCopyStart,
    "dma_ack_completed" DmaAckCompleted,
    "dma_queue_get_state" DmaQueueGetState,
    "dma_queue_state" DmaQueueState,
    "dma_copy_descriptors" DmaCopyDescriptors,
    "dma_copy_descriptors64" DmaCopyDescriptors64,
    "dma_descriptor_copyout" DmaDescriptorCopyout,
    "dma_quiesce_queues" DmaQuiesceQueues,
    "h2t_dma_alloc_queues" H2tDmaAllocQueues,
    "h2t_dma_free_queues" H2tDmaFreeQueues,
    "mem_alloc" MemAlloc,
    "mem_alloc_v2" MemAllocV2,
    "mem_alloc_v2_mem_type" MemAllocV2MemType,
    "mem_alloc_v2_mem_type64" MemAllocV2MemType64,
    "mem_free" MemFree,
    "mem_get_pa" MemGetPa,
    "mem_get_info" MemGetInfo,
    "mem_get_extended_info" MemGetExtendedInfo,
    "mem_get_mc_mmap_info" MemGetMcMmapInfo,
    "mem_get_mc_mmap_info_v2" MemGetMcMmapInfoV2,
    "dump_mem_chunks" DumpMemChunks,
    "resource_mmap_info" ResourceMmapInfo,
    "dmabuf_fd" DmabufFd,
}
