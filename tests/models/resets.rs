//! Core resets against copies, against each other, and against who asks how they went.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;
use neuron_driver::Params;
use neuron_driver::dma::zerocopy::Ticket;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::explore;
use crate::rig::{NONE, Process, Rig, WRITE, bytes, copy, fill, only, operation};

const PAGE: u64 = 4096;

/// What a copy may meet whose ring is taken away.
const RESET: [Errno; 2] = [Errno::ENOENT, Errno::ETIMEDOUT];

/// One copy that waits, and one that does not. What succeeds has its bytes.
fn copies(process: &Process) {
    let (source, _) = process.chunk(PAGE, 0);
    let (destination, _) = process.chunk(PAGE, 0);
    let expected = fill(&source, 0x21);
    let device = process.device();
    let what = copy(&source, &destination, PAGE);
    if only(device.copy(&what), &RESET) {
        assert_eq!(bytes(&destination, PAGE), expected);
    }
    fill(&destination, 0);
    if let Ok(started) = device.copy_async(&what, NONE, process.pid) {
        // EINVAL: the reset ended it and the new ring knows nothing of it.
        let waited = device.copy_wait(&source, &destination, started, process.pid);
        if only(waited, &[Errno::EINVAL, Errno::ENOENT, Errno::ETIMEDOUT]) {
            assert_eq!(bytes(&destination, PAGE), expected);
        }
    }
}

/// After all resets the core copies again.
fn works(rig: &Rig) {
    let process = Process::open(rig, 900);
    let (source, _) = process.chunk(PAGE, 0);
    let (destination, _) = process.chunk(PAGE, 0);
    let expected = fill(&source, 0x22);
    rig.device.copy(&copy(&source, &destination, PAGE)).unwrap();
    assert_eq!(bytes(&destination, PAGE), expected);
    let view = rig.view(rig.device.arch().h2t_engine(0), 0);
    assert_eq!((view.tx.in_flight, view.rx.in_flight), (Some(0), Some(0)), "slots lost, or back twice");
}

/// So many processes reset the core, and another one copies on it meanwhile.
fn model(generation: Generation, resets: u32, hang: bool) {
    let rig = Rig::new(generation, 0b11);
    if hang {
        rig.machine.hang_after(thread_rng().gen_range(0..2));
    }
    let copying = Process::open(&rig, 100);
    let left = Arc::new(AtomicU32::new(resets));
    let resetting = (0..resets).zip(200..).map(|(_, pid)| {
        let (process, left) = (Process::open(&rig, pid), Arc::clone(&left));
        thread::spawn(move || {
            let device = process.device();
            assert_eq!(device.collect_reset(process.pid), None);
            device.request_reset(process.pid, 0b1).unwrap();
            assert_eq!(device.request_reset(process.pid, 0b1), Err(Errno::EBUSY), "an outcome waits");
            assert_eq!(device.collect_reset(process.pid), Some(true));
            assert_eq!(device.collect_reset(process.pid), None, "an outcome was told twice");
            left.fetch_sub(1, Ordering::SeqCst);
            process
        })
    });
    let resetting: Vec<_> = resetting.collect();
    let copying = thread::spawn(move || {
        while left.load(Ordering::SeqCst) > 0 {
            copies(&copying);
            thread::yield_now();
        }
        copying
    });
    let ended: Vec<_> = resetting.into_iter().chain([copying]).map(|thread| thread.join().unwrap()).collect();
    drop(ended);
    works(&rig);
    rig.all_is_back();
    rig.end();
}

#[test]
fn copies_during_resets_have_their_bytes_or_an_error() {
    explore(80, || model(Generation::V2, 1, false));
    explore(80, || model(Generation::V3, 1, false));
}

/// As little as there can be: one reset and one copy, which may have found its ring before the
/// reset and get its lock after it, when another ring is on the queue.
fn old_ring() {
    let rig = Rig::new(Generation::V2, 0b1);
    let process = Process::open(&rig, 100);
    let [source, destination] = [(); 2].map(|()| process.chunk(PAGE, 0).0);
    let expected = fill(&source, 0x24);
    let (what, device) = (copy(&source, &destination, PAGE), Arc::clone(&rig.device));
    let copying = thread::spawn(move || only(device.copy(&what), &RESET));
    let device = Arc::clone(&rig.device);
    let reset = thread::spawn(move || device.request_reset(200, 0b1).unwrap());
    assert!(!copying.join().unwrap() || bytes(&destination, PAGE) == expected);
    reset.join().unwrap();
    works(&rig);
    drop((source, destination, process));
    rig.all_is_back();
    rig.end();
}

#[test]
fn a_copy_that_comes_late_does_not_use_the_new_ring() {
    explore(400, old_ring);
}

#[test]
fn resets_of_one_core_take_turns() {
    explore(60, || model(Generation::V2, 2, false));
    explore(60, || model(Generation::V3, 2, false));
}

/// Where copies are tried again during a reset, they must not keep it from happening.
#[test]
fn a_reset_ends_a_hang_that_copies_wait_out() {
    explore(40, || model(Generation::V2, 2, true));
    explore(40, || model(Generation::V3, 2, true));
}

/// A copy that is staged again, because another core's reset may have hit it, makes the ring
/// forget a zero-copy that had ended already.
fn staged_again() {
    let params = Params { zerocopy_trn1_override: true, ..Params::default() };
    let rig = Rig::with(Generation::V2, 0b11, params);
    let [process, other, resetting] = [100, 200, 300].map(|pid| Process::open(&rig, pid));
    // A page and its marker end; what is behind them hangs.
    rig.machine.hang_after(2);
    let ring = rig.device.zero_copy_ring(0, None).unwrap();
    let asking = thread::spawn(move || {
        let buffer = process.buffer(1);
        let (chunk, _) = process.chunk(PAGE, 0);
        let ticket = Ticket { pid: process.pid, sequence: 1 };
        process.device().request_zero_copy(&ring, &[operation(&chunk, &buffer, 1)], WRITE, ticket).unwrap();
        (process, chunk)
    });
    let copying = thread::spawn(move || {
        let (source, _) = other.chunk(PAGE, 0);
        let (destination, _) = other.chunk(PAGE, 0);
        let expected = fill(&source, 0x23);
        if only(other.device().copy(&copy(&source, &destination, PAGE)), &[Errno::ETIMEDOUT]) {
            assert_eq!(bytes(&destination, PAGE), expected);
        }
        other
    });
    let machine = Arc::clone(&rig.machine);
    let reset = thread::spawn(move || {
        resetting.device().request_reset(resetting.pid, 0b10).unwrap();
        for _ in 0..thread_rng().gen_range(0..1500) {
            thread::yield_now();
        }
        machine.resume();
        resetting
    });
    let asked = asking.join().unwrap();
    drop(([copying, reset].map(|thread| thread.join().unwrap()), asked));
    let view = rig.view(rig.device.arch().h2t_engine(0), 0);
    assert_eq!(
        (view.tx.in_flight, view.rx.in_flight),
        (Some(0), Some(0)),
        "slots are lost, or given back twice"
    );
    works(&rig);
    rig.end();
}

#[test]
fn a_ring_staged_again_forgets_what_had_ended_on_it() {
    explore(60, staged_again);
}
