//! Arguments of the commands that only tell: device, driver, topology, processes, pods (spec/abi.md 7).
//! Nothing here changes a device, except the pod election control that shares its layouts.

abi_struct! {
    /// Argument of [`DEVICE_BASIC_INFO`](crate::cmd::DEVICE_BASIC_INFO) (`device_basic_info`).
    DeviceBasicInfo, size 8 {
        0 => architecture: u32, "out: [`crate::arch::Generation`] number (2, 3, 4).";
        4 => revision: u32, "out: PCI revision id.";
    }

    /// Argument of [`DRIVER_INFO_GET`](crate::cmd::DRIVER_INFO_GET) (`device_driver_info`). A longer size
    /// field in the word is accepted and 24 bytes are written; a shorter one is refused.
    DeviceDriverInfo, size 24 {
        0 => architecture: u32, "out: [`crate::arch::Generation`] number.";
        4 => revision: u32, "out: PCI revision id.";
        8 => version: u32, "out: 0.";
        12 => size: u32, "out: 24.";
        16 => feature_flags1: u64, "out: [`crate::features::Features`].";
    }

    /// Argument of [`COMPATIBLE_VERSION`](crate::cmd::COMPATIBLE_VERSION) (`compatible_version`). The
    /// maximum comes first.
    CompatibleVersion, size 8 {
        0 => max: u32, "out: newest runtime id the driver works with.";
        4 => min: u32, "out: oldest.";
    }

    /// Argument of [`DEVICE_INFO`](crate::cmd::DEVICE_INFO) (`device_info`).
    DeviceInfo, size 80 {
        0 => architecture: u32, "out: [`crate::arch::Generation`] number.";
        4 => revision: u32, "out: PCI revision id.";
        8 => connected_device_count: u32, "out: neighbours, at most 8.";
        12 => connected_devices: [u32; 8], "out: device indices of the neighbours; 0 past the count.";
        44 => _pad: [u8; 4], "Hole.";
        48 => bar_address: [u64; 2], "out: opaque bases of BAR0 and BAR2 for [`BarRw`](super::BarRw) addresses.";
        64 => bar_size: [u64; 2], "out: bytes of BAR0 and BAR2 (0 where there is none).";
    }

    /// Argument of [`DEVICE_BDF`](crate::cmd::DEVICE_BDF): PCI address of the opened device
    /// (`device_bdf`).
    DeviceBdf, size 8 {
        0 => bus: u32, "out: PCI bus.";
        4 => slot: u8, "out: PCI slot.";
        5 => func: u8, "out: PCI function.";
        6 => _pad: [u8; 2], "Tail.";
    }

    /// Argument of [`DEVICE_BDF_EXT`](crate::cmd::DEVICE_BDF_EXT): PCI address of any device
    /// (`device_bdf_ext`).
    DeviceBdfExt, size 16 {
        0 => nd_index: u32, "in: device, relative to the index of the opened one.";
        4 => domain: u32, "out: PCI domain.";
        8 => bus: u32, "out: PCI bus.";
        12 => slot: u8, "out: PCI slot.";
        13 => func: u8, "out: PCI function.";
        14 => _pad: [u8; 2], "Tail.";
    }

    /// Argument of [`HOST_DEVICE_ID_TO_RID_MAP`](crate::cmd::HOST_DEVICE_ID_TO_RID_MAP): device index to
    /// routing id.
    HostDeviceIdToRidMap, size 260 {
        0 => count: u32, "out: devices found when the driver was loaded.";
        4 => map: [u32; 64], "out: routing id by device index.";
    }

    /// Argument of [`GET_LOGICAL_TO_PHYSICAL_NC_MAP`](crate::cmd::GET_LOGICAL_TO_PHYSICAL_NC_MAP).
    ///
    /// At `map` the driver writes a `u32` count of entries, then that many [`NcMapEntry`] right behind it
    /// (at +4, so they are only 4-byte aligned).
    LogicalToPhysicalNcMap, size 16 {
        0 => map: u64, "in: user address of the output.";
        8 => max_map_entries: u32, "in: room, in entries; at most 128.";
        12 => mapping_version: u32, "in: 0.";
    }

    /// One logical core's place (spec/abi.md 7, spec/arch.md 8).
    NcMapEntry, size 8 {
        0 => device_id: u32, "out: device index.";
        4 => device_nc_idx: u32, "out: core on that device.";
    }

    /// Header of the argument of [`DEVICE_GET_ALL_APPS_INFO`](crate::cmd::DEVICE_GET_ALL_APPS_INFO);
    /// an array of [`AppInfo`] follows at +16 (`get_apps_info`).
    GetAppsInfo, size 16 {
        0 => apps_info_flags: u16, "in: what to fill ([`GetAppsInfo::LOCKS`], [`GetAppsInfo::MEMORY`]).";
        2 => _pad: [u8; 2], "Hole.";
        4 => capacity: u32, "in: room, in entries.";
        8 => size: u32, "out: entries written.";
        12 => _tail: [u8; 4], "Filler before the array.";
    }

    /// One process attached to the device (`app_info`).
    AppInfo, size 152 {
        0 => pid: i32, "out: process (tgid).";
        4 => nc_lock_map: u8, "out: cores the process has locked, one bit each.";
        5 => uuid: [[u8; 32]; 4], "out: model identities of the locks.";
        133 => _pad: [u8; 3], "Hole.";
        136 => host_mem_size: u64, "out: bytes of host memory; 0 unless asked for.";
        144 => device_mem_size: u64, "out: bytes of device memory; 0 unless asked for.";
    }

    /// Argument of [`POD_INFO`](crate::cmd::POD_INFO).
    PodInfo, size 260 {
        0 => sz: u16, "in: 260, checked.";
        2 => pod_type: u8, "out: [`crate::enums::PodType`]; `type` in the spec.";
        3 => id: [u8; 256], "out: identity of the pod.";
        259 => pod_sz: u8, "out: nodes in the pod.";
    }

    /// Argument of [`POD_STATUS`](crate::cmd::POD_STATUS).
    PodStatus, size 268 {
        0 => sz: u16, "in: 268, checked.";
        2 => id: [u8; 256], "out: identity of the pod.";
        258 => _pad: [u8; 2], "Hole.";
        260 => state: u32, "out: [`crate::enums::PodState`].";
        264 => pod_type: u8, "out: [`crate::enums::PodType`]; `type` in the spec.";
        265 => pod_sz: u8, "out: nodes in the pod.";
        266 => node_id: i8, "out: this node, -1 when alone.";
        267 => _tail: [u8; 1], "Tail.";
    }

    /// Argument of [`POD_STATUS_V2`](crate::cmd::POD_STATUS_V2): with the ultraserver mode.
    PodStatusV2, size 276 {
        0 => sz: u16, "in: 276, checked.";
        2 => id: [u8; 256], "out: identity of the pod.";
        258 => _pad: [u8; 2], "Hole.";
        260 => state: u32, "out: [`crate::enums::PodState`].";
        264 => pod_type: u8, "out: [`crate::enums::PodType`]; `type` in the spec.";
        265 => pod_sz: u8, "out: nodes in the pod.";
        266 => node_id: i8, "out: this node, -1 when alone.";
        267 => _hole: [u8; 1], "Hole.";
        268 => mode: u32, "out: [`crate::enums::UltraserverMode`].";
        272 => modes_supported: u32, "out: modes the platform can take (encoding not established).";
    }

    /// Argument of [`POD_CTRL`](crate::cmd::POD_CTRL).
    PodCtrl, size 16 {
        0 => sz: u16, "in: 16, checked.";
        2 => _pad: [u8; 2], "Hole.";
        4 => ctrl: u32, "in: what to do (values not established).";
        8 => timeout: u32, "in: how long to wait (unit not established).";
        12 => state: u32, "out: [`crate::enums::PodState`].";
    }

    /// Argument of [`POD_CTRL_V2`](crate::cmd::POD_CTRL_V2).
    PodCtrlV2, size 20 {
        0 => sz: u16, "in: 20, checked.";
        2 => _pad: [u8; 2], "Hole.";
        4 => ctrl: u32, "in: what to do (values not established).";
        8 => timeout: u32, "in: how long to wait (unit not established).";
        12 => state: u32, "out: [`crate::enums::PodState`].";
        16 => mode: u32, "[`crate::enums::UltraserverMode`]; direction not established.";
    }

    /// Argument of [`GET_VA_PLACEMENT`](crate::cmd::GET_VA_PLACEMENT) (driver 2.27.4 on). Only its size is
    /// established; the meaning of the bytes is not.
    GetVaPlacement, size 16 {
        0 => bytes: [u8; 16], "Not established.";
    }
}

impl GetAppsInfo {
    /// Bit of `apps_info_flags`: fill the lock map and identities.
    pub const LOCKS: u16 = 1 << 0;
    /// Bit of `apps_info_flags`: fill the memory sizes.
    pub const MEMORY: u16 = 1 << 1;
}
