//! The command as its users meet it: usage errors, help, version. What it does with a device is tested where
//! that is written.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::process::{Command, Output, Stdio};

fn neuron_mem(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_neuron-mem")).args(args).output().unwrap()
}

#[test]
fn wrong_usage_exits_with_2_and_says_why() {
    for (args, words) in [
        (&[][..], "Usage:"),
        (&["lode"], "unrecognized subcommand 'lode'"),
        (&["load", "--cores", "1,1"], "core 1 is named twice"),
        (&["load", "--transfer", "teleport"], "possible values: auto, staged, zerocopy"),
        (&["load", "--device", "first"], "invalid value 'first'"),
        (&["devices", "extra"], "unexpected argument 'extra'"),
    ] {
        let output = neuron_mem(args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(words), "{args:?}: {message}");
    }
}

#[test]
fn help_is_a_success_and_lists_the_exit_codes() {
    for args in [
        &["--help"][..],
        &["load", "--help"],
        &["devices", "-h"],
        &["rings", "-h"],
        &["trace-copy", "-h"],
        &["explain", "-h"],
        &["plan", "-h"],
    ] {
        let output = neuron_mem(args);
        let help = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0));
        for line in [
            "0  done",
            "1  the result could not be written\n",
            "2  usage error",
            "3  unreadable or malformed input",
            "4  does not fit in device memory",
            "5  device or transfer error",
            "6  verification mismatch",
            "130  interrupted",
        ] {
            assert!(help.contains(line), "{args:?}: {help}");
        }
    }
}

#[test]
fn an_error_nobody_can_read_still_has_its_exit_code() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_neuron-mem"))
        .args(["load", "/nonexistent/model.safetensors"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(3));
}
