//! Interruption: what a signal does, in processes of their own because a handler stays for the life of the
//! process that installs it, and what `load` does when it is told to stop.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};

use common::Folder;
use common::run::{command, load_args};
use neuron_mem::exit::Exit;
use neuron_mem::interrupt::Interrupt;
use neuron_mem::load;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::raise;

/// Runs one of the ignored tests below, alone, in a child of this process.
fn in_child(test: &str) -> ExitStatus {
    let this = std::env::current_exe().unwrap();
    Command::new(this).args(["--exact", test, "--ignored"]).output().unwrap().status
}

#[test]
fn the_first_signal_only_sets_the_flag() {
    assert_eq!(in_child("child_takes_one_signal").code(), Some(0));
}

#[test]
fn the_second_signal_exits_with_130() {
    let status = in_child("child_takes_two_signals");
    assert_eq!((status.code(), status.signal()), (Some(130), None));
}

#[test]
#[ignore = "run by the_first_signal_only_sets_the_flag"]
fn child_takes_one_signal() {
    let interrupt = Interrupt::install().unwrap();
    assert!(!interrupt.requested());
    raise(SIGTERM).unwrap();
    assert!(interrupt.requested());
}

#[test]
#[ignore = "run by the_second_signal_exits_with_130"]
fn child_takes_two_signals() {
    let _interrupt = Interrupt::install().unwrap();
    raise(SIGTERM).unwrap();
    raise(SIGINT).unwrap();
    unreachable!("the second signal ends the process");
}

const FREED: &str = "\n  everything allocated was freed: driver counters back to ";

#[test]
fn a_load_that_is_to_stop_at_once_copies_nothing() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 4096)]);
    let interrupt = Interrupt::detached();
    interrupt.request();
    // Were anything copied, the abort would end the load first.
    let args = load_args(&path, "--json --fault abort:nth=1");
    let mut out = Vec::new();
    let failure = load::run(&args, &|| interrupt.requested(), &mut out).unwrap_err();
    assert_eq!(failure.exit(), Exit::Interrupted);
    assert!(failure.to_string().starts_with(&format!("interrupted{FREED}")), "{failure}");
    assert!(out.is_empty());
}

#[test]
fn a_load_stops_at_any_step_and_frees_what_it_has_taken() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("large", 20 << 20), ("small", 4096), ("empty", 0)]);
    let args = load_args(&path, "--execution inline");
    // The steps of one load, stopped at step `last`, and what had been shown by then.
    let run = |last: u32| {
        let (steps, mut out) = (Cell::new(0), BufWriter::new(Vec::new()));
        let stop = || {
            steps.set(steps.get() + 1);
            steps.get() >= last
        };
        let result = load::run(&args, &stop, &mut out);
        (result, steps.get(), String::from_utf8(out.get_ref().clone()).unwrap())
    };
    let (result, steps, _) = run(u32::MAX);
    result.unwrap();
    // Three allocations; two tensors to copy and two to compare, the large one in several steps each.
    assert!(steps >= 3 + 2 * 3, "{steps} steps");
    for last in 1..=steps {
        let (result, taken, out) = run(last);
        let failure = result.unwrap_err();
        assert_eq!((failure.exit(), taken), (Exit::Interrupted, last));
        assert!(failure.to_string().starts_with(&format!("interrupted{FREED}")), "{failure}");
        assert_eq!(out, "backend software, instance trn1.2xlarge\n");
    }
}

#[test]
fn ctrl_c_or_a_polite_kill_ends_a_long_load_with_130_and_nothing_allocated() {
    let folder = Folder::new();
    // Seconds of work, of which almost none is done.
    let path = folder.sparse("m.safetensors", &[("a", 3 << 30), ("b", 3 << 30)]);
    for signal in ["INT", "TERM"] {
        let mut load = command("load");
        let mut child = load.arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = String::new();
        out.read_line(&mut lines).unwrap();
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        out.read_to_string(&mut lines).unwrap();

        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{message}");
        assert!(message.starts_with(&format!("error: interrupted{FREED}")), "{message}");
        assert_eq!(lines, "backend software, instance trn1.2xlarge\n");
    }
}
