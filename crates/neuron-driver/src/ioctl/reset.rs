//! Resets and what is asked about them (`spec/abi.md` 8). The firmware handshake is
//! [`reset`](crate::reset)'s, what happens to rings [`resets`](crate::resets)'s.

use neuron_abi::arg;
use neuron_abi::errno::Errno;
use neuron_abi::limits::DEVICE_MAP;

use super::Call;

impl Call<'_> {
    pub(super) fn nc_reset(&self) -> Result<(), Errno> {
        let arg: arg::DeviceReset = self.read()?;
        self.device().request_reset(self.pid, arg.nc_map)?;
        self.reply(&arg::DeviceReset { request_id: self.pid.cast_unsigned(), ..arg })
    }

    /// The answer is in the argument; the call itself succeeds.
    pub(super) fn nc_reset_ready(&self) -> Result<(), Errno> {
        let arg: arg::DeviceReady = self.read()?;
        let result = self.device().collect_reset(arg.request_id.cast_signed());
        self.reply(&arg::DeviceReady { result: if result == Some(true) { 0 } else { 1 }, ..arg })
    }

    /// The whole device, and no word of how it went.
    pub(super) fn device_reset(&self) -> Result<(), Errno> {
        if let Err(error) = self.device().request_reset(self.pid, DEVICE_MAP) {
            tracing::warn!(pid = self.pid, %error, "device reset");
        }
        Ok(())
    }

    /// 1 when the caller's reset succeeded, or it has none.
    pub(super) fn device_ready(&self) -> Result<(), Errno> {
        let ready = self.device().collect_reset(self.pid).unwrap_or(true);
        self.reply(&u8::from(ready))
    }

    /// Nothing counts models on these generations.
    pub(super) fn nc_model_started_count(&self) -> Result<(), Errno> {
        let arg: arg::NcModelStartedCount = self.read()?;
        self.own_core(arg.nc_id)?;
        self.reply(&arg::NcModelStartedCount { started_count: 0, ..arg })
    }
}
