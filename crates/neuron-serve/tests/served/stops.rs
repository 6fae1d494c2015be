//! Clients that stop for a while, that close what they use, whose parent dies, and a log that has
//! no room: the others go on.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use neuron_abi::errno::Errno;
use neuron_abi::{arg, cmd};
use neuron_ndl::{Device, Direction, ZeroCopyOptions};
use neuron_serve::Options;
use neuron_serve::log::Log;
use neuron_wire::client::open::greet;
use neuron_wire::message::{Hello, Request, kind, role};
use neuron_wire::packet;
use rustix::io::FdFlags;
use rustix::process::Signal;
use vm_memory::VolatileSlice;

use crate::child::{Client, PATIENCE, SPAWN, address, command, remote, report};
use crate::common::Served;
use crate::descriptors::DESCRIPTOR;
use crate::raw::Raw;
use crate::work::{DEVICE, InUse, ROUNDS, Random, SEED, allocate, assert_gone};

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// A client that copies from its own pages over and over, and goes on if the server lost patience.
pub(crate) fn act() {
    let device = Device::open(&remote(), 0).unwrap();
    let memory = allocate(&device, 1 << 20, false, 0);
    let mut random = Random::new(3);
    loop {
        let sent = random.bytes(1 << 20);
        let mut back = vec![0; sent.len()];
        let into = VolatileSlice::from(&mut back[..]);
        let copied = device
            .zero_copy_in(&memory, 0, &sent, ZeroCopyOptions::default())
            .and_then(|()| device.zero_copy(&memory, 0, into, Direction::Out, ZeroCopyOptions::default()));
        match &copied {
            Ok(()) => assert!(back == sent),
            Err(error) => assert_eq!(error.errno, Errno::EFAULT),
        }
        report(if copied.is_ok() { "right" } else { "refused" });
    }
}

/// While one client of a device is stopped, others begin and finish their work there.
fn goes_on(instance: &str, options: impl Fn(Options) -> Options, act: &str, core: u64, right: &str) {
    let served = Served::with(instance, &options);
    let stopped = Client::start(act, &served, &[(DEVICE, 0), (SEED, 0)]);
    let mut random = Random::new(9);
    for _ in 0..6 {
        stopped.catch_up();
        (0..random.below(20)).for_each(|_| drop(stopped.next()));
        stopped.signal(Signal::STOP);
        for device in [0, 1 % u64::from(served.machine().instance().devices)] {
            let seed = random.below(1000) * 2 + core;
            let other = Client::start("work", &served, &[(DEVICE, device), (SEED, seed), (ROUNDS, 3)]);
            other.wait_until("done");
            other.end();
        }
        stopped.signal(Signal::CONT);
        stopped.catch_up();
        stopped.wait_until(right);
        stopped.wait_until(right);
    }
    stopped.kill();
}

#[test]
fn others_finish_while_a_client_is_stopped_and_it_goes_on_as_if_nothing_was() {
    for memory_by_socket in [false, true] {
        let options = |options| Options { memory_by_socket, patience: FOR_EVER, ..options };
        // Both on core 0's ring: the bytes of a staged copy are fetched before it is taken.
        goes_on("trn1.32xlarge", options, "work", 0, "verified");
    }
}

#[test]
fn a_client_that_is_stopped_in_a_copy_from_its_pages_stops_nobody() {
    let options = |options| Options { patience: FOR_EVER, ..options };
    goes_on("trn2.3xlarge", options, "stopped", 0, "right");
}

#[test]
fn who_does_not_give_its_bytes_for_too_long_loses_the_call_and_nothing_else() {
    let patience = Duration::from_millis(50);
    let options = |options| Options { memory_by_socket: true, patience, ..options };
    goes_on("trn2.3xlarge", options, "stopped", 0, "right");
}

/// Waits until this process has no file open: a call that was being served when the last
/// descriptor was closed keeps it, as with a kernel.
fn wait_closed(served: &Served) {
    let own = std::process::id().cast_signed();
    let start = Instant::now();
    while served.clients().iter().any(|(pid, _)| *pid == own) {
        assert!(start.elapsed() < PATIENCE, "a file stays open");
        std::thread::yield_now();
    }
    for index in 0..served.machine().instance().devices {
        assert_eq!(served.machine().driver(index).unwrap().held_by(own), []);
    }
}

#[test]
fn a_client_that_hangs_up_in_a_call_harms_nobody_and_leaves_nothing() {
    let served = Served::new("trn1.2xlarge");
    let other = Client::start("work", &served, &[(DEVICE, 0), (SEED, 1)]);
    other.wait_until("round 0");
    // The server may write there at any time, until it is known to be done.
    let mut written = Vec::new();
    for round in 0..150 {
        let raw = Raw::open(served.address(), 0);
        let mut handle = Box::new(0_u64);
        let mut wanted = Box::new(arg::MemAllocV2MemType64 {
            size: 1 << 20,
            mem_handle: &raw mut *handle as u64,
            ..Default::default()
        });
        let lane = lane(&served);
        let (word, a) = (cmd::MEM_ALLOC_V2MT64.word, &raw mut *wanted as u64);
        let request = Request { kind: kind::IOCTL, word, file: raw.file, a, ..Default::default() };
        packet::send(&lane, &request, &[], None).unwrap();
        written.push((handle, wanted));
        match round % 3 {
            0 => drop((lane, raw)),
            1 => drop((raw, lane)),
            _ => rustix::net::shutdown(&lane, rustix::net::Shutdown::Both).unwrap(),
        }
    }
    wait_closed(&served);
    drop(written);
    other.catch_up();
    other.wait_until("verified");
    other.wait_until("verified");
    other.kill();
}

/// A lane for calls of this process.
fn lane(served: &Served) -> OwnedFd {
    let probe = Box::new(5_u64);
    let hello = Hello { probe_address: &raw const *probe as u64, probe: 5, ..Hello::new(role::CALLS) };
    greet(served.address(), &hello, &[]).unwrap().socket
}

#[test]
fn a_file_that_is_closed_while_another_threads_call_runs_is_closed_behind_it() {
    let served = Served::new("trn1.2xlarge");
    for _ in 0..50 {
        let mut raw = Raw::open(served.address(), 0);
        let (handle, _) = raw.allocate(4 << 20, false).unwrap();
        let bytes = Random::new(5).bytes(4 << 20);
        let descriptor = raw.descriptor.take();
        let (runs, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let error = loop {
                    match raw.write(handle, &bytes) {
                        Ok(()) => runs.store(true, Ordering::Relaxed),
                        Err(error) => break error,
                    }
                };
                ended.store(true, Ordering::Relaxed);
                assert_eq!(error.errno(), Errno::ENODEV, "{error}");
            });
            while !runs.load(Ordering::Relaxed) {
                assert!(!ended.load(Ordering::Relaxed), "no call went well");
                std::thread::yield_now();
            }
            let _no_child_is_on_its_way = SPAWN.read();
            drop(descriptor);
        });
        wait_closed(&served);
    }
    // Each time the block was left, and written down once.
    assert_eq!(served.left().len(), 50);
}

/// A client that hands its open device to a child, and is killed while it waits for it.
pub(crate) fn act_orphan() {
    let raw = Raw::open(&address(), 0);
    raw.allocate(1 << 20, false).unwrap();
    let socket = raw.descriptor.as_ref().unwrap();
    rustix::io::fcntl_setfd(socket, FdFlags::empty()).unwrap();
    let mut child = command("holder", &address());
    child.env(DESCRIPTOR, socket.as_raw_fd().to_string());
    // The child talks to the test by this process's pipes.
    child.spawn().unwrap().wait().unwrap();
}

#[test]
fn a_child_that_holds_the_file_of_a_dead_parent_keeps_nothing_of_it_and_goes_on() {
    let served = Served::new("trn1.2xlarge");
    let device = served.device(0);
    let before = InUse::of(&served);
    let mut orphan = Client::start("orphan", &served, &[]);
    let child: i32 = orphan.next().parse().unwrap();
    assert_eq!(orphan.next(), "no slot");
    let pid = orphan.pid();
    orphan.signal(Signal::KILL);
    orphan.wait();
    assert_gone(&served, &device, pid);
    assert_eq!(InUse::of(&served), before, "though the file is open");
    orphan.tell();
    assert_eq!(orphan.next(), "no slot", "it still has the file, and is another process");
    orphan.tell();
    assert_eq!(orphan.next(), "closed");
    assert_gone(&served, &device, child);
    assert_eq!(served.left().len(), 1, "{:?}", served.left());
}

#[test]
fn a_log_on_a_full_disk_loses_its_lines_and_nothing_else() {
    let full = std::path::Path::new("/dev/full");
    let served = Served::with("trn1.2xlarge", |options| Options { log: Log::file(full).unwrap(), ..options });
    let client = Client::start("work", &served, &[(DEVICE, 0), (SEED, 1), (ROUNDS, 2)]);
    client.wait_until("done");
    client.end();
    let raw = Raw::open(served.address(), 0);
    let nobodys = raw.calls.ioctl(raw.file ^ 1, cmd::MEM_FREE.word, 4096);
    assert_eq!(nobodys.unwrap_err().errno(), Errno::ENODEV);
    assert!(served.lost_lines() > 0);
    raw.allocate(4096, false).unwrap();
}
