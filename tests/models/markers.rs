//! A batch that ends while its wait gives up: whoever is told of success has the bytes, and
//! whoever is told of a timeout has a buffer that no engine writes any more.

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::explore;
use crate::rig::{NONE, Process, Rig, bytes, copy, fill, only};

const PAGE: u64 = 4096;
/// Looks at a marker that a wait makes at least.
const LOOKS: u32 = 1000;

/// Two processes on one ring whose engine hangs until about when the first one gives up.
fn late_completion() {
    let rig = Rig::new(Generation::V3, 0b11);
    rig.machine.hang_after(thread_rng().gen_range(0..3));
    let (first, second) = (Process::open(&rig, 100), Process::open(&rig, 200));

    let asynchronous = thread::spawn(move || {
        let (source, _) = first.chunk(PAGE, 0);
        let (destination, handle) = first.chunk(PAGE, 0);
        let expected = fill(&source, 0x44);
        let device = first.device();
        let started = device.copy_async(&copy(&source, &destination, PAGE), NONE, first.pid).unwrap();
        let waited = device.copy_wait(&source, &destination, started, first.pid);
        if only(waited, &[Errno::ETIMEDOUT]) {
            assert_eq!(bytes(&destination, PAGE), expected, "the marker came before the bytes");
        }
        // An engine that is still at it reaches freed memory.
        device.pools().free(handle).unwrap();
        let seen = bytes(&destination, PAGE);
        (first, destination, seen)
    });
    let synchronous = thread::spawn(move || {
        let (source, _) = second.chunk(PAGE, 0);
        let (destination, _) = second.chunk(PAGE, 0);
        let expected = fill(&source, 0x55);
        if only(second.device().copy(&copy(&source, &destination, PAGE)), &[Errno::ETIMEDOUT]) {
            assert_eq!(bytes(&destination, PAGE), expected, "the marker came before the bytes");
        }
        let seen = bytes(&destination, PAGE);
        (second, destination, seen)
    });
    let machine = Arc::clone(&rig.machine);
    let resume = thread::spawn(move || {
        for _ in 0..thread_rng().gen_range(0..2) * LOOKS / 4 * 3 + thread_rng().gen_range(0..LOOKS / 2) {
            thread::yield_now();
        }
        machine.resume();
    });

    let buffers = [asynchronous, synchronous].map(|thread| thread.join().unwrap());
    resume.join().unwrap();
    // A copy behind all others, when the engine works again, has the ring for itself.
    let (process, ..) = &buffers[0];
    let (source, _) = process.chunk(PAGE, 0);
    let (destination, _) = process.chunk(PAGE, 0);
    let expected = fill(&source, 0x66);
    process.device().copy(&copy(&source, &destination, PAGE)).unwrap();
    assert_eq!(bytes(&destination, PAGE), expected);
    for (_, destination, seen) in &buffers {
        assert!(bytes(destination, PAGE) == *seen, "a buffer was written after its copy had ended");
    }
    let view = rig.view(rig.device.arch().h2t_engine(0), 0);
    assert_eq!((view.tx.in_flight, view.rx.in_flight), (Some(0), Some(0)), "slots are lost");
    drop((source, destination, buffers));
    rig.all_is_back();
    rig.end();
}

#[test]
fn a_timeout_and_a_late_completion_never_both_count() {
    explore(80, late_completion);
}
