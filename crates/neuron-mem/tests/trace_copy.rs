//! `trace-copy`: what it tells of a copy is what the descriptor format, the batch rules and the cursors demand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod common;

use clap::Parser as _;
use common::run::neuron_mem;
use neuron_mem::cli::{Cli, Command, TraceCopyArgs};
use neuron_mem::exit::Exit;
use neuron_mem::machine::Machine;
use neuron_mem::render::trace::{Half, Place, TraceReport};
use neuron_mem::trace;
use neuron_ndl::environment::BackendName;
use neuron_ndl::software::MachineOptions;
use proptest::prelude::*;
use serde_json::{Value, json};

fn args(options: &str) -> TraceCopyArgs {
    match Cli::try_parse_from(["neuron-mem", "trace-copy"].into_iter().chain(options.split_whitespace())) {
        Ok(Cli { command: Command::TraceCopy(args) }) => args,
        other => panic!("{other:?}"),
    }
}

fn trace(options: &str, abi_only: bool) -> TraceReport {
    let args = args(options);
    let machine = MachineOptions { abi_only, ..MachineOptions::default() };
    let machine = Machine::of(BackendName::Software, &args.machine, machine).unwrap();
    trace::report(&args, &machine, &machine.open(0).unwrap()).unwrap()
}

/// Bus addresses differ from machine to machine; here all of them are `ADDRESS`.
fn without_addresses(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches(',');
        let is_address = bare.strip_prefix("0x").is_some_and(|digits| digits.len() > 8)
            || bare.len() == 16 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_address { word.replace(bare, "ADDRESS") } else { word.to_owned() }
    };
    let host = |line: &str| {
        // A physical address of the host is 32 bits, as a marker's words are.
        match line.split_once("host 0x") {
            Some((before, rest)) => {
                let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
                format!("{before}host ADDRESS{}", &rest[end..])
            }
            None => line.to_owned(),
        }
    };
    text.lines().map(|line| host(&line.split(' ').map(word).collect::<Vec<_>>().join(" ")) + "\n").collect()
}

#[test]
fn a_short_copy_is_told_step_by_step() {
    let expected = "\
backend software, instance trn1.2xlarge
copy of 70,000 B (68.4 KiB) on device 0, h2d, by MEM_COPY

1. Ring: that of the destination's core
   from   host ADDRESS, bus address ADDRESS
   to     HBM 0 + ADDRESS, bus address ADDRESS, core 0
   ring   engine 32, queue 0, for core 0: 8,192 slots
   is     H2T default
   state  TX idle, RX idle

2. Staged: 2 pairs of descriptors
   slot 0: 65,536 B, ring id 1
     TX 0d000000 01080003 ADDRESS  first last               from host ADDRESS
     RX 01000000 00000000 ADDRESS                           to   HBM 0 + ADDRESS
   slot 1: 4,464 B, ring id 1
     TX 0d001170 05080003 ADDRESS  first last write-barrier from host ADDRESS
     RX 01001170 00000000 ADDRESS                           to   HBM 0 + ADDRESS

3. Marker: 1 pair, behind the data
   slot 2: 4 B, ring id 1
     TX 0d000004 01080003 ADDRESS  first last               from marker source, SYNC
     RX 01000004 00000000 ADDRESS                           to   marker destination, SYNC

4. Doorbells, in the order the device heard them
   no. 0    RX  engine 32, queue 0: 3 descriptors
   no. 1    TX  engine 32, queue 0: 3 descriptors

5. Landed: MEM_COPY succeeded, as it does when the marker has landed
   state  TX idle, RX idle
   TX     head 0 -> 3, tail 3: nothing left to fetch
   RX     head 0 -> 3, tail 3: nothing left to fetch
   marker before: source 0x00000000, destination 0x00000000
          after:  source 0xabcdef01, destination 0x00000000

6. Acknowledged: 3 TX slots, 3 RX slots

|    |        | next | ring id | done | in flight | free |
|----|--------|------|---------|------|-----------|------|
| TX | before |    0 |       1 |    0 |         0 | 8176 |
|    | after  |    3 |       1 |    3 |         0 | 8176 |
| RX | before |    0 |       1 |    0 |         0 | 8176 |
|    | after  |    3 |       1 |    3 |         0 | 8176 |

7. Bytes: the destination, read back, is equal
";
    assert_eq!(without_addresses(&neuron_mem("trace-copy 70000").done()), expected);
}

#[test]
fn each_direction_takes_the_ring_of_its_core_and_its_kinds_of_memory() {
    for (options, route, from, to) in [
        ("64K --dir h2d", (0, 32, 0), "host", "hbm 0"),
        ("64K --dir d2h", (0, 32, 0), "hbm 0", "host"),
        ("64K --dir d2d", (1, 33, 0), "hbm 0", "hbm 1"),
        ("64K --dir d2d --instance trn2.3xlarge", (7, 131, 1), "hbm 0", "hbm 3"),
        ("64K --dir h2d --instance trn2.3xlarge", (0, 128, 0), "host", "hbm 0"),
    ] {
        let trace = trace(options, false);
        let kind = |place: &Place| match place {
            Place::Host { .. } => "host".to_owned(),
            Place::Hbm { hbm, .. } => format!("hbm {hbm}"),
            other => panic!("{other:?}"),
        };
        assert_eq!((trace.route.core, trace.route.engine, trace.route.queue), route, "{options}");
        assert_eq!((kind(&trace.from.place), kind(&trace.to.place)), (from.into(), to.into()), "{options}");
        let pair = &trace.batches[0].pairs[0];
        assert_eq!((pair.tx.address, pair.rx.address), (trace.from.address, trace.to.address), "{options}");
        assert!(trace.equal);
    }
}

/// What holds of every copy that was traced on a machine of its own.
fn check(trace: &TraceReport, full: bool) {
    let data = trace.bytes.div_ceil(65536);
    let batches = data.div_ceil(2032);
    assert_eq!(trace.batches.len() as u64, batches);
    let mut total = 0;
    let size = trace.before.tx.size;
    let slot = |position: u64| ((u64::from(trace.before.tx.tail) + position) % u64::from(size)) as u32;
    let lap = |position: u64| {
        let laps = (u64::from(trace.before.tx.tail) + position) / u64::from(size);
        (u64::from(trace.before.tx.cursor.map_or(1, |cursor| cursor.ring_id)) + laps) as u8 & 3
    };
    let mut done = 0;
    for (batch, number) in trace.batches.iter().zip(1..) {
        let count = if number < batches { 2032 } else { data - (batches - 1) * 2032 };
        assert_eq!(u64::from(batch.count), count);
        assert_eq!(batch.omitted, if full || count <= 4 { 0 } else { count as u32 - 2 });
        assert!(batch.omitted_alike);
        let shown: Vec<u64> = match batch.omitted {
            0 => (0..count).collect(),
            _ => vec![0, count - 1],
        };
        assert_eq!(batch.pairs.len(), shown.len());
        for (pair, index) in batch.pairs.iter().zip(shown) {
            let offset = done + index * 65536;
            let bytes = (trace.bytes - offset).min(65536) as u32;
            assert_eq!((pair.slot, pair.rx_slot), (slot(total + index), slot(total + index)));
            assert_eq!((pair.tx.bytes, pair.rx.bytes), (bytes, bytes));
            assert_eq!((pair.tx.ring_id, pair.rx.ring_id), (lap(total + index), lap(total + index)));
            assert_eq!(
                (pair.tx.address, pair.rx.address),
                (trace.from.address + offset, trace.to.address + offset)
            );
            let last = index + 1 == count;
            assert!(pair.tx.first && pair.tx.last && pair.tx.write_barrier == last);
            assert!(!pair.tx.meta && !pair.tx.concat && !pair.tx.interrupt && !pair.tx.data_barrier);
            assert!(!pair.rx.interrupt && !pair.rx.strong_order);
        }
        let marker = batch.marker.as_ref().unwrap();
        assert_eq!((marker.slot, marker.tx.bytes), (slot(total + count), 4));
        assert_eq!(marker.rx.address, marker.tx.address + 4);
        (total, done) = (total + count + 1, done + count * 65536);
    }
    assert_eq!(trace.after.tx.tail, slot(total));
    assert_eq!((trace.after.tx.head, trace.after.rx.head), (trace.after.tx.tail, trace.after.rx.tail));
    if let Some(doorbells) = &trace.doorbells {
        let heard: Vec<_> = doorbells.list.iter().map(|bell| (bell.half, u64::from(bell.count))).collect();
        let counts = trace.batches.iter().map(|batch| u64::from(batch.count) + 1);
        let expected: Vec<_> = counts.flat_map(|count| [(Half::Rx, count), (Half::Tx, count)]).collect();
        assert_eq!(heard, expected, "RX first, batch by batch");
        for cursor in [trace.after.tx.cursor.unwrap(), trace.after.rx.cursor.unwrap()] {
            assert_eq!(
                (cursor.next, cursor.completed, cursor.in_flight),
                (slot(total), slot(total), Some(0))
            );
        }
    }
    assert!(trace.equal);
}

#[test]
fn a_copy_of_several_batches_that_wraps_changes_the_phase_and_is_told_in_short() {
    // Filling the source takes 6400 of 8192 slots.
    let trace = trace("200M --dir d2h", false);
    check(&trace, false);
    assert_eq!((trace.before.tx.tail, trace.after.tx.tail), (6400, 6400 + 3202 - 8192));
    let ids =
        |batch: usize| trace.batches[batch].pairs.iter().map(|pair| pair.tx.ring_id).collect::<Vec<_>>();
    assert_eq!((ids(0), ids(1)), (vec![1, 2], vec![2, 2]));
    let text = trace.text();
    for line in [
        "\n2. Staged: 3,200 pairs of descriptors in 2 batches\n   batch 1: 2,032 pairs\n   slot 6400: ",
        "\n   ... 2,030 more, alike, each 65,536 B further on\n   slot 239: 65,536 B, ring id 2\n",
        "\n3. Marker: 2 pairs, one behind each batch\n   slot 240: 4 B, ring id 2\n",
        "\n6. Acknowledged: 3,202 TX slots, 3,202 RX slots\n",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}

#[test]
fn the_largest_copy_is_three_batches() {
    let trace = trace("256M", false);
    check(&trace, false);
    assert_eq!(trace.batches.len(), 3);
}

#[test]
fn full_shows_every_descriptor() {
    let trace = trace("1M --full", false);
    check(&trace, true);
    assert_eq!(trace.batches[0].pairs.len(), 16);
    assert!(!trace.text().contains("more"));
}

#[test]
fn a_backend_without_introspection_shows_descriptors_and_says_what_is_missing() {
    let shown = trace("1M", true);
    check(&shown, false);
    assert_eq!((&shown.doorbells, shown.before.flavour, shown.after.marker), (&None, None, None));
    // The marker is known for one all the same.
    assert!(matches!(shown.batches[0].marker.as_ref().unwrap().tx.place, Place::Host { .. }));
    let text = shown.text();
    let missing = "not shown by the driver behind this backend";
    for line in ["   is     ", "\n4. Doorbells: ", "   marker ", "\n6. Acknowledge: "] {
        assert!(text.contains(&format!("{line}{missing}\n")), "no {line:?} in {text}");
    }
    assert!(text.contains("\n   TX     head 0 -> 17, tail 17: nothing left to fetch\n"), "{text}");
}

#[test]
fn text_fits_100_columns() {
    for options in ["200000", "1M --full --dir d2d --instance trn2.48xlarge", "200M --dir d2h"] {
        let text = neuron_mem(&format!("trace-copy {options}")).done();
        let long: Vec<_> = text.lines().filter(|line| line.chars().count() > 100).collect();
        assert_eq!(long, Vec::<&str>::new());
    }
}

/// The keys that `docs/trace-copy.md` lists, and no others.
#[test]
fn json_keys_are_the_documented_ones() {
    let out = neuron_mem("trace-copy 3 --json").done();
    assert_eq!(out.matches('\n').count(), 1);
    let json: Value = serde_json::from_str(&out).unwrap();
    let (host, hbm) = (&json["from"]["address"], &json["to"]["address"]);
    let marker = json["after"]["marker"]["address"].as_u64().unwrap();
    let hex = |words: [u32; 2], address: &Value| {
        [
            format!("{:08x}", words[0]),
            format!("{:08x}", words[1]),
            format!("{:016x}", address.as_u64().unwrap()),
        ]
    };
    let tx = |bytes: u32, words, barrier, address: &Value, place: Value| {
        json!({
            "words": hex(words, address), "bytes": bytes, "ring_id": 1, "first": true, "last": true, "meta": false,
            "concat": false, "interrupt": false, "data_barrier": false, "write_barrier": barrier,
            "address": address, "place": place,
        })
    };
    let rx = |bytes: u32, words, address: &Value, place: Value| {
        json!({
            "words": hex(words, address), "bytes": bytes, "ring_id": 1, "interrupt": false, "strong_order": false,
            "address": address, "place": place,
        })
    };
    let moment = |slot: u32, source: u32| {
        let ring = |half: &str| {
            json!({
                "size": 8192, "base": json["before"][half]["base"], "head": slot, "tail": slot,
                "hw_status": 0, "sw_status": 2,
                "cursor": {
                    "driver_fills": true, "next": slot, "completed": slot, "ring_id": 1,
                    "available": 8176, "in_flight": 0,
                },
            })
        };
        json!({
            "tx_state": 1, "rx_state": 1, "flavour": "h2t_default", "tx": ring("tx"), "rx": ring("rx"),
            "marker": { "address": marker, "source": source, "destination": 0 },
        })
    };
    let doorbell = |number: u32, half: &str| {
        json!({
            "number": number, "engine": 32, "queue": 0, "half": half, "count": 2, "outcome": "announced",
        })
    };
    let host_place = json!({ "kind": "host", "physical": host.as_u64().unwrap() & !(1 << 44) });
    let hbm_place = json!({ "kind": "hbm", "hbm": 0, "offset": hbm });
    let word = |place: &str| json!({ "kind": place, "context": "sync" });
    let expected = json!({
        "backend": "software",
        "instance": "trn1.2xlarge",
        "device": 0,
        "direction": "h2d",
        "bytes": 3,
        "from": { "place": host_place, "address": host, "core": null },
        "to": { "place": hbm_place, "address": hbm, "core": 0 },
        "route": { "core": 0, "engine": 32, "queue": 0 },
        "before": moment(0, 0),
        "after": moment(2, 0xabcd_ef01),
        "batches": [{
            "count": 1, "omitted": 0, "omitted_alike": true,
            "pairs": [{
                "slot": 0, "rx_slot": 0,
                "tx": tx(3, [0x0d00_0003, 0x0508_0003], true, host, host_place.clone()),
                "rx": rx(3, [0x0100_0003, 0], hbm, hbm_place.clone()),
            }],
            "marker": {
                "slot": 1, "rx_slot": 1,
                "tx": tx(4, [0x0d00_0004, 0x0108_0003], false, &json!(marker), word("marker_source")),
                "rx": rx(4, [0x0100_0004, 0], &json!(marker + 4), word("marker_destination")),
            },
        }],
        "doorbells": { "complete": true, "list": [doorbell(0, "rx"), doorbell(1, "tx")] },
        "equal": true,
    });
    assert_eq!(json, expected);
}

#[test]
fn a_copy_that_goes_wrong_is_no_report_and_one_that_goes_wrong_silently_is_told() {
    let run = |fault: &str| {
        let options = MachineOptions { faults: fault.parse().unwrap(), ..MachineOptions::default() };
        let machine = Machine::software("trn1.2xlarge", options).unwrap();
        trace::report(&args("64K"), &machine, &machine.open(0).unwrap())
    };
    let failure = run("abort:nth=1").unwrap_err();
    assert_eq!(failure.exit(), Exit::Device);
    assert!(failure.to_string().starts_with("neuron0: copying: "), "{failure}");
    let report = run("flip:nth=1").unwrap();
    assert!(!report.equal);
    assert!(report.text().ends_with("\n7. Bytes: the destination, read back, is different\n"));
}

/// The blocks of output in `docs/trace-copy.md`, addresses aside.
#[test]
fn the_page_shows_what_the_command_prints() {
    let page = include_str!("../../../docs/trace-copy.md");
    let blocks: Vec<&str> =
        page.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let [whole, part] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    let run = |options: &str| without_addresses(&neuron_mem(&format!("trace-copy {options}")).done());
    assert_eq!(without_addresses(whole), run("200000"));
    let part = without_addresses(part);
    assert!(part.starts_with("2. Staged: 2,240 pairs"), "{part}");
    assert!(run("140M --dir d2d").contains(&part), "{part}");
}

#[test]
fn a_bad_size_is_a_usage_error_and_says_what_one_is() {
    neuron_mem("trace-copy").refused(&["<SIZE>"]);
    neuron_mem("trace-copy many").refused(&["`many` is not a size such as `200000`, `64K`, `1M` or `1G`"]);
    neuron_mem("trace-copy 99999999999999999999").refused(&["is more bytes than 64 bits count"]);
    neuron_mem("trace-copy 0").refused(&["a copy of 0 bytes takes no descriptor"]);
    neuron_mem("trace-copy 257M").refused(&["SIZE is 269,484,032 B (257.0 MiB)", "at most 268,435,456 B"]);
    neuron_mem("trace-copy 1 --dir sideways").refused(&["possible values: h2d, d2h, d2d"]);
    neuron_mem("trace-copy 1 --instance none").refused(&["unknown instance type \"none\""]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_copy_is_told_as_the_rules_have_it(
        bytes in prop_oneof![1u64..300_000, Just(65536), Just(65537), Just(4 * 65536), 1u64 << 20..6 << 20],
        dir in prop::sample::select(vec!["h2d", "d2h", "d2d"]),
        instance in prop::sample::select(vec!["trn1.2xlarge", "trn2.3xlarge"]),
        full: bool,
        abi_only: bool,
    ) {
        let full_option = if full { "--full" } else { "" };
        check(&trace(&format!("{bytes} --dir {dir} --instance {instance} {full_option}"), abi_only), full);
    }
}
