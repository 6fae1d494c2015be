//! What the device is, and who has it open (`spec/abi.md` 7).

use neuron_abi::arg;
use neuron_abi::cmd::Release;
use neuron_abi::enums::{PodState, UltraserverMode};
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::limits::{MAX_CONNECTED_DEVICES, MAX_DEVICES, NC_MAP_ENTRIES};

use super::{BAR0_COOKIE, Call};
use crate::topology;

impl Call<'_> {
    pub(super) fn device_basic_info(&self) -> Result<(), Errno> {
        self.reply(&arg::DeviceBasicInfo {
            architecture: self.device().arch().generation as u32,
            revision: self.device().identity().revision.into(),
        })
    }

    pub(super) fn driver_info(&self) -> Result<(), Errno> {
        self.reply(&arg::DeviceDriverInfo {
            architecture: self.device().arch().generation as u32,
            revision: self.device().identity().revision.into(),
            size: size_of::<arg::DeviceDriverInfo>() as u32,
            feature_flags1: Features::of(Release::V2_27_4).bits(),
            ..Default::default()
        })
    }

    pub(super) fn compatible_version(&self) -> Result<(), Errno> {
        let compat = self.device().geometry().compat;
        self.reply(&arg::CompatibleVersion { max: compat.max, min: compat.min })
    }

    pub(super) fn device_info(&self) -> Result<(), Errno> {
        let neighbours = self.device().neighbours();
        if neighbours.len() > MAX_CONNECTED_DEVICES {
            return Err(Errno::EINVAL);
        }
        let mut connected_devices = [0; MAX_CONNECTED_DEVICES];
        for (entry, neighbour) in connected_devices.iter_mut().zip(&neighbours) {
            *entry = u32::from(*neighbour);
        }
        self.reply(&arg::DeviceInfo {
            architecture: self.device().arch().generation as u32,
            revision: self.device().identity().revision.into(),
            connected_device_count: neighbours.len() as u32,
            connected_devices,
            bar_address: [BAR0_COOKIE, 0],
            bar_size: [self.device().hardware().bar_size(0), 0],
            ..Default::default()
        })
    }

    pub(super) fn device_app_pid(&self) -> Result<(), Errno> {
        self.reply(&self.device().slots().first())
    }

    pub(super) fn device_get_all_apps_info(&self) -> Result<(), Errno> {
        let header: arg::GetAppsInfo = self.read()?;
        let mut processes = self.device().slots().all();
        processes.truncate(header.capacity as usize);
        self.reply(&arg::GetAppsInfo { size: processes.len() as u32, ..header })?;
        let wants = |flag| header.apps_info_flags & flag != 0;
        let mut at = self.argument.checked_add(size_of::<arg::GetAppsInfo>() as u64).ok_or(Errno::EFAULT)?;
        for (pid, host, device) in processes {
            let mut entry = arg::AppInfo { pid, ..Default::default() };
            if wants(arg::GetAppsInfo::MEMORY) {
                (entry.host_mem_size, entry.device_mem_size) = (host, device);
            }
            if wants(arg::GetAppsInfo::LOCKS) {
                (entry.nc_lock_map, entry.uuid) = self.device().core_locks().of(pid);
            }
            self.write(at, &entry)?;
            at = at.checked_add(size_of::<arg::AppInfo>() as u64).ok_or(Errno::EFAULT)?;
        }
        Ok(())
    }

    /// Bus, slot and function: the software machine has one device on each slot of bus 0.
    pub(super) fn device_bdf(&self) -> Result<(), Errno> {
        self.reply(&arg::DeviceBdf { bus: 0, slot: self.device().index(), ..Default::default() })
    }

    /// The same of any device of the machine, by its distance from this one.
    pub(super) fn device_bdf_ext(&self) -> Result<(), Errno> {
        let arg: arg::DeviceBdfExt = self.read()?;
        let index = u32::from(self.device().index()).checked_add(arg.nd_index);
        let index = index.filter(|index| (*index as usize) < MAX_DEVICES).ok_or(Errno::EINVAL)? as u8;
        // Devices that nobody opened yet may not be up, but they are there.
        if index >= self.device().params().device_count && self.device().system().device(index).is_none() {
            return Err(Errno::EINVAL);
        }
        self.reply(&arg::DeviceBdfExt { nd_index: arg.nd_index, slot: index, ..Default::default() })
    }

    pub(super) fn host_device_id_to_rid_map(&self) -> Result<(), Errno> {
        let count = self.device().params().device_count;
        let mut reply = arg::HostDeviceIdToRidMap { count: count.into(), ..Default::default() };
        for (index, entry) in (0..count).zip(&mut reply.map) {
            *entry = topology::routing_id(self.device().product(), index).unwrap_or_default();
        }
        self.reply(&reply)
    }

    /// V2 has no such map.
    pub(super) fn logical_to_physical_nc_map(&self) -> Result<(), Errno> {
        let arg: arg::LogicalToPhysicalNcMap = self.read()?;
        let map = topology::logical_cores(self.device().arch().generation).ok_or(Errno::ENOTSUPP)?;
        if arg.max_map_entries as usize > NC_MAP_ENTRIES || arg.mapping_version != 0 {
            return Err(Errno::EINVAL);
        }
        self.write(arg.map, &arg.max_map_entries)?;
        for (index, (device_id, device_nc_idx)) in (0_u64..u64::from(arg.max_map_entries)).zip(map) {
            let offset = size_of::<u32>() as u64 + index * size_of::<arg::NcMapEntry>() as u64;
            let at = arg.map.checked_add(offset).ok_or(Errno::EFAULT)?;
            self.write(at, &arg::NcMapEntry { device_id, device_nc_idx })?;
        }
        Ok(())
    }

    /// A single machine: no pod, no id.
    pub(super) fn pod_info(&self) -> Result<(), Errno> {
        let arg: arg::PodInfo = self.read()?;
        let sz = sized::<arg::PodInfo>(arg.sz)?;
        self.reply(&arg::PodInfo { sz, ..Default::default() })
    }

    pub(super) fn pod_status(&self) -> Result<(), Errno> {
        let arg: arg::PodStatus = self.read()?;
        let sz = sized::<arg::PodStatus>(arg.sz)?;
        let state = PodState::SingleNode.raw();
        self.reply(&arg::PodStatus { sz, state, node_id: -1, ..Default::default() })
    }

    pub(super) fn pod_status_v2(&self) -> Result<(), Errno> {
        let arg: arg::PodStatusV2 = self.read()?;
        let sz = sized::<arg::PodStatusV2>(arg.sz)?;
        let state = PodState::SingleNode.raw();
        self.reply(&arg::PodStatusV2 { sz, state, node_id: -1, ..Default::default() })
    }

    /// There is no election to control: whatever is asked, the node is alone afterwards.
    pub(super) fn pod_ctrl(&self) -> Result<(), Errno> {
        let arg: arg::PodCtrl = self.read()?;
        let sz = sized::<arg::PodCtrl>(arg.sz)?;
        self.reply(&arg::PodCtrl { sz, state: PodState::SingleNode.raw(), ..arg })
    }

    pub(super) fn pod_ctrl_v2(&self) -> Result<(), Errno> {
        let arg: arg::PodCtrlV2 = self.read()?;
        let sz = sized::<arg::PodCtrlV2>(arg.sz)?;
        let (state, mode) = (PodState::SingleNode.raw(), UltraserverMode::Unset.raw());
        self.reply(&arg::PodCtrlV2 { sz, state, mode, ..arg })
    }
}

/// The size that a structure says it has must be its own.
fn sized<T>(said: u16) -> Result<u16, Errno> {
    if usize::from(said) == size_of::<T>() { Ok(said) } else { Err(Errno::EINVAL) }
}
