//! Two traces side by side.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_dmem::log::LogOptions;
use neuron_dmem::trace::events::{EventTrace, Header};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
use neuron_ndl::Device;
use neuron_ndl::software::Machine;
use neuron_replay::diff::{Diff, DiffError, Kind, State};

fn state(folder: &tempfile::TempDir, events: &[&str]) -> State {
    let path: PathBuf = folder.path().join("t.jsonl");
    fs::write(&path, format!("{{\"v\":1}}\n{}\n", events.join("\n"))).unwrap();
    State::read(&path).unwrap()
}

#[test]
fn what_grew_shrank_moved_appeared_and_went_is_told_by_name_largest_first() {
    let folder = tempfile::tempdir().unwrap();
    let a = state(
        &folder,
        &[
            r#"{"event":"alloc","id":1,"size":100,"usage":"WEIGHT","owner":"m","hint":"same"}"#,
            r#"{"event":"alloc","id":2,"size":100,"usage":"WEIGHT","owner":"m","hint":"up"}"#,
            r#"{"event":"alloc","id":3,"size":100,"usage":"WEIGHT","owner":"m","hint":"down"}"#,
            r#"{"event":"alloc","id":4,"size":70,"usage":"TENSOR","owner":"m","hint":"moved"}"#,
            r#"{"event":"alloc","id":5,"size":500,"usage":"TENSOR","owner":"old","hint":"gone"}"#,
            r#"{"event":"exit"}"#,
        ],
    );
    let b = state(
        &folder,
        &[
            r#"{"event":"alloc","id":1,"size":9,"hint":"before the peak"}"#,
            r#"{"event":"free","id":1}"#,
            r#"{"event":"alloc","id":2,"size":100,"usage":"WEIGHT","owner":"m","hint":"same"}"#,
            r#"{"event":"alloc","id":3,"size":150,"usage":"WEIGHT","owner":"m","hint":"up"}"#,
            r#"{"event":"alloc","id":4,"size":90,"usage":"WEIGHT","owner":"m","hint":"down"}"#,
            r#"{"event":"alloc","id":5,"size":70,"usage":"TENSOR","owner":"m","hint":"moved","hbm":1,"core":1}"#,
            r#"{"event":"alloc","id":6,"size":300,"usage":"TENSOR","owner":"new","hint":"fresh"}"#,
            r#"{"event":"free","id":6}"#,
            r#"{"event":"free","id":2}"#,
        ],
    );
    let diff = Diff::of(&a, &b);
    let told: Vec<_> = diff
        .memory
        .iter()
        .map(|memory| (memory.name.as_str(), memory.change, memory.bytes.a, memory.bytes.b))
        .collect();
    assert_eq!(
        told,
        [
            ("gone", Kind::Disappeared, 500, 0),
            ("fresh", Kind::Appeared, 0, 300),
            ("moved", Kind::Moved, 70, 70),
            ("up", Kind::Grew, 100, 150),
            ("down", Kind::Shrank, 100, 90),
        ]
    );
    assert_eq!(diff.memory[2].a_places, ["neuron0 HBM 0 core 0"]);
    assert_eq!(diff.memory[2].b_places, ["neuron0 HBM 1 core 1"]);
    let of = |changes: &[neuron_replay::diff::Change]| -> Vec<(String, u64, u64)> {
        changes.iter().map(|change| (change.name.clone(), change.bytes.a, change.bytes.b)).collect()
    };
    assert_eq!((diff.total.a, diff.total.b), (870, 710));
    assert_eq!(of(&diff.owners)[0], ("old".to_owned(), 500, 0));
    assert_eq!(
        of(&diff.categories),
        [("tensors".to_owned(), 570, 370), ("model constants".to_owned(), 300, 340)]
    );
    assert_eq!(of(&diff.hbms)[0], ("neuron0 HBM 0".to_owned(), 870, 640));
    assert_eq!(of(&diff.cores)[1], ("neuron0 core 1".to_owned(), 0, 70));
    assert_eq!(of(&diff.never_freed)[0], ("old".to_owned(), 500, 0));
    assert_eq!(of(&diff.never_freed)[1], ("m".to_owned(), 370, 310));
    assert_eq!(diff.duplicates, []);
    let same = Diff::of(&b, &b);
    assert_eq!(same.memory, []);
}

#[test]
fn what_is_loaded_twice_is_told_with_whose_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let b = state(
        &folder,
        &[
            r#"{"event":"alloc","id":1,"size":100,"owner":"a","hint":"embed"}"#,
            r#"{"event":"alloc","id":2,"size":100,"owner":"b","hint":"embed"}"#,
            r#"{"event":"alloc","id":3,"size":100,"owner":"b","hint":"embed#2"}"#,
            r#"{"event":"alloc","id":4,"size":101,"owner":"b","hint":"embed#3"}"#,
            r#"{"event":"alloc","id":5,"size":100,"owner":"b"}"#,
            r#"{"event":"alloc","id":6,"size":100,"owner":"b"}"#,
        ],
    );
    let diff = Diff::of(&State::default(), &b);
    assert_eq!(diff.duplicates.len(), 1, "{:?}", diff.duplicates);
    let twice = &diff.duplicates[0];
    assert_eq!((twice.name.as_str(), twice.size, twice.count, twice.extra), ("embed", 100, 3, 200));
    assert_eq!(twice.owners, ["a", "b"]);
}

/// The same run, once as a trace and once as a usage log.
#[test]
fn a_usage_log_holds_what_a_trace_holds() {
    let folder = tempfile::tempdir().unwrap();
    let (trace_path, log_path) = (folder.path().join("t.jsonl"), folder.path().join("usage.log"));
    let trace = Arc::new(EventTrace::create(&trace_path, &Header::of("test", None)).unwrap());
    let machine = Machine::new("trn1.2xlarge").unwrap();
    let setup = Setup::default().trace(trace.clone()).log(LogOptions::default().events(8).file(&log_path));
    let memory = DeviceMemory::with(Device::open(&machine, 0).unwrap(), setup).unwrap();
    let model = Allocator::labelled(&memory, AllocatorKind::Model, 1, "m").unwrap();
    let all: Vec<_> = (1..=6_u64)
        .map(|n| {
            model.allocate(&AllocRequest::device(n << 20, UsageType::Weight).hint(&format!("w{n}"))).unwrap()
        })
        .collect();
    drop(all);
    drop(model);
    drop(memory);
    trace.finish().unwrap();
    // 12 events, of which 8 are there: what was allocated before them is freed in them.
    let (of_trace, of_log) = (State::read(&trace_path).unwrap(), State::read(&log_path).unwrap());
    let diff = Diff::of(&of_trace, &of_log);
    assert_eq!((diff.total.a, diff.total.b), (21 << 20, 21 << 20));
    assert_eq!(diff.memory, []);
    assert_eq!(diff.never_freed, []);
}

#[test]
fn a_file_that_is_neither_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, "hello").unwrap();
    assert!(matches!(State::read(&path), Err(DiffError::Log(_))));
    fs::write(&path, "{\"v\":1}\n{\"event\":\"free\",\"id\":1}").unwrap();
    let error = State::read(&path).unwrap_err().to_string();
    assert!(error.starts_with("line 2, column 22: id 1 is of nothing"), "{error}");
    assert!(matches!(State::read(&folder.path().join("no")), Err(DiffError::Io(_))));
}
