//! One session with a device, recorded: every word and byte that is sent, on drivers of every
//! age, compared with tapes that are checked in.
//!
//! The tapes (`tests/tapes`) are ours, made from the numbers of `spec/ndl.md` and `spec/abi.md`:
//! `spec.rs` holds the main commands against these by hand. `NEURON_TAPES=write cargo test -p
//! neuron-ndl --test tape` writes them anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod session;
mod spec;

use std::path::PathBuf;

use neuron_driver::Params;
use neuron_ndl::Backend;
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use neuron_ndl::testing::{Age, OldDriver, Recorder, Tape, kernel_over};

/// A machine on which every run is the same.
fn machine() -> Machine {
    let params = Params { scrub_bytes: Some((16 << 20) + 65536), ..Params::default() };
    let options = MachineOptions { execution: Execution::Inline, params, ..MachineOptions::default() };
    Machine::with_options("trn2.3xlarge", options).unwrap()
}

/// The session on a driver of an age, through the software backend or the kernel's.
fn record(age: Age, through_kernel: bool) -> Tape {
    let (recorder, tape) = Recorder::new(OldDriver::new(machine(), age));
    let backend: Box<dyn Backend> =
        if through_kernel { Box::new(kernel_over(recorder)) } else { Box::new(recorder) };
    session::run(&*backend, &tape, age);
    tape
}

fn path(age: Age) -> PathBuf {
    let name = format!("{age:?}.tape");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tapes").join(name)
}

#[test]
fn a_session_sends_what_the_tape_says_on_drivers_of_every_age() {
    for age in Age::ALL {
        let recorded = record(age, false).text();
        if std::env::var("NEURON_TAPES").is_ok_and(|value| value == "write") {
            std::fs::write(path(age), &recorded).unwrap();
        }
        let tape = std::fs::read_to_string(path(age)).unwrap();
        for (number, (is, was)) in recorded.lines().zip(tape.lines()).enumerate() {
            assert_eq!(is, was, "{age:?}, line {}", number + 1);
        }
        assert_eq!(recorded.lines().count(), tape.lines().count(), "{age:?}");
    }
}

#[test]
fn the_kernel_backend_sends_the_same_bytes() {
    for age in Age::ALL {
        let tape = std::fs::read_to_string(path(age)).unwrap();
        let recorded = record(age, true).text();
        for (number, (is, was)) in recorded.lines().zip(tape.lines()).enumerate() {
            assert_eq!(is, was, "{age:?}, line {}", number + 1);
        }
        assert_eq!(recorded.lines().count(), tape.lines().count(), "{age:?}");
    }
}
