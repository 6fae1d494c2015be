//! Cores as processes share them: bring-up states, model locks, claimed ranges
//! (`spec/abi.md` 8, 10). Who has what is [`cinit`](crate::cinit)'s,
//! [`core_locks`](crate::core_locks)'s and [`marks`](crate::marks)'s.

use std::ops::RangeInclusive;

use neuron_abi::arg;
use neuron_abi::enums::CinitState;
use neuron_abi::errno::Errno;

use super::Call;
use crate::core_locks::{CoreLocks, Uuid};
use crate::marks::NoRun;

impl Call<'_> {
    pub(super) fn cinit_set_state(&self) -> Result<(), Errno> {
        let arg: arg::CinitSet = self.read()?;
        let core = self.own_core(arg.nc_id)?;
        let state = CinitState::from_raw(arg.state).ok_or(Errno::EINVAL)?;
        let device = self.device();
        let new_state = device.core_inits().request(device.clock(), core, state, self.pid).raw();
        self.reply(&arg::CinitSet { new_state, ..arg })
    }

    /// A lock is its process's until it ends, so only a process whose end shows may have one
    /// (our choice).
    pub(super) fn core_lock(
        &self,
        change: impl FnOnce(&CoreLocks, u32, Uuid, i32) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let arg: arg::Crwl = self.read()?;
        let core = self.own_core(arg.nc_id)?;
        self.attached()?;
        change(self.device().core_locks(), core, arg.uuid, self.pid)
    }

    pub(super) fn range_mark(&self) -> Result<(), Errno> {
        let arg: arg::CrwlNcMap = self.read()?;
        let mut bitmap = [0];
        let (max_nc_available, result) = self.claim(arg.nc_count, arg.start, arg.end, &mut bitmap)?;
        let [bitmap] = bitmap;
        self.reply(&arg::CrwlNcMap { max_nc_available, bitmap, ..arg })?;
        result
    }

    pub(super) fn range_mark_ext(&self) -> Result<(), Errno> {
        let arg: arg::CrwlNcMapExt = self.read()?;
        let mut bitmap = [0; 8];
        let (max_nc_available, result) = self.claim(arg.nc_count, arg.start, arg.end, &mut bitmap)?;
        self.reply(&arg::CrwlNcMapExt { max_nc_available, bitmap, ..arg })?;
        result
    }

    /// Claims a run and sets its bits, which count from the opened device's first core.
    /// Returns the longest run there was and how it went: both are told to the caller.
    fn claim(
        &self,
        count: u32,
        start: u32,
        end: u32,
        bitmap: &mut [u64],
    ) -> Result<(u32, Result<(), Errno>), Errno> {
        let range = self.core_range(start, end, bitmap.len())?;
        if count == 0 {
            return Err(Errno::EINVAL);
        }
        let first = self.first_core();
        match self.device().system().marks().claim(self.file.id(), range, count) {
            Ok(claimed) => {
                for core in claimed - first..claimed - first + count {
                    if let Some(word) = bitmap.get_mut(core as usize / 64) {
                        *word |= 1 << (core % 64);
                    }
                }
                Ok((count, Ok(())))
            }
            Err(NoRun { longest }) => Ok((longest, Err(Errno::EBUSY))),
        }
    }

    pub(super) fn range_unmark(&self) -> Result<(), Errno> {
        let arg: arg::CrwlNcMap = self.read()?;
        self.unclaim(arg.start, arg.end, 1)
    }

    pub(super) fn range_unmark_ext(&self) -> Result<(), Errno> {
        let arg: arg::CrwlNcMapExt = self.read()?;
        self.unclaim(arg.start, arg.end, arg.bitmap.len())
    }

    fn unclaim(&self, start: u32, end: u32, words: usize) -> Result<(), Errno> {
        let range = self.core_range(start, end, words)?;
        self.device().system().marks().release(self.file.id(), range);
        Ok(())
    }

    /// The machine's number of the opened device's core 0.
    fn first_core(&self) -> u32 {
        u32::from(self.device().index()) * self.device().geometry().cores
    }

    /// Cores `start..=end`, which count from the opened device's first one, by the machine's
    /// numbers.
    ///
    /// # Errors
    /// EINVAL if they are none, end behind the machine's last core, or behind the bits that
    /// `words` words can tell (our choice).
    fn core_range(&self, start: u32, end: u32, words: usize) -> Result<RangeInclusive<u32>, Errno> {
        let first = self.first_core();
        let devices =
            u32::from(self.device().params().device_count).max(u32::from(self.device().index()) + 1);
        let last = end.checked_add(first).ok_or(Errno::EINVAL)?;
        if start > end || end as usize >= words * 64 || last >= devices * self.device().geometry().cores {
            return Err(Errno::EINVAL);
        }
        Ok(first + start..=last)
    }
}
