//! The life of a device as its driver sees it, played from `spec/device.md` 2 access by access: probe, routing
//! id, reset, engine and queue initialisation, copies, mailbox.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{FIRST, LAST, Machine, RingMemory, crc32c, pattern};
use neuron_softdev::{Direction, Generation, Product};

const MARKER: u32 = 0xabcd_ef01;

/// What the script needs to know beforehand, from the sheet and not from the device.
struct Facts {
    product: Product,
    device_id: u32,
    bar0: u64,
    bar4: u64,
    misc: u64,
    /// A copy engine's UDMA block.
    copy_engine: (u16, u64),
    /// A device address in the second HBM channel and its BAR4 offset.
    hbm1: (u64, u64),
    core_map: u32,
    core0: u64,
}

const GIB: u64 = 1 << 30;

const TRN1: Facts = Facts {
    product: Product::Trn1,
    device_id: 0x7164,
    bar0: GIB,
    bar4: 32 * GIB,
    misc: 0x30fa_0000,
    copy_engine: (33, 0x30d0_0000),
    hbm1: (0x10_0100_0000, 16 * GIB + 0x100_0000),
    core_map: 0x701,
    core0: 0,
};
const INF2: Facts = Facts { product: Product::Inf2, device_id: 0x7264, ..TRN1 };
const TRN2: Facts = Facts {
    product: Product::Trn2,
    device_id: 0x7364,
    bar0: 4 * GIB,
    bar4: 256 * GIB,
    misc: 0x6c8_4000,
    copy_engine: (128, 0x680_0000),
    hbm1: (0x40_0100_0000, 64 * GIB + 0x100_0000),
    core_map: 0x1_0101,
    core0: 0xd000_0000,
};
const ALL: [&Facts; 3] = [&TRN1, &INF2, &TRN2];

/// Finds the function and sizes its BARs as configuration software does.
fn probe(machine: &Machine, facts: &Facts) {
    let device = &machine.device;
    assert_eq!(device.config_read(0x00, 2), 0x1d0f);
    assert_eq!(device.config_read(0x02, 2), facts.device_id);
    assert_eq!(device.config_read(0x0a, 2), 0x1200);
    assert!(![240, 255].contains(&device.config_read(0x08, 1)), "silicon");
    assert_eq!(device.config_read(0x06, 2) & 0x10, 0, "no capability list");
    let mut found = Vec::new();
    for bar in [0u16, 2, 4] {
        let at = 0x10 + 4 * bar;
        let (low, high) = (device.config_read(at, 4), device.config_read(at + 4, 4));
        device.config_write(at, 4, u32::MAX);
        device.config_write(at + 4, 4, u32::MAX);
        let mask =
            u64::from(device.config_read(at + 4, 4)) << 32 | u64::from(device.config_read(at, 4) & !0xf);
        device.config_write(at, 4, low);
        device.config_write(at + 4, 4, high);
        found.push(mask.wrapping_neg());
    }
    assert_eq!(found, [facts.bar0, 0, facts.bar4]);
    assert_eq!([0, 2, 4].map(|bar| device.bar_size(bar)), [facts.bar0, 0, facts.bar4]);
    device.config_write(0x04, 2, 0x0406);
    assert_eq!(device.config_read(0x04, 2), 0x0406);
}

/// Steps 1 to 4. Reads each polled register at most `polls` times; `false` if that was not enough.
fn reset(machine: &Machine, misc: u64, request: u32, map: u32, polls: usize) -> bool {
    machine.set_reg(misc + 0x1d8, map);
    machine.set_reg(misc + 0x1ec, request);
    machine.set_reg(misc + 0x800, 1);
    (0..polls).any(|_| machine.reg(misc + 0x1ec) == 0)
        && (0..polls).any(|_| machine.reg(misc + 0x808) & 8 == 0)
}

/// Engine initialisation in the order of `spec/udma.md` 3, with the values that every engine gets.
fn init_engine(machine: &Machine, base: u64, generation: Generation, core_owned: bool) {
    let write = |offset: u64, value: u32| machine.set_reg(base + offset, value);
    let v2 = generation == Generation::V2;
    let set_bit = |offset: u64, bit: u32, also: u64| {
        let value = machine.reg(base + offset) | 1 << bit;
        write(offset, value);
        write(also, value);
    };
    for queue in 0..16 {
        write(0x1020 + queue * 0x1000, 0x3_0000);
        write(0x2_1020 + queue * 0x1000, 0x3_0000);
    }
    write(0x310, if v2 { 0x0100_0400 } else { 0x0100_08f8 });
    write(0x124, if v2 { 0x86f } else { 0x2080_8080 });
    write(0x3_a300, 0x05f5_e100);
    write(0x408, 0);
    write(0x254, 0x010f_ffff);
    write(0x258, 0x102);
    (0..16).for_each(|queue| write(0x3_c400 + queue * 0x40, u32::MAX));
    write(0x118, 0x1_0008);
    write(0x2_038c, 0);
    for queue in 0..16 {
        [4, 8, 0xc].iter().for_each(|offset| write(0x3_c400 + queue * 0x40 + offset, u32::MAX));
    }
    write(0x2_0124, if v2 { 0x40_0008 } else { 0x40_0080 });
    write(0x2_0128, 0x4080_4080);
    let spare = machine.reg(base + 0x3_b460);
    write(0x3_b460, spare & !1);
    for (offset, value) in [
        (0x3_a028, 0x28),
        (0x3_80e8, 0x28),
        (0x3_a030, 0xf000_0000),
        (0x3_a0b0, 0xffff_ffc0),
        (0x3_a018, 0xf000_0000),
        (0x3_a098, 0xffff_ffc0),
        (0x3_80d8, 0xffff_faff),
        (0x3_a068, 0x28),
        (0x3_80e8, 0x28),
        (0x3_a070, 0x10f8),
        (0x3_a0b0, 0xffff_f03f),
        (0x3_a058, 0x10f8),
        (0x3_a098, 0xffff_f03f),
        (0x3_80d8, 0xffff_f9ff),
        (0x2_0380, 0x1004),
        (0x304, 0x1_0041),
        (0x308, 0x4181),
        (0x2_0308, 0x4181),
        (0x11c, 0x1_0008),
        (0x2_011c, 0x1_0008),
    ] {
        write(offset, value);
    }
    if v2 {
        for table in 0..6 {
            [1, 2, 3, 9, 10, 11].iter().for_each(|entry| write(0x3_a900 + table * 0x40 + entry * 4, 0xf));
        }
        for (table, queue) in (0..6).flat_map(|table| (0..16).map(move |queue| (table, queue))) {
            write(0x3_ab00 + table * 8, (queue as u32) << 3 | 7);
            write(0x3_ab04 + table * 8, 0x10);
        }
        for group in [0x3_ad00, 0x3_ae00, 0x3_af00, 0x3_b000, 0x3_b100, 0x3_b200] {
            for (offset, value) in [(0x28, 0x28), (0x30, 0), (0x18, 0)] {
                write(group + offset, value);
            }
        }
        write(0x3_a300, u32::MAX);
    } else if core_owned {
        set_bit(0x3_a010, 17, 0x3_a030);
        set_bit(0x3_a050, 11, 0x3_a070);
        set_bit(0x20c, 17, 0x20c);
        set_bit(0x2_020c, 11, 0x2_020c);
    }
}

/// A queue in host memory, programmed with the writes of `spec/udma.md` 4 and worked like the driver's copy
/// ring: data pairs, then a marker pair, RX rung before TX.
struct CopyRing<'m> {
    machine: &'m Machine,
    base: u64,
    tx: u64,
    rx: u64,
    marker: u64,
    next: u64,
}

impl<'m> CopyRing<'m> {
    fn new(machine: &'m Machine, base: u64) -> Self {
        let (tx, rx, marker) = (machine.alloc(0x2_0000), machine.alloc(0x2_0000), machine.alloc(4096));
        for (block, ring, reset, completion) in
            [(base + 0x1000, tx, 0xb0, 0xa0), (base + 0x2_1000, rx, 0x64, 0x54)]
        {
            if block == base + 0x1000 {
                machine.set_reg(block + 0x74, 3);
            }
            machine.set_reg(block + 0x20, 0x0300_0000);
            machine.set_reg(block + reset, 0x100);
            machine.set_reg(block + 0x28, machine.bus(ring) as u32);
            machine.set_reg(block + 0x2c, (machine.bus(ring) >> 32) as u32);
            machine.set_reg(block + 0x30, 0x2000);
            machine.set_reg(block + completion, 0);
            machine.set_reg(block + 0x20, 0x0303_0000);
        }
        machine.set_word(marker, MARKER);
        Self { machine, base, tx, rx, marker, next: 0 }
    }

    fn stage(&mut self, len: u32, source: u64, destination: u64) {
        let at = self.next % 0x2000 * 16;
        let phase = (1 + self.next / 0x2000) as u32 & 3;
        let words = |word0: u32, word1: u32, address: u64| {
            let mut bytes = word0.to_le_bytes().to_vec();
            bytes.extend(word1.to_le_bytes());
            bytes.extend(address.to_le_bytes());
            bytes
        };
        let word0 = phase << 24 | len & 0xffff;
        self.machine.write(self.rx + at, &words(word0, 0, destination));
        self.machine.write(self.tx + at, &words(word0 | FIRST | LAST, 0x0508_0003, source));
        self.next += 1;
    }

    /// Copies in pieces of 64 KiB, then the marker. `false` if the marker did not come.
    fn copy(&mut self, len: u64, source: u64, destination: u64) -> bool {
        let before = self.next;
        for at in (0..len).step_by(0x1_0000) {
            self.stage((len - at).min(0x1_0000) as u32, source + at, destination + at);
        }
        let (from, to) = (self.machine.bus(self.marker), self.machine.bus(self.marker + 4));
        self.stage(4, from, to);
        self.machine.set_word(self.marker + 4, 0);
        let count = (self.next - before) as u32;
        self.machine.set_reg(self.base + 0x2_1038, count);
        self.machine.set_reg(self.base + 0x1038, count);
        self.machine.word(self.marker + 4) == MARKER
    }
}

/// Sends a mailbox request and returns error and payload of its response, once its sequence byte is there.
fn mailbox(machine: &Machine, misc: u64, sequence: u8, command: u8, payload: &[u8]) -> Option<(u8, Vec<u8>)> {
    let (request, response) = (machine.alloc(4096), machine.alloc(4096));
    let size = (payload.len() + 8) as u16;
    let mut message = vec![sequence, command, size as u8, (size >> 8) as u8, 0, 0, 0, 0];
    message.extend_from_slice(payload);
    let crc = crc32c(&message);
    message[4..8].copy_from_slice(&crc.to_le_bytes());
    machine.write(request, &message);
    for (offset, address) in [(0x1f0, machine.bus(request)), (0x1f8, machine.bus(response))] {
        machine.set_reg(misc + offset, (address >> 32) as u32);
        machine.set_reg(misc + offset + 4, address as u32);
    }
    machine.set_reg(misc + 0x800, 1);
    let header = machine.read(response, 4);
    let size = usize::from(u16::from_le_bytes([header[2], header[3]]));
    (header[0] == sequence).then(|| (header[1], machine.read(response + 4, size.saturating_sub(4))))
}

/// Everything up to a working copy ring.
fn bring_up<'m>(machine: &'m Machine, facts: &Facts) -> CopyRing<'m> {
    probe(machine, facts);
    assert!(machine.reg(facts.misc + 0x24) < 64);
    assert!(reset(machine, facts.misc, 1, 0, 1));
    init_engine(machine, facts.copy_engine.1, facts.product.generation(), false);
    CopyRing::new(machine, facts.copy_engine.1)
}

#[test]
fn a_device_is_probed_reset_and_copies_both_ways() {
    for facts in ALL {
        let machine = Machine::new(facts.product);
        let mut ring = bring_up(&machine, facts);
        let (source, back) = (machine.alloc(300_000), machine.alloc(300_000));
        let data = pattern(300_000, 1);
        machine.write(source, &data);
        let (hbm, bar4) = facts.hbm1;
        assert!(ring.copy(300_000, machine.bus(source), hbm));
        assert!(machine.read_hbm(bar4, 300_000) == data, "{:?}: host to device", facts.product);
        assert!(ring.copy(300_000, hbm, machine.bus(back)));
        assert!(machine.read(back, 300_000) == data, "{:?}: device to host", facts.product);
        assert_eq!(machine.state(facts.copy_engine.0), (0, 0));
    }
}

#[test]
fn registers_of_engine_init_read_back() {
    for facts in ALL {
        let machine = Machine::new(facts.product);
        let base = facts.copy_engine.1;
        init_engine(&machine, base, facts.product.generation(), false);
        for (offset, value) in [(0x254, 0x010f_ffff), (0x2_0380, 0x1004), (0x3_c40c, u32::MAX), (0x408, 0)] {
            assert_eq!(machine.reg(base + offset), value);
        }
        for queue in [0, 15] {
            assert_eq!(machine.reg(base + 0x1020 + queue * 0x1000), 0x3_0000);
            assert_eq!(machine.reg(base + 0x2_1020 + queue * 0x1000), 0x3_0000);
        }
        assert_eq!(machine.reg(base + 0x3_b460), 0);
    }
}

#[test]
fn a_late_routing_id_is_waited_for() {
    for facts in ALL {
        let machine = Machine::faulty(facts.product, "late-id:reads=40");
        let reads = (1..).find(|_| machine.reg(facts.misc + 0x24) != 0xdead_beef);
        assert_eq!(reads, Some(41));
        assert_eq!(machine.reg(facts.misc + 0x24), 0);
        assert_eq!(machine.device.faults().fired(), 40);
    }
}

#[test]
fn a_slow_reset_ends_when_it_has_been_polled_enough() {
    let mut config = neuron_softdev::DeviceConfig::new(Product::Trn1);
    config.reset_polls = 5;
    let machine = Machine::with(config);
    assert!(!reset(&machine, TRN1.misc, 1, 0, 5));
    assert!(machine.reg(TRN1.misc + 0x1ec) == 0);
}

#[test]
fn a_stuck_reset_never_ends_and_resets_nothing() {
    for facts in ALL {
        let machine = Machine::faulty(facts.product, "stuck-reset");
        machine.set_reg(facts.copy_engine.1 + 0x254, 77);
        assert!(!reset(&machine, facts.misc, 1, 0, 1000));
        assert_eq!(machine.reg(facts.copy_engine.1 + 0x254), 77);
        assert_eq!(machine.device.counters().resets, 0);
        machine.device.faults().clear();
        assert!(reset(&machine, facts.misc, 1, 0, 1), "asked again after the fault");
    }
}

#[test]
fn a_busy_reset_shows_in_the_status_word_for_its_reads() {
    let machine = Machine::faulty(Product::Trn2, "busy-reset:reads=5");
    machine.set_reg(TRN2.misc + 0x808, 0x10);
    machine.set_reg(TRN2.misc + 0x1ec, 1);
    machine.set_reg(TRN2.misc + 0x800, 1);
    let status: Vec<_> = (0..7).map(|_| machine.reg(TRN2.misc + 0x808)).collect();
    assert_eq!(status, [0x18, 0x18, 0x18, 0x18, 0x18, 0x10, 0x10]);
}

#[test]
fn a_device_reset_stops_queues_and_clears_engines_but_no_memory() {
    for facts in ALL {
        let machine = Machine::new(facts.product);
        let mut ring = bring_up(&machine, facts);
        machine.set_reg(facts.core0 + 0x270_1400, 9);
        assert!(ring.copy(64, machine.bus(ring.marker), facts.hbm1.0));
        assert!(reset(&machine, facts.misc, 1, 0, 1));
        assert!(!ring.copy(64, machine.bus(ring.marker), facts.hbm1.0), "no ring any more");
        let base = facts.copy_engine.1;
        assert_eq!([0x254, 0x1020, 0x1030, 0x2_1028].map(|at| machine.reg(base + at)), [0; 4]);
        assert_eq!(machine.reg(facts.core0 + 0x270_1000), 0);
        assert_eq!(machine.read_hbm(facts.hbm1.1, 4), MARKER.to_le_bytes());
        assert_eq!(machine.reg(facts.misc + 0x24), 0, "the firmware's page stays");
        init_engine(&machine, base, facts.product.generation(), false);
        assert!(CopyRing::new(&machine, base).copy(64, machine.bus(ring.marker), facts.hbm1.0));
    }
}

#[test]
fn a_core_reset_leaves_the_other_core_and_the_copy_engines_alone() {
    for facts in ALL {
        let machine = Machine::new(facts.product);
        let mut ring = bring_up(&machine, facts);
        for core in [0, 1] {
            machine.set_reg(facts.core0 + core * 0x400_0000 + 0x270_1400, 9);
            machine.set_engine_reg(16 * core as u16, 0x254, 7);
            machine.set_engine_reg(16 * core as u16 + 15, 0x1030, 64);
        }
        assert!(reset(&machine, facts.misc, 2, facts.core_map, 1));
        let of = |core: u64| {
            (
                machine.reg(facts.core0 + core * 0x400_0000 + 0x270_1000),
                machine.engine_reg(16 * core as u16, 0x254),
                machine.engine_reg(16 * core as u16 + 15, 0x1030),
            )
        };
        assert_eq!((of(0), of(1)), ((0, 0, 0), (9, 7, 64)));
        assert!(ring.copy(64, machine.bus(ring.marker), facts.hbm1.0));
    }
}

#[test]
fn the_mailbox_reads_registers_posts_metrics_and_refuses_the_unknown() {
    for facts in ALL {
        let machine = Machine::new(facts.product);
        let top_sp: (u64, u64) = match facts.product.generation() {
            Generation::V2 => (0xfff_d040_0010, 0x1040_0010),
            _ => (0x82_c000_0010, 0xf040_0010),
        };
        machine.set_reg(top_sp.1, 0x600d_f00d);
        let mut payload = top_sp.0.to_le_bytes().to_vec();
        payload.extend((top_sp.0 + 4).to_le_bytes());
        let (error, values) = mailbox(&machine, facts.misc, 1, 1, &payload).unwrap();
        assert_eq!((error, values), (0, [0x600d_f00du32.to_le_bytes(), [0; 4]].concat()));
        assert_eq!(mailbox(&machine, facts.misc, 2, 2, b""), Some((0, vec![])));
        assert_eq!(mailbox(&machine, facts.misc, 3, 77, b""), Some((2, vec![])));
        let counters = machine.device.counters();
        assert_eq!((counters.mailbox_requests, counters.metric_posts), (3, 1));
    }
}

#[test]
fn a_reset_doorbell_does_not_run_the_last_request_again() {
    let machine = Machine::new(Product::Trn1);
    mailbox(&machine, TRN1.misc, 1, 2, b"").unwrap();
    assert!(reset(&machine, TRN1.misc, 1, 0, 1));
    assert_eq!(machine.device.counters().mailbox_requests, 1);
    assert_eq!(machine.device.counters().resets, 1);
}

#[test]
fn a_mailbox_request_outside_the_dma_table_gets_no_answer() {
    let machine = Machine::new(Product::Trn1);
    machine.device.set_dma_table(neuron_softdev::DmaTable::default());
    assert_eq!(mailbox(&machine, TRN1.misc, 1, 2, b""), None);
    assert_eq!(machine.device.counters().mailbox_errors, 1);
}

#[test]
fn identity_and_power_words_are_there() {
    let mut config = neuron_softdev::DeviceConfig::new(Product::Trn2);
    (config.routing_id, config.serial, config.power) = (13, 0x0123_4567_89ab_cdef, 2500);
    let machine = Machine::with(config);
    assert_eq!(machine.reg(TRN2.misc + 0x24), 13);
    assert_eq!((machine.reg(TRN2.misc + 0x38), machine.reg(TRN2.misc + 0x3c)), (0x89ab_cdef, 0x0123_4567));
    assert!(machine.reg(TRN2.misc) >= 3);
    let samples: Vec<_> = (0..3).map(|_| machine.reg(TRN2.misc + 0x54)).collect();
    assert_eq!(samples, [2500, 2500 | 1 << 16, 2500 | 2 << 16], "a new sample each time");
    assert_eq!(machine.reg(TRN2.misc + 0x58), 2500, "the other die counts for itself");
    machine.set_reg(TRN2.misc + 0x40, 3);
    assert_eq!(machine.reg(TRN2.misc + 0x40), 3, "ECC words are the owner's to set");
}

#[test]
fn qemu_mode_runs_from_its_own_bar_and_reset_register() {
    let mut config = neuron_softdev::DeviceConfig::new(Product::Trn1);
    config.revision = 255;
    let device = neuron_softdev::Device::new(config).unwrap();
    assert_eq!(device.config_read(8, 1), 255);
    assert_eq!([0, 2, 4].map(|bar| device.bar_size(bar)), [0, GIB, 32 * GIB]);
    device.bar_write(2, 0x3060_0254, 5).unwrap();
    device.bar_write(2, 0x3064_7010, 1).unwrap();
    assert_eq!(device.bar_read(2, 0x3064_7010), Ok(0));
    assert_eq!(device.bar_read(2, 0x3060_0254), Ok(0));
    assert_eq!(device.counters().resets, 1);
    assert!(device.bar_read(0, 0).is_err());
}

#[test]
fn rings_may_lie_in_device_memory() {
    for facts in ALL {
        let machine = Machine::new(facts.product);
        let memory = [RingMemory::Hbm0(0x200_0000), RingMemory::Hbm0(0x210_0000)];
        let mut queue = common::Queue::at(&machine, 3, 5, 64, memory);
        machine.write_hbm(0x220_0000, b"from device memory");
        let to = machine.alloc(4096);
        queue.pair(18, 0x220_0000, machine.bus(to));
        queue.kick();
        assert_eq!(machine.read(to, 18), b"from device memory");
        assert!(queue.is_idle() && queue.error(Direction::M2s).is_none());
    }
}
