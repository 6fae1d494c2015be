//! Files under `/sys`, read and written.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use neuron_abi::errno::Errno;
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};

use crate::settle::settle;
use crate::sockets::Connection;
use crate::state::Shared;
use crate::writers::Writer;

/// Does all writes to a file that have been made by now; `false` at its end.
fn write_all(shared: &Shared, writer: &Writer) -> bool {
    writer.take_all(|bytes| {
        settle(shared);
        if let Err(errno) = shared.machine.write_attribute(&writer.path, bytes) {
            shared.log.note(format_args!("a write to /{} failed: {errno}", writer.path));
        }
    })
}

/// The path that a client names: text, from the root.
fn text(path: &[u8]) -> Result<&str, Errno> {
    std::str::from_utf8(path).map_err(|_| Errno::ENOENT)
}

/// Whether a user may do with a file what a bit of its mode stands for: `0o4` to read, `0o2` to write.
/// The files are the server's user's, as the kernel's are root's.
fn allowed(shared: &Shared, user: u32, mode: u32, wanted: u32) -> Result<(), Errno> {
    let is_owner = user == shared.user || user == 0;
    let of_user = if is_owner { mode >> 6 } else { mode };
    if of_user & wanted == 0 { Err(Errno::EACCES) } else { Ok(()) }
}

/// A descriptor of memory with all of a file, at its start, for a user.
pub(crate) fn read(shared: &Shared, user: u32, path: &[u8]) -> Result<OwnedFd, Errno> {
    // Who has written before this was asked for has been heard.
    for writer in shared.writers.all() {
        write_all(shared, &writer);
    }
    let file = shared.machine.attribute(text(path)?)?;
    allowed(shared, user, file.mode, 0o4)?;
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

/// Serves a file that a user has open to write, to its end.
pub(crate) fn serve(
    shared: &Arc<Shared>,
    user: u32,
    connection: &Connection<'_>,
    path: &[u8],
) -> Result<(), Errno> {
    let path = text(path)?.to_owned();
    allowed(shared, user, shared.machine.attribute(&path)?.mode, 0o2)?;
    let (number, writer) = shared.writers.add(path, Arc::clone(&connection.socket));
    let _gone_or_told = neuron_wire::packet::send(&connection.socket, &shared.welcome(), &[], None);
    // To read, such a file is at its end.
    let _gone_already = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Write);
    while writer.wait() && write_all(shared, &writer) {}
    shared.writers.remove(number);
    Ok(())
}
