//! Registers and on-chip memory that processes reach themselves: BAR access and
//! PROGRAM_ENGINE (`spec/abi.md` 5.8, 10).

use neuron_abi::arg;
use neuron_abi::errno::Errno;

use super::{BAR0_COOKIE, Call};
use crate::user::{read_struct, write_struct};

/// Words of one call, so that a count from user space cannot hold the driver for long.
const MAX_WORDS: u32 = 1 << 16;
/// Bytes of a register.
const WORD: u64 = 4;

impl Call<'_> {
    pub(super) fn bar_read(&self) -> Result<(), Errno> {
        let arg: arg::BarRw = self.read()?;
        // BAR 2 exists on no device that this driver takes.
        self.each_word(&arg, |offset, at| {
            let value = self.device().hardware().read(offset).map_err(|_| Errno::EIO)?;
            write_struct(self.user, at, &value)
        })
    }

    /// Refused words are found before the first one is written.
    pub(super) fn bar_write(&self) -> Result<(), Errno> {
        let arg: arg::BarRw = self.read()?;
        self.each_word(&arg, |offset, _| match self.device().arch().is_write_blocked(offset, WORD) {
            true => Err(Errno::EINVAL),
            false => Ok(()),
        })?;
        self.each_word(&arg, |offset, at| {
            let value: u32 = read_struct(self.user, at)?;
            self.device().hardware().write(offset, value).map_err(|_| Errno::EIO)
        })
    }

    /// Calls `word` with each BAR0 offset of the call and where its value is in user memory.
    fn each_word(
        &self,
        arg: &arg::BarRw,
        mut word: impl FnMut(u64, u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if arg.bar != 0 || arg.count > MAX_WORDS {
            return Err(Errno::EINVAL);
        }
        let size = self.device().hardware().bar_size(0);
        for index in 0..u64::from(arg.count) {
            let entry = arg.address.checked_add(index * 8).ok_or(Errno::EFAULT)?;
            let address: u64 = read_struct(self.user, entry)?;
            let offset = address.checked_sub(BAR0_COOKIE).ok_or(Errno::EINVAL)?;
            if offset > size.saturating_sub(WORD) {
                return Err(Errno::EINVAL);
            }
            word(offset, arg.data.checked_add(index * WORD).ok_or(Errno::EFAULT)?)?;
        }
        Ok(())
    }

    pub(super) fn program_engine(&self) -> Result<(), Errno> {
        let arg: arg::ProgramEngine = self.read()?;
        self.program(&arg::ProgramEngineNc64 {
            nc_id: 0,
            dst: arg.dst,
            buffer: arg.buffer,
            size: arg.size.into(),
            offset: arg.offset.into(),
            ..Default::default()
        })
    }

    pub(super) fn program_engine_nc(&self) -> Result<(), Errno> {
        let arg: arg::ProgramEngineNc = self.read()?;
        self.program(&arg::ProgramEngineNc64 {
            nc_id: arg.nc_id,
            dst: arg.dst,
            buffer: arg.buffer,
            size: arg.size.into(),
            offset: arg.offset.into(),
            ..Default::default()
        })
    }

    pub(super) fn program_engine_nc64(&self) -> Result<(), Errno> {
        self.program(&self.read()?)
    }

    fn program(&self, arg: &arg::ProgramEngineNc64) -> Result<(), Errno> {
        let (Some(destination), Some(buffer)) =
            (arg.dst.checked_add(arg.offset), arg.buffer.checked_add(arg.offset))
        else {
            return Err(Errno::ENOMEM);
        };
        if !self.device().geometry().may_program(destination, arg.size) {
            return Err(Errno::ENOMEM);
        }
        self.device().program(self.user, arg.nc_id, buffer, destination, arg.size)
    }
}
