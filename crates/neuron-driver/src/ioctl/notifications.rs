//! Notification queues (`spec/abi.md` 10). What becomes of their memory is
//! [`notifications`](crate::notifications)'s.

use neuron_abi::arg;
use neuron_abi::enums::NqDevice;
use neuron_abi::errno::Errno;

use super::Call;
use crate::notifications::{Key, Ring};

/// mmap offset of a queue that cannot be mapped: device memory.
const NO_OFFSET: u64 = u64::MAX;

impl Call<'_> {
    pub(super) fn notifications_init_v1(&self) -> Result<(), Errno> {
        let arg: arg::NotificationsInitV1 = self.read()?;
        let key =
            Key::new(self.device().geometry(), NqDevice::Nc.raw(), arg.nc_id, arg.nq_type, arg.engine_index)?;
        let (mmap_offset, _) =
            self.notification_ring(key, Ring { bytes: arg.size, hbm: None, anew: false })?;
        self.reply(&arg::NotificationsInitV1 { mmap_offset, ..arg })
    }

    pub(super) fn notifications_init_v2(&self) -> Result<(), Errno> {
        let arg: arg::NotificationsInitV2 = self.read()?;
        let key = Key::new(
            self.device().geometry(),
            arg.nq_dev_type,
            arg.nq_dev_id,
            arg.nq_type,
            arg.engine_index,
        )?;
        let hbm = (arg.on_host_memory == 0).then_some(arg.dram_channel);
        let (mmap_offset, mem_handle) =
            self.notification_ring(key, Ring { bytes: arg.size, hbm, anew: false })?;
        self.reply(&arg::NotificationsInitV2 { mmap_offset, mem_handle, ..arg })
    }

    pub(super) fn notifications_init_with_realloc(&self) -> Result<(), Errno> {
        let arg: arg::NotificationsInitWithReallocV2 = self.read()?;
        let key = Key::new(
            self.device().geometry(),
            arg.nq_dev_type,
            arg.nq_dev_id,
            arg.nq_type,
            arg.engine_index,
        )?;
        let hbm = (arg.on_host_memory == 0).then_some(arg.dram_channel);
        let ring = Ring { bytes: arg.size, hbm, anew: arg.force_alloc_mem != 0 };
        let (mmap_offset, mem_handle) = self.notification_ring(key, ring)?;
        self.reply(&arg::NotificationsInitWithReallocV2 { mmap_offset, mem_handle, ..arg })
    }

    /// mmap offset and handle of a queue's memory.
    fn notification_ring(&self, key: Key, ring: Ring) -> Result<(u64, u64), Errno> {
        let chunk = self.device().notification_queues().ring(self.device().pools(), key, ring)?;
        let handle = self.device().pools().publish(&chunk)?;
        Ok((if chunk.is_device() { NO_OFFSET } else { chunk.pa() }, handle))
    }
}
