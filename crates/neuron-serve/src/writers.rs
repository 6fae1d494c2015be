//! Files under `/sys` that are open to write: what was written is taken off their sockets in its order.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, recv};

use crate::sockets::has_ended;

/// Bytes of a write that count: what a page of sysfs takes.
const MOST_BYTES: usize = 4096;

/// Files that are open to write, by number.
#[derive(Default)]
pub(crate) struct Writers {
    open: Mutex<(u64, BTreeMap<u64, Arc<Writer>>)>,
}

/// A file that is open to write.
pub(crate) struct Writer {
    pub(crate) path: String,
    socket: Arc<OwnedFd>,
    /// Whoever takes writes off the socket does so alone.
    taking: Mutex<()>,
}

impl Writers {
    fn open(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<Writer>>)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one in.
    pub(crate) fn add(&self, path: String, socket: Arc<OwnedFd>) -> (u64, Arc<Writer>) {
        let writer = Arc::new(Writer { path, socket, taking: Mutex::default() });
        let mut open = self.open();
        open.0 += 1;
        let number = open.0;
        open.1.insert(number, Arc::clone(&writer));
        (number, writer)
    }

    pub(crate) fn remove(&self, number: u64) {
        self.open().1.remove(&number);
    }

    /// All.
    pub(crate) fn all(&self) -> Vec<Arc<Writer>> {
        self.open().1.values().map(Arc::clone).collect()
    }
}

impl Writer {
    /// Waits until there is something to take; `false` if that cannot be waited for.
    pub(crate) fn wait(&self) -> bool {
        loop {
            let mut ends = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut ends, None) {
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Takes all writes that have been made by now; `false` at the end of the file.
    pub(crate) fn take_all(&self, write: impl Fn(&[u8])) -> bool {
        let _alone = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; MOST_BYTES];
        loop {
            match recv(&*self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                // Writing nothing is no end.
                Ok((0, _)) if has_ended(&self.socket) => return false,
                Ok((0, _)) => {}
                Ok((len, _)) => write(bytes.get(..len).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
    }
}
