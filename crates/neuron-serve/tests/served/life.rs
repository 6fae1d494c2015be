//! A server's life: how it ends for its clients, and how another one begins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_abi::errno::Errno;
use neuron_ndl::Device;
use neuron_ndl::remote::{Address, OpenError, Remote};
use neuron_serve::log::Log;
use neuron_serve::{Options, ServeError, Server};
use neuron_wire::packet;
use rustix::net::{SocketAddrUnix, connect};
use rustix::process::Signal;

use crate::child::{Client, address, command, report, wait_for_word};
use crate::common::Served;
use crate::raw::Raw;
use crate::work::{DEVICE, Random, SEED, allocate};

/// Of a server in a process: how long it waits, in ms; whether bytes go over sockets; its log.
pub(crate) const PATIENCE_MS: &str = "NEURON_SERVE_TEST_PATIENCE_MS";
pub(crate) const BY_SOCKET: &str = "NEURON_SERVE_TEST_BY_SOCKET";
pub(crate) const LOG: &str = "NEURON_SERVE_TEST_LOG";

/// A server.
pub(crate) fn act() {
    let mut options = Options::new("trn1.2xlarge", address());
    if let Ok(patience) = std::env::var(PATIENCE_MS) {
        options.patience = Duration::from_millis(patience.parse().unwrap());
    }
    options.memory_by_socket = std::env::var_os(BY_SOCKET).is_some();
    if let Some(log) = std::env::var_os(LOG) {
        options.log = Log::file(log.as_ref()).unwrap();
    }
    let server = Server::start(options).unwrap();
    report("up");
    wait_for_word();
    let _left = server.stop();
    report("stopped");
}

fn serve(address: &Address) -> Client {
    let server = Client::spawn(command("server", address));
    assert_eq!(server.next(), "up");
    server
}

fn place() -> (tempfile::TempDir, Address) {
    let folder = tempfile::tempdir().unwrap();
    let address = Address::new(folder.path().join("socket")).unwrap();
    (folder, address)
}

#[test]
fn a_server_that_ends_ends_the_calls_that_it_serves_and_says_who_it_was() {
    for killed in [false, true] {
        let (_folder, address) = place();
        let mut server = serve(&address);
        let raw = Raw::open(&address, 0);
        let (handle, _) = raw.allocate(1 << 20, false).unwrap();
        let calls = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let bytes = Random::new(1).bytes(1 << 20);
                    let error = loop {
                        match raw.write(handle, &bytes) {
                            Ok(()) => drop(calls.fetch_add(1, Ordering::Relaxed)),
                            Err(error) => break error,
                        }
                    };
                    assert_eq!(error.errno(), Errno::ENODEV, "{error}");
                    assert!(error.to_string().contains(&address.to_string()), "{error}");
                    // And so it stays.
                    assert_eq!(raw.write(handle, &bytes).unwrap_err().errno(), Errno::ENODEV);
                });
            }
            while calls.load(Ordering::Relaxed) < 20 {
                std::thread::yield_now();
            }
            match killed {
                true => server.signal(Signal::KILL),
                false => {
                    server.tell();
                    assert_eq!(server.next(), "stopped");
                }
            }
        });
    }
}

#[test]
fn the_next_server_at_the_place_serves_who_opens_its_devices_anew() {
    let (_folder, address) = place();
    let mut servers: Vec<Client> = Vec::new();
    let mut remote = None;
    for round in 0..4 {
        let server = serve(&address);
        let remote = remote.get_or_insert_with(|| Remote::connect(address.clone()).unwrap());
        let device = Device::open(remote, 0).unwrap();
        let memory = allocate(&device, 1 << 20, false, 0);
        device.buffer_copy_in(&memory, 0, &vec![round; 1 << 20]).unwrap();
        // A second server is refused, and harms nothing.
        let refused = Server::start(Options::new("trn1.2xlarge", address.clone())).unwrap_err();
        assert!(matches!(&refused, ServeError::Listen(_)), "{refused}");
        assert!(refused.to_string().contains(&address.to_string()), "{refused}");
        let mut back = vec![0; 1 << 20];
        device.buffer_copy_out(&memory, 0, &mut back).unwrap();
        assert!(back == vec![round; 1 << 20]);
        // Every other one is killed and leaves its socket.
        let mut server = server;
        match round % 2 {
            0 => {
                server.signal(Signal::KILL);
                server.wait();
                assert!(address.path().exists());
            }
            _ => {
                server.tell();
                assert_eq!(server.next(), "stopped");
                assert!(!address.path().exists());
            }
        }
        let gone = device.buffer_copy_out(&memory, 0, &mut back).unwrap_err();
        assert_eq!(gone.errno, Errno::ENODEV);
        assert!(matches!(Remote::connect(address.clone()), Err(OpenError::NoServer(_))));
        servers.push(server);
    }
}

#[test]
fn a_server_stops_whatever_its_clients_do() {
    // Longer than the test: nobody is waited for.
    let patience = Duration::from_secs(3600);
    for memory_by_socket in [false, true] {
        let served =
            Served::with("trn2.3xlarge", |options| Options { memory_by_socket, patience, ..options });
        let clients: Vec<_> =
            (0..3).map(|seed| Client::start("work", &served, &[(DEVICE, 0), (SEED, seed)])).collect();
        let copier = Client::start("stopped", &served, &[]);
        clients.iter().for_each(|client| client.wait_until("round 0"));
        copier.wait_until("right");
        clients[0].signal(Signal::STOP);
        copier.signal(Signal::STOP);
        let silent = packet::socket().unwrap();
        connect(&silent, &SocketAddrUnix::new(served.address().path()).unwrap()).unwrap();
        let raw = Raw::open(served.address(), 0);
        raw.allocate(4096, false).unwrap();
        let address = served.address().clone();
        drop(served);
        assert_eq!(raw.allocate(4096, false).unwrap_err().errno(), Errno::ENODEV);
        assert!(!address.path().exists());
    }
}

#[test]
fn who_connects_while_a_server_stops_is_told_that_it_is_gone() {
    for _ in 0..20 {
        let served = Served::new("trn1.2xlarge");
        let connected = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (address, connected) = (served.address().clone(), &connected);
                scope.spawn(move || {
                    let error = loop {
                        match Remote::connect(address.clone()) {
                            Ok(_) => drop(connected.fetch_add(1, Ordering::Relaxed)),
                            Err(error) => break error,
                        }
                    };
                    assert_eq!(error.errno(), Errno::ENODEV, "{error}");
                });
            }
            while connected.load(Ordering::Relaxed) < 20 {
                std::thread::yield_now();
            }
            drop(served);
        });
    }
}
