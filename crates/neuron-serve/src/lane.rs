//! Calls: one lane serves one thread of a client at a time.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_ndl::software::ServedMapping;
use neuron_wire::message::{Reply, Request, SHORT, kind};
use neuron_wire::packet::{self, Packet};

use crate::attributes;
use crate::files::File;
use crate::process::Process;
use crate::settle::{settle, shows_others, takes};
use crate::state::Shared;

/// What is answered to a call that worked.
#[derive(Default)]
struct Outcome {
    a: u64,
    b: u64,
    descriptor: Option<OwnedFd>,
    tail: Vec<u8>,
}

/// Serves calls until the lane ends, or the process.
pub(crate) fn serve(shared: &Shared, process: &Process, lane: &OwnedFd) {
    while let Ok(Some(packet)) = Packet::receive(lane, SHORT) {
        let outcome = match packet.head::<Request>() {
            Ok((request, tail)) => answer(shared, process, &request, tail),
            Err(error) => {
                shared.log.note(format_args!("{} ({}) sent no call: {error}", process.pid(), process.name()));
                Err(Errno::EINVAL)
            }
        };
        // Who is dead hears nothing, and who is served by a server that stops hears that by the end.
        if shared.stop.is_requested() || !process.is_alive() {
            return;
        }
        let (reply, outcome) = match outcome {
            Ok(outcome) => (Reply { errno: 0, pad: 0, a: outcome.a, b: outcome.b }, outcome),
            Err(errno) => {
                let reply = Reply { errno: errno.raw().cast_unsigned(), ..Reply::default() };
                (reply, Outcome::default())
            }
        };
        let descriptor = outcome.descriptor.as_ref().map(AsFd::as_fd);
        if packet::send(lane, &reply, &outcome.tail, descriptor).is_err() {
            return;
        }
    }
}

fn answer(shared: &Shared, process: &Process, request: &Request, tail: &[u8]) -> Result<Outcome, Errno> {
    // A server that was started anew does not know the files of the one before.
    let file = || {
        shared.files.get(request.file).ok_or_else(|| {
            let Request { file, kind, .. } = request;
            shared.log.note(format_args!(
                "{} ({}) named file {file:#x} in a call of kind {kind}, and there is none",
                process.pid(),
                process.name()
            ));
            Errno::ENODEV
        })
    };
    match request.kind {
        kind::IOCTL => ioctl(shared, process, &*file()?, request),
        kind::MMAP => {
            let file = file()?;
            let _call = process.begin_call()?;
            let writable = request.c & 1 != 0;
            let ServedMapping { memory, offset, mapped } =
                file.served.mmap(process.pid(), request.a, request.b, writable)?;
            let number = process.map(mapped)?;
            Ok(Outcome { a: offset, b: number, descriptor: Some(memory), ..Outcome::default() })
        }
        kind::PLACE => {
            let _call = process.begin_call()?;
            process.place(request.a, request.b).map(|()| Outcome::default())
        }
        kind::UNMAP => {
            let _call = process.begin_call()?;
            process.unmap(request.a).map(|()| Outcome::default())
        }
        kind::READ_ATTRIBUTE => {
            settle(shared);
            let descriptor = attributes::read(shared, process.user(), tail)?;
            Ok(Outcome { descriptor: Some(descriptor), ..Outcome::default() })
        }
        kind::TREE => Ok(Outcome { tail: shared.tree.as_os_str().as_bytes().to_vec(), ..Outcome::default() }),
        other => {
            shared.log.note(format_args!(
                "{} ({}) asks for something unknown: {other}",
                process.pid(),
                process.name()
            ));
            Err(Errno::EINVAL)
        }
    }
}

fn ioctl(shared: &Shared, process: &Process, file: &File, request: &Request) -> Result<Outcome, Errno> {
    let (word, memory) = (request.word, process.memory());
    if shows_others(word) {
        settle(shared);
    }
    shared.faults.strike(&shared.machine, file.device(), word)?;
    let call = || {
        let _call = process.begin_call()?;
        file.served.ioctl(process.pid(), word, request.a, &memory)
    };
    let ends = shared.ledger.ends();
    let answered = match call() {
        // Others had too much, perhaps, which they have given back before it was asked for.
        Err(_) if takes(word) && (settle(shared) || shared.ledger.ends() != ends) => call(),
        answered => answered,
    };
    if answered.is_err() {
        shared.faults.failed(&shared.machine, file.device(), word);
    }
    answered.map(|descriptor| Outcome { descriptor, ..Outcome::default() })
}

/// Serves a lane of a process from its beginning to its end.
pub(crate) fn run(shared: &Shared, process: &Process, lane: &Arc<OwnedFd>) {
    process.add_lane(lane);
    serve(shared, process, lane);
    process.remove_lane(lane);
}
