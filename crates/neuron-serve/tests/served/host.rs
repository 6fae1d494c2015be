//! A server in a process of its own, so that its descriptors can be counted, and connections to it
//! that say what they want.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use neuron_ndl::remote::{Address, Remote};
use neuron_wire::client::open;
use neuron_wire::message::{Hello, LONG, Reply, SHORT, Welcome, role};
use neuron_wire::packet::{self, Packet};
use rustix::net::{SendFlags, SocketAddrUnix, connect, send};
use tempfile::TempDir;

use crate::child::{Client, PATIENCE, command};
use crate::life::{BY_SOCKET, LOG, PATIENCE_MS};
use crate::raw::Raw;
use crate::work::Random;

pub(crate) const FOR_EVER: u64 = 3_600_000;

/// A server in a process of its own.
pub(crate) struct Host {
    process: Client,
    pub(crate) address: Address,
    folder: TempDir,
    idle: usize,
}

impl Host {
    pub(crate) fn new(patience_ms: u64, by_socket: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::new(folder.path().join("socket")).unwrap();
        let mut command = command("server", &address);
        command.env(PATIENCE_MS, patience_ms.to_string()).env(LOG, folder.path().join("log"));
        if by_socket {
            command.env(BY_SOCKET, "1");
        }
        let process = Client::spawn(command);
        assert_eq!(process.next(), "up");
        // From here on it watches this process.
        drop(Remote::connect(address.clone()).unwrap());
        let mut host = Self { process, address, folder, idle: 0 };
        host.idle = host.settled_descriptors();
        host
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.pid())).unwrap().count()
    }

    /// Its descriptors when nothing changes any more.
    fn settled_descriptors(&self) -> usize {
        let mut last = self.descriptors();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(5));
            last = last.min(self.descriptors());
        }
        last
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A connection that has said nothing yet.
    pub(crate) fn connect(&self) -> OwnedFd {
        let socket = packet::socket().unwrap();
        connect(&socket, &SocketAddrUnix::new(self.address.path()).unwrap()).unwrap();
        socket
    }

    pub(crate) fn lane(&self) -> OwnedFd {
        let probe = Box::new(5_u64);
        let hello = Hello { probe_address: &raw const *probe as u64, probe: 5, ..Hello::new(role::CALLS) };
        open::greet(&self.address, &hello, &[]).unwrap().socket
    }

    /// It serves others, and has closed what is no longer needed.
    pub(crate) fn assert_well(&self) {
        let raw = Raw::open(&self.address, 0);
        let (handle, _) = raw.allocate(100_000, false).unwrap();
        let bytes = Random::new(1).bytes(100_000);
        raw.write(handle, &bytes).unwrap();
        assert!(raw.read(handle, bytes.len()).unwrap() == bytes);
        raw.free(handle).unwrap();
        drop(raw);
        let start = Instant::now();
        while self.descriptors() > self.idle {
            assert!(start.elapsed() < PATIENCE, "{} descriptors, idle {}", self.descriptors(), self.idle);
            std::thread::yield_now();
        }
        self.process.catch_up();
    }
}

pub(crate) fn send_bytes(socket: impl AsFd, bytes: &[u8]) {
    let _gone_or_sent = send(socket, bytes, SendFlags::NOSIGNAL);
}

/// The errno of the answer; `None` at the connection's end.
pub(crate) fn refused(socket: &OwnedFd) -> Option<i32> {
    let answer = Packet::receive(socket, LONG).ok()??;
    Some(answer.whole::<Welcome>().unwrap().errno.cast_signed())
}

/// The errno of the answer to a call.
pub(crate) fn answered(lane: &OwnedFd, request: &[u8]) -> i32 {
    send_bytes(lane, request);
    let answer = Packet::receive(lane, SHORT).unwrap().unwrap();
    answer.head::<Reply>().unwrap().0.errno.cast_signed()
}
