//! Worker threads: overlap with the driver, stopping in the middle, coming and going. No test here depends on
//! how fast anything is.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{Machine, Queue, pattern};
use neuron_softdev::{Device, DeviceConfig, DeviceError, Direction, DmaTable, Execution, Product};

const M2S: Direction = Direction::M2s;

/// Polls a marker as a driver does.
fn wait_for(machine: &Machine, at: u64, value: u32) {
    while machine.word(at) != value {
        std::hint::spin_loop();
    }
}

#[test]
fn a_marker_seen_means_the_data_before_it_is_there() {
    let machine = Machine::threaded(Product::Trn1, 1);
    let (source, target, marker) = (machine.alloc(1 << 20), machine.alloc(1 << 20), machine.alloc(4096));
    let mut queue = Queue::new(&machine, 33, 0, 64);
    for round in 1..=50u32 {
        let data = pattern(1 << 20, round.into());
        machine.write(source, &data);
        machine.set_word(marker, round);
        for at in (0..1u64 << 20).step_by(0x1_0000) {
            queue.pair(0x1_0000, machine.bus(source + at), machine.bus(target + at));
        }
        queue.pair(4, machine.bus(marker), machine.bus(marker + 4));
        queue.kick();
        wait_for(&machine, marker + 4, round);
        assert!(machine.read(target, 1 << 20) == data, "round {round}");
    }
    machine.device.quiesce();
    assert!(queue.is_idle());
    assert_eq!(machine.device.counters().bytes, 50 * ((1 << 20) + 4));
}

#[test]
fn small_work_is_done_when_the_doorbell_returns() {
    let machine = Machine::threaded(Product::Trn1, 1);
    let data = machine.alloc(4096);
    let mut queue = Queue::new(&machine, 0, 0, 64);
    for round in 1..=200 {
        machine.set_word(data, round);
        queue.pair(4, machine.bus(data), machine.bus(data + 4));
        queue.kick();
        assert_eq!(machine.word(data + 4), round);
    }
}

#[test]
fn many_queues_share_few_workers_each_in_its_own_order() {
    let machine = Machine::threaded(Product::Trn2, 2);
    thread::scope(|scope| {
        for engine in 0..4u16 {
            let machine = &machine;
            scope.spawn(move || {
                let data = machine.alloc(0x2_0000);
                let mut queue = Queue::new(machine, engine, u64::from(engine), 64);
                for round in 1..=100u32 {
                    // A chain: each link copies what the one before wrote, so order is everything.
                    machine.write(data, &pattern(1000, u64::from(round) << 8 | u64::from(engine)));
                    machine.set_word(data + 0x1_f000, round);
                    for link in 0..20 {
                        let at = data + link * 1024;
                        queue.pair(1000, machine.bus(at), machine.bus(at + 1024));
                    }
                    queue.pair(4, machine.bus(data + 0x1_f000), machine.bus(data + 0x1_f004));
                    queue.kick();
                    wait_for(machine, data + 0x1_f004, round);
                    let expected = pattern(1000, u64::from(round) << 8 | u64::from(engine));
                    assert!(machine.read(data + 20 * 1024, 1000) == expected);
                }
            });
        }
    });
    machine.device.quiesce();
}

#[test]
fn doorbells_rung_while_the_queue_runs_are_not_lost() {
    let machine = Machine::threaded(Product::Trn1, 1);
    let data = machine.alloc(0x2_0000);
    let mut queue = Queue::new(&machine, 33, 0, 8192);
    for n in 0..2000u32 {
        let len = if n % 7 == 0 { 0x1_0000 } else { 64 };
        queue.pair(len, machine.bus(data), 0x100_0000);
        queue.kick();
    }
    machine.device.quiesce();
    assert!(queue.is_idle());
    assert_eq!(machine.device.counters().tx_descriptors, 2000);
}

#[test]
fn after_a_queue_reset_returns_nothing_of_it_is_written() {
    let machine = Machine::threaded(Product::Trn1, 2);
    let (source, target) = (machine.alloc(0x1_0000), machine.alloc(0x1_0000));
    machine.write(source, &[0xff; 0x1_0000]);
    let mut queue = Queue::new(&machine, 0, 0, 2048);
    for _ in 0..50 {
        for _ in 0..500 {
            queue.pair(0x1_0000, machine.bus(source), machine.bus(target));
        }
        queue.kick();
        queue.program();
        // The memory is somebody else's now.
        machine.write(target, &[0; 0x1_0000]);
        assert!(machine.read(target, 0x1_0000).iter().all(|&byte| byte == 0));
        machine.device.quiesce();
        assert!(machine.read(target, 0x1_0000).iter().all(|&byte| byte == 0));
        assert!(queue.is_idle());
    }
}

#[test]
fn a_device_reset_stops_running_engines() {
    let machine = Machine::threaded(Product::Trn1, 2);
    let misc = machine.device.geometry().misc_ram;
    let data = machine.alloc(0x2_0000);
    let mut queues: Vec<_> = (0..4).map(|engine| Queue::new(&machine, engine * 10, 1, 1024)).collect();
    for _ in 0..20 {
        for queue in &mut queues {
            queue.program();
            for _ in 0..200 {
                queue.pair(0x1_0000, machine.bus(data), machine.bus(data + 0x1_0000));
            }
            queue.kick();
        }
        machine.set_reg(misc + 0x1ec, 1);
        machine.set_reg(misc + 0x800, 1);
        assert_eq!(machine.reg(misc + 0x1ec), 0);
        machine.device.quiesce();
        let bytes = machine.device.counters().bytes;
        for queue in &queues {
            assert_eq!(queue.pointers(M2S), (1 << 30, 1 << 30));
            assert_eq!(queue.get(M2S, 0x30), 0);
        }
        assert_eq!(machine.device.counters().bytes, bytes, "nothing runs after it");
    }
}

#[test]
fn aborting_an_engine_stops_it_between_descriptors_and_normal_goes_on() {
    let machine = Machine::threaded(Product::Trn1, 1);
    let data = machine.alloc(0x2_0000);
    let mut queue = Queue::new(&machine, 0, 0, 1024);
    for _ in 0..600 {
        queue.pair(0x1_0000, machine.bus(data), machine.bus(data + 0x1_0000));
    }
    queue.kick();
    for _ in 0..20 {
        machine.set_engine_reg(0, 0x204, 4);
        let stopped = queue.pointers(M2S).0;
        machine.device.quiesce();
        assert_eq!(queue.pointers(M2S).0, stopped, "at a standstill when the write returned");
        machine.set_engine_reg(0, 0x204, 1);
    }
    machine.device.quiesce();
    assert!(queue.is_idle());
    assert_eq!(machine.device.counters().bytes, 600 << 16);
}

#[test]
fn tables_replaced_under_running_engines_leave_nothing_dangling() {
    let machine = Machine::threaded(Product::Trn1, 2);
    let data = machine.alloc(0x2_0000);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                machine.device.set_dma_table(DmaTable::default());
                machine.device.set_dma_table(machine.whole_table());
            }
        });
        let mut queue = Queue::new(&machine, 0, 0, 1024);
        for _ in 0..100 {
            for _ in 0..64 {
                queue.pair(0x4000, machine.bus(data), machine.bus(data + 0x1_0000));
            }
            queue.kick();
            machine.device.quiesce();
            if !queue.is_idle() {
                queue.program();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    // The table holds the only other reference to the memory.
    machine.device.set_dma_table(DmaTable::default());
    assert_eq!(Arc::strong_count(&machine.host), 1);
}

#[test]
fn registers_answer_while_a_long_copy_runs() {
    let machine = Machine::threaded(Product::Trn1, 1);
    let data = machine.alloc(0x2_0000);
    let mut queue = Queue::new(&machine, 32, 0, 4096);
    for _ in 0..4000 {
        queue.pair(0x1_0000, machine.bus(data), machine.bus(data + 0x1_0000));
    }
    queue.kick();
    let mut last = 0;
    while !queue.is_idle() {
        let head = queue.pointers(M2S).0;
        assert!(head >= last, "heads go forward");
        last = head;
        assert!([0, 0x1111].contains(&machine.state(32).0));
    }
    machine.device.quiesce();
    assert_eq!(machine.device.counters().bytes, 4000 << 16);
}

#[test]
fn a_device_can_be_dropped_at_work_and_idle() {
    for round in 0..20 {
        let machine = Machine::threaded(Product::Trn2, 3);
        let data = machine.alloc(0x2_0000);
        let mut queue = Queue::new(&machine, 0, 0, 1024);
        for _ in 0..round * 20 {
            queue.pair(0x1_0000, machine.bus(data), machine.bus(data + 0x1_0000));
        }
        queue.kick();
        let Machine { device, host, .. } = machine;
        drop(device);
        assert_eq!(Arc::strong_count(&host), 1, "workers are gone, and the table with them");
    }
}

#[test]
fn inline_execution_is_done_for_every_thread_that_rings() {
    let machine = Machine::new(Product::Trn1);
    thread::scope(|scope| {
        for number in 0..4u64 {
            let machine = &machine;
            scope.spawn(move || {
                let data = machine.alloc(4096);
                let mut queue = Queue::new(machine, 33, number, 64);
                for round in 1..=500 {
                    machine.set_word(data, round);
                    queue.pair(4, machine.bus(data), machine.bus(data + 4));
                    queue.kick();
                    assert_eq!(machine.word(data + 4), round);
                }
            });
        }
    });
}

#[test]
fn two_threads_may_ring_the_two_sides_of_a_queue() {
    for execution in [Execution::Inline, Execution::Threaded { workers: 2 }] {
        let mut config = DeviceConfig::new(Product::Trn1);
        config.execution = execution;
        let machine = Machine::with(config);
        let data = machine.alloc(4096);
        let mut queue = Queue::new(&machine, 33, 0, 1024);
        for _ in 0..1000 {
            queue.pair(8, machine.bus(data), machine.bus(data + 64));
        }
        let ring = |direction| {
            let block = common::block(direction, 0);
            (0..1000).for_each(|_| machine.set_engine_reg(33, block + 0x38, 1));
        };
        thread::scope(|scope| {
            scope.spawn(|| ring(Direction::S2m));
            scope.spawn(|| ring(Direction::M2s));
        });
        machine.device.quiesce();
        assert!(queue.is_idle(), "{execution:?}");
        assert_eq!(machine.device.counters().bytes, 8000);
    }
}

#[test]
fn no_workers_is_an_error() {
    let mut config = DeviceConfig::new(Product::Trn1);
    config.execution = Execution::Threaded { workers: 0 };
    assert!(matches!(Device::new(config), Err(DeviceError::NoWorkers)));
}
