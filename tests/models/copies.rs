//! Acknowledging against looking for free slots: copies of several processes on one ring and
//! on two rings of one engine, while somebody looks. Slots are given back exactly once.

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_driver::introspect::RingView;
use neuron_udma::GUARD_GAP;
use shuttle::thread;

use crate::explore;
use crate::rig::{NONE, Process, Rig, bytes, copy, fill};

/// Bytes of a copy of two descriptors, and its marker.
const LONG: u64 = 65536 + 64;

/// Copies and checks what came. Asynchronously too, if nobody else does.
fn copies(process: &Process, core: u32, seed: u8, asynchronously: bool) {
    let (source, _) = process.chunk(LONG, core);
    let (destination, _) = process.chunk(LONG, core);
    let expected = fill(&source, seed);
    let device = process.device();
    device.copy(&copy(&source, &destination, LONG)).unwrap();
    assert!(bytes(&destination, LONG) == expected[..LONG as usize], "a copy that ended has all its bytes");
    if asynchronously {
        fill(&destination, !seed);
        let (short, long) = (copy(&source, &destination, 100), copy(&source, &destination, LONG));
        let first = device.copy_async(&short, NONE, process.pid).unwrap();
        let second = device.copy_async(&long, first, process.pid).unwrap();
        assert_eq!(bytes(&destination, 100), expected[..100]);
        device.copy_wait(&source, &destination, second, process.pid).unwrap();
        assert!(bytes(&destination, LONG) == expected[..LONG as usize]);
    }
}

/// What holds of a ring whenever its engine is not held.
fn cursors_fit(ring: &RingView) {
    let (available, in_flight) = (ring.available.unwrap(), ring.in_flight.unwrap());
    assert_eq!(available + in_flight, ring.size - GUARD_GAP, "a cursor overtook the other: {ring:?}");
}

fn model(cores: [u32; 2]) {
    let rig = Rig::new(Generation::V3, 0b11);
    let processes: Vec<_> = cores
        .into_iter()
        .zip(0_u8..)
        .map(|(core, index)| {
            let process = Process::open(&rig, 100 + i32::from(index));
            thread::spawn(move || {
                copies(&process, core, 0x11 << index, index == 0);
                Some(process)
            })
        })
        .collect();
    let engine = rig.device.arch().h2t_engine(0);
    let device = Arc::clone(&rig.device);
    let looker = thread::spawn(move || {
        for queue in [0, 1, 0] {
            let (tx, rx) = device.queue_ring_registers(engine, queue).unwrap();
            let views = device.introspect();
            let view = views.iter().find(|view| (view.engine, view.queue) == (engine, queue)).unwrap();
            assert_eq!(
                (tx.base, rx.base),
                (view.shown.tx, view.shown.rx),
                "a default ring stays where it is"
            );
            assert_eq!((view.tx.next, view.tx.completed), (view.rx.next, view.rx.completed));
            cursors_fit(&view.tx);
            cursors_fit(&view.rx);
        }
        None
    });
    let ended: Vec<_> = processes.into_iter().chain([looker]).map(|thread| thread.join().unwrap()).collect();
    for core in [0, 1] {
        // 3 descriptors each, and 2 and 3 of the asynchronous ones.
        let descriptors =
            cores.iter().filter(|on| **on == core).count() as u32 * 3 + if cores[0] == core { 5 } else { 0 };
        let view = rig.view(engine, rig.device.arch().default_queue(core));
        assert_eq!((view.tx.completed, view.tx.next), (descriptors, descriptors), "each slot came back once");
        cursors_fit(&view.tx);
    }
    drop(ended);
    rig.all_is_back();
    rig.end();
}

#[test]
fn copies_on_one_ring_give_each_slot_back_once() {
    explore(200, || model([0, 0]));
}

#[test]
fn copies_on_two_rings_of_an_engine_do_not_meet() {
    explore(200, || model([0, 1]));
}
