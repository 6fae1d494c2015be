//! Files that processes have open, and what ends with them (`spec/driver.md` 7.3).

use std::sync::Arc;

use neuron_abi::errno::Errno;

use crate::device::Device;
use crate::held::Held;
use crate::resets::DeviceState;
use crate::sync::atomic::{AtomicBool, Ordering};

/// How a file was opened: bit 0 of the open flags decides (`spec/abi.md` 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// `O_RDONLY` or `O_RDWR`: all commands; takes a process slot.
    Full,
    /// `O_WRONLY`: discovery only; takes none.
    Misc,
}

/// An open file of the device. Dropping it closes it, and so does [`exit`](Self::exit): with
/// a process's last one its copies and scrubs are ended, what it held of cores is given back
/// and its memory is freed, and with the device's last one what lived
/// for all processes.
pub struct OpenFile {
    device: Arc<Device>,
    pid: i32,
    mode: OpenMode,
    id: u64,
    raw_io: bool,
    /// The process that opened it is gone.
    ended: AtomicBool,
}

impl OpenFile {
    /// Opens the device for a process.
    ///
    /// # Errors
    /// EBUSY when all 16 slots are taken; EINVAL for a device that did not come back from the
    /// reset that a write to `reset` asked for ([`Device::sysfs_write`]), which a file for
    /// discovery opens nevertheless.
    pub fn open(device: &Arc<Device>, pid: i32, mode: OpenMode) -> Result<Self, Errno> {
        if mode == OpenMode::Full {
            let _node = device.slots().node();
            if device.resets().state() == DeviceState::Invalid {
                return Err(Errno::EINVAL);
            }
            device.slots().attach(pid)?;
        }
        let id = device.system().number_file();
        Ok(Self { device: Arc::clone(device), pid, mode, id, raw_io: false, ended: AtomicBool::new(false) })
    }

    /// Lets the process map HBM as it is, as `CAP_SYS_RAWIO` does (`spec/abi.md` 9.1): not
    /// a chunk, and whoever it belongs to.
    #[must_use]
    pub const fn with_raw_io(mut self) -> Self {
        self.raw_io = true;
        self
    }

    /// Whether a process may map HBM as it is through this file.
    pub(crate) const fn may_map_raw(&self, pid: i32) -> bool {
        self.raw_io && pid == self.pid
    }

    /// Tells the file from all others of the machine.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// The device.
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The process.
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Which commands it reaches.
    pub const fn mode(&self) -> OpenMode {
        self.mode
    }

    /// The process that opened the file is gone, though somebody still holds the file, as a
    /// forked child does: does now what dropping the file would. The file stays usable through
    /// [`ioctl_as`](Self::ioctl_as), for the commands that need no slot or by who has one; the
    /// dead process has none any more. All calls of that process have returned before.
    ///
    /// A second call does nothing, and dropping the file gives back only what others claimed
    /// through it since: cores of `CRWL_NC_RANGE_MARK`.
    pub fn exit(&self) {
        self.device.system().marks().release_all(self.id);
        if self.mode == OpenMode::Full && !self.ended.swap(true, Ordering::AcqRel) {
            self.close();
        }
    }

    /// What the process still holds, if closing this file ends it: `None` while it has
    /// another file of the device, and for one that holds nothing by itself (discovery, or
    /// after [`exit`](Self::exit)). For a report on what a program left: asked right before
    /// the file is dropped, when nobody opens or calls in the process's name any more.
    pub fn leaving(&self) -> Option<Vec<Held>> {
        if self.mode == OpenMode::Misc || self.ended.load(Ordering::Acquire) {
            return None;
        }
        let slots = self.device.slots();
        let _node = slots.node();
        slots.is_last_file(self.pid).then(|| self.device.held_by(self.pid))
    }

    /// Takes the process's file off, and ends what ends with its last one.
    fn close(&self) {
        let slots = self.device.slots();
        let _node = slots.node();
        if slots.is_last_file(self.pid) {
            // Engines are done with the memory before it returns to the pools.
            self.device.drain_process(self.pid);
            self.device.abort_scrubs(self.pid);
            if self.device.params().teardown_on_exit {
                self.device.release_process_queues(self.pid);
            }
            self.device.pools().sweep_process(self.pid);
            self.device.resets().forget(self.pid);
            self.device.core_inits().abandon(self.pid);
            self.device.core_locks().abandon(self.pid);
            self.device.data_stores().release(self.pid);
            self.device.system().mappings().forget(self.pid, self.device.index());
        }
        slots.detach(self.pid);
        if slots.is_empty() {
            self.device.pools().sweep_all_process();
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.exit();
    }
}
