//! The trace beyond the runtime's: parts of copies, what is in use, and the timeline as a document.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod recorder;

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use neuron_abi::memory::{Aggregate, UsageType};
use neuron_dmem::trace::chrome::ChromeTrace;
use neuron_dmem::trace::{EventNumber, Lane};
use neuron_dmem::transfer::Path;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
use proptest::prelude::*;
use recorder::{Recorder, Seen, device, setup, traced};
use serde_json::Value;

const MIB: usize = 1 << 20;

/// Spans by lane: (from, to, bytes).
fn spans(seen: &[Seen], wanted: Lane) -> Vec<(u64, u64, u64)> {
    let span = |seen: &Seen| match *seen {
        Seen::Span { lane, from, to, bytes } if lane == wanted => Some((from, to, bytes)),
        _ => None,
    };
    seen.iter().filter_map(span).collect()
}

#[test]
fn a_staged_copy_shows_each_chunk_staged_requested_and_waited_for() {
    let (memory, recorder) = traced("trn1.2xlarge", "");
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let dmem = model.allocate(&AllocRequest::device(2 << 20, UsageType::Tensor)).unwrap();
    recorder.take();
    dmem.write(0, &vec![1; 2 * MIB]).unwrap();
    let seen = recorder.take_timed();
    let begin = seen[0].0;
    let at = |time: u64| begin + time;
    let mib = MIB as u64;
    let all: Vec<Seen> = seen.iter().map(|(_, seen)| seen.clone()).collect();
    // Each read of the clock is one tick: begin, copy, copied, request, copy, copied, request, wait, first
    // waited for ...
    assert_eq!(spans(&all, Lane::HostCopy), [(at(1), at(2), mib), (at(4), at(5), mib)]);
    assert_eq!(spans(&all, Lane::Wait), [(at(7), at(8), 0), (at(10), at(11), 0)]);
    assert_eq!(spans(&all, Lane::Dma), [(at(3), at(9), mib), (at(6), at(12), mib)]);
    assert_eq!(seen.last().map(|(time, _)| *time), Some(at(13)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_parts_of_a_copy_add_up_to_it_and_lie_inside_it(
        bytes in prop_oneof![1usize..0x4000, 0x4000usize..0x4010, 0x10_0000usize..0x30_0000],
        write: bool,
        zero_copy: bool,
    ) {
        let recorder = Arc::new(Recorder::default());
        let path = if zero_copy { Path::ZeroCopy { direct_write: 4096 } } else { Path::Staged };
        let memory = DeviceMemory::with(device("trn2.3xlarge", ""), setup(&recorder).path(path)).unwrap();
        let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
        let dmem = model.allocate(&AllocRequest::device(bytes as u64, UsageType::Tensor)).unwrap();
        recorder.take();
        let mut buffer = vec![1; bytes];
        if write { dmem.write(0, &buffer).unwrap() } else { dmem.read(0, &mut buffer).unwrap() }

        let seen = recorder.take_timed();
        let (begin, end) = (seen[0].0, seen.last().unwrap().0);
        let all: Vec<Seen> = seen.into_iter().map(|(_, seen)| seen).collect();
        let sum = |lane| spans(&all, lane).iter().map(|(.., bytes)| *bytes).sum::<u64>();
        // The window takes whole words only.
        let by_window = zero_copy && write && bytes <= 4096 && bytes % 4 == 0;
        let size = bytes as u64;
        prop_assert_eq!(sum(Lane::Dma), if by_window { 0 } else { size });
        prop_assert_eq!(sum(Lane::HostCopy), if zero_copy && !by_window { 0 } else { size });
        prop_assert_eq!(spans(&all, Lane::Wait).len(), spans(&all, Lane::Dma).len());
        for lane in [Lane::Dma, Lane::HostCopy, Lane::Wait] {
            for (from, to, _) in spans(&all, lane) {
                prop_assert!(begin < from && from < to && to < end);
            }
        }
    }
}

#[test]
fn what_is_in_use_is_told_by_hbm_and_category_after_each_change() {
    let (memory, recorder) = traced("trn1.2xlarge", "");
    let first = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let second = Allocator::new(&memory, AllocatorKind::Model, 1).unwrap();
    let in_use = || {
        let of = |seen| match seen {
            Seen::InUse { hbm, bytes, category } => Some((hbm, bytes, category)),
            _ => None,
        };
        recorder.take().into_iter().filter_map(of).collect::<Vec<_>>()
    };
    let weights = Aggregate::ModelConstants;
    let a = first.allocate(&AllocRequest::device(100, UsageType::Weight)).unwrap();
    assert_eq!(in_use(), [(Some(0), 100, Some((weights, 100)))]);
    let b = second.allocate(&AllocRequest::device(10, UsageType::Weight)).unwrap();
    assert_eq!(in_use(), [(Some(1), 10, Some((weights, 110)))]);
    let c = second.allocate(&AllocRequest::host(5, UsageType::Weight)).unwrap();
    assert_eq!(in_use(), [(None, 5, None)]);
    drop((a, b, c));
    let freed = [(Some(0), 0, Some((weights, 10))), (Some(1), 0, Some((weights, 0))), (None, 0, None)];
    assert_eq!(in_use(), freed);
}

/// What holds of any timeline; answers the events.
fn checked(document: &[u8]) -> Vec<Value> {
    let document: Value = serde_json::from_slice(document).unwrap();
    assert_eq!(document["displayTimeUnit"], "ns");
    assert!(document["otherData"]["producer"].is_string());
    let mut events = document["traceEvents"].as_array().unwrap().clone();
    for event in &events {
        let phase = event["ph"].as_str().unwrap();
        assert!(["M", "B", "E", "X", "C"].contains(&phase), "{event}");
        assert!(event["name"].is_string() && event["cat"].is_string(), "{event}");
        assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["args"].is_object(), "{event}");
        assert!(event["pid"].as_u64().unwrap() > 0 && event["tid"].is_u64(), "{event}");
        assert_eq!(event["dur"].is_number(), phase == "X", "{event}");
    }
    // As a viewer does: by time, else as they come.
    events.sort_by(|a, b| a["ts"].as_f64().unwrap().total_cmp(&b["ts"].as_f64().unwrap()));
    let mut open: HashMap<(u64, u64), u64> = HashMap::new();
    let mut busy_until: HashMap<(u64, u64), f64> = HashMap::new();
    let mut named = std::collections::HashSet::new();
    for event in &events {
        let row = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let id = event["args"]["id"].as_u64();
        match event["ph"].as_str().unwrap() {
            "B" => assert_eq!(open.insert(row, id.unwrap()), None, "one at a time: {event}"),
            "E" => assert_eq!(open.remove(&row), id, "its own: {event}"),
            "X" => {
                let from = event["ts"].as_f64().unwrap();
                let to = from + event["dur"].as_f64().unwrap();
                // A nanosecond is lost when two fractions are added.
                let before = busy_until.insert(row, to).unwrap_or(0.0);
                assert!(before <= from + 0.001, "{before} {event}");
            }
            "M" if event["name"] == "thread_name" => {
                let name = event["args"]["name"].as_str().unwrap().to_owned();
                assert!(named.insert((row.0, name)), "{event}");
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    events
}

#[test]
fn a_timeline_of_several_threads_and_devices_nests_and_ends_at_zero() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timeline.json");
    let timeline = Arc::new(ChromeTrace::create(&path).unwrap());
    let memories: Vec<_> = (0..2)
        .map(|_| {
            DeviceMemory::with(device("trn2.3xlarge", ""), Setup::default().trace(timeline.clone())).unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let memory = &memories[thread as usize % 2];
            scope.spawn(move || {
                let model = Allocator::new(memory, AllocatorKind::Model, thread / 2).unwrap();
                for round in 0..20_u64 {
                    let hint = format!("\"{thread}\"\n\u{1b}слой");
                    let request = AllocRequest::device(70_000 + round, UsageType::Tensor).hint(&hint);
                    let dmem = model.allocate(&request).unwrap();
                    dmem.write(0, &vec![1; 70_000]).unwrap();
                    dmem.read(0, &mut vec![1; 70_000]).unwrap();
                }
            });
        }
    });
    let finished = timeline.finish().unwrap();
    let events = checked(&fs::read(&path).unwrap());
    assert_eq!(finished.events, events.len() as u64);
    let count = |name: &str, phase: &str| {
        events.iter().filter(|event| event["name"] == name && event["ph"] == phase).count()
    };
    for name in ["allocation", "copy in", "copy out", "free"] {
        assert_eq!((count(name, "B"), count(name, "E")), (80, 80), "{name}");
    }
    assert_eq!((count("host copy", "X"), count("DMA", "X")), (320, 320));
    let hints: std::collections::HashSet<_> =
        events.iter().filter_map(|it| it["args"]["hint"].as_str()).collect();
    assert_eq!(hints.len(), 4);
    assert!(hints.contains("\"0\"\n\u{1b}слой"));
    for counter in ["HBM 0", "tensors"] {
        let last = events.iter().rfind(|it| it["name"] == counter && it["ph"] == "C");
        assert_eq!(last.unwrap()["args"]["bytes"], 0, "{counter}");
    }
}

#[test]
fn a_timeline_that_nobody_finishes_is_a_document_with_all_but_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timeline.json");
    let timeline = Arc::new(ChromeTrace::create(&path).unwrap());
    assert_eq!(checked(&fs::read(&path).unwrap()).len(), 0, "from the start");
    let memory =
        DeviceMemory::with(device("trn1.2xlarge", ""), Setup::default().trace(timeline.clone())).unwrap();
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let written = || -> Vec<Value> {
        let document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    };
    let mut grown = 0;
    for round in 0..2000 {
        model.allocate(&AllocRequest::device(1, UsageType::Tensor)).unwrap();
        if round % 100 == 0 {
            let now = written().len();
            assert!(now >= grown);
            grown = now;
        }
    }
    assert!(grown > 1000);
    drop((model, memory));
    drop(timeline);
    let events = checked(&fs::read(&path).unwrap());
    let stops = events.iter().filter(|event| event["ph"] == "E").count();
    assert_eq!(stops, 4000, "the last are written when it goes");
}

#[test]
fn times_in_the_document_are_microseconds_with_their_nanoseconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timeline.json");
    let timeline = Arc::new(ChromeTrace::create(&path).unwrap());
    let clock = std::sync::atomic::AtomicU64::new(86_400_000_000_001);
    let clock = Arc::new(move || clock.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let setup = Setup::default().trace(timeline.clone()).trace_clock(clock);
    let memory = DeviceMemory::with(device("trn1.2xlarge", ""), setup).unwrap();
    let model = Allocator::new(&memory, AllocatorKind::Model, 1).unwrap();
    drop(model.allocate(&AllocRequest::device(1, UsageType::Tensor).hint("t")).unwrap());
    timeline.finish().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let begin = text.lines().find(|line| line.contains("\"ph\":\"B\"")).unwrap();
    assert!(begin.contains("\"ts\":86400000000.001,"), "{begin}");
    let begin: Value = serde_json::from_str(begin.trim_end_matches(',')).unwrap();
    assert_eq!(begin["args"]["event"], EventNumber::ALLOCATION.0);
    assert_eq!((&begin["args"]["usage"], &begin["args"]["hint"]), (&"TENSOR".into(), &"t".into()));
    let name = text.lines().find(|line| line.contains("thread_name")).unwrap();
    assert!(name.contains("core 1 runtime"), "{name}");
}
