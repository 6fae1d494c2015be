//! Commands that write to the log (`spec/abi.md` 10).

use neuron_abi::arg;
use neuron_abi::errno::Errno;
use neuron_abi::limits::PRINTK_MAX;
use vm_memory::VolatileSlice;

use super::Call;

impl Call<'_> {
    /// The text's last byte must be NUL, so there is no text of 0 bytes. What `action`
    /// means is not established.
    pub(super) fn printk(&self) -> Result<(), Errno> {
        let arg: arg::Printk = self.read()?;
        let mut text = [0; PRINTK_MAX];
        let text = text.get_mut(..arg.size as usize).ok_or(Errno::EFAULT)?;
        self.user.read(arg.buffer, VolatileSlice::from(&mut *text))?;
        let Some((0, text)) = text.split_last() else { return Err(Errno::EBADMSG) };
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        tracing::info!(
            device = self.device().index(),
            pid = self.pid,
            "{}",
            String::from_utf8_lossy(text).trim_end()
        );
        Ok(())
    }

    /// Who has a core, and who is attached. What the filter and the limit mean is not
    /// established.
    pub(super) fn nc_pid_state_dump(&self) -> Result<(), Errno> {
        let arg: arg::NcPidStateDump = self.read()?;
        if arg.size as usize != size_of::<arg::NcPidStateDump>() {
            return Err(Errno::EINVAL);
        }
        let (device, core) = (self.device(), self.own_core(arg.nc_id)?);
        let holders = device.core_locks().holders(core);
        tracing::info!(device = device.index(), core, ?holders, "core state");
        for (pid, host, memory) in device.slots().all() {
            let (locks, _) = device.core_locks().of(pid);
            tracing::info!(device = device.index(), pid, host, memory, locks, "attached process");
        }
        Ok(())
    }
}
