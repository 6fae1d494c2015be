//! Semaphores and events of cores, and the firmware's counters and metrics (`spec/abi.md`
//! 10, `spec/arch.md` 5.3).

use neuron_abi::arg;
use neuron_abi::errno::Errno;
use vm_memory::VolatileSlice;

use super::Call;
use crate::firmware::{METRIC_BYTES, REGISTERS};
use crate::mailbox::Command;
use crate::user::read_struct;

// Offsets in a core's window.
const EVENTS: u64 = 0x270_0000;
const SEMAPHORE_READ: u64 = EVENTS + 0x1000;
const SEMAPHORE_SET: u64 = EVENTS + 0x1400;
const SEMAPHORE_ADD: u64 = EVENTS + 0x1800;
const SEMAPHORE_SUBTRACT: u64 = EVENTS + 0x1c00;
/// Semaphores, and events, of a core.
const COUNT: u32 = 256;

/// Counters of one call, so that a count from user space cannot hold the driver for long
/// (our choice).
const MAX_COUNTERS: u32 = 1 << 12;

/// What a semaphore is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Semaphore {
    Set,
    Add,
    Subtract,
}

impl Call<'_> {
    pub(super) fn semaphore_read(&self) -> Result<(), Errno> {
        let arg: arg::Semaphore = self.read()?;
        let register = self.core_register(arg.nc_id, arg.semaphore_index, SEMAPHORE_READ)?;
        self.reply(&arg::Semaphore { value: self.register(register)?, ..arg })
    }

    pub(super) fn semaphore_write(&self, what: Semaphore) -> Result<(), Errno> {
        let arg: arg::Semaphore = self.read()?;
        let window = match what {
            Semaphore::Set => SEMAPHORE_SET,
            Semaphore::Add => SEMAPHORE_ADD,
            Semaphore::Subtract => SEMAPHORE_SUBTRACT,
        };
        let register = self.core_register(arg.nc_id, arg.semaphore_index, window)?;
        self.device().hardware().write(register, arg.value).map_err(|_| Errno::EIO)
    }

    pub(super) fn event_get(&self) -> Result<(), Errno> {
        let arg: arg::Event = self.read()?;
        let register = self.core_register(arg.nc_id, arg.event_index, EVENTS)?;
        self.reply(&arg::Event { value: self.register(register)?, ..arg })
    }

    pub(super) fn event_set(&self) -> Result<(), Errno> {
        let arg: arg::Event = self.read()?;
        let register = self.core_register(arg.nc_id, arg.event_index, EVENTS)?;
        self.device().hardware().write(register, arg.value).map_err(|_| Errno::EIO)
    }

    fn register(&self, register: u64) -> Result<u32, Errno> {
        self.device().hardware().read(register).map_err(|_| Errno::EIO)
    }

    /// BAR0 offset of word `index` in a window of a core.
    fn core_register(&self, core: u32, index: u32, window: u64) -> Result<u64, Errno> {
        let core = self.own_core(core)?;
        if index >= COUNT {
            return Err(Errno::EINVAL);
        }
        Ok(self.device().arch().core_window(core) + window + 4 * u64::from(index))
    }

    /// The firmware reads for us. What it is asked for must be on the chip: it could reach
    /// any memory (our choice).
    pub(super) fn read_hw_counters(&self) -> Result<(), Errno> {
        let arg: arg::ReadHwCounters = self.read()?;
        if arg.count > MAX_COUNTERS {
            return Err(Errno::EINVAL);
        }
        let mut addresses = vec![0; arg.count as usize * 8];
        self.user.read(arg.address, VolatileSlice::from(&mut addresses[..]))?;
        let on_chip = &self.device().geometry().on_chip;
        let is_register = |address: &[u8; 8]| {
            let address = u64::from_le_bytes(*address);
            address.is_multiple_of(4) && on_chip.iter().any(|region| region.contains(address, 4))
        };
        if !addresses.as_chunks::<8>().0.iter().all(is_register) {
            return Err(Errno::EINVAL);
        }
        let mut values = vec![0; arg.count as usize * 4];
        for (addresses, values) in addresses.chunks(8 * REGISTERS).zip(values.chunks_mut(4 * REGISTERS)) {
            self.device().ask_firmware(Command::ReadRegisters, addresses, values)?;
        }
        self.user.write(arg.data, VolatileSlice::from(&mut values[..]))
    }

    pub(super) fn post_metric(&self) -> Result<(), Errno> {
        let arg: arg::PostMetric = self.read()?;
        let mut metric: [u8; METRIC_BYTES] = [0; METRIC_BYTES];
        let metric = metric.get_mut(..arg.data_size as usize).ok_or(Errno::EINVAL)?;
        self.user.read(arg.data, VolatileSlice::from(&mut *metric))?;
        self.device().post_metric(metric)
    }

    /// How firmware takes a profile is not established: only V2, where the command does
    /// nothing, serves it.
    pub(super) fn power_profile(&self) -> Result<(), Errno> {
        let arg: arg::PowerProfile = self.read()?;
        if usize::from(arg.sz) != size_of::<arg::PowerProfile>() {
            return Err(Errno::ENXIO);
        }
        if arg.ctrl != 0 || self.device().arch().takes_power_profiles {
            return Err(Errno::ENOTSUPP);
        }
        Ok(())
    }

    /// This driver posts no metrics by itself, so both are what it does already.
    pub(super) fn metrics_ctrl(&self) -> Result<(), Errno> {
        const PERIODIC_ON: u32 = 0;
        const PERIODIC_OFF: u32 = 1;
        match read_struct(self.user, self.argument)? {
            PERIODIC_ON | PERIODIC_OFF => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }
}
