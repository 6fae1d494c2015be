//! Binding and starting queues against the exit of a process: what a living process has bound
//! stays, and what a dead one had does not.

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_driver::Device;
use neuron_driver::pool::ChunkRef;
use neuron_driver::queues::Binding;
use neuron_driver::requests::Wanted;
use shuttle::thread;

use crate::explore_evenly;
use crate::rig::{Process, Rig};

const RING: u32 = 64;
const RING_BYTES: u64 = 1024;

fn bind(device: &Device, engine: u32, queue: u32, ring: &ChunkRef, pid: i32) {
    let (tx, rx) = (Some(Arc::clone(ring)), Some(Arc::clone(ring)));
    let binding = Binding { tx_count: RING, rx_count: RING, tx, rx, ..Default::default() };
    device.queue_init(engine, queue, binding, pid).unwrap();
}

/// What is on a queue is this process's, and the hardware goes by its ring.
fn is_bound(device: &Device, engine: u32, queue: u32, ring: &ChunkRef, pid: i32) {
    let views = device.introspect();
    let view = views.iter().find(|view| (view.engine, view.queue) == (engine, queue)).unwrap();
    assert_eq!(view.held_by, Some(pid), "a living process's queue is still its own");
    let (tx, rx) = device.queue_ring_registers(engine, queue).unwrap();
    assert_eq!((tx.base, rx.base), (ring.pa(), ring.pa()), "a living process's queue was reset");
}

fn is_gone(rig: &Rig, engine: u32, queue: u32) {
    assert_eq!(rig.view(engine, queue).held_by, None, "a dead process has the queue");
    let (tx, rx) = rig.device.queue_ring_registers(engine, queue).unwrap();
    let dummy = rig.device.dummy_ring_address();
    assert_eq!((tx.base, rx.base), (dummy, dummy), "the hardware goes by a dead process's ring");
}

/// One process binds what another one had bound that exits meanwhile.
fn rebind(engine: u32, queue: u32) {
    let rig = Rig::new(Generation::V2, 0b1);
    let (dead, living) = (Process::open(&rig, 100), Process::open(&rig, 200));
    let (ring, _) = dead.chunk(RING_BYTES, 0);
    bind(&rig.device, engine, queue, &ring, dead.pid);
    let (address, next) = (ring.pa(), queue + 1);
    drop(ring);
    let exit = thread::spawn(move || drop(dead));
    let start = thread::spawn(move || {
        let (ring, _) = living.chunk(RING_BYTES, 0);
        let device = Arc::clone(living.device());
        for queue in [queue, next] {
            bind(&device, engine, queue, &ring, living.pid);
            is_bound(&device, engine, queue, &ring, living.pid);
        }
        (living, ring)
    });
    exit.join().unwrap();
    let (living, ring) = start.join().unwrap();
    assert!(rig.device.pools().at_address(address).is_none(), "a dead process's ring stayed bound");
    is_bound(&rig.device, engine, queue, &ring, living.pid);
    is_bound(&rig.device, engine, next, &ring, living.pid);
    drop((ring, living));
    is_gone(&rig, engine, queue);
    rig.all_is_back();
    rig.end();
}

#[test]
fn a_queue_bound_during_its_owners_exit_stays_bound() {
    explore_evenly(100, || rebind(0, 2));
}

#[test]
fn the_exit_scan_of_h2t_engines_is_no_different() {
    explore_evenly(100, || rebind(32, 5));
}

/// Doorbells of a living process ring its own ring or nothing, whoever exits.
fn start_during_exit() {
    let rig = Rig::new(Generation::V2, 0b1);
    let (dead, living) = (Process::open(&rig, 100), Process::open(&rig, 200));
    let (ring, _) = dead.chunk(RING_BYTES, 0);
    let queue = rig.device.request_queue(0, Wanted::Service, dead.pid).unwrap();
    bind(&rig.device, 32, queue, &ring, dead.pid);
    drop(ring);
    let exit = thread::spawn(move || drop(dead));
    // The descriptors are zero: an engine that read them would stop the model.
    let claim = thread::spawn(move || {
        let queue = living.device().request_queue(0, Wanted::Service, living.pid).unwrap();
        assert!(living.device().queue_copy_start(32, queue, 1, 1).is_err(), "nothing is bound yet");
        (living, queue)
    });
    exit.join().unwrap();
    let (living, own) = claim.join().unwrap();
    assert_eq!(rig.view(32, own).held_by, Some(living.pid));
    assert!(own == queue || rig.view(32, queue).held_by.is_none());
    drop(living);
    rig.all_is_back();
    rig.end();
}

#[test]
fn a_claim_that_changes_hands_brings_no_ring_along() {
    explore_evenly(100, start_during_exit);
}

/// Both files of a process are closed at once: it is the last one that cleans up.
fn two_files() {
    let rig = Rig::new(Generation::V2, 0b1);
    let (first, second) = (Process::open(&rig, 100), Process::open(&rig, 100));
    let (ring, _) = first.chunk(RING_BYTES, 0);
    bind(&rig.device, 0, 2, &ring, first.pid);
    drop(ring);
    let closing = [first, second].map(|file| thread::spawn(move || drop(file)));
    closing.into_iter().for_each(|thread| thread.join().unwrap());
    is_gone(&rig, 0, 2);
    rig.all_is_back();
    rig.end();
}

#[test]
fn of_two_files_closed_at_once_one_cleans_up() {
    explore_evenly(100, two_files);
}

/// A process opens the device again while its last file is being closed.
fn reopen() {
    let rig = Rig::new(Generation::V2, 0b1);
    let old = Process::open(&rig, 100);
    let device = Arc::clone(&rig.device);
    let machine = Arc::clone(&rig.machine);
    let close = thread::spawn(move || drop(old));
    let open = thread::spawn(move || {
        let new = Process::on(&device, machine, 100);
        let (ring, handle) = new.chunk(RING_BYTES, 0);
        bind(&device, 0, 2, &ring, new.pid);
        (new, ring, handle)
    });
    close.join().unwrap();
    let (new, ring, handle) = open.join().unwrap();
    assert!(rig.device.pools().lookup(handle).is_ok(), "memory of an open file was swept");
    is_bound(&rig.device, 0, 2, &ring, new.pid);
    drop((ring, new));
    is_gone(&rig, 0, 2);
    rig.all_is_back();
    rig.end();
}

#[test]
fn a_file_opened_while_the_last_one_closes_keeps_what_it_gets() {
    explore_evenly(100, reopen);
}

/// A server ends a file's process from two threads, while the process has another file.
fn exit_twice() {
    let rig = Rig::new(Generation::V2, 0b1);
    let (held, open) = (Arc::new(Process::open(&rig, 100)), Process::open(&rig, 100));
    let (ring, handle) = open.chunk(RING_BYTES, 0);
    bind(&rig.device, 0, 2, &ring, open.pid);
    let ends = [0; 2].map(|_| Arc::clone(&held)).map(|held| thread::spawn(move || held.file.exit()));
    ends.into_iter().for_each(|thread| thread.join().unwrap());
    drop(held);
    assert!(rig.device.pools().lookup(handle).is_ok(), "one file ended its process twice");
    is_bound(&rig.device, 0, 2, &ring, open.pid);
    drop((ring, open));
    is_gone(&rig, 0, 2);
    rig.all_is_back();
    rig.end();
}

#[test]
fn a_file_that_is_ended_from_two_threads_ends_once() {
    explore_evenly(100, exit_twice);
}
