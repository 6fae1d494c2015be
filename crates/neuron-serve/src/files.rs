//! Open device files. Each is a connection; calls name it by a number that only who has the file
//! can learn.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use neuron_ndl::software::ServedFile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::leaks::Ledger;
use crate::process::Process;

/// An open device file. Dropping it closes it.
pub(crate) struct File {
    pub(crate) served: ServedFile,
    opener: Arc<Process>,
    socket: Arc<OwnedFd>,
}

impl File {
    pub(crate) const fn new(served: ServedFile, opener: Arc<Process>, socket: Arc<OwnedFd>) -> Self {
        Self { served, opener, socket }
    }

    /// Number of its device.
    pub(crate) fn device(&self) -> u8 {
        self.served.driver().device().index()
    }

    /// Writes down what its process leaves with it.
    fn account(&self, ledger: &Ledger) {
        let Some(held) = self.served.driver().leaving() else { return };
        ledger.add(self.opener.pid(), self.opener.name(), self.device(), held);
    }

    fn has_ended(&self) -> bool {
        let mut ends = [PollFd::new(&self.socket, PollFlags::empty())];
        matches!(poll(&mut ends, Some(&Timespec::default())), Ok(1))
            && ends[0].revents().contains(PollFlags::HUP)
    }
}

/// All open files, by number.
#[derive(Default)]
pub(crate) struct Files {
    table: Mutex<BTreeMap<u64, Slot>>,
    closed: Condvar,
}

enum Slot {
    Open(Arc<File>),
    /// Its close is being done.
    Closing,
}

impl Files {
    fn table(&self) -> MutexGuard<'_, BTreeMap<u64, Slot>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a file in and gives it a number that nobody guesses.
    ///
    /// # Errors
    /// EIO if the system has no random numbers.
    pub(crate) fn add(&self, file: File) -> Result<u64, Errno> {
        let file = Arc::new(file);
        loop {
            let mut number = [0; 8];
            if getrandom(&mut number, GetRandomFlags::empty()) != Ok(number.len()) {
                return Err(Errno::EIO);
            }
            let number = u64::from_ne_bytes(number);
            let mut table = self.table();
            if number != 0 && !table.contains_key(&number) {
                table.insert(number, Slot::Open(file));
                return Ok(number);
            }
        }
    }

    /// The file of a number.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<File>> {
        match self.table().get(&number) {
            Some(Slot::Open(file)) => Some(Arc::clone(file)),
            _ => None,
        }
    }

    /// Closes a file: its connection has ended. A call through it that is being served ends
    /// first.
    pub(crate) fn close(&self, number: u64, ledger: &Ledger) {
        let Some(Slot::Open(file)) = self.table().insert(number, Slot::Closing) else { return };
        file.account(ledger);
        drop(file);
        self.table().remove(&number);
        self.closed.notify_all();
    }

    /// A process is dead: what is left of its files is others'.
    pub(crate) fn exit(&self, process: &Process, ledger: &Ledger) {
        let table = self.table();
        let open = table.values().filter_map(|slot| match slot {
            Slot::Open(file) if file.opener.pid() == process.pid() => Some(Arc::clone(file)),
            _ => None,
        });
        let own: Vec<_> = open.collect();
        drop(table);
        for file in own {
            file.account(ledger);
            file.served.driver().exit();
        }
    }

    /// Processes that have files open, by number and name.
    pub(crate) fn openers(&self) -> Vec<(i32, String)> {
        let table = self.table();
        let open = table.values().filter_map(|slot| match slot {
            Slot::Open(file) => Some((file.opener.pid(), file.opener.name().to_owned())),
            Slot::Closing => None,
        });
        let mut openers: Vec<_> = open.collect();
        openers.sort_unstable();
        openers.dedup();
        openers
    }

    /// Waits until the files whose last descriptor is closed by now are closed here too; whether
    /// there were any.
    pub(crate) fn settle(&self) -> bool {
        let mut table = self.table();
        let ended = |slot: &Slot| match slot {
            Slot::Open(file) => file.has_ended(),
            Slot::Closing => true,
        };
        let closing: Vec<_> =
            table.iter().filter(|(_, slot)| ended(slot)).map(|(number, _)| *number).collect();
        while closing.iter().any(|number| table.contains_key(number)) {
            table = self.closed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        !closing.is_empty()
    }
}
