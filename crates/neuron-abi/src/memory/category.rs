//! [`MemLocation`] and [`Category`]: what the driver knows of an allocation.

use crate::enumeration::enumeration;

enumeration! {
    /// Where memory is (`mem_type` of a dmem, spec/dmem.md 1.1; `mem_location` of a chunk,
    /// spec/mempool.md 1).
    MemLocation: u32 {
        /// Not set.
        Invalid = 0, "INVALID";
        /// Host memory the device can reach (`HOST_DRAM`).
        Host = 1, "HOST";
        /// Device memory, HBM (`TONGA_DRAM`).
        Device = 2, "DEVICE";
    }

    /// What an allocation is for, as the driver counts it: `mem_type` of the allocation commands
    /// (`mem_alloc_category_t`, spec/mempool.md 8).
    Category: u32 {
        /// Not told, host.
        UnknownHost = 0, "UNKNOWN_HOST";
        /// Instructions, host.
        CodeHost = 1, "CODE_HOST";
        /// Tensors, host.
        TensorsHost = 2, "TENSORS_HOST";
        /// Weights, host.
        ConstantsHost = 3, "CONSTANTS_HOST";
        /// The application's rest, host.
        MiscHost = 4, "MISC_HOST";
        /// The driver's own, host.
        NcdevHost = 5, "NCDEV_HOST";
        /// Notification queues, host.
        NotificationHost = 6, "NOTIFICATION_HOST";
        /// Not told, device.
        UnknownDevice = 7, "UNKNOWN_DEVICE";
        /// Instructions, device.
        CodeDevice = 8, "CODE_DEVICE";
        /// Tensors, device.
        TensorsDevice = 9, "TENSORS_DEVICE";
        /// Weights, device.
        ConstantsDevice = 10, "CONSTANTS_DEVICE";
        /// Shared scratchpad, device.
        ScratchpadDevice = 11, "SCRATCHPAD_DEVICE";
        /// The runtime's rest, device.
        MiscDevice = 12, "MISC_DEVICE";
        /// The driver's own, device.
        NcdevDevice = 13, "NCDEV_DEVICE";
        /// Collectives, device.
        CollectivesDevice = 14, "COLLECTIVES_DEVICE";
        /// Scratchpad of one model, device.
        ScratchpadNonsharedDevice = 15, "SCRATCHPAD_NONSHARED_DEVICE";
        /// Notification queues, device.
        NotificationDevice = 16, "NOTIFICATION_DEVICE";
        /// DMA rings, host.
        DmaRingsHost = 17, "DMA_RINGS_HOST";
        /// DMA rings, device.
        DmaRingsDevice = 18, "DMA_RINGS_DEVICE";
        /// Pages of the contiguous scratchpad, device: placed downwards from the end of the main pool.
        ContiguousScratchpadDevice = 19, "CONTIGUOUS_SCRATCHPAD_DEVICE";
    }
}

impl Category {
    /// Number of categories, and the runtime's mark for "not allowed at this location", which no correct
    /// runtime sends.
    pub const COUNT: u32 = 20;

    /// Where memory of this category belongs. The driver does not check it against where it is.
    pub const fn location(self) -> MemLocation {
        use Category::*;
        match self {
            UnknownHost | CodeHost | TensorsHost | ConstantsHost | MiscHost | NcdevHost
            | NotificationHost | DmaRingsHost => MemLocation::Host,
            _ => MemLocation::Device,
        }
    }

    /// Category an allocation without one gets, and under which unknown numbers are counted.
    pub const fn unknown(on_host: bool) -> Category {
        if on_host { Category::UnknownHost } else { Category::UnknownDevice }
    }

    /// Category under which the driver counts a `mem_type` as given: numbers that are none count as the
    /// location's unknown.
    pub const fn accounted(mem_type: u32, on_host: bool) -> Category {
        match Category::from_raw(mem_type) {
            Some(category) => category,
            None => Category::unknown(on_host),
        }
    }

    /// Directory of the counter in sysfs, with its parent: under `stats/memory_usage` of the device for
    /// host categories, of a core for device ones (spec/sysfs.md 3). Two categories share
    /// `device_mem/model_shared_scratchpad`.
    pub const fn sysfs_node(self) -> &'static str {
        match self {
            Category::UnknownHost => "host_mem/uncategorized",
            Category::CodeHost => "host_mem/dma_buffers",
            Category::TensorsHost => "host_mem/tensors",
            Category::ConstantsHost => "host_mem/constants",
            Category::MiscHost => "host_mem/application_memory",
            Category::NcdevHost => "host_mem/driver_memory",
            Category::NotificationHost => "host_mem/notifications",
            Category::DmaRingsHost => "host_mem/dma_rings",
            Category::UnknownDevice => "device_mem/uncategorized",
            Category::CodeDevice => "device_mem/model_code",
            Category::TensorsDevice => "device_mem/tensors",
            Category::ConstantsDevice => "device_mem/constants",
            Category::ScratchpadDevice | Category::ContiguousScratchpadDevice => {
                "device_mem/model_shared_scratchpad"
            }
            Category::MiscDevice => "device_mem/runtime_memory",
            Category::NcdevDevice => "device_mem/driver_memory",
            Category::CollectivesDevice => "device_mem/collectives",
            Category::ScratchpadNonsharedDevice => "device_mem/nonshared_scratchpad",
            Category::NotificationDevice => "device_mem/notifications",
            Category::DmaRingsDevice => "device_mem/dma_rings",
        }
    }
}
