//! Rings, cursors, states and packets: what `spec/udma.md` 10 says of a queue that is driven correctly.

mod common;

use common::{FIRST, LAST, META, Machine, Queue, pattern};
use neuron_softdev::{Device, Direction, INSTANCES, Product};
use vm_memory::Bytes;

const M2S: Direction = Direction::M2s;
const S2M: Direction = Direction::S2m;

#[test]
fn nothing_runs_until_both_sides_are_announced() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    machine.write(data, b"both");
    for first in [S2M, M2S] {
        let mut queue = Queue::new(&machine, 0, 0, 64);
        machine.write(data + 64, &[0; 4]);
        queue.pair(4, machine.bus(data), machine.bus(data + 64));
        queue.ring(first);
        assert_eq!(machine.read(data + 64, 4), [0; 4]);
        let states = machine.state(0);
        assert_eq!(states, if first == M2S { (0x1111, 0) } else { (0, 0x1111) });
        queue.ring(if first == M2S { S2M } else { M2S });
        assert_eq!(machine.read(data + 64, 4), b"both");
        assert_eq!(machine.state(0), (0, 0));
    }
}

#[test]
fn heads_and_tails_count_laps_and_the_doorbell_reads_zero() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    let mut queue = Queue::new(&machine, 7, 3, 32);
    let start = 1 << 30;
    assert_eq!(queue.pointers(M2S), (start, start));
    for n in 1..=200u32 {
        machine.set_word(data, n);
        queue.pair(4, machine.bus(data), machine.bus(data + 4));
        queue.kick();
        assert_eq!(machine.word(data + 4), n);
        let expected = (((1 + n / 32) & 3) << 30) | (n % 32);
        for direction in [M2S, S2M] {
            assert_eq!(queue.pointers(direction), (expected, expected));
            assert_eq!(queue.get(direction, 0x40), expected, "dcp");
            assert_eq!((queue.get(direction, 0x38), queue.get(direction, 0x4c)), (0, 0));
        }
    }
}

#[test]
fn a_kick_past_the_rings_end_wraps_the_phase() {
    let machine = Machine::new(Product::Trn2);
    let data = machine.alloc(4096);
    machine.write(data, &pattern(64, 9));
    let mut queue = Queue::new(&machine, 131, 15, 48);
    for lap in 0..9u64 {
        for n in 0..40 {
            let at = (lap * 40 + n) % 16;
            queue.pair(4, machine.bus(data + at * 4), machine.bus(data + 1024 + at * 4));
        }
        queue.kick();
        assert!(queue.is_idle() && queue.error(M2S).is_none() && queue.error(S2M).is_none());
        assert_eq!(machine.read(data + 1024, 64), pattern(64, 9));
        machine.write(data + 1024, &[0; 64]);
    }
}

#[test]
fn produced_registers_can_not_be_written() {
    let machine = Machine::new(Product::Trn1);
    let queue = Queue::new(&machine, 1, 1, 64);
    for offset in [0x34, 0x3c, 0x40, 0x4c] {
        let before = queue.get(M2S, offset);
        queue.set(M2S, offset, 0x1234);
        assert_eq!(queue.get(M2S, offset), before);
    }
    machine.set_engine_reg(1, 0x200, 7);
    assert_eq!(machine.state(1), (0, 0));
    for offset in [0x24, 0x44, 0x48, 0x54, 0x74] {
        queue.set(M2S, offset, 0x1234);
        assert_eq!(queue.get(M2S, offset), 0x1234, "{offset:#x} is plain");
    }
}

#[test]
fn a_disabled_queue_keeps_its_work_until_enabled() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    machine.write(data, b"later");
    let mut queue = Queue::new(&machine, 0, 0, 64);
    for missing in [1 << 16, 1 << 17] {
        machine.write(data + 64, &[0; 5]);
        queue.set(S2M, 0x20, 0x0303_0000 & !missing);
        queue.pair(5, machine.bus(data), machine.bus(data + 64));
        queue.kick();
        assert_eq!(machine.read(data + 64, 5), [0; 5]);
        queue.set(S2M, 0x20, 0x0303_0000);
        assert_eq!(machine.read(data + 64, 5), b"later");
    }
}

#[test]
fn a_queue_reset_drops_work_and_keeps_what_was_programmed() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    let mut queue = Queue::new(&machine, 0, 0, 64);
    queue.pair(4, machine.bus(data), machine.bus(data));
    queue.kick();
    queue.pair(4, machine.bus(data), machine.bus(data));
    queue.ring(S2M);
    let base = queue.get(S2M, 0x28);
    queue.set(S2M, 0x64, 0x100);
    assert_eq!(queue.pointers(S2M), (1 << 30, 1 << 30));
    assert_eq!((queue.get(S2M, 0x28), queue.get(S2M, 0x30), queue.get(S2M, 0x20)), (base, 64, 0x0303_0000));
    assert_eq!(queue.pointers(M2S).0, 1 << 30 | 1, "the other side is reset for itself");
    assert_eq!(queue.get(S2M, 0x64), 0x100);
    queue.set(M2S, 0x64, 0x100);
    assert_eq!(queue.pointers(M2S).0, 1 << 30 | 1, "not TX's reset register");
}

#[test]
fn requested_states_show_until_a_reset_and_stop_or_start_the_engine() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    machine.write(data, b"state");
    let mut queue = Queue::new(&machine, 0, 0, 64);
    for (bit, shown) in [(1, 0x1111), (4, 0x2222), (2, 0), (4, 0x2222)] {
        machine.set_engine_reg(0, 0x204, bit);
        machine.set_engine_reg(0, 0x2_0204, bit);
        assert_eq!(machine.state(0), (shown, shown));
    }
    queue.pair(5, machine.bus(data), machine.bus(data + 64));
    queue.kick();
    assert_eq!(machine.read(data + 64, 5), [0; 5], "aborted");
    machine.set_engine_reg(0, 0x204, 1);
    assert_eq!(machine.read(data + 64, 5), [0; 5], "the other direction still is");
    machine.set_engine_reg(0, 0x2_0204, 1);
    assert_eq!(machine.read(data + 64, 5), b"state");
    assert_eq!(machine.state(0), (0x1111, 0x1111), "as requested, though idle");
    queue.program();
    assert_eq!(machine.state(0), (0, 0));
    machine.set_engine_reg(0, 0x204, 2);
    queue.program();
    queue.pair(5, machine.bus(data), machine.bus(data + 128));
    queue.kick();
    assert_eq!(machine.read(data + 128, 5), b"state", "a queue reset lifts a request");
}

#[test]
fn disabling_lets_a_packet_finish_and_nothing_more_start() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    machine.write(data, b"abcdef");
    let mut queue = Queue::new(&machine, 0, 0, 64);
    queue.rx(4, machine.bus(data + 64));
    queue.rx(2, machine.bus(data + 128));
    queue.tx(FIRST, 2, machine.bus(data));
    queue.kick();
    machine.set_engine_reg(0, 0x204, 2);
    queue.tx(LAST, 2, machine.bus(data + 2));
    queue.tx(FIRST | LAST, 2, machine.bus(data + 4));
    queue.kick();
    assert_eq!(machine.read(data + 64, 4), b"abcd");
    assert_eq!(machine.read(data + 128, 2), [0; 2]);
    machine.set_engine_reg(0, 0x204, 1);
    assert_eq!(machine.read(data + 128, 2), b"ef");
}

#[test]
fn a_packet_split_differently_on_both_sides_arrives_whole() {
    let machine = Machine::new(Product::Trn2);
    let data = machine.alloc(8192);
    machine.write(data, &pattern(600, 4));
    let mut queue = Queue::new(&machine, 0, 0, 64);
    // Source 100 + 200 + 300, destinations 250 + 250 + 250: the last one is left short.
    for (len, at) in [(250, 0), (250, 1000), (250, 2000)] {
        queue.rx(len, machine.bus(data + 4096 + at));
    }
    queue.rx(8, machine.bus(data + 4096 + 3000));
    for (flags, len, at) in [(FIRST, 100, 0), (0, 200, 100), (LAST, 300, 300), (FIRST | LAST, 8, 0)] {
        queue.tx(flags, len, machine.bus(data + at));
    }
    queue.kick();
    let source = pattern(600, 4);
    let at = |offset, len| machine.read(data + 4096 + offset, len);
    assert_eq!(at(0, 250), source[..250]);
    assert_eq!(at(1000, 250), source[250..500]);
    assert_eq!(at(2000, 100), source[500..]);
    assert_eq!(at(2100, 150), [0; 150], "a packet's end ends its buffer");
    assert_eq!(at(3000, 8), source[..8], "the next packet starts in the next");
    assert!(queue.is_idle());
}

#[test]
fn a_packet_waits_for_buffers_and_goes_on_where_it_stood() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    machine.write(data, b"0123456789");
    let mut queue = Queue::new(&machine, 0, 0, 64);
    queue.rx(4, machine.bus(data + 64));
    queue.tx(FIRST | LAST, 10, machine.bus(data));
    queue.kick();
    assert_eq!(machine.read(data + 64, 4), b"0123");
    let tx = queue.pointers(M2S);
    assert_ne!(tx.0, tx.1, "not retired: it is not idle");
    queue.rx(4, machine.bus(data + 128));
    queue.ring(S2M);
    queue.rx(4, machine.bus(data + 192));
    queue.ring(S2M);
    assert_eq!(
        (machine.read(data + 128, 4), machine.read(data + 192, 2)),
        (b"4567".to_vec(), b"89".to_vec())
    );
    assert!(queue.is_idle());
}

#[test]
fn a_table_replaced_in_the_middle_of_a_descriptor_is_checked_again() {
    let machine = Machine::new(Product::Trn1);
    let (rings, data) = (machine.alloc(8192), machine.alloc(4096));
    let memory = [rings, rings + 4096].map(common::RingMemory::Host);
    let mut queue = Queue::at(&machine, 0, 0, 64, memory);
    queue.rx(4, 0);
    queue.tx(FIRST | LAST, 10, machine.bus(data));
    queue.kick();
    machine.device.set_dma_table(machine.table(rings, 8192));
    queue.rx(6, 64);
    queue.ring(S2M);
    assert!(queue.error(M2S).is_some());
    assert_eq!(machine.read_hbm(64, 6), [0; 6]);
}

#[test]
fn a_lead_descriptor_carries_no_data() {
    let machine = Machine::new(Product::Trn2);
    let data = machine.alloc(4096);
    machine.write(data, b"payload");
    let mut queue = Queue::new(&machine, 0, 0, 64);
    queue.rx(7, machine.bus(data + 64));
    queue.tx(FIRST | META, 0, 0xdead_0000_0000);
    queue.tx(LAST, 7, machine.bus(data));
    queue.kick();
    assert_eq!(machine.read(data + 64, 7), b"payload");
    assert!(queue.is_idle() && queue.error(M2S).is_none());
}

#[test]
fn length_zero_moves_64_kib() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(0x1_0000);
    let bytes = pattern(0x1_0000, 11);
    machine.write(data, &bytes);
    let mut queue = Queue::new(&machine, 0, 0, 64);
    queue.pair(0x1_0000, machine.bus(data), 0x100_0001);
    queue.kick();
    assert!(machine.read_hbm(0x100_0001, 0x1_0000) == bytes);
    assert_eq!(machine.device.counters().bytes, 0x1_0000);
}

#[test]
fn overlapping_source_and_target_move_as_one() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(8192);
    let bytes = pattern(4000, 12);
    machine.write(data, &bytes);
    let mut queue = Queue::new(&machine, 0, 0, 64);
    queue.pair(4000, machine.bus(data), machine.bus(data + 100));
    queue.kick();
    assert_eq!(machine.read(data + 100, 4000), bytes);
}

#[test]
fn dma_reaches_semaphores_events_and_on_chip_memory() {
    let machine = Machine::new(Product::Trn1);
    let data = machine.alloc(4096);
    machine.set_word(data, 5);
    machine.set_word(data + 4, 2);
    machine.write(data + 64, &pattern(64, 13));
    let mut queue = Queue::new(&machine, 16, 0, 64);
    let core1 = 0xfff_c400_0000;
    let semaphore = core1 + 0x270_1000 + 4 * 12;
    queue.pair(4, machine.bus(data), semaphore + 0x400);
    queue.pair(4, machine.bus(data), semaphore + 0x800);
    queue.pair(4, machine.bus(data + 4), semaphore + 0xc00);
    queue.pair(4, machine.bus(data), core1 + 0x270_0000 + 4 * 9);
    queue.pair(64, machine.bus(data + 64), core1 + 0x1000);
    queue.pair(64, core1 + 0x1000, machine.bus(data + 1024));
    queue.kick();
    assert_eq!(machine.reg(0x400_0000 + 0x270_1000 + 4 * 12), 8);
    assert_eq!(machine.reg(0x400_0000 + 0x270_0000 + 4 * 9), 5);
    assert_eq!(machine.read(data + 1024, 64), pattern(64, 13));
    assert_eq!(
        machine.reg(0x400_1000).to_le_bytes(),
        pattern(64, 13)[..4],
        "the window shows the same bytes"
    );
}

#[test]
fn dma_reaches_v3s_core_regions() {
    let machine = Machine::new(Product::Trn2);
    let data = machine.alloc(4096);
    machine.write(data, b"on chip");
    let mut queue = Queue::new(&machine, 127, 0, 64);
    for (n, region) in
        [0x20_0000_0000u64, 0x8070_0000_0000, 0x52_0000_0000, 0x8082_8000_0000 + 9 * 0x4000_0000]
            .into_iter()
            .enumerate()
    {
        let back = data + 64 + 16 * n as u64;
        queue.pair(7, machine.bus(data), region + 0x3000);
        queue.pair(7, region + 0x3000, machine.bus(back));
        queue.kick();
        assert_eq!(machine.read(back, 7), b"on chip");
    }
    queue.pair(7, machine.bus(data), 0x20_0000_0000 + 0x8_0400_0000);
    queue.kick();
    assert!(queue.error(S2M).is_some(), "past the region's end");
}

#[test]
fn every_queue_of_every_engine_copies() {
    for (product, engines) in [(Product::Inf2, 34), (Product::Trn2, 132), (Product::Trn3, 132)] {
        let machine = Machine::new(product);
        let data = machine.alloc(4096);
        let memory = [0, 1].map(|_| common::RingMemory::Host(machine.alloc(4096)));
        for engine in 0..engines {
            for number in 0..16 {
                let value = u32::from(engine) << 8 | number as u32 | 0x8000_0000;
                machine.set_word(data, value);
                let mut queue = Queue::at(&machine, engine, number, 32, memory);
                queue.pair(4, machine.bus(data), machine.bus(data + 64));
                queue.kick();
                assert_eq!(machine.word(data + 64), value, "{product:?} engine {engine} queue {number}");
            }
        }
    }
}

#[test]
fn the_machines_of_the_catalogue_can_be_made_and_reach_all_their_memory() {
    for instance in INSTANCES {
        let devices: Vec<_> =
            (0..instance.devices).map(|id| Device::new(instance.device_config(id)).unwrap()).collect();
        for (id, device) in devices.iter().enumerate() {
            assert_eq!(device.bar_read(0, device.geometry().misc_ram + 0x24), Ok(id as u32));
            let last = device.geometry().hbm.last().unwrap();
            let end = device.bar4().slice(last.bar4 + last.size - 8, 8).unwrap();
            end.write_obj(id as u64, 0).unwrap();
            assert_eq!(end.read_obj::<u64>(0).unwrap(), id as u64);
        }
    }
}
