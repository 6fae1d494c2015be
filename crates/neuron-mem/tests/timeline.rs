//! `load --timeline`: a document that viewers open, however the load ends, and what it shows of the load.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::Folder;
use common::run::{Loaded, Ran, Timeline, command, load, load_args};
use neuron_mem::exit::Exit;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// The events of a document, checked against the Trace Event Format.
fn events(path: &Path) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let keys: Vec<_> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["displayTimeUnit", "otherData", "traceEvents"], "in the order of their names");
    assert_eq!(document["displayTimeUnit"], "ns");
    assert!(document["otherData"].as_object().unwrap().values().all(Value::is_string));
    let events = document["traceEvents"].as_array().unwrap().clone();
    for event in &events {
        let fields = event.as_object().unwrap();
        for field in fields.keys() {
            let known = ["name", "cat", "ph", "ts", "dur", "pid", "tid", "args"];
            assert!(known.contains(&field.as_str()), "{event}");
        }
        let phase = event["ph"].as_str().unwrap();
        assert!(["M", "B", "E", "X", "C"].contains(&phase), "{event}");
        assert!(event["name"].is_string() && event["cat"].is_string(), "{event}");
        assert!(event["ts"].is_f64() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        assert_eq!(event["dur"].is_f64(), phase == "X", "{event}");
        let args = event["args"].as_object().unwrap();
        match (phase, event["name"].as_str().unwrap()) {
            ("M", "process_name" | "thread_name") => assert!(args["name"].is_string(), "{event}"),
            ("M", "thread_sort_index") => assert!(args["sort_index"].is_u64(), "{event}"),
            ("M", _) => unreachable!("{event}"),
            ("C", _) => assert!(args.values().all(Value::is_u64), "{event}"),
            _ => {}
        }
    }
    events
}

/// Begins with their stops, in the order of the stops. Each is closed, on its row, after all that it holds.
fn brackets(events: &[Value]) -> Vec<(&Value, &Value)> {
    let mut open: HashMap<u64, Vec<&Value>> = HashMap::new();
    let mut closed = Vec::new();
    for event in events {
        let row = open.entry(event["tid"].as_u64().unwrap()).or_default();
        match event["ph"].as_str().unwrap() {
            "B" => row.push(event),
            "E" => {
                let begin = row.pop().unwrap();
                assert_eq!((&begin["args"]["id"], &begin["name"]), (&event["args"]["id"], &event["name"]));
                assert!(begin["ts"].as_f64() <= event["ts"].as_f64(), "{event}");
                closed.push((begin, event));
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    closed
}

/// Bytes of the events of this name and phase.
fn bytes(events: &[Value], name: &str, phase: &str) -> u64 {
    let of = events.iter().filter(|event| event["name"] == name && event["ph"] == phase);
    of.map(|event| event["args"]["bytes"].as_u64().unwrap()).sum()
}

fn ends_at_zero(events: &[Value]) {
    let mut last = HashMap::new();
    for event in events.iter().filter(|event| event["ph"] == "C") {
        last.insert(event["name"].as_str().unwrap(), event["args"]["bytes"].as_u64().unwrap());
    }
    assert!(last.contains_key("HBM 0") && last.contains_key("model constants"), "{last:?}");
    assert!(last.values().all(|&bytes| bytes == 0), "{last:?}");
}

#[test]
fn a_load_is_shown_with_every_byte_on_every_path() {
    let folder = Folder::new();
    let sizes = [3 * MIB + 5, 1, 70_000];
    let path = folder.tensors("m.safetensors", &[("слой", sizes[0]), ("b", sizes[1]), ("c", sizes[2])]);
    let all: u64 = sizes.iter().sum();
    for (transfer, execution) in
        [("staged", "threaded"), ("staged", "inline"), ("zerocopy", "threaded"), ("zerocopy", "inline")]
    {
        let file = folder.join("timeline.json");
        let options = format!(
            "--instance trn2.3xlarge --transfer {transfer} --execution {execution} --json --timeline {}",
            file.display()
        );
        let loaded = Loaded::of(&load(&path, &options).done(), &sizes);
        let events = events(&file);
        let expected = Timeline { file: file.display().to_string(), events: events.len() };
        assert_eq!(loaded.timeline, Some(expected));

        let brackets = brackets(&events);
        for name in ["allocation", "copy in", "copy out", "free"] {
            assert_eq!(bytes(&events, name, "B"), all, "{name} {options}");
            assert_eq!(brackets.iter().filter(|(begin, _)| begin["name"] == name).count(), 3, "{name}");
        }
        assert!(brackets.iter().all(|(_, stop)| stop["args"]["status"] == "NRT_SUCCESS"));
        assert!(brackets.iter().any(|(begin, _)| begin["args"]["hint"] == "слой"));
        // Each byte goes in and out once.
        assert_eq!(bytes(&events, "DMA", "X"), 2 * all);
        assert_eq!(bytes(&events, "host copy", "X"), if transfer == "staged" { 2 * all } else { 0 });
        assert!(events.iter().any(|event| event["name"] == "marker wait"));
        ends_at_zero(&events);
    }
}

#[test]
fn the_text_names_the_file_and_without_the_option_there_is_none() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 5000)]);
    let file = folder.join("t.json");
    let text = load(&path, &format!("--timeline {}", file.display())).done();
    let events = events(&file).len();
    assert!(text.ends_with(&format!("\ntimeline   {events} events in `{}`\n", file.display())), "{text}");
    let again = load(&path, &format!("--json --timeline {}", file.display())).done();
    assert!(Loaded::of(&again, &[5000]).timeline.is_some(), "a timeline of ours is replaced");
    assert_eq!(Loaded::of(&load(&path, "--json").done(), &[5000]).timeline, None);
}

#[test]
fn a_load_that_fails_shows_where() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 8), ("b", 8)]);
    let file = folder.join("t.json");
    let note = format!("\n  its timeline is in `{}`", file.display());
    let options = format!("--cores 0 --execution inline --timeline {}", file.display());
    load(&path, &format!("{options} --fault abort:nth=2")).failed(Exit::Device, &[&note]);
    let shown = events(&file);
    let failed: Vec<_> =
        brackets(&shown).into_iter().filter(|(_, stop)| stop["args"]["status"] != "NRT_SUCCESS").collect();
    assert_eq!(failed.len(), 1);
    assert_eq!((&failed[0].0["name"], &failed[0].0["args"]["hint"]), (&"copy in".into(), &"b".into()));
    assert_eq!(failed[0].1["args"]["status"], "NRT_FAILURE");
    ends_at_zero(&shown);

    let path = folder.sparse("large.safetensors", &[("a", 9 << 30), ("b", 9 << 30)]);
    load(&path, &options).failed(Exit::DoesNotFit, &[&note]);
    let shown = events(&file);
    let refused = brackets(&shown).into_iter().find(|(_, stop)| stop["args"]["status"] == "NRT_RESOURCE");
    assert_eq!(refused.unwrap().0["name"], "allocation");
    ends_at_zero(&shown);
}

#[test]
fn a_load_that_is_stopped_at_any_step_has_a_timeline_of_what_it_did() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 9 * MIB), ("b", 4096)]);
    let file = folder.join("t.json");
    let args = load_args(&path, &format!("--execution inline --timeline {}", file.display()));
    for last in [1, 2, 3, 5, 8] {
        let steps = std::cell::Cell::new(0);
        let stop = || {
            steps.set(steps.get() + 1);
            steps.get() >= last
        };
        let failure = neuron_mem::load::run(&args, &stop, &mut Vec::new()).unwrap_err();
        assert_eq!(failure.exit(), Exit::Interrupted, "{failure}");
        assert!(failure.to_string().contains("its timeline is in"), "{failure}");
        let shown = events(&file);
        let of = |name: &str| brackets(&shown).iter().filter(|(begin, _)| begin["name"] == name).count();
        assert_eq!((of("allocation"), of("free")), ((last - 1).min(2), (last - 1).min(2)));
    }
}

/// A load that takes seconds, with a timeline.
fn long_load(folder: &Folder, file: &Path) -> std::process::Child {
    let path = folder.sparse("m.safetensors", &[("a", 3 << 30), ("b", 3 << 30)]);
    let mut load = command("load");
    load.arg(&path).arg("--timeline").arg(file).args(["--transfer", "staged"]);
    load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until events were written.
fn written(file: &Path) {
    while fs::metadata(file).map_or(0, |about| about.len()) < 10_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn ctrl_c_leaves_a_timeline_that_is_closed_and_ends_at_zero() {
    let folder = Folder::new();
    let file = folder.join("t.json");
    let child = long_load(&folder, &file);
    written(&file);
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.failed(Exit::Interrupted, &["its timeline is in"]);
    let shown = events(&file);
    brackets(&shown);
    ends_at_zero(&shown);
}

#[test]
fn kill_9_leaves_a_timeline_that_can_be_opened() {
    let folder = Folder::new();
    let file = folder.join("t.json");
    let mut child = long_load(&folder, &file);
    written(&file);
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = events(&file);
    assert!(shown.iter().any(|event| event["name"] == "copy in"), "{} events", shown.len());
}

#[test]
fn a_name_that_something_else_has_is_refused_before_anything_is_loaded() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 8)]);
    let mine = folder.raw("mine.json", br#"{"traceEvents":[]}"#);
    for (file, words) in
        [(mine.as_path(), "is there and is no timeline of ours"), (folder.path(), "no timeline")]
    {
        let ran = load(&path, &format!("--timeline {}", file.display()));
        ran.refused(&[words, &file.display().to_string()]);
    }
    assert_eq!(fs::read(&mine).unwrap(), br#"{"traceEvents":[]}"#);
    let nowhere = folder.join("no/t.json");
    load(&path, &format!("--json --timeline {}", nowhere.display()))
        .failed(Exit::Output, &["cannot create it\n  caused by: No such file or directory"]);
}
