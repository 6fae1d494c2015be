//! `log`, and the log that `load` keeps where the environment says so.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::Stdio;

use common::Folder;
use common::run::{Ran, command};
use neuron_abi::memory::UsageType;
use neuron_dmem::log::LogOptions;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
use neuron_mem::exit::Exit;
use neuron_ndl::Device;
use neuron_ndl::software::Machine;
use serde_json::Value;

const FILE: &str = "NEURON_MEM_LOG";
const SIZE: &str = "NEURON_RT_DEBUG_MEMLOG_MAX_SIZE";

fn load(model: &Path, log: &Path, events: &str) -> Ran {
    let mut load = command("load --json");
    Ran::from(load.arg(model).env(FILE, log).env(SIZE, events).output().unwrap())
}

fn log(path: &Path, options: &str) -> Ran {
    Ran::from(command("log").arg(path).args(options.split_whitespace()).output().unwrap())
}

fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_load_leaves_a_log_of_every_tensor() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a\u{1b}[2J", 5000), ("b", 70_000), ("none", 0)]);
    let path = folder.join("usage.log");
    load(&model, &path, "100").done();

    let report = object(&log(&path, "--json").done());
    assert_eq!((&report["writer"], &report["device"]), (&"closed".into(), &0.into()));
    assert_eq!((&report["written"], &report["overwritten"]), (&4.into(), &0.into()));
    assert_eq!(report["device_memory"], serde_json::json!({ "current": 0, "peak": 75_000 }));
    assert_eq!(report["categories"][0]["category"], "model constants");
    let peaks = |key: &str| -> Vec<u64> {
        report[key].as_array().unwrap().iter().map(|of| of["peak"].as_u64().unwrap()).collect()
    };
    assert_eq!((peaks("hbms"), peaks("cores")), (vec![70_000, 5000], vec![70_000, 5000]));
    assert_eq!((peaks("owners"), peaks("hints")), (vec![70_000, 5000], vec![5000, 70_000]));
    let events = report["events"].as_array().unwrap();
    let actions: Vec<_> = events.iter().map(|event| event["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["ALLOC", "ALLOC", "FREE", "FREE"]);
    assert_eq!((&events[1]["hint"], &events[1]["usage"]), (&"b".into(), &"WEIGHT".into()));
    assert_eq!((&events[1]["hbm_total"], &events[1]["owner"]["left"]), (&70_000.into(), &Value::Null));

    let text = log(&path, "").done();
    for words in [
        "4 events, 0 overwritten, room for 100\n",
        "| device    |                        ",
        "| owner     | gone model, core 0: ",
        "| 3     | FREE  | HBM 0 | 0    | WEIGHT | `b`",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");

    // Followed, an ended log is each event, then the rest.
    let lines = log(&path, "--follow --json").done();
    let lines: Vec<Value> = lines.lines().map(object).collect();
    assert_eq!(lines[..4], events[..]);
    assert_eq!((lines.len(), &lines[4]["written"], lines[4].get("events")), (5, &4.into(), None));
    let lines = log(&path, "--follow").done();
    assert!(lines.starts_with("      0 ALLOC HBM 1 core 1 WEIGHT 5,000 B at 0x"), "{lines}");
}

#[test]
fn a_log_that_is_too_short_says_what_it_lost() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a", 5000), ("b", 70_000)]);
    let path = folder.join("usage.log");
    load(&model, &path, "1").done();
    let text = log(&path, "").done();
    assert!(text.contains("4 events, 3 overwritten, room for 1\n"), "{text}");
    // The next load takes the file over.
    load(&model, &path, "0").done();
    let report = object(&log(&path, "--json").done());
    assert_eq!((&report["written"], &report["events"]), (&4.into(), &Value::Array(vec![])));
    assert_eq!(report["device_memory"]["peak"], 75_000);
}

#[test]
fn a_log_that_cannot_be_kept_is_refused_before_anything_is_loaded() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a", 5000)]);
    load(&model, &folder.join("log"), "many").refused(&[SIZE, "`many`", "whole number of events"]);
    load(&model, &model, "10").refused(&["is no usage log"]);
    load(&model, &folder.join("no/log"), "10").failed(Exit::Output, &["cannot create it", "No such file"]);
    assert!(fs::read_dir(folder.path()).unwrap().count() == 1);
}

#[test]
fn what_is_no_log_ends_with_3_and_says_why() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a", 5000)]);
    log(&model, "").failed(Exit::Input, &["is no usage log"]);
    log(&folder.join("none"), "--follow").failed(Exit::Input, &["cannot open it", "No such file"]);
    let path = folder.join("usage.log");
    load(&model, &path, "10").done();
    let bytes = fs::read(&path).unwrap();
    folder.raw("usage.log", &bytes[..bytes.len() - 100]);
    log(&path, "--json").failed(Exit::Input, &["it was cut, or is not all there"]);
    let mut wrong = bytes;
    wrong[4096] ^= 1;
    folder.raw("usage.log", &wrong);
    log(&path, "").failed(Exit::Input, &["the counter of HBM 0 is 1, but base and events make 0"]);
}

/// Every line is waited for, so it does not matter how fast either side is.
#[test]
fn a_running_process_is_followed_until_it_ends() {
    let folder = Folder::new();
    let path = folder.join("usage.log");
    let machine = Machine::new("trn1.2xlarge").unwrap();
    let options = LogOptions::default().events(10).names(10).file(&path);
    let device = Device::open(&machine, 0).unwrap();
    let memory = DeviceMemory::with(device, Setup::default().log(options)).unwrap();
    let model = Allocator::labelled(&memory, AllocatorKind::Model, 0, "live").unwrap();

    let mut follow = command("log --follow --json");
    let mut child = follow.arg(&path).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        object(&line)
    };
    for size in [100, 200, 300] {
        let dmem = model.allocate(&AllocRequest::device(size, UsageType::Tensor)).unwrap();
        let event = next();
        assert_eq!((&event["action"], &event["size"]), (&"ALLOC".into(), &size.into()));
        drop(dmem);
        assert_eq!(next()["hbm_total"], 0);
    }
    let snapshot = object(&log(&path, "--json").done());
    assert_eq!((&snapshot["writer"], &snapshot["written"]), (&"writing".into(), &6.into()));
    drop((model, memory));
    let summary = next();
    assert_eq!((&summary["writer"], &summary["written"]), (&"closed".into(), &6.into()));
    assert_eq!(summary["owners"][0]["label"], "live");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(rest.is_empty() && child.wait().unwrap().success());
}
