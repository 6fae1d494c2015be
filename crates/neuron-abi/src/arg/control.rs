//! Arguments of reset and core init, and of the commands around memory and DMA that this stack carries for
//! completeness: semaphores, events, BAR access, notifications, data store, core locks, scrub
//! (spec/abi.md 8 and 10).

abi_struct! {
    /// Argument of [`NC_RESET`](crate::cmd::NC_RESET) (`device_reset`, spec/abi.md 8).
    DeviceReset, size 8 {
        0 => nc_map: u32, "in: cores to reset; all ones = the whole device ([`crate::limits::DEVICE_MAP`]).";
        4 => request_id: u32, "out: id to wait for, the caller's tgid.";
    }

    /// Argument of [`NC_RESET_READY`](crate::cmd::NC_RESET_READY) (`device_ready`, spec/abi.md 8).
    DeviceReady, size 8 {
        0 => request_id: u32, "in: from [`DeviceReset`].";
        4 => result: i32, "out: 0 done, 1 failed or unknown id, -EINTR on a fatal signal. The ioctl itself returns 0.";
    }

    /// Argument of [`CINIT_SET_STATE`](crate::cmd::CINIT_SET_STATE) (`cinit_set`, spec/abi.md 8).
    CinitSet, size 12 {
        0 => nc_id: u32, "in: core.";
        4 => state: u32, "in: [`crate::enums::CinitState`] to enter.";
        8 => new_state: u32, "out: [`crate::enums::CinitState`] afterwards.";
    }

    /// Argument of [`NC_MODEL_STARTED_COUNT`](crate::cmd::NC_MODEL_STARTED_COUNT) (spec/abi.md 8).
    NcModelStartedCount, size 16 {
        0 => nc_id: u32, "in: core.";
        4 => _pad: [u8; 4], "Hole.";
        8 => started_count: u64, "out: always 0 on V2 and later.";
    }

    /// Argument of the [`SEMAPHORE_*`](crate::cmd::SEMAPHORE_READ) commands (`semaphore`).
    Semaphore, size 12 {
        0 => nc_id: u32, "in: core.";
        4 => semaphore_index: u32, "in: 0..255.";
        8 => value: u32, "in for write, increment, decrement; out for read.";
    }

    /// Argument of [`EVENT_SET`](crate::cmd::EVENT_SET) and [`EVENT_GET`](crate::cmd::EVENT_GET)
    /// (`event`).
    Event, size 12 {
        0 => nc_id: u32, "in: core.";
        4 => event_index: u32, "in: 0..255.";
        8 => value: u32, "in for set, out for get.";
    }

    /// Argument of [`BAR_READ`](crate::cmd::BAR_READ) and [`BAR_WRITE`](crate::cmd::BAR_WRITE)
    /// (`bar_rw`).
    BarRw, size 32 {
        0 => bar: u32, "in: BAR number.";
        4 => _pad: [u8; 4], "Hole.";
        8 => address: u64, "in: user address of `count` `u64` addresses (BAR 0), or one address (others).";
        16 => data: u64, "in: user address of `count` `u32` words.";
        24 => count: u32, "in: words.";
        28 => _tail: [u8; 4], "Tail.";
    }

    /// Argument of [`POST_METRIC`](crate::cmd::POST_METRIC) (`post_metric`).
    PostMetric, size 16 {
        0 => data: u64, "in: user address of the metric.";
        8 => data_size: u32, "in: bytes.";
        12 => _pad: [u8; 4], "Tail.";
    }

    /// Argument of [`READ_HW_COUNTERS`](crate::cmd::READ_HW_COUNTERS).
    ReadHwCounters, size 24 {
        0 => address: u64, "in: user address of the counters' addresses.";
        8 => data: u64, "in: user address that receives the values.";
        16 => count: u32, "in: counters.";
        20 => _pad: [u8; 4], "Tail.";
    }

    /// Argument of [`NOTIFICATIONS_INIT_V1`](crate::cmd::NOTIFICATIONS_INIT_V1): a ring in host memory.
    NotificationsInitV1, size 24 {
        0 => nc_id: u32, "in: core.";
        4 => nq_type: u32, "in: [`crate::enums::NqType`].";
        8 => engine_index: u32, "in: engine of the core.";
        12 => size: u32, "in: bytes.";
        16 => mmap_offset: u64, "out: mmap offset.";
    }

    /// Argument of [`NOTIFICATIONS_INIT_V2`](crate::cmd::NOTIFICATIONS_INIT_V2).
    NotificationsInitV2, size 48 {
        0 => nq_dev_id: u32, "in: core or TopSP.";
        4 => nq_dev_type: u32, "in: [`crate::enums::NqDevice`].";
        8 => nq_type: u32, "in: [`crate::enums::NqType`].";
        12 => engine_index: u32, "in: engine.";
        16 => size: u32, "in: bytes, a power of two.";
        20 => on_host_memory: u32, "in: non-zero puts the ring in host memory.";
        24 => dram_channel: u32, "in: HBM index.";
        28 => dram_region: u32, "in: region.";
        32 => mmap_offset: u64, "out: mmap offset; all ones for device memory.";
        40 => mem_handle: u64, "out: handle.";
    }

    /// Argument of
    /// [`NOTIFICATIONS_INIT_WITH_REALLOC_V2`](crate::cmd::NOTIFICATIONS_INIT_WITH_REALLOC_V2).
    NotificationsInitWithReallocV2, size 56 {
        0 => nq_dev_id: u32, "in: core or TopSP.";
        4 => nq_dev_type: u32, "in: [`crate::enums::NqDevice`].";
        8 => nq_type: u32, "in: [`crate::enums::NqType`].";
        12 => engine_index: u32, "in: engine.";
        16 => size: u32, "in: bytes, a power of two.";
        20 => on_host_memory: u32, "in: non-zero puts the ring in host memory.";
        24 => dram_channel: u32, "in: HBM index.";
        28 => dram_region: u32, "in: region.";
        32 => force_alloc_mem: u32, "in: non-zero asks for new memory (our reading of the name).";
        36 => _pad: [u8; 4], "Hole.";
        40 => mmap_offset: u64, "out: mmap offset; all ones for device memory.";
        48 => mem_handle: u64, "out: handle.";
    }

    /// Argument of [`ACQUIRE_NEURON_DS`](crate::cmd::ACQUIRE_NEURON_DS) and
    /// [`RELEASE_NEURON_DS`](crate::cmd::RELEASE_NEURON_DS) (`neuron_ds_info`).
    NeuronDsInfo, size 24 {
        0 => pid: i32, "in: 0 = the caller's own data store, else that process's.";
        4 => _pad: [u8; 4], "Hole.";
        8 => mmap_offset: u64, "out: mmap offset.";
        16 => size: u32, "out: bytes ([`crate::limits::DATASTORE_SIZE`]).";
        20 => _tail: [u8; 4], "Tail.";
    }

    /// Argument of the reader and writer lock commands of a core's model, such as
    /// [`CRWL_READER_ENTER`](crate::cmd::CRWL_READER_ENTER) (`crwl`).
    Crwl, size 36 {
        0 => nc_id: u32, "in: core.";
        4 => uuid: [u8; 32], "in: identity of the model.";
    }

    /// Argument of [`CRWL_NC_RANGE_MARK`](crate::cmd::CRWL_NC_RANGE_MARK) and
    /// [`CRWL_NC_RANGE_UNMARK`](crate::cmd::CRWL_NC_RANGE_UNMARK) (`crwl_nc_map`).
    CrwlNcMap, size 24 {
        0 => nc_count: u32, "in: cores wanted.";
        4 => start: u32, "in: first core of the range, relative to the opened device.";
        8 => end: u32, "in: last core, inclusive.";
        12 => max_nc_available: u32, "out: longest free run found.";
        16 => bitmap: u64, "out for mark: the cores, one bit each.";
    }

    /// The same for more than 64 cores ([`CRWL_NC_RANGE_MARK_EXT0`](crate::cmd::CRWL_NC_RANGE_MARK_EXT0),
    /// `crwl_nc_map_ext`).
    CrwlNcMapExt, size 80 {
        0 => nc_count: u32, "in: cores wanted.";
        4 => start: u32, "in: first core of the range, relative to the opened device.";
        8 => end: u32, "in: last core, inclusive.";
        12 => max_nc_available: u32, "out: longest free run found.";
        16 => bitmap: [u64; 8], "out for mark: the cores, one bit each.";
    }

    /// Argument of [`PRINTK`](crate::cmd::PRINTK) (`printk`).
    Printk, size 16 {
        0 => buffer: u64, "in: user address of the text; its last byte is NUL.";
        8 => size: u32, "in: bytes with the NUL, 1..512 ([`crate::limits::PRINTK_MAX`]).";
        12 => action: u32, "in: what to do with it (values not established).";
    }

    /// Argument of [`NC_PID_STATE_DUMP`](crate::cmd::NC_PID_STATE_DUMP): writes to the kernel log only.
    NcPidStateDump, size 16 {
        0 => size: u32, "in: size of this struct.";
        4 => nc_id: u32, "in: core.";
        8 => filter_log_owner: u32, "in: filter (meaning not established).";
        12 => log_dump_limit: u32, "in: limit (meaning not established).";
    }

    /// Argument of [`HBM_SCRUB_START`](crate::cmd::HBM_SCRUB_START).
    HbmScrubStart, size 16 {
        0 => nc_id: u32, "in: core.";
        4 => hbm_index: u32, "in: HBM index; a bad one is EPERM.";
        8 => axi_port: u32, "in: port.";
        12 => init_val: u32, "in: the value HBM is filled with.";
    }

    /// Argument of [`HBM_SCRUB_WAIT`](crate::cmd::HBM_SCRUB_WAIT).
    HbmScrubWait, size 8 {
        0 => nc_id: u32, "in: core.";
        4 => hbm_index: u32, "in: HBM index.";
    }

    /// Argument of [`POWER_PROFILE`](crate::cmd::POWER_PROFILE).
    PowerProfile, size 8 {
        0 => sz: u16, "in: 8, checked (ENXIO).";
        2 => ctrl: u16, "in: 0, checked (ENOTSUPP).";
        4 => profile: u32, "in: profile.";
    }
}
