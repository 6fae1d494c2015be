//! Standard output that cannot be written, and a reader that is slow on purpose: while the command waits for
//! it with a pipe full of report, it can be looked at.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use common::Folder;
use common::run::command;

/// Room in a pipe, with some to spare for what a reader has taken out.
const PIPE: usize = 128 << 10;

/// A model with `bytes` of zeros whose report as text is longer than a pipe takes in.
fn wordy_model(folder: &Folder, bytes: u64) -> PathBuf {
    let names: Vec<String> = (0..1500).map(|i| format!("{i:0>100}")).collect();
    assert!(names.len() * 100 > PIPE);
    let empty = names.iter().map(|name| (name.as_str(), 0));
    folder.sparse("m.safetensors", &empty.chain([("w", bytes)]).collect::<Vec<_>>())
}

fn spawn_load(path: &PathBuf) -> Child {
    command("load").arg(path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn outputs(stdout: impl Fn() -> Stdio) -> Vec<(&'static str, Output)> {
    [
        "load",
        "load --json",
        "devices",
        "devices --json",
        "devices --instance trn2.48xlarge",
        "rings --all",
        "rings --json",
        "trace-copy 64K",
        "trace-copy 64K --json",
        "explain ../../tests/cases/host-4mib.log",
        "explain ../../tests/cases/host-4mib.log --json",
    ]
    .map(|args| (args, command(args).stdout(stdout()).stderr(Stdio::piped()).output().unwrap()))
    .into()
}

#[test]
fn a_reader_that_has_left_ends_the_command_without_a_word() {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    for (args, output) in outputs(closed) {
        assert_eq!(output.status.code(), Some(1), "{args}");
        assert!(output.stderr.is_empty(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_reader_that_leaves_after_the_first_line_ends_the_command_without_a_word() {
    let folder = Folder::new();
    let mut child = spawn_load(&wordy_model(&folder, 1));
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "backend software, instance trn1.2xlarge\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_disk_is_told() {
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    for (args, output) in outputs(full) {
        assert_eq!(output.status.code(), Some(1), "{args}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "error: the result cannot be written to standard output\n  \
             caused by: No space left on device (os error 28)\n",
            "{args}"
        );
    }
}

#[test]
fn peak_memory_is_the_file_and_the_tensors_and_little_else() {
    const TENSOR: u64 = 200 << 20;
    let folder = Folder::new();
    let path = wordy_model(&folder, TENSOR);
    let mut child = spawn_load(&path);
    let mut out = BufReader::with_capacity(64, child.stdout.take().unwrap());
    let mut lines = String::new();
    out.read_line(&mut lines).unwrap();
    // The second line begins what is written after the work, and most of that is yet to be read.
    out.read_line(&mut lines).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    out.read_to_string(&mut lines).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(lines.contains("\nverified   1 tensor\n"), "{lines}");
    assert!(lines.len() > PIPE);

    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
    let bound = fs::metadata(&path).unwrap().len() + TENSOR + 150_000_000;
    assert!((TENSOR..bound).contains(&peak), "{peak} bytes, bound {bound}");
}
