//! What the device is, and who has it open (`spec/abi.md` 7).

use neuron_abi::arg;
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::limits::MAX_CONNECTED_DEVICES;

use super::Call;

/// `apps_info_flags` bit 1: the memory fields are asked for.
const WANTS_MEMORY: u16 = 1 << 1;

/// Stands for the kernel address that the shipped driver gives away: clients only use it
/// as a base for register addresses, so any value does that cannot be a pointer.
const BAR0_COOKIE: u64 = 1 << 60;

/// What this driver serves today: a bit is set only with the commands behind it.
fn features() -> Features {
    Features::ASYNC_DMA | Features::MEM_ALLOC_TYPE | Features::MEM_ALLOC64 | Features::CONTIGUOUS_SCRATCHPAD
}

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
            feature_flags1: features().bits(),
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
        let wants_memory = header.apps_info_flags & WANTS_MEMORY != 0;
        let mut at = self.argument.checked_add(size_of::<arg::GetAppsInfo>() as u64).ok_or(Errno::EFAULT)?;
        for (pid, host, device) in processes {
            let (host_mem_size, device_mem_size) = if wants_memory { (host, device) } else { (0, 0) };
            let entry = arg::AppInfo { pid, host_mem_size, device_mem_size, ..Default::default() };
            self.write(at, &entry)?;
            at = at.checked_add(size_of::<arg::AppInfo>() as u64).ok_or(Errno::EFAULT)?;
        }
        Ok(())
    }
}
