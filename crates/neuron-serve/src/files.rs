//! Open device files. Each is a connection; calls name it by a number that only who has the file
//! can learn.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use neuron_abi::errno::Errno;
use neuron_ndl::software::ServedFile;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::leaks::Ledger;
use crate::process::Process;
use crate::sockets::has_ended;

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

    /// Closes it, after an account of what its process leaves with it.
    fn end(&self, ledger: &Ledger) {
        self.account(ledger);
        self.served.driver().exit();
    }
}

/// All open files, by number.
#[derive(Default)]
pub(crate) struct Files {
    table: Mutex<BTreeMap<u64, Slot>>,
    /// A file was closed, or a call through one has ended.
    changed: Condvar,
    /// Held while a file ends, so that of several files of a process exactly one is its last.
    ending: Mutex<()>,
}

type Table<'a> = MutexGuard<'a, BTreeMap<u64, Slot>>;

enum Slot {
    Open(Arc<File>),
    /// Its last descriptor is closed, and a call through it may still be served.
    Ended(Arc<File>),
    /// Its close is being done.
    Closing,
}

impl Slot {
    fn file(&self) -> Option<&Arc<File>> {
        match self {
            Self::Open(file) | Self::Ended(file) => Some(file),
            Self::Closing => None,
        }
    }

    /// Whether its last descriptor is closed, and nothing keeps the file from following: no call
    /// that is being served.
    fn is_closing(&self) -> bool {
        self.file().is_none_or(|file| Arc::strong_count(file) == 1 && has_ended(&file.socket))
    }
}

/// A file while it is used: it is not closed meanwhile.
pub(crate) struct InUse<'a> {
    // Dropped before that is told.
    file: Arc<File>,
    _end: UseEnds<'a>,
}

impl Deref for InUse<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

struct UseEnds<'a>(&'a Files);

impl Drop for UseEnds<'_> {
    fn drop(&mut self) {
        let _between_looks = self.0.table();
        self.0.changed.notify_all();
    }
}

impl Files {
    fn table(&self) -> Table<'_> {
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

    /// The file of a number. One whose last descriptor is closed is nobody's any more.
    pub(crate) fn get(&self, number: u64) -> Option<InUse<'_>> {
        match self.table().get(&number) {
            Some(Slot::Open(file)) if !has_ended(&file.socket) => Some(self.use_of(file)),
            _ => None,
        }
    }

    fn use_of(&self, file: &Arc<File>) -> InUse<'_> {
        InUse { file: Arc::clone(file), _end: UseEnds(self) }
    }

    fn wait<'a>(&self, table: Table<'a>) -> Table<'a> {
        self.changed.wait(table).unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes a file: its connection has ended. A call through it that is being served ends
    /// first.
    pub(crate) fn close(&self, number: u64, ledger: &Ledger) {
        let mut table = self.table();
        let Some(Slot::Open(file)) = table.insert(number, Slot::Closing) else { return };
        let users = Arc::downgrade(&file);
        table.insert(number, Slot::Ended(file));
        while users.strong_count() > 1 {
            table = self.wait(table);
        }
        let Some(Slot::Ended(file)) = table.insert(number, Slot::Closing) else { return };
        drop(table);
        self.end(&file, ledger);
        drop(file);
        ledger.one_ended();
        self.table().remove(&number);
        self.changed.notify_all();
    }

    fn end(&self, file: &File, ledger: &Ledger) {
        let _one = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        file.end(ledger);
    }

    /// A process is dead: what is left of its files is others'.
    pub(crate) fn exit(&self, process: &Process, ledger: &Ledger) {
        let table = self.table();
        let own = table.values().filter_map(Slot::file).filter(|file| file.opener.pid() == process.pid());
        let own: Vec<_> = own.map(|file| self.use_of(file)).collect();
        drop(table);
        own.iter().for_each(|file| self.end(file, ledger));
    }

    /// Processes that are alive and have files open, by number and name.
    pub(crate) fn openers(&self) -> Vec<(i32, String)> {
        let table = self.table();
        let open = table.values().filter_map(Slot::file).filter(|file| !file.opener.is_dead());
        let open = open.map(|file| (file.opener.pid(), file.opener.name().to_owned()));
        let mut openers: Vec<_> = open.collect();
        openers.sort_unstable();
        openers.dedup();
        openers
    }

    /// Waits until the files whose last descriptor is closed by now are closed here too, but for
    /// those that a call still uses; whether there were any.
    pub(crate) fn settle(&self) -> bool {
        let mut table = self.table();
        let closing = table.iter().filter(|(_, slot)| slot.is_closing()).map(|(number, _)| *number);
        let closing: Vec<_> = closing.collect();
        while closing.iter().any(|number| table.get(number).is_some_and(Slot::is_closing)) {
            table = self.wait(table);
        }
        !closing.is_empty()
    }
}
