//! From an accepted connection to what it is.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_driver::OpenMode;
use neuron_wire::credentials::Credentials;
use neuron_wire::message::{Hello, MAGIC, SHORT, VERSION, Welcome, Which, role, way};
use neuron_wire::packet::{self, Packet};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, shutdown};

use crate::clients::client;
use crate::files::File;
use crate::process::Process;
use crate::settle::settle;
use crate::sockets::{Connection, end, has_ended};
use crate::state::Shared;
use crate::{attributes, lane};

/// Bit 0 of the flags of `open(2)`: to write only, the misc lane (`spec/abi.md` 2.1).
const WRITE_ONLY: u32 = 1;

/// Serves a connection to its end.
pub(crate) fn serve(shared: &Arc<Shared>, socket: OwnedFd) {
    let connection = match shared.connections.add(socket) {
        Ok(connection) => connection,
        Err((socket, errno)) => {
            shared.log.note(format_args!(
                "a connection is refused, there are too many or the server stops: {errno}"
            ));
            return refuse(shared, &socket, errno);
        }
    };
    let refuse = |errno| refuse(shared, &connection.socket, errno);
    let Ok(Credentials { pid, user }) = Credentials::of(&connection.socket) else {
        return refuse(Errno::EACCES);
    };
    if !shared.admit.admits(user, shared.user) {
        shared.log.note(format_args!("process {} of user {user} is refused", pid.unwrap_or_default()));
        return refuse(Errno::EACCES);
    }
    let Some(pid) = pid else {
        shared.log.note(
            "a client is refused, since the system does not show its process here: one in another container has \
             to share the server's process ids",
        );
        return refuse(Errno::EACCES);
    };
    let _without_it_a_silent_client_keeps_a_thread =
        set_socket_timeout(&connection.socket, Timeout::Recv, Some(shared.patience));
    let packet = match Packet::receive(&connection.socket, SHORT) {
        Ok(Some(packet)) => packet,
        Ok(None) => return,
        Err(_) => {
            shared.log.note(format_args!("process {pid} connected and said nothing"));
            return refuse(Errno::ETIMEDOUT);
        }
    };
    let hello = match packet.head::<Hello>() {
        Ok((hello, _)) if hello.magic == MAGIC && hello.version == VERSION => hello,
        _ => {
            shared.log.note(format_args!("process {} says nothing that this version understands", pid));
            return refuse(Errno::EPROTONOSUPPORT);
        }
    };
    let tail = packet.head::<Hello>().map_or(&[][..], |(_, tail)| tail);
    let _as_long_as_it_takes = set_socket_timeout(&connection.socket, Timeout::Recv, None);
    let process = match client(shared, pid, user) {
        Ok(process) => process,
        Err(error) => {
            shared.log.note(format_args!("process {} cannot be served: {error}", pid));
            return refuse(Errno::EPERM);
        }
    };
    let served = match hello.role {
        role::FILE => file(shared, &process, &connection, &hello),
        role::CALLS => calls(shared, &process, &connection, &hello),
        role::MEMORY => memory(shared, &process, &connection),
        role::ATTRIBUTE => attributes::serve(shared, user, &connection, tail),
        role::QUESTION => welcome(&connection, &shared.welcome()),
        _ => Err(Errno::EINVAL),
    };
    if let Err(errno) = served {
        shared.log.note(format_args!(
            "{} ({}): a connection of role {} is refused: {errno}",
            process.pid(),
            process.name(),
            hello.role
        ));
        refuse(errno);
    }
}

/// Tells a client why its connection ends now. What it has sent, or is about to, is taken off
/// first: else the system would tell it of that in place of the answer.
fn refuse(shared: &Shared, socket: &OwnedFd, errno: Errno) {
    let welcome = Welcome { errno: errno.raw().cast_unsigned(), ..shared.welcome() };
    let _gone_or_told = packet::send_at_once(socket, &welcome);
    end(socket);
    while let Ok(Some(_)) = Packet::receive(socket, SHORT) {}
}

/// Greets. A client that is gone meanwhile is noticed later.
fn welcome(connection: &Connection<'_>, welcome: &Welcome) -> Result<(), Errno> {
    let _gone_or_told = packet::send(&connection.socket, welcome, &[], None);
    Ok(())
}

/// An open device file, until its last descriptor is closed.
fn file(
    shared: &Arc<Shared>,
    process: &Arc<Process>,
    connection: &Connection<'_>,
    hello: &Hello,
) -> Result<(), Errno> {
    let index = u8::try_from(hello.index).map_err(|_| Errno::ENOENT)?;
    let mode = if hello.flags & WRITE_ONLY == 0 { OpenMode::Full } else { OpenMode::Misc };
    settle(shared);
    let number = {
        // The process's exit finds the file, or there is none.
        let _call = process.begin_call()?;
        let served = shared.machine.open_for(process.pid(), index, mode)?;
        shared.files.add(File::new(served, Arc::clone(process), Arc::clone(&connection.socket)))?
    };
    let greeting = Welcome { file: number, ..shared.welcome() };
    welcome(connection, &greeting)?;
    // The client's end can be read at once, to its end: like a device's, it never waits.
    let _gone_already = shutdown(&connection.socket, Shutdown::Write);
    while let Ok(packet) = Packet::receive(&connection.socket, SHORT) {
        // Writing nothing is no end.
        let which = match &packet {
            Some(packet) => (packet.whole::<Which>().ok(), &packet.descriptor),
            None if has_ended(&connection.socket) => break,
            None => (None, &None),
        };
        match which {
            (Some(Which { magic: MAGIC, version: VERSION }), Some(answer)) => {
                let _gone_or_told = packet::send_at_once(answer.as_fd(), &greeting);
            }
            // A program may write into what it thinks is a device.
            _ => shared.log.note(format_args!(
                "{} ({}) wrote into an open device; nothing happens",
                process.pid(),
                process.name()
            )),
        }
    }
    shared.files.close(number, &shared.ledger);
    Ok(())
}

/// A lane for calls.
fn calls(
    shared: &Arc<Shared>,
    process: &Arc<Process>,
    connection: &Connection<'_>,
    hello: &Hello,
) -> Result<(), Errno> {
    let how = match process.decide_way(hello.probe_address, hello.probe) {
        true => way::SOCKET,
        false => way::PROCESS,
    };
    welcome(connection, &Welcome { way: how, ..shared.welcome() })?;
    lane::run(shared, process, &connection.socket);
    Ok(())
}

/// The process's memory: from here on it answers, and nobody listens to it unasked.
fn memory(shared: &Arc<Shared>, process: &Arc<Process>, connection: &Connection<'_>) -> Result<(), Errno> {
    shared.log.note(format_args!(
        "{} ({}): its memory is reached over its socket",
        process.pid(),
        process.name()
    ));
    let greeting = shared.welcome();
    process.socket_memory().attach(&connection.socket, shared.patience, || welcome(connection, &greeting))?;
    process.socket_memory().wait_for_end(&connection.socket);
    Ok(())
}
