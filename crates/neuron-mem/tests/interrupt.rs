//! Signals, in processes of their own: a handler stays for the life of the process that installs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use neuron_mem::interrupt::Interrupt;
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
