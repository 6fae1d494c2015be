//! What goes wrong, on demand or by a driver's mistake: the queue stops, the state says so, memory is left
//! alone, and a reset of the queue makes it work again.

mod common;

use common::{FIRST, LAST, Machine, Queue, pattern};
use neuron_softdev::{AccessError, Direction, DmaTable, Fault, Product, QueueError};

const M2S: Direction = Direction::M2s;
const S2M: Direction = Direction::S2m;

#[test]
fn dma_outside_the_table_stops_the_queue_and_touches_nothing() {
    for product in [Product::Trn1, Product::Trn2] {
        let machine = Machine::new(product);
        let data = machine.alloc(0x2_0000);
        machine.write(data, &pattern(0x2_0000, 7));
        let before = machine.read(0, 1 << 20);
        machine.write_hbm(0, &pattern(4096, 8));
        let end = common::HOST_SIZE;
        let nowhere = 0x0fff_0000_0000;
        let hbm_end = machine.device.geometry().hbm[0].size;
        // (source, destination, length, direction at fault, first bad address)
        for (source, destination, len, direction, bad) in [
            (machine.bus(end), 0, 64, M2S, machine.bus(end)),
            (machine.bus(end - 32), 0, 64, M2S, machine.bus(end)),
            (machine.bus(data), machine.bus(end - 32), 64, S2M, machine.bus(end)),
            (machine.bus(data), hbm_end - 32, 64, S2M, hbm_end),
            (machine.bus(data), nowhere, 64, S2M, nowhere),
            (u64::MAX - 8, 0, 64, M2S, u64::MAX - 8),
            (common::HOST_BASE, nowhere, 64, S2M, nowhere),
        ] {
            let mut queue = Queue::new(&machine, 1, 2, 64);
            let rings = before.len();
            queue.pair(len, source, destination);
            queue.pair(4, machine.bus(data), machine.bus(data + 0x1_0000));
            let memory_with_descriptors = machine.read(0, rings);
            queue.kick();
            assert_eq!(queue.error(direction), Some(QueueError::Unmapped { index: 0, address: bad }));
            let other = if direction == M2S { S2M } else { M2S };
            assert_eq!(queue.error(other), None);
            let states = machine.state(1);
            assert_eq!(if direction == M2S { states.0 } else { states.1 }, 0x2222);
            assert!(machine.read(0, rings) == memory_with_descriptors, "nothing moved");
            assert!(machine.read_hbm(0, 4096) == pattern(4096, 8));
            assert_eq!(queue.get(direction, 0x34) & 0xff_ffff, 0, "head stays at the bad descriptor");
            queue.program();
            assert_eq!(machine.state(1), (0, 0));
        }
        assert_eq!(machine.device.counters().axi_errors, 7);
    }
}

#[test]
fn a_ring_outside_the_table_is_an_error_of_its_direction() {
    let machine = Machine::new(Product::Trn1);
    let mut queue = Queue::new(&machine, 0, 0, 64);
    queue.set(S2M, 0x2c, 0x1fff);
    queue.pair(8, machine.bus(0), 0);
    queue.kick();
    assert!(matches!(queue.error(S2M), Some(QueueError::Unmapped { index: 0, .. })));
    assert_eq!(machine.state(0), (0x1111, 0x2222));
}

#[test]
fn a_descriptor_of_another_lap_stops_its_direction_before_anything_moves() {
    for direction in [M2S, S2M] {
        let machine = Machine::new(Product::Trn1);
        let data = machine.alloc(4096);
        machine.write(data, b"first second");
        let mut queue = Queue::new(&machine, 33, 0, 64);
        queue.pair(5, machine.bus(data), machine.bus(data + 100));
        queue.pair_of_wrong_phase(direction, 6, machine.bus(data + 6), machine.bus(data + 200));
        queue.kick();
        assert_eq!(machine.read(data + 100, 5), b"first", "what came before is done");
        assert_eq!(machine.read(data + 200, 6), [0; 6]);
        let error = QueueError::Phase { index: 1, expected: 1, found: 2 };
        assert_eq!(queue.error(direction), Some(error));
        assert_eq!(queue.get(direction, 0x34), 1 << 30 | 1);
        assert_eq!(machine.device.counters().phase_errors, 1);
    }
}

#[test]
fn masked_phase_errors_are_counted_and_passed_over() {
    let machine = Machine::new(Product::Trn2);
    // What engine initialisation writes for engines that cores own.
    machine.set_engine_reg(5, 0x3_a030, 1 << 17);
    machine.set_engine_reg(5, 0x3_a070, 0x10f8 | 1 << 11);
    let data = machine.alloc(4096);
    machine.write(data, b"runtime");
    let mut queue = Queue::new(&machine, 5, 0, 64);
    for direction in [M2S, S2M] {
        let to = data + 100 + 100 * direction as u64;
        queue.pair_of_wrong_phase(direction, 7, machine.bus(data), machine.bus(to));
        queue.kick();
        assert_eq!(machine.read(to, 7), b"runtime");
    }
    let counters = machine.device.counters();
    assert_eq!((counters.masked_phase_errors, counters.phase_errors), (2, 0));
    assert_eq!(machine.state(5), (0, 0));
    // V2 leaves these bits clear: 0xf0000000 and 0x10f8 mask nothing.
    machine.set_engine_reg(5, 0x3_a030, 0xf000_0000);
    machine.set_engine_reg(5, 0x3_a070, 0x10f8);
    queue.pair_of_wrong_phase(M2S, 7, machine.bus(data), machine.bus(data));
    queue.kick();
    assert!(queue.error(M2S).is_some());
}

#[test]
fn a_doorbell_on_a_queue_never_programmed_is_an_error_and_no_more() {
    let machine = Machine::new(Product::Trn1);
    for direction in [M2S, S2M] {
        let block = common::block(direction, 9);
        machine.set_engine_reg(2, block + 0x38, 3);
        assert_eq!(machine.engine_reg(2, block + 0x3c), 1 << 30, "the tail stays");
    }
    assert_eq!(machine.state(2), (0x2222, 0x2222));
    assert_eq!(machine.device.counters().doorbell_errors, 2);
    let mut queue = Queue::new(&machine, 2, 9, 64);
    queue.set(M2S, 0x28, 0x1020);
    queue.pair(4, machine.bus(0), 0);
    queue.kick();
    assert!(matches!(queue.error(M2S), Some(QueueError::NotProgrammed { len: 64, .. })), "misaligned base");
    queue.program();
    assert_eq!(machine.state(2), (0, 0));
}

#[test]
fn a_queue_in_error_does_not_stop_the_others_of_its_engine() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    machine.write(data, b"alive");
    let (mut bad, mut good) = (Queue::new(&machine, 4, 0, 64), Queue::new(&machine, 4, 1, 64));
    bad.pair(4, machine.bus(common::HOST_SIZE), 0);
    bad.kick();
    good.pair(5, machine.bus(data), machine.bus(data + 64));
    good.kick();
    assert_eq!(machine.read(data + 64, 5), b"alive");
    assert_eq!(machine.state(4).0, 0x2222);
}

#[test]
fn a_dropped_kick_is_made_good_by_the_next() {
    let machine = Machine::faulty(Product::Trn1, "drop-kick:nth=2,engine=32");
    let data = machine.alloc(4096);
    machine.write(data, &pattern(48, 3));
    let mut queue = Queue::new(&machine, 32, 0, 64);
    let copy = |queue: &mut Queue<'_>, n: u64| {
        queue.pair(16, machine.bus(data + 16 * n), machine.bus(data + 1024 + 16 * n));
        queue.kick();
        machine.read(data + 1024, 48).iter().filter(|&&byte| byte != 0).count() / 8
    };
    assert!(copy(&mut queue, 0) >= 1);
    let after_first = machine.read(data + 1024, 48);
    copy(&mut queue, 1);
    assert_eq!(machine.read(data + 1024, 48), after_first, "nobody noticed");
    assert_eq!(queue.pointers(M2S), (1 << 30 | 1, 1 << 30 | 2), "the tail has moved");
    copy(&mut queue, 2);
    assert_eq!(machine.read(data + 1024, 48), pattern(48, 3));
    assert!(queue.is_idle());
}

#[test]
fn a_queue_reset_forgets_a_dropped_kick() {
    let machine = Machine::faulty(Product::Trn1, "drop-kick");
    let data = machine.alloc(4096);
    machine.write(data, b"retry");
    let mut queue = Queue::new(&machine, 32, 0, 64);
    for _ in 0..2 {
        queue.program();
        queue.pair(5, machine.bus(data), machine.bus(data + 64));
        queue.kick();
    }
    assert_eq!(machine.read(data + 64, 5), b"retry");
    assert!(queue.is_idle());
}

#[test]
fn a_hung_engine_does_nothing_until_the_fault_is_gone() {
    let machine = Machine::faulty(Product::Trn2, "hang:nth=2,engine=129");
    let data = machine.alloc(4096);
    machine.write(data, b"ab");
    let mut hung = Queue::new(&machine, 129, 0, 64);
    let mut other = Queue::new(&machine, 128, 0, 64);
    hung.pair(1, machine.bus(data), machine.bus(data + 64));
    hung.kick();
    hung.pair(1, machine.bus(data + 1), machine.bus(data + 65));
    hung.kick();
    other.pair(1, machine.bus(data + 1), machine.bus(data + 66));
    other.kick();
    assert_eq!(machine.read(data + 64, 3), b"a\0b");
    assert_eq!(machine.state(129), (0x1111, 0x1111));
    machine.device.quiesce();
    machine.device.faults().clear();
    hung.pair(1, machine.bus(data), machine.bus(data + 67));
    hung.kick();
    assert_eq!(machine.read(data + 64, 4), b"abba");
}

#[test]
fn an_abort_strikes_the_nth_data_descriptor_and_skips_markers() {
    let machine = Machine::faulty(Product::Trn1, "abort:nth=3");
    let data = machine.alloc(4096);
    machine.write(data, &pattern(256, 5));
    let mut queue = Queue::new(&machine, 0, 0, 64);
    for n in 0..4 {
        queue.pair(16, machine.bus(data + 16 * n), machine.bus(data + 1024 + 16 * n));
        queue.pair(4, machine.bus(data + 200), machine.bus(data + 2048 + 4 * n));
    }
    queue.kick();
    assert_eq!(queue.error(M2S), Some(QueueError::Injected { index: 4 }));
    assert_eq!(machine.state(0).0, 0x2222);
    assert_eq!(machine.read(data + 1024, 32), pattern(32, 5));
    assert_eq!(machine.read(data + 1056, 32), [0; 32]);
    assert_eq!(machine.read(data + 2056, 8), [0; 8], "no marker after it");
    queue.program();
    queue.pair(16, machine.bus(data + 32), machine.bus(data + 1056));
    queue.kick();
    assert_eq!(machine.read(data + 1056, 16), pattern(256, 5)[32..48]);
}

#[test]
fn a_flipped_bit_is_one_bit_of_one_write() {
    let machine = Machine::faulty(Product::Trn1, "flip:nth=2,min=100");
    let data = machine.alloc(8192);
    let bytes = pattern(400, 6);
    machine.write(data, &bytes);
    let mut queue = Queue::new(&machine, 0, 0, 64);
    for (at, len) in [(0, 100), (100, 50), (150, 100), (250, 150)] {
        queue.pair(len, machine.bus(data + at), machine.bus(data + 4096 + at));
    }
    queue.kick();
    let wrong: Vec<_> = machine
        .read(data + 4096, 400)
        .iter()
        .zip(&bytes)
        .enumerate()
        .filter_map(|(at, (a, b))| (a != b).then_some((at, (a ^ b).count_ones())))
        .collect();
    assert_eq!(wrong, [(200, 1)]);
    assert_eq!(machine.device.faults().fired(), 1);
}

#[test]
fn register_reads_fail_where_and_when_the_plan_says() {
    let machine = Machine::faulty(Product::Trn1, "read:nth=2,times=2,engine=0,offset=0x1030");
    let at = 0x3000_1030;
    let read = || machine.device.bar_read(0, at);
    assert_eq!(read(), Ok(0));
    assert_eq!(machine.device.bar_read(0, at + 4), Ok(1 << 30), "another register");
    assert_eq!(read(), Err(AccessError::Injected { bar: 0, offset: at }));
    assert!(read().is_err());
    assert_eq!(read(), Ok(0));
    let id = machine.device.faults().add(Fault::LateRoutingId { reads: 1 });
    assert_eq!(machine.device.faults().list().len(), 2);
    assert!(machine.device.faults().remove(id).is_some());
}

#[test]
fn accesses_outside_the_bars_are_refused() {
    let machine = Machine::new(Product::Trn2);
    let device = &machine.device;
    let gib = 1u64 << 30;
    assert_eq!(device.bar_read(0, 2), Err(AccessError::Misaligned { bar: 0, offset: 2 }));
    assert_eq!(
        device.bar_write(0, 4 * gib, 0),
        Err(AccessError::OutOfRange { bar: 0, offset: 4 * gib, size: 4 * gib })
    );
    assert_eq!(device.bar_read(2, 0), Err(AccessError::NoSuchBar { bar: 2 }));
    assert_eq!(device.bar_read(7, 0), Err(AccessError::NoSuchBar { bar: 7 }));
    assert_eq!(device.bar_read(4, 24 * gib), Err(AccessError::Gap { bar: 4, offset: 24 * gib }));
    assert_eq!(device.bar_write(4, 64 * gib, 7), Ok(()));
    assert_eq!(device.bar_read(4, 64 * gib), Ok(7));
    assert_eq!(device.bar_read(0, 4 * gib - 4), Ok(0));
}

#[test]
fn a_replaced_dma_table_is_in_force_from_the_next_kick() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    machine.write(data, b"gone");
    let mut queue = Queue::new(&machine, 0, 0, 64);
    machine.device.set_dma_table(DmaTable::default());
    queue.rx(8, 0);
    queue.tx(FIRST | LAST, 8, machine.bus(data));
    queue.kick();
    assert!(matches!(queue.error(M2S), Some(QueueError::Unmapped { .. })), "not even the ring is reachable");
    machine.device.set_dma_table(machine.whole_table());
    queue.program();
    queue.pair(4, machine.bus(data), 0);
    queue.kick();
    assert_eq!(machine.read_hbm(0, 4), b"gone");
}
