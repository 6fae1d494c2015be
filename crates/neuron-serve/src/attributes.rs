//! Files under `/sys`, read and written.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use neuron_abi::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use rustix::net::{RecvFlags, recv};

use crate::settle::settle;
use crate::state::{Connection, Shared, has_ended};

/// Bytes of a write that count: what a page of sysfs takes.
const MOST_BYTES: usize = 4096;

/// Files that are open to write.
#[derive(Default)]
pub(crate) struct Attributes {
    open: Mutex<BTreeMap<u64, Arc<Writer>>>,
    last: AtomicU64,
}

/// A file that is open to write.
struct Writer {
    path: String,
    socket: Arc<OwnedFd>,
    /// Whoever takes writes off the socket does so alone, in their order.
    taking: Mutex<()>,
}

impl Writer {
    /// Does all writes that have been made by now; `false` at the end of the file.
    fn take_all(&self, shared: &Shared) -> bool {
        let _alone = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; MOST_BYTES];
        loop {
            match recv(&*self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                // Writing nothing is no end.
                Ok((0, _)) if has_ended(&self.socket) => return false,
                Ok((0, _)) => {}
                Ok((len, _)) => {
                    settle(shared);
                    let written = bytes.get(..len).unwrap_or_default();
                    if let Err(errno) = shared.machine.write_attribute(&self.path, written) {
                        shared.log.note(format_args!("a write to /{} failed: {errno}", self.path));
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// The path that a client names: text, from the root.
fn text(path: &[u8]) -> Result<&str, Errno> {
    std::str::from_utf8(path).map_err(|_| Errno::ENOENT)
}

/// A descriptor of memory with all of a file, at its start.
pub(crate) fn read(shared: &Shared, path: &[u8]) -> Result<OwnedFd, Errno> {
    let writers: Vec<_> = {
        let open = shared.attributes.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().map(Arc::clone).collect()
    };
    // Who has written before this was asked for has been heard.
    for writer in writers {
        writer.take_all(shared);
    }
    let file = shared.machine.attribute(text(path)?)?;
    let errno = |error: rustix::io::Errno| Errno::new(error.raw_os_error()).unwrap_or(Errno::EIO);
    let memory = memfd_create("neuron-attribute", MemfdFlags::CLOEXEC).map_err(errno)?;
    let mut rest = file.content.as_bytes();
    while !rest.is_empty() {
        let written = rustix::io::write(&memory, rest).map_err(errno)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    seek(&memory, SeekFrom::Start(0)).map_err(errno)?;
    Ok(memory)
}

/// Serves a file that is open to write, to its end.
pub(crate) fn serve(shared: &Arc<Shared>, connection: &Connection<'_>, path: &[u8]) -> Result<(), Errno> {
    let path = text(path)?.to_owned();
    shared.machine.write_attribute(&path, &[])?;
    let writer = Arc::new(Writer { path, socket: Arc::clone(&connection.socket), taking: Mutex::default() });
    let number = shared.attributes.last.fetch_add(1, Ordering::Relaxed);
    shared.attributes.open.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::clone(&writer));
    let _gone_or_told = neuron_wire::packet::send(&connection.socket, &shared.welcome(), &[], None);
    // To read, such a file is at its end.
    let _gone_already = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Write);
    while wait(&writer.socket) && writer.take_all(shared) {}
    shared.attributes.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    Ok(())
}

/// Waits until there is something to take; `false` if that cannot be waited for.
fn wait(socket: &OwnedFd) -> bool {
    loop {
        let mut ends = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut ends, None::<&Timespec>) {
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
