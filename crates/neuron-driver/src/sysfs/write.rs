//! Writing to a file of the device's node (`spec/sysfs.md` 2, 3).

use neuron_abi::errno::Errno;

use super::OnWrite;
use crate::device::Device;

const ANY_WRITES: u32 = 0o222;

impl Device {
    /// Writes to a file by its path below the device's node, such as `reset` or
    /// `info/notify_delay`, as its owner. [`sysfs`](Self::sysfs) shows what came of it.
    ///
    /// | file | what a write does |
    /// |---|---|
    /// | `reset` | resets the device, and returns when that is over; nothing while a process has it open |
    /// | `info/notify_delay` | `0` turns notifications on and `-1` off, on all devices of the machine; anything else is ignored |
    /// | a counter of memory | its value is 0 from here on, whatever was written |
    /// | all others with a right to write | nothing: nothing counts there (our choice for those outside `stats`) |
    ///
    /// A write of no bytes does nothing.
    ///
    /// # Errors
    /// ENOENT if there is no such file, a folder included; EACCES if nobody may write it.
    pub fn sysfs_write(&self, path: &str, bytes: &[u8]) -> Result<(), Errno> {
        let node = self.sysfs_node();
        let below = |path: &str| path.strip_prefix(&node)?.strip_prefix('/').map(str::to_owned);
        let (file, on_write) = self
            .tree()
            .into_iter()
            .find(|(file, _)| below(&file.path).as_deref() == Some(path))
            .ok_or(Errno::ENOENT)?;
        if file.mode & ANY_WRITES == 0 {
            return Err(Errno::EACCES);
        }
        match on_write {
            _ if bytes.is_empty() => {}
            OnWrite::Nothing => {}
            OnWrite::Reset => self.reset_unused(),
            OnWrite::NotifyDelay => match bytes.trim_ascii_end() {
                b"0" => self.system().set_notify(true),
                b"-1" => self.system().set_notify(false),
                _ => {}
            },
            OnWrite::Clear(counter, value) => self.pools().clear_counter(counter, value),
        }
        Ok(())
    }
}
