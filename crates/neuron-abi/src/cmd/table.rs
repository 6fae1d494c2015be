//! The table of spec/abi.md 3, one constant a row, and [`ALL`].
//!
//! Numbers 132 and 134 of driver 2.27.4 are missing: their words are not established.

use super::{Command, Dir, Lane, POINTER_SIZE, Release, encode};
use crate::arg::*;

/// Declares the commands: `nr NAME = direction, argument, lane, since;`.
///
/// The argument is `none`, `val(T)` (the size field is T's size) or `ptr(T)` (declared with a pointer to T:
/// the size field is 8). `[u8; n]` stands for an argument of which only the size is known.
macro_rules! commands {
    ($( $(#[$meta:meta])* $nr:literal $name:ident = $dir:ident, $form:ident $(($arg:ty))?, $lane:ident, $since:ident; )*) => {
        $(
            $(#[$meta])*
            pub const $name: Command = Command {
                name: stringify!($name),
                word: encode(Dir::$dir, $nr, commands!(@field $form $($arg)?)),
                arg_size: commands!(@size $($arg)?),
                lane: Lane::$lane,
                since: Release::$since,
            };
        )*

        /// Every command of the interface, in ascending number.
        pub const ALL: &[Command] = &[$($name),*];
    };
    (@field none) => { 0 };
    (@field val $arg:ty) => { size_of::<$arg>() };
    (@field ptr $arg:ty) => { POINTER_SIZE };
    (@size) => { 0 };
    (@size $arg:ty) => { size_of::<$arg>() };
}

commands! {
    /// Resets the whole device; always succeeds.
    1 DEVICE_RESET = None, none, Full, V2_24_7;
    /// Waits for the caller's reset; writes 1 for success, 0 for failure.
    2 DEVICE_READY = Read, val(u8), Full, V2_24_7;
    /// Architecture, neighbours and BARs ([`DeviceInfo`]).
    3 DEVICE_INFO = Read, ptr(DeviceInfo), Full, V2_24_7;
    /// Does nothing; the argument is not read.
    4 DEVICE_INIT = Read, ptr([u8; 4]), Full, V2_24_7;
    /// Does nothing.
    5 DEVICE_RELEASE = None, none, Full, V2_24_7;
    /// Process in the first slot, 0 if none (`i32`).
    6 DEVICE_APP_PID = Read, val(i32), Full, V2_24_7;
    /// Attached processes ([`GetAppsInfo`], then [`AppInfo`] entries).
    7 DEVICE_GET_ALL_APPS_INFO = Read, ptr(GetAppsInfo), Full, V2_24_7;
    /// Reads device registers ([`BarRw`]).
    11 BAR_READ = Read, ptr(BarRw), Full, V2_24_7;
    /// Writes device registers ([`BarRw`]).
    12 BAR_WRITE = Write, ptr(BarRw), Gated, V2_24_7;
    /// Posts a firmware metric ([`PostMetric`]).
    13 POST_METRIC = Write, ptr(PostMetric), Gated, V2_24_7;
    /// Allocates, oldest form ([`MemAlloc`]).
    21 MEM_ALLOC = Read, ptr(MemAlloc), Gated, V2_24_7;
    /// Frees ([`MemFree`]).
    22 MEM_FREE = Read, ptr(MemFree), Gated, V2_24_7;
    /// Copies chunk to chunk, synchronously ([`MemCopy`]).
    23 MEM_COPY = Read, ptr(MemCopy), Gated, V2_24_7;
    /// [`MEM_COPY`] with 64-bit sizes ([`MemCopy64`]).
    23 MEM_COPY64 = Read, val(MemCopy64), Full, V2_24_7;
    /// Copies between a user buffer and a chunk ([`MemBufCopy`]).
    24 MEM_BUF_COPY = ReadWrite, ptr(MemBufCopy), Full, V2_24_7;
    /// [`MEM_BUF_COPY`] with 64-bit sizes ([`MemBufCopy64`]).
    24 MEM_BUF_COPY64 = ReadWrite, val(MemBufCopy64), Full, V2_24_7;
    /// Physical address of a handle ([`MemGetPa`]).
    25 MEM_GET_PA = Read, ptr(MemGetPa), Gated, V2_24_7;
    /// Physical address and mmap offset of a handle ([`MemGetInfo`]).
    26 MEM_GET_INFO = Read, ptr(MemGetInfo), Gated, V2_24_7;
    /// Writes to an on-chip region through core 0 ([`ProgramEngine`]).
    27 PROGRAM_ENGINE = ReadWrite, ptr(ProgramEngine), Full, V2_24_7;
    /// Fills a range of a chunk ([`Memset`]).
    28 MEMSET = Read, ptr(Memset), Full, V2_24_7;
    /// [`MEMSET`] with a 64-bit size ([`Memset64`]).
    28 MEMSET64 = Read, val(Memset64), Full, V2_24_7;
    /// Everything about a handle ([`MemGetExtendedInfo`]).
    29 MEM_GET_EXTENDED_INFO = Read, ptr(MemGetExtendedInfo), Full, V2_24_7;
    /// Does nothing; the argument is not read ([`DmaEngInit`]).
    30 DMA_ENG_INIT = Read, ptr(DmaEngInit), Gated, V2_24_7;
    /// Changes an engine's state ([`DmaEngSetState`]).
    31 DMA_ENG_SET_STATE = Read, ptr(DmaEngSetState), Gated, V2_24_7;
    /// Reads an engine's state ([`DmaEngGetState`]).
    32 DMA_ENG_GET_STATE = ReadWrite, ptr(DmaEngGetState), Full, V2_24_7;
    /// Programs the rings of a queue ([`DmaQueueInit`]).
    33 DMA_QUEUE_INIT = Read, ptr(DmaQueueInit), Gated, V2_24_7;
    /// Traces only; frees nothing ([`DmaQueueRelease`]).
    34 DMA_QUEUE_RELEASE = Read, ptr(DmaQueueRelease), Gated, V2_24_7;
    /// Rings the doorbells of a queue ([`DmaQueueCopyStart`]).
    35 DMA_QUEUE_COPY_START = Read, ptr(DmaQueueCopyStart), Full, V2_24_7;
    /// Acknowledges completed descriptors ([`DmaAckCompleted`]).
    36 DMA_ACK_COMPLETED = Read, ptr(DmaAckCompleted), Gated, V2_24_7;
    /// Reads a queue's state ([`DmaQueueGetState`]).
    37 DMA_QUEUE_GET_STATE = ReadWrite, ptr(DmaQueueGetState), Full, V2_24_7;
    /// Stores descriptors into a ring's chunk ([`DmaCopyDescriptors`]).
    38 DMA_COPY_DESCRIPTORS = Read, ptr(DmaCopyDescriptors), Gated, V2_24_7;
    /// [`DMA_COPY_DESCRIPTORS`] with a 64-bit offset ([`DmaCopyDescriptors64`]).
    38 DMA_COPY_DESCRIPTORS64 = Read, val(DmaCopyDescriptors64), Full, V2_24_7;
    /// Reads descriptors of a live ring ([`DmaDescriptorCopyout`]).
    39 DMA_DESCRIPTOR_COPYOUT = ReadWrite, ptr(DmaDescriptorCopyout), Full, V2_24_7;
    /// No longer served: ENOTTY ([`DmaQuiesceQueues`]).
    40 DMA_QUIESCE_QUEUES = Read, ptr(DmaQuiesceQueues), Full, V2_24_7;
    /// Adds to a semaphore ([`Semaphore`]).
    41 SEMAPHORE_INCREMENT = Read, ptr(Semaphore), Full, V2_24_7;
    /// Subtracts from a semaphore ([`Semaphore`]).
    42 SEMAPHORE_DECREMENT = Read, ptr(Semaphore), Full, V2_24_7;
    /// Reads a semaphore ([`Semaphore`]).
    43 SEMAPHORE_READ = ReadWrite, ptr(Semaphore), Full, V2_24_7;
    /// Sets a semaphore ([`Semaphore`]).
    44 SEMAPHORE_WRITE = Read, ptr(Semaphore), Full, V2_24_7;
    /// Sets an event ([`Event`]).
    45 EVENT_SET = Read, ptr(Event), Full, V2_24_7;
    /// Reads an event ([`Event`]).
    46 EVENT_GET = ReadWrite, ptr(Event), Full, V2_24_7;
    /// Sets up a notification queue in host memory ([`NotificationsInitV1`]).
    51 NOTIFICATIONS_INIT_V1 = Read, ptr(NotificationsInitV1), Gated, V2_24_7;
    /// Does nothing; the argument is not read.
    52 NOTIFICATIONS_DESTROY_V1 = Read, ptr([u8; 8]), Full, V2_24_7;
    /// Sets up a notification queue ([`NotificationsInitV2`]).
    53 NOTIFICATIONS_INIT_V2 = Read, ptr(NotificationsInitV2), Gated, V2_24_7;
    /// Sets up a notification queue, in new memory if asked ([`NotificationsInitWithReallocV2`]).
    54 NOTIFICATIONS_INIT_WITH_REALLOC_V2 = Read, ptr(NotificationsInitWithReallocV2), Gated, V2_24_7;
    /// Always EPERM; the argument is not read.
    58 NOTIFICATIONS_QUEUE_INFO = Read, ptr([u8; 12]), Full, V2_24_7;
    /// Reads hardware counters ([`ReadHwCounters`]).
    61 READ_HW_COUNTERS = Read, ptr(ReadHwCounters), Full, V2_24_7;
    /// Gets a process's data store ([`NeuronDsInfo`]).
    71 ACQUIRE_NEURON_DS = Read, ptr(NeuronDsInfo), Full, V2_24_7;
    /// Gives it back ([`NeuronDsInfo`]).
    72 RELEASE_NEURON_DS = Read, ptr(NeuronDsInfo), Full, V2_24_7;
    /// Enters a core's model lock as a reader ([`Crwl`]).
    81 CRWL_READER_ENTER = Write, ptr(Crwl), Full, V2_24_7;
    /// Leaves it ([`Crwl`]).
    82 CRWL_READER_EXIT = Write, ptr(Crwl), Full, V2_24_7;
    /// Enters a core's model lock as the writer ([`Crwl`]).
    83 CRWL_WRITER_ENTER = Write, ptr(Crwl), Full, V2_24_7;
    /// Turns the writer into a reader ([`Crwl`]).
    84 CRWL_WRITER_DOWNGRADE = Write, ptr(Crwl), Full, V2_24_7;
    /// Claims a run of free cores ([`CrwlNcMap`]).
    85 CRWL_NC_RANGE_MARK = Write, ptr(CrwlNcMap), Misc, V2_24_7;
    /// [`CRWL_NC_RANGE_MARK`] for more cores ([`CrwlNcMapExt`]).
    85 CRWL_NC_RANGE_MARK_EXT0 = ReadWrite, val(CrwlNcMapExt), Misc, V2_24_7;
    /// Gives claimed cores back ([`CrwlNcMap`]).
    86 CRWL_NC_RANGE_UNMARK = Write, ptr(CrwlNcMap), Misc, V2_24_7;
    /// [`CRWL_NC_RANGE_UNMARK`] for more cores ([`CrwlNcMapExt`]).
    86 CRWL_NC_RANGE_UNMARK_EXT0 = Write, val(CrwlNcMapExt), Misc, V2_24_7;
    /// Moves a core's init state ([`CinitSet`]).
    91 CINIT_SET_STATE = Write, ptr(CinitSet), Full, V2_24_7;
    /// Models started on a core ([`NcModelStartedCount`]).
    92 NC_MODEL_STARTED_COUNT = Write, ptr(NcModelStartedCount), Full, V2_24_7;
    /// Runtime ids the driver works with ([`CompatibleVersion`]).
    93 COMPATIBLE_VERSION = Write, ptr(CompatibleVersion), Misc, V2_24_7;
    /// Architecture and revision ([`DeviceBasicInfo`]).
    100 DEVICE_BASIC_INFO = Write, ptr(DeviceBasicInfo), Misc, V2_24_7;
    /// PCI address of the opened device ([`DeviceBdf`]).
    101 DEVICE_BDF = Read, ptr(DeviceBdf), Full, V2_24_7;
    /// Allocates with alignment ([`MemAllocV2`]).
    102 MEM_ALLOC_V2 = Read, ptr(MemAllocV2), Full, V2_24_7;
    /// Allocates with alignment and category ([`MemAllocV2MemType`]).
    102 MEM_ALLOC_V2MT = Read, val(MemAllocV2MemType), Full, V2_24_7;
    /// [`MEM_ALLOC_V2MT`] of a driver that takes 4 GiB and more ([`MemAllocV2MemType64`]).
    102 MEM_ALLOC_V2MT64 = Read, val(MemAllocV2MemType64), Full, V2_24_7;
    /// Resets cores ([`DeviceReset`]).
    103 NC_RESET = Read, ptr(DeviceReset), Full, V2_24_7;
    /// Waits for a reset ([`DeviceReady`]).
    104 NC_RESET_READY = Read, ptr(DeviceReady), Full, V2_24_7;
    /// Writes to an on-chip region through a core's engine ([`ProgramEngineNc`]).
    105 PROGRAM_ENGINE_NC = ReadWrite, ptr(ProgramEngineNc), Full, V2_24_7;
    /// [`PROGRAM_ENGINE_NC`] with 64-bit sizes ([`ProgramEngineNc64`]).
    105 PROGRAM_ENGINE_NC64 = ReadWrite, val(ProgramEngineNc64), Full, V2_24_7;
    /// Writes 1.
    106 DEVICE_RESET_STATUS = Read, val(u8), Full, V2_24_7;
    /// PCI address of any device ([`DeviceBdfExt`]).
    106 DEVICE_BDF_EXT = Read, ptr(DeviceBdfExt), Misc, V2_24_7;
    /// A dma-buf for mapped device memory ([`DmabufFd`]).
    107 DMABUF_FD = Read, ptr(DmabufFd), Misc, V2_24_7;
    /// Copies chunk to chunk, overlapping with the previous copy ([`MemCopyAsync`]).
    108 MEM_COPY_ASYNC = ReadWrite, val(MemCopyAsync), Gated, V2_24_7;
    /// [`MEM_COPY_ASYNC`] with 64-bit sizes ([`MemCopyAsync64`]).
    108 MEM_COPY_ASYNC64 = ReadWrite, val(MemCopyAsync64), Full, V2_24_7;
    /// Waits for an asynchronous copy ([`MemCopyAsyncWait`]).
    109 MEM_COPY_ASYNC_WAIT = Write, val(MemCopyAsyncWait), Gated, V2_24_7;
    /// Driver description with feature bits ([`DeviceDriverInfo`]); matched by number.
    110 DRIVER_INFO_GET = Read, val(DeviceDriverInfo), Misc, V2_24_7;
    /// Not supported: ENOTSUPP ([`DeviceDriverInfo`]).
    110 DRIVER_INFO_SET = Write, val(DeviceDriverInfo), GatedThenMisc, V2_24_7;
    /// The chunk that holds an address ([`MemGetMcMmapInfo`]).
    111 MEM_MC_GET_INFO = ReadWrite, val(MemGetMcMmapInfo), Full, V2_24_7;
    /// [`MEM_MC_GET_INFO`] with its handle ([`MemGetMcMmapInfoV2`]).
    111 MEM_MC_GET_INFO_V2 = ReadWrite, val(MemGetMcMmapInfoV2), Full, V2_24_7;
    /// mmap cookie of an on-chip block ([`ResourceMmapInfo`]).
    112 RESOURCE_MMAP_INFO = ReadWrite, val(ResourceMmapInfo), Full, V2_24_7;
    /// Writes a line to the kernel log ([`Printk`]).
    113 PRINTK = Write, val(Printk), Misc, V2_24_7;
    /// The device's own index (`u32`).
    114 HOST_DEVICE_ID = Read, val(u32), Full, V2_24_7;
    /// Device index to routing id ([`HostDeviceIdToRidMap`]); matched by number.
    115 HOST_DEVICE_ID_TO_RID_MAP = ReadWrite, val(HostDeviceIdToRidMap), Misc, V2_24_7;
    /// Lists the chunks of one HBM ([`DumpMemChunks`]).
    116 DUMP_MEM_CHUNKS = Read, ptr(DumpMemChunks), Full, V2_24_7;
    /// Logs the state of cores and processes ([`NcPidStateDump`]).
    117 NC_PID_STATE_DUMP = ReadWrite, val(NcPidStateDump), Misc, V2_24_7;
    /// Starts filling an HBM ([`HbmScrubStart`]).
    118 HBM_SCRUB_START = ReadWrite, val(HbmScrubStart), Full, V2_24_7;
    /// Waits for it ([`HbmScrubWait`]).
    119 HBM_SCRUB_WAIT = ReadWrite, val(HbmScrubWait), Full, V2_24_7;
    /// Logical to physical cores ([`LogicalToPhysicalNcMap`]).
    120 GET_LOGICAL_TO_PHYSICAL_NC_MAP = ReadWrite, val(LogicalToPhysicalNcMap), Misc, V2_24_7;
    /// Pod the node is in ([`PodInfo`]); matched by number.
    121 POD_INFO = ReadWrite, val(PodInfo), Misc, V2_24_7;
    /// State of the pod ([`PodStatus`]); matched by number.
    122 POD_STATUS = ReadWrite, val(PodStatus), Misc, V2_24_7;
    /// [`POD_STATUS`] with the mode ([`PodStatusV2`]); matched by number.
    122 POD_STATUS_V2 = ReadWrite, val(PodStatusV2), Misc, V2_24_7;
    /// Controls pod election ([`PodCtrl`]); matched by number.
    123 POD_CTRL = ReadWrite, val(PodCtrl), Misc, V2_24_7;
    /// [`POD_CTRL`] with the mode ([`PodCtrlV2`]); matched by number.
    123 POD_CTRL_V2 = ReadWrite, val(PodCtrlV2), Misc, V2_24_7;
    /// DMA between user pages and a chunk ([`MemBufCopy64Zc`]). This form since 2.25.4; see
    /// [`MEM_BUF_ZEROCOPY64_OLD`].
    124 MEM_BUF_ZEROCOPY64 = ReadWrite, val(MemBufCopy64Zc), Full, V2_25_4;
    /// Allocates H2T queues to the caller ([`H2tDmaAllocQueues`]).
    125 H2T_DMA_ALLOC_QUEUES = ReadWrite, val(H2tDmaAllocQueues), Full, V2_25_4;
    /// Releases them ([`H2tDmaFreeQueues`]).
    126 H2T_DMA_FREE_QUEUES = ReadWrite, val(H2tDmaFreeQueues), Full, V2_25_4;
    /// Sets the power profile ([`PowerProfile`]).
    127 POWER_PROFILE = Write, val(PowerProfile), Full, V2_25_4;
    /// Periodic metrics on (0) or off (1) (`u32`).
    128 METRICS_CTRL = Write, val(u32), Full, V2_25_4;
    /// Zero-copy of many pieces ([`MemBufCopy64ZcBatches`]).
    129 MEM_BUF_ZEROCOPY64_BATCHES = ReadWrite, val(MemBufCopy64ZcBatches), Full, V2_25_4;
    /// Throttling notifications. Only the size is established; the name is our choice.
    130 THROTTLING_NOTIFICATIONS_CTRL = Write, val([u8; 4]), Full, V2_27_4;
    /// Placement of a virtual address ([`GetVaPlacement`]).
    131 GET_VA_PLACEMENT = Write, val(GetVaPlacement), Misc, V2_27_4;
    /// Programs up to 255 queues ([`DmaQueueInitBatch`]).
    133 DMA_QUEUE_INIT_BATCH = Read, val(DmaQueueInitBatch), Full, V2_24_7;
    /// Where the asynchronous completion queues of a core can be mapped
    /// ([`GetAsyncH2tDmaComplQueues`]).
    135 GET_ASYNC_H2T_DMA_COMPL_QUEUES = ReadWrite, val(GetAsyncH2tDmaComplQueues), Full, V2_27_4;
}

/// Zero-copy of driver 2.24.7: default queue only, no BAR4 threshold ([`MemBufCopy64`]).
///
/// Not in [`ALL`]: releases from 2.25.4 on refuse the word, and 2.24.7 reads these 40 bytes whatever the
/// size field says. So a client need not send it: the longer form serves both (spec/ndl.md 8.1).
pub const MEM_BUF_ZEROCOPY64_OLD: Command = Command {
    name: "MEM_BUF_ZEROCOPY64_OLD",
    word: encode(Dir::ReadWrite, 124, size_of::<MemBufCopy64>()),
    arg_size: size_of::<MemBufCopy64>(),
    lane: Lane::Full,
    since: Release::V2_24_7,
};
