//! Processes that have the device open (`spec/driver.md` 7.3): slots, open files, and
//! what ends with them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use neuron_abi::limits::MAX_PROCESSES;

use crate::device::Device;
use crate::pool::ProcessUsage;

/// How a file was opened: bit 0 of the open flags decides (`spec/abi.md` 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// `O_RDONLY` or `O_RDWR`: all commands; takes a process slot.
    Full,
    /// `O_WRONLY`: discovery only; takes none.
    Misc,
}

/// Process slots of a device.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    slots: Mutex<[Option<Slot>; MAX_PROCESSES]>,
}

#[derive(Debug)]
struct Slot {
    pid: i32,
    open_files: u32,
    usage: Arc<ProcessUsage>,
}

impl Processes {
    fn slots(&self) -> MutexGuard<'_, [Option<Slot>; MAX_PROCESSES]> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attach(&self, pid: i32) -> Result<(), Errno> {
        let mut slots = self.slots();
        if let Some(slot) = slots.iter_mut().flatten().find(|slot| slot.pid == pid) {
            slot.open_files += 1;
            return Ok(());
        }
        let free = slots.iter_mut().find(|slot| slot.is_none()).ok_or(Errno::EBUSY)?;
        *free = Some(Slot { pid, open_files: 1, usage: Arc::default() });
        Ok(())
    }

    /// Takes one file off; true if it was the process's last.
    fn detach(&self, pid: i32) -> bool {
        let mut slots = self.slots();
        let Some(entry) = slots.iter_mut().find(|slot| slot.as_ref().is_some_and(|slot| slot.pid == pid))
        else {
            return false;
        };
        match entry {
            Some(slot) if slot.open_files > 1 => {
                slot.open_files -= 1;
                false
            }
            _ => {
                *entry = None;
                true
            }
        }
    }

    fn is_last_file(&self, pid: i32) -> bool {
        self.slots().iter().flatten().any(|slot| slot.pid == pid && slot.open_files == 1)
    }

    fn is_empty(&self) -> bool {
        self.slots().iter().all(Option::is_none)
    }

    /// Where the process's bytes are counted, if it is attached.
    pub(crate) fn usage(&self, pid: i32) -> Option<Arc<ProcessUsage>> {
        self.slots().iter().flatten().find(|slot| slot.pid == pid).map(|slot| Arc::clone(&slot.usage))
    }

    /// (pid, host bytes, device bytes) of the attached processes, by slot.
    pub(crate) fn all(&self) -> Vec<(i32, u64, u64)> {
        let slots = self.slots();
        slots
            .iter()
            .flatten()
            .map(|slot| {
                let (host, device) = slot.usage.bytes();
                (slot.pid, host, device)
            })
            .collect()
    }

    /// Process of the first slot, 0 if it is free.
    pub(crate) fn first(&self) -> i32 {
        self.slots().first().and_then(Option::as_ref).map_or(0, |slot| slot.pid)
    }
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
            device.processes().attach(pid)?;
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
        let processes = self.device.processes();
        if processes.is_last_file(self.pid) {
            // Engines are done with the memory before it returns to the pools.
            self.device.drain_process(self.pid);
            self.device.pools().sweep_process(self.pid);
        }
        processes.detach(self.pid);
        if processes.is_empty() {
            self.device.pools().sweep_all_process();
        }
    }
}
