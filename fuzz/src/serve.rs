//! A server in this process, and a client of it that is all made of the fuzzer's bytes: greetings,
//! calls, and the memory that the server asks for. No address is this process's: the server
//! reaches bytes over the socket only.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use neuron_abi::cmd;
use neuron_ndl::remote::Address;
use neuron_serve::faults::Wanted;
use neuron_serve::{Options, Server};
use neuron_wire::client::open::{self, greet};
use neuron_wire::message::{Hello, LONG, MemoryReply, MemoryRequest, Reply, Request, SHORT, access, role};
use neuron_wire::packet::{self, Packet};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, SocketAddrUnix, connect, send};

/// Calls of one input at most.
const MOST: usize = 200;

struct Host {
    server: Server,
    lane: OwnedFd,
    memory: OwnedFd,
    _folder: tempfile::TempDir,
}

fn start() -> Option<Host> {
    let folder = tempfile::tempdir().ok()?;
    let address = Address::new(folder.path().join("socket")).ok()?;
    let mut options = Options::new("trn2.3xlarge", address.clone());
    options.memory_by_socket = true;
    // A scrub of an HBM writes all of it.
    options.faults.push(Wanted::HbmBytes(256 << 20));
    let server = Server::start(options).ok()?;
    let lane = greet(&address, &Hello::new(role::CALLS), &[]).ok()?.socket;
    let memory = greet(&address, &Hello::new(role::MEMORY), &[]).ok()?.socket;
    Some(Host { server, lane, memory, _folder: folder })
}

/// Bytes that come to an end as zeros.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let len = N.min(self.0.len());
        let (now, rest) = self.0.split_at(len);
        taken[..len].copy_from_slice(now);
        self.0 = rest;
        taken
    }

    fn some(&mut self, len: usize) -> Vec<u8> {
        let (now, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        let mut bytes = now.to_vec();
        bytes.resize(len, 0);
        bytes
    }
}

/// Runs one input.
///
/// # Panics
/// If the server does not answer what it must: that is what a fuzzer looks for.
pub fn serve(data: &[u8]) {
    static HOST: OnceLock<Option<Host>> = OnceLock::new();
    let host = HOST.get_or_init(start).as_ref().expect("a server starts");
    let mut bytes = Bytes(data);
    let address = host.server.address();
    // A first packet of anything, on a connection of its own.
    let [len] = bytes.take();
    if len > 0 {
        let socket = packet::socket().expect("a socket");
        let name = SocketAddrUnix::new(address.path()).expect("a name");
        connect(&socket, &name).expect("the server listens");
        for _ in 0..2 {
            let _sent_or_ended = send(&socket, &bytes.some(len.into()), SendFlags::NOSIGNAL);
        }
    }
    let opened = open::open(address, 0, 2).expect("a device opens");
    for _ in 0..MOST {
        if bytes.0.is_empty() {
            break;
        }
        let [how, command] = bytes.take();
        let [mut kind, mut word] = [1, u32::from_ne_bytes(bytes.take())];
        let [a, b, c] = [(); 3].map(|()| u64::from_ne_bytes(bytes.take()));
        // Mostly ioctls of the table, on the open file.
        match how & 7 {
            0 => kind = u32::from(how >> 3),
            1 => {}
            _ => word = cmd::ALL[usize::from(command) % cmd::ALL.len()].word,
        }
        let file = if how & 0x78 == 0x78 { a } else { opened.file };
        let request = Request { kind, word, file, a: a >> 17 | 4096, b, c };
        packet::send(&host.lane, &request, &[], None).expect("the lane is open");
        answer(host, &mut bytes);
    }
}

/// Gives the server the bytes it asks for until the call is answered.
fn answer(host: &Host, bytes: &mut Bytes<'_>) {
    loop {
        let mut ends = [PollFd::new(&host.lane, PollFlags::IN), PollFd::new(&host.memory, PollFlags::IN)];
        poll(&mut ends, None).expect("a poll");
        let (called, asked) = (!ends[0].revents().is_empty(), !ends[1].revents().is_empty());
        if asked {
            let packet = Packet::receive(&host.memory, LONG).expect("a question").expect("a question");
            let (request, _) = packet.head::<MemoryRequest>().expect("a whole question");
            let [fault] = bytes.take();
            let errno = if fault == 0xff { 14 } else { 0 };
            let read = request.access == access::READ && errno == 0;
            let tail = if read { bytes.some(request.len as usize) } else { Vec::new() };
            packet::send(&host.memory, &MemoryReply { errno, pad: 0 }, &tail, None).expect("an answer");
        } else if called {
            let packet = Packet::receive(&host.lane, SHORT).expect("an answer").expect("the lane stays open");
            packet.head::<Reply>().expect("a whole answer");
            return;
        }
    }
}
