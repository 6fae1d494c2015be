//! `explain`: its inputs, its exit codes, dumps beside a log, and that its page stays true.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod common;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use common::Folder;
use common::run::{Ran, command, of_page};
use neuron_abi::memory::UsageType;
use neuron_dmem::report::{DumpOptions, Files, Form, Origin};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
use neuron_mem::exit::Exit;
use neuron_ndl::Device;
use neuron_ndl::software::Machine;
use serde_json::Value;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explain.md");

fn explain(path: &Path, options: &str) -> Ran {
    Ran::from(command("explain").arg(path).args(options.split_whitespace()).output().unwrap())
}

fn explain_input(input: &[u8], options: &str) -> Ran {
    let mut command = command(&format!("explain {options}"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Ran::from(child.wait_with_output().unwrap())
}

fn json(stdout: &str) -> Value {
    assert_eq!(stdout.matches('\n').count(), 1, "{stdout}");
    serde_json::from_str(stdout).unwrap()
}

#[test]
fn a_file_and_standard_input_are_explained_alike() {
    let path = Path::new(CASES).join("host-4mib.log");
    let log = fs::read(&path).unwrap();
    let text = explain(&path, "").done();
    assert!(text.contains("4,194,304 B") && text.contains("host-contiguous"), "{text}");
    assert_eq!(explain_input(&log, "-").done(), text);
    assert_eq!(explain_input(&log, "").done(), text);
    assert_eq!(json(&explain(&path, "--json").done())["answers"][0]["cause"], "host_contiguous");
}

#[test]
fn what_is_told_is_not_presumed() {
    let path = Path::new(CASES).join("table12-aligned-13mb.log");
    let presumed = json(&explain(&path, "--json").done());
    assert_eq!((&presumed["presumed"]["arch"], &presumed["room"]["arch"]), (&3.into(), &3.into()));
    for told in ["--arch v4", "--instance trn3.3xlarge"] {
        let read = json(&explain(&path, &format!("{told} --json")).done());
        assert_eq!((&read["presumed"], &read["room"]["arch"]), (&Value::Null, &4.into()), "{told}");
    }
}

#[test]
fn what_cannot_be_explained_is_told_with_its_exit_code() {
    let folder = Folder::new();
    let nothing = folder.raw("n.log", b"all is well\n");
    explain(&nothing, "").failed(Exit::Input, &["nothing in", "n.log", "what is read: "]);
    explain_input(b"", "--json").failed(Exit::Input, &["nothing in standard input"]);
    explain(&folder.join("none"), "").failed(Exit::Input, &["cannot be read"]);
    let log = Path::new(CASES).join("scratchpad-1gb.log");
    explain(&log, "--instance p5.48xlarge").failed(Exit::Usage, &["p5.48xlarge"]);
    explain(&log, "--arch v3 --instance trn2.3xlarge").failed(Exit::Usage, &["cannot be used with"]);
    let options = format!("--chunks {}", nothing.display());
    explain(&log, &options).failed(Exit::Input, &["dump", "cannot be read", "record 1"]);
}

/// Enough is left, in pieces: only the dump can tell.
#[test]
fn a_dump_beside_the_log_or_named_makes_holes_a_fact() {
    let machine = Machine::new("trn2.3xlarge").unwrap();
    let memory = DeviceMemory::new(Device::open(&machine, 0).unwrap());
    let model = Allocator::labelled(&memory, AllocatorKind::Model, 2, "m").unwrap();
    let weight = |size: u64| AllocRequest::device(size, UsageType::Weight);
    let blocks: Vec<_> = (0..23).map(|_| model.allocate(&weight((1 << 30) - (2 << 20))).unwrap()).collect();
    let small = model.allocate(&weight(1 << 30)).unwrap();
    let kept: Vec<_> = blocks.into_iter().enumerate().filter(|(place, _)| place % 2 == 0).collect();
    let error = model.allocate(&weight(2 << 30)).unwrap_err();
    let report = error.report().unwrap();
    let folder = Folder::new();
    let options = DumpOptions { directory: Some(folder.path().to_owned()), form: Form::Categories };
    let files = report.write_files(&[], &options);
    let log = folder.join("run.log");
    // As if the log came from elsewhere: the folders that it names are not there.
    let elsewhere = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map(|path| Path::new("/nowhere").join(path.file_name().unwrap()))
    };
    let named = Files {
        events: elsewhere(&files.events),
        chunks: elsewhere(&files.chunks),
        table: elsewhere(&files.table),
        ..Files::default()
    };
    fs::write(&log, report.failure_log(Origin { pid: 1, tid: 1 }, &named, Form::Categories)).unwrap();

    let answer =
        |options: &str| json(&explain(&log, &format!("{options} --json")).done())["answers"][0].clone();
    let beside = answer("");
    assert_eq!((&beside["cause"], &beside["basis"]), (&"fragmentation".into(), &"fact".into()), "{beside}");
    let chunks = folder.join("elsewhere.csv");
    fs::rename(files.chunks.unwrap(), &chunks).unwrap();
    let without = answer("");
    assert_eq!(
        (&without["cause"], &without["basis"]),
        (&"fragmentation_or_alignment".into(), &"inferred".into())
    );
    assert_eq!(answer(&format!("--chunks {}", chunks.display())), {
        let mut given = beside.clone();
        given["room"] = answer(&format!("--chunks {}", chunks.display()))["room"].clone();
        given
    });
    let page = folder.join("page.html");
    explain(&log, &format!("--chunks {} --html {}", chunks.display(), page.display())).done();
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("all processes, by the driver&#39;s dump") && page.contains("small pool"));
    assert!(page.matches("<title>hole: ").count() >= 12, "every other block of 23 was freed");
    drop((kept, small));
}

/// Each command of the page is run from the project's folder and prints what stands there.
#[test]
fn the_page_shows_what_the_command_prints() {
    let commands = of_page(PAGE, Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    assert!(!commands.is_empty());
    for (line, shown, ran) in commands {
        assert_eq!(ran.done(), shown, "{line}");
    }
}
