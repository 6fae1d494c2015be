//! Files that processes have open, and what ends with them (`spec/driver.md` 7.3).

use std::sync::Arc;

use neuron_abi::errno::Errno;

use crate::device::Device;

/// How a file was opened: bit 0 of the open flags decides (`spec/abi.md` 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// `O_RDONLY` or `O_RDWR`: all commands; takes a process slot.
    Full,
    /// `O_WRONLY`: discovery only; takes none.
    Misc,
}

/// An open file of the device. Dropping it closes it: with a process's last one its
/// copies are ended and its memory is freed, and with the device's last one what lived
/// for all processes.
pub struct OpenFile {
    device: Arc<Device>,
    pid: i32,
    mode: OpenMode,
}

impl OpenFile {
    /// Opens the device for a process.
    ///
    /// # Errors
    /// EBUSY when all 16 slots are taken.
    pub fn open(device: &Arc<Device>, pid: i32, mode: OpenMode) -> Result<Self, Errno> {
        if mode == OpenMode::Full {
            let _node = device.slots().node();
            device.slots().attach(pid)?;
        }
        Ok(Self { device: Arc::clone(device), pid, mode })
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
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.mode == OpenMode::Misc {
            return;
        }
        let slots = self.device.slots();
        let _node = slots.node();
        if slots.is_last_file(self.pid) {
            // Engines are done with the memory before it returns to the pools.
            self.device.drain_process(self.pid);
            if self.device.params().teardown_on_exit {
                self.device.release_process_queues(self.pid);
            }
            self.device.pools().sweep_process(self.pid);
            self.device.resets().forget(self.pid);
        }
        slots.detach(self.pid);
        if slots.is_empty() {
            self.device.pools().sweep_all_process();
        }
    }
}
