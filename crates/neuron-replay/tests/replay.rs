//! Replays: against a list of intervals, against the software driver, and what they tell.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::collections::HashMap;
use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_dmem::trace::events::{EventTrace, Header};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
use neuron_ndl::Device;
use neuron_ndl::software::Machine;
use neuron_replay::outcome::{Cause, ColumnOutcome, Outcome};
use neuron_replay::replay::Options;
use neuron_replay::run;
use neuron_replay::scenario::{Align, Change, Fit, Order, Scenario};
use neuron_replay::trace::{Format, Reader};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn base() -> Scenario {
    Scenario::named("trn1.2xlarge").unwrap()
}

fn replay_on(scenarios: &[Scenario], events: &str, options: &Options) -> Outcome {
    let text = format!("{{\"v\":1,\"source\":\"test\"}}\n{events}");
    let mut reader = Reader::new(text.as_bytes(), Format::Native).unwrap();
    run(&mut reader, scenarios, options, None).unwrap()
}

fn replay(events: &str) -> ColumnOutcome {
    replay_on(&[base()], events, &Options::default()).columns.remove(0)
}

fn alloc(id: u64, size: u64, rest: &str) -> String {
    format!("{{\"event\":\"alloc\",\"id\":{id},\"size\":{size}{rest}}}\n")
}

fn free(id: u64) -> String {
    format!("{{\"event\":\"free\",\"id\":{id}}}\n")
}

/// First fit over one HBM of 16 GiB, block by block.
#[derive(Default)]
struct Naive {
    taken: Vec<(u64, u64)>,
    at: HashMap<u64, u64>,
    refused: Vec<u64>,
    peak: u64,
    in_use: u64,
}

impl Naive {
    fn allocate(&mut self, id: u64, size: u64, align: u64) {
        let bytes = size.next_multiple_of(4096);
        let (small, end) = (15 * GIB, 16 * GIB);
        let (main, tail) = ((16 * MIB, small), (small, end));
        let order = if bytes <= 512 << 10 { [tail, main] } else { [main, tail] };
        let step = align.max(4096);
        for (from, to) in order {
            let mut at = from.next_multiple_of(step);
            while at + bytes <= to {
                match self.taken.iter().find(|(start, end)| *start < at + bytes && at < *end) {
                    Some((_, end)) => at = end.next_multiple_of(step),
                    None => {
                        self.taken.push((at, at + bytes));
                        self.at.insert(id, at);
                        self.in_use += size;
                        self.peak = self.peak.max(self.in_use);
                        return;
                    }
                }
            }
        }
        self.refused.push(id);
    }

    fn free(&mut self, id: u64, size: u64) {
        if let Some(at) = self.at.remove(&id) {
            self.taken.retain(|(start, _)| *start != at);
            self.in_use -= size;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_replay_places_and_refuses_as_a_list_of_intervals(
        steps in prop::collection::vec(
            (prop_oneof![1..1_000_000_u64, 1..3 * GIB, Just(2 * GIB)], 0_u32..27, any::<prop::sample::Index>(), 0..10),
            1..60,
        ),
    ) {
        let (mut naive, mut text) = (Naive::default(), String::new());
        let mut living: Vec<(u64, u64)> = Vec::new();
        for (number, (size, shift, index, kind)) in steps.into_iter().enumerate() {
            let (id, align) = (number as u64 + 1, if shift < 13 { 0 } else { 1 << shift });
            if kind < 4 && !living.is_empty() {
                let (id, size) = living.swap_remove(index.index(living.len()));
                text += &free(id);
                naive.free(id, size);
            } else {
                naive.allocate(id, size, align);
                let pa = naive.at.get(&id).map_or(String::new(), |pa| format!(",\"pa\":{pa}"));
                text += &alloc(id, size, &format!(",\"align\":{align}{pa}"));
                living.push((id, size));
            }
        }
        let outcome = replay(&text);
        prop_assert_eq!(outcome.refused, naive.refused.len() as u64);
        let told: Vec<u64> = outcome.refusals.iter().map(|refusal| refusal.id).collect();
        prop_assert_eq!(&told[..], &naive.refused[..told.len()]);
        prop_assert_eq!(outcome.other_address, 0, "every block is where the list has it");
        prop_assert_eq!(outcome.peak_device_bytes, naive.peak);
    }
}

/// The pools are the driver's own, so that what the software driver did comes out again.
#[test]
fn a_trace_of_the_software_driver_comes_out_at_its_addresses() {
    let folder = tempfile::tempdir().unwrap();
    for instance in ["trn1.2xlarge", "trn2.3xlarge"] {
        let path = folder.path().join(instance);
        let trace = Arc::new(EventTrace::create(&path, &Header::of("test", Some(instance))).unwrap());
        let machine = Machine::new(instance).unwrap();
        let setup = Setup::default().trace(trace.clone());
        let memory = DeviceMemory::with(Device::open(&machine, 0).unwrap(), setup).unwrap();
        let models = [0, 1].map(|core| {
            Allocator::labelled(&memory, AllocatorKind::Model, core, &format!("m{core}")).unwrap()
        });
        let mut living = Vec::new();
        let mut random = 7_u64;
        for number in 0..400_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (choice, size) = (random >> 60, (random >> 20) % (1 << (10 + (random >> 40) % 16)) + 1);
            if choice < 5 && !living.is_empty() {
                living.swap_remove((random >> 33) as usize % living.len());
                continue;
            }
            let request = AllocRequest::device(size, UsageType::Weight);
            let request = if choice > 12 { request.aligned(1 << (12 + choice)) } else { request };
            let hint = format!("w{number}");
            living.push(models[number as usize % 2].allocate(&request.hint(&hint)).unwrap());
        }
        living[0].write(0, &[1]).unwrap();
        let refused = models[0].allocate(&AllocRequest::device(40 * GIB, UsageType::Tensor));
        assert!(refused.is_err());
        drop(living);
        drop(models);
        trace.finish().unwrap();

        let text = std::fs::read(&path).unwrap();
        let mut reader = Reader::new(&text[..], Format::Native).unwrap();
        assert_eq!(reader.header().instance.as_deref(), Some(instance));
        let scenario = Scenario::named(instance).unwrap();
        let outcome = run(&mut reader, &[scenario], &Options::default(), None).unwrap();
        let column = &outcome.columns[0];
        assert_eq!((column.other_address, column.refused), (0, 1));
        assert!(column.same_address > 200, "{}", column.same_address);
        assert_eq!((outcome.recorded_refusals, outcome.copies, outcome.copied_bytes), (1, 1, 1));
        assert!(column.refusals[0].recorded && column.refusals[0].loading.as_deref() == Some("m1"));
        assert_eq!(outcome.never_freed, []);
        let owners: Vec<&str> = column.owners.iter().map(|owner| owner.name.as_str()).collect();
        assert!(owners.contains(&"m0") && owners.contains(&"m1"), "{owners:?}");
    }
}

#[test]
fn a_refusal_names_the_event_the_holes_who_has_it_and_what_is_missing() {
    let text = [
        alloc(1, 10 * GIB, ",\"owner\":\"a\",\"hint\":\"big\""),
        alloc(2, 3 * GIB, ",\"owner\":\"b\",\"hint\":\"mid\""),
        "{\"event\":\"mark\",\"name\":\"step 1\"}\n{\"event\":\"load\",\"graph\":\"c\"}\n".to_owned(),
        alloc(3, 2 * GIB + 1, ",\"owner\":\"c\",\"hint\":\"late\",\"usage\":\"TENSOR\""),
        alloc(4, 4096, ",\"owner\":\"c\""),
    ]
    .concat();
    let outcome = replay(&text);
    assert_eq!((outcome.refused, outcome.refused_bytes), (1, 2 * GIB + 1));
    let refusal = &outcome.refusals[0];
    assert_eq!((refusal.line, refusal.id, refusal.usage), (6, 3, "TENSOR"));
    // 15 GiB of main pool without 16 MiB and 13 GiB, and the whole small pool.
    assert_eq!(refusal.cause, Cause::Fragmented);
    assert_eq!(refusal.largest_hole, 2 * GIB - 16 * MIB);
    assert_eq!(refusal.free, 3 * GIB - 16 * MIB);
    assert_eq!(refusal.missing, 16 * MIB + 4096, "whole pages");
    let holders: Vec<(&str, u64)> =
        refusal.top_owners.iter().map(|holder| (holder.name.as_str(), holder.bytes)).collect();
    assert_eq!(holders, [("a", 10 * GIB), ("b", 3 * GIB)]);
    assert_eq!(refusal.top_hints[0].name, "big");
    assert_eq!((refusal.loading.as_deref(), refusal.after_mark.as_deref()), (Some("c"), Some("step 1")));
}

#[test]
fn causes_are_told_apart() {
    for (event, cause) in [
        (alloc(1, 17 * GIB, ""), Cause::Full),
        (alloc(1, 15 * GIB, ""), Cause::Fragmented),
        (alloc(1, 15 * GIB - 16 * MIB, ",\"align\":1073741824"), Cause::Alignment),
        (alloc(1, 1, ",\"device\":1"), Cause::NoDevice),
        (alloc(1, 1, ",\"hbm\":2"), Cause::NoHbm),
        (alloc(1, 1, ",\"core\":8"), Cause::NoCore),
        (alloc(1, 0, ""), Cause::ZeroBytes),
        (alloc(1, u64::MAX, ""), Cause::TooLarge),
        (alloc(1, 1, ",\"align\":2147483648"), Cause::BadAlignment),
        (alloc(1, 1, ",\"align\":64,\"location\":\"host\""), Cause::BadAlignment),
    ] {
        let outcome = replay(&event);
        assert_eq!(
            outcome.refusals.iter().map(|refusal| refusal.cause).collect::<Vec<_>>(),
            [cause],
            "{event}"
        );
    }
    // The same with one megabyte less, which fits.
    assert_eq!(replay(&alloc(1, 15 * GIB - 16 * MIB, "")).refused, 0);
}

#[test]
fn it_goes_on_after_a_refusal_unless_it_is_to_stop() {
    let text = [alloc(1, 17 * GIB, ""), alloc(2, 18 * GIB, ""), free(1), alloc(3, GIB, "")].concat();
    let outcome = replay_on(&[base()], &text, &Options::default());
    assert_eq!((outcome.columns[0].refused, outcome.allocations, outcome.stopped), (2, 3, false));
    let outcome = replay_on(&[base()], &text, &Options { stop_at_refusal: true });
    assert_eq!((outcome.columns[0].refused, outcome.allocations, outcome.stopped), (1, 1, true));
}

#[test]
fn what_was_refused_when_it_was_recorded_is_tried_and_given_back() {
    let text = [alloc(1, 20 * GIB, ",\"refused\":true"), alloc(2, 20 * GIB, "")].concat();
    let scenarios = [base(), Scenario::named("trn2.3xlarge").unwrap()];
    let outcome = replay_on(&scenarios, &text, &Options::default());
    assert_eq!(outcome.recorded_refusals, 1);
    let columns: Vec<_> =
        outcome.columns.iter().map(|column| (column.refused, column.would_be_served)).collect();
    assert_eq!(columns, [(2, 0), (0, 1)]);
    assert_eq!(outcome.columns[1].peak_device_bytes, 20 * GIB);
}

#[test]
fn the_end_of_a_process_frees_what_it_had_and_both_that_and_what_lives_is_told_by_owner() {
    let text = [
        "{\"event\":\"load\",\"graph\":\"a\"}\n".to_owned(),
        alloc(1, 10, ",\"owner\":\"a\",\"pid\":7"),
        alloc(2, 20, ",\"owner\":\"a\",\"pid\":8"),
        alloc(3, 5, ",\"owner\":\"b\",\"pid\":7"),
        alloc(4, 6, ",\"owner\":\"b\",\"pid\":7"),
        free(4),
        "{\"event\":\"unload\",\"graph\":\"a\"}\n{\"event\":\"exit\",\"pid\":7}\n".to_owned(),
    ]
    .concat();
    let outcome = replay_on(&[base()], &text, &Options::default());
    let leaks: Vec<_> = outcome
        .never_freed
        .iter()
        .map(|leak| (leak.owner.as_str(), leak.unloaded, leak.at_exit_bytes, leak.alive_bytes))
        .collect();
    assert_eq!(leaks, [("a", true, 10, 20), ("b", false, 5, 0)]);
}

#[test]
fn peaks_are_by_category_core_hbm_and_owner_each_at_its_own_time() {
    let text = [
        alloc(1, 5000, ",\"usage\":\"WEIGHT\",\"core\":1,\"hbm\":1,\"owner\":\"a\""),
        free(1),
        alloc(2, 3000, ",\"usage\":\"TENSOR\",\"owner\":\"b\""),
        alloc(3, 100, ",\"location\":\"host\""),
    ]
    .concat();
    let outcome = replay(&text);
    assert_eq!((outcome.peak_device_bytes, outcome.peak_host_bytes), (5000, 100));
    let named = |peaks: &[neuron_replay::outcome::Peak]| -> Vec<(String, u64)> {
        peaks.iter().map(|peak| (peak.name.clone(), peak.bytes)).collect()
    };
    assert_eq!(
        named(&outcome.categories),
        [("model constants".to_owned(), 5000), ("tensors".to_owned(), 3000)]
    );
    assert_eq!(named(&outcome.owners), [("a".to_owned(), 5000), ("b".to_owned(), 3000)]);
    let cores: Vec<_> = outcome.cores.iter().map(|core| (core.core, core.bytes)).collect();
    assert_eq!(cores, [(0, 3000), (1, 5000)]);
    let hbms: Vec<_> = outcome.hbms.iter().map(|hbm| (hbm.hbm, hbm.bytes, hbm.size)).collect();
    assert_eq!(hbms, [(0, 4096, 16 * GIB), (1, 8192, 16 * GIB)]);
}

/// Each what-if makes room in its own way.
#[test]
fn what_ifs_change_what_they_say() {
    let with = |changes: &[Change]| base().with("x", changes).unwrap();
    let refused = |scenario: &Scenario, text: &str| {
        replay_on(std::slice::from_ref(scenario), text, &Options::default()).columns[0].refused
    };
    // The small pool splits the last GiB off.
    let whole = alloc(1, 16 * GIB - 16 * MIB, "");
    assert_eq!(refused(&base(), &whole), 1);
    assert_eq!(refused(&with(&[Change::SmallPool(0)]), &whole), 0);

    let aligned =
        [alloc(1, GIB, ",\"align\":2097152"), alloc(2, 14 * GIB - 16 * MIB, ",\"align\":67108864")].concat();
    assert_eq!(refused(&base(), &aligned), 1);
    assert_eq!(refused(&with(&[Change::Align(Align::None)]), &aligned), 0);

    let three = [1, 2, 3].map(|id| alloc(id, 5 * GIB - 16 * MIB, "")).concat();
    assert_eq!(refused(&base(), &three), 0);
    assert_eq!(refused(&with(&[Change::Align(Align::AtLeast(GIB))]), &three), 1);
    assert_eq!(refused(&with(&[Change::Page(GIB)]), &three), 1);

    // First fit puts 2 into the hole of 6, where 6 then finds no room.
    let holes = [
        alloc(1, 6 * GIB, ""),
        alloc(2, GIB, ""),
        alloc(3, 2 * GIB, ""),
        alloc(4, 6 * GIB - 16 * MIB, ""),
        free(1),
        free(3),
        alloc(5, 2 * GIB, ""),
        alloc(6, 6 * GIB, ""),
    ]
    .concat();
    assert_eq!(refused(&base(), &holes), 1);
    assert_eq!(refused(&with(&[Change::Fit(Fit::Best)]), &holes), 0);
    assert_eq!(refused(&with(&[Change::Order(Order::LargestFirst)]), &holes), 0, "6 goes before 2");
    assert_eq!(refused(&with(&[Change::Instance("trn2.3xlarge")]), &holes), 0);

    // Whichever is served last finds no room.
    let run = [alloc(1, 8 * GIB, ""), alloc(2, 6 * GIB, ""), alloc(3, 4 * GIB, "")].concat();
    for (order, bytes) in [(Order::Trace, 4), (Order::SmallestFirst, 8), (Order::LargestFirst, 4)] {
        let outcome = replay_on(&[with(&[Change::Order(order)])], &run, &Options::default());
        assert_eq!(outcome.columns[0].refused_bytes, bytes * GIB, "{order:?}");
    }
}

#[test]
fn fragmentation_is_one_less_the_largest_hole_over_what_is_free() {
    let text = [alloc(1, 5 * GIB - 16 * MIB, ""), alloc(2, 5 * GIB, ""), free(1)].concat();
    let outcome = replay(&text);
    // Free are 5 GiB less the reserve, and the last 5 GiB.
    let expected = 1.0 - 5.0 / (10.0 - 1.0 / 64.0);
    assert!((outcome.worst_fragmentation - expected).abs() < 1e-5, "{}", outcome.worst_fragmentation);
    assert_eq!((outcome.worst_line, outcome.samples.len()), (4, 3));
    assert_eq!(outcome.samples[2].fragmentation, outcome.end_fragmentation);
    assert_eq!(outcome.samples[1].fragmentation, 0.0);
}
