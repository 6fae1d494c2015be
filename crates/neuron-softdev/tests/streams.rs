//! Properties of data movement: whatever the descriptors, bytes arrive exactly and nothing else changes; who
//! executes makes no difference.

mod common;

use common::{FIRST, LAST, Machine, Queue, pattern};
use neuron_softdev::{Direction, Product};
use proptest::prelude::*;
use proptest::sample::Index;

/// A cut of `total` bytes into parts of 1 to 65536.
fn cuts(total: u32, points: &[Index]) -> Vec<u32> {
    let mut ends: Vec<u32> = points.iter().map(|point| point.index(total as usize) as u32).collect();
    ends.extend((1..=total / 65536).map(|n| n * 65536));
    ends.push(total);
    ends.sort_unstable();
    ends.dedup();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| end - start).filter(|&len| len > 0).collect()
}

fn points() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 0..12)
}

#[derive(Debug, Clone)]
struct Packet {
    total: u32,
    tx: Vec<Index>,
    rx: Vec<Index>,
    /// Room left in the last buffer.
    spare: u32,
}

fn packet() -> impl Strategy<Value = Packet> {
    let total = prop_oneof![1u32..64, 1u32..5000, 60_000u32..140_000];
    (total, points(), points(), prop_oneof![Just(0), 1u32..100]).prop_map(|(total, tx, rx, spare)| Packet {
        total,
        tx,
        rx,
        spare,
    })
}

/// Plays packets through a queue of 64 descriptors and returns what the target area of `area` bytes holds
/// then, and what it should hold.
fn play(machine: &Machine, packets: &[Packet], area: usize) -> (Vec<u8>, Vec<u8>) {
    let source = machine.alloc(area as u64);
    let target = machine.alloc(area as u64);
    let data = pattern(area, 99);
    machine.write(source, &data);
    let mut expected = vec![0; area];
    let mut queue = Queue::new(machine, 33, 0, 64);
    let (mut from, mut to) = (0usize, 3usize);
    for packet in packets {
        let tx = cuts(packet.total, &packet.tx);
        let mut rx = cuts(packet.total, &packet.rx);
        if let Some(last) = rx.last_mut() {
            *last = (*last + packet.spare).min(65536);
        }
        // Buffers lie apart, parts of the source too.
        let mut stream = Vec::new();
        for (i, &len) in tx.iter().enumerate() {
            let flags = if i == 0 { FIRST } else { 0 } | if i + 1 == tx.len() { LAST } else { 0 };
            queue.tx(flags, len, machine.bus(source + from as u64));
            stream.extend_from_slice(&data[from..from + len as usize]);
            from += len as usize + 1;
        }
        let mut stream = stream.as_slice();
        for &len in &rx {
            queue.rx(len, machine.bus(target + to as u64));
            let taken = stream.len().min(len as usize);
            expected[to..to + taken].copy_from_slice(&stream[..taken]);
            stream = &stream[taken..];
            to += len as usize + 5;
        }
        assert!(stream.is_empty());
        queue.kick();
        machine.device.quiesce();
        assert_eq!((queue.error(Direction::M2s), queue.error(Direction::S2m)), (None, None));
        assert!(queue.is_idle());
    }
    (machine.read(target, area), expected)
}

/// Offset of the memory that the wild descriptors' rings do not lie in.
const OPEN: u64 = 1 << 20;

/// A descriptor pair with arbitrary addresses, some good, some not.
#[derive(Debug, Clone)]
struct Wild {
    source: u64,
    destination: u64,
    len: u32,
}

fn wild() -> impl Strategy<Value = Wild> {
    let host = (1u64 << 44 | common::HOST_BASE) + OPEN;
    let address = prop_oneof![
        3 => (0u64..0x2_0000).prop_map(move |offset| host + offset),
        1 => any::<u64>(),
        1 => 0u64..1 << 37,
        1 => (0u64..1 << 17).prop_map(move |offset| host - OPEN + common::HOST_SIZE - offset),
        1 => (0u64..1 << 32).prop_map(|offset| 0xfff_c000_0000 + offset),
    ];
    (address.clone(), address, 1u32..=65536).prop_map(|(source, destination, len)| Wild {
        source,
        destination,
        len,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_stream_cut_differently_on_both_sides_arrives_exactly(packets in prop::collection::vec(packet(), 1..6)) {
        let area = 1 << 20;
        let (inline, expected) = play(&Machine::new(Product::Trn1), &packets, area);
        prop_assert!(inline == expected, "inline");
        let (threaded, _) = play(&Machine::threaded(Product::Trn1, 2), &packets, area);
        prop_assert!(threaded == inline, "threaded");
    }

    #[test]
    fn descriptors_write_to_their_targets_and_nowhere_else(pairs in prop::collection::vec(wild(), 1..8)) {
        let machine = Machine::new(Product::Trn1);
        let mut queue = Queue::new(&machine, 0, 0, 64);
        // What all host memory but the rings should hold.
        let mut host = pattern((common::HOST_SIZE - OPEN) as usize, 5);
        machine.write(OPEN, &host);
        let range = |address: u64, len: u32| {
            let start = address.checked_sub(machine.bus(OPEN))? as usize;
            let end = start.checked_add(len as usize)?;
            (end <= (common::HOST_SIZE - OPEN) as usize).then_some(start..end)
        };
        for Wild { source, destination, len } in pairs {
            let hbm_source = machine.device.bar4().slice(source, len.into()).ok().filter(|_| source >> 34 == 0);
            queue.program();
            queue.pair(len, source, destination);
            queue.kick();
            let failed = queue.error(Direction::M2s).is_some() || queue.error(Direction::S2m).is_some();
            if let (false, Some(to)) = (failed, range(destination, len)) {
                match (range(source, len), hbm_source) {
                    (Some(from), _) => host.copy_within(from, to.start),
                    (None, Some(bytes)) => prop_assert_eq!(bytes.copy_to(&mut host[to]), len as usize),
                    // From on-chip memory or the second channel: what arrived is not known, but where.
                    (None, None) => {
                        let arrived = machine.read(OPEN + to.start as u64, to.len());
                        host[to].copy_from_slice(&arrived);
                    }
                }
            }
            prop_assert!(machine.read(OPEN, host.len()) == host);
        }
    }
}
