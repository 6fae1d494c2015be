//! The doorbells a device heard: in order, with what came of them.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Machine, Queue, block, pattern};
use neuron_softdev::Direction::{M2s, S2m};
use neuron_softdev::{Direction, DoorbellOutcome, Product};

/// (engine, queue, direction, count) of all that are kept.
fn heard(machine: &Machine) -> Vec<(u16, u8, Direction, u32)> {
    let doorbells = machine.device.doorbells();
    assert_eq!(doorbells.heard, doorbells.last.len() as u64, "all are kept");
    let bells = doorbells.last.iter().zip(0..);
    bells
        .map(|(bell, number)| {
            assert_eq!(bell.sequence, number);
            (bell.engine, bell.queue, bell.direction, bell.count)
        })
        .collect()
}

#[test]
fn doorbells_of_all_queues_stand_in_the_order_they_were_rung() {
    for workers in [0, 2] {
        let machine = match workers {
            0 => Machine::new(Product::Trn1),
            workers => Machine::threaded(Product::Trn1, workers),
        };
        assert_eq!(heard(&machine), []);
        let data = machine.alloc(4096);
        let (mut first, mut second) = (Queue::new(&machine, 32, 0, 64), Queue::new(&machine, 3, 7, 64));
        for _ in 0..3 {
            first.pair(16, machine.bus(data), machine.bus(data + 64));
        }
        second.pair(16, machine.bus(data), machine.bus(data + 128));
        first.ring(S2m);
        second.kick();
        first.ring(M2s);
        let expected = [(32, 0, S2m, 3), (3, 7, S2m, 1), (3, 7, M2s, 1), (32, 0, M2s, 3)];
        assert_eq!(heard(&machine), expected, "{workers} workers");
    }
}

#[test]
fn a_doorbell_of_nothing_is_none_and_only_24_bits_count() {
    let machine = Machine::new(Product::Trn1);
    let queue = Queue::new(&machine, 0, 1, 64);
    queue.set(S2m, 0x38, 0);
    queue.set(S2m, 0x38, 0xff00_0000);
    queue.set(S2m, 0x38, 0x0100_0002);
    assert_eq!(heard(&machine), [(0, 1, S2m, 2)]);
}

#[test]
fn what_came_of_a_doorbell_is_told() {
    let machine = Machine::faulty(Product::Trn1, "drop-kick:nth=2,engine=32");
    let data = machine.alloc(4096);
    machine.write(data, &pattern(16, 1));
    machine.set_engine_reg(2, block(M2s, 9) + 0x38, 3);
    let mut queue = Queue::new(&machine, 32, 0, 64);
    for _ in 0..2 {
        queue.pair(16, machine.bus(data), machine.bus(data + 64));
        queue.kick();
    }
    use DoorbellOutcome::{Announced, Refused, Unnoticed};
    let outcomes: Vec<_> = machine.device.doorbells().last.iter().map(|bell| bell.outcome).collect();
    assert_eq!(outcomes, [Refused, Announced, Announced, Announced, Unnoticed]);
}

#[test]
fn who_sees_the_work_done_finds_its_doorbell() {
    let machine = Machine::threaded(Product::Trn1, 1);
    let data = machine.alloc(4096);
    let mut queue = Queue::new(&machine, 32, 0, 64);
    machine.set_word(data, 0xabcd_ef01);
    for round in 1..=50 {
        machine.set_word(data + 64, 0);
        queue.pair(4, machine.bus(data), machine.bus(data + 64));
        queue.kick();
        while machine.word(data + 64) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(machine.device.doorbells().heard, 2 * round);
    }
}
