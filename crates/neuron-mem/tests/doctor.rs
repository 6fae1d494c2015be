//! `doctor`: on a software machine, which every machine has; on the kernel backend, over a driver without a kernel.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod common;

use clap::Parser as _;
use common::run::{Ran, command, neuron_mem};
use neuron_mem::cli::{Cli, Command, DoctorArgs};
use neuron_mem::doctor;
use neuron_mem::exit::Exit;
use neuron_mem::machine::Machine;
use neuron_ndl::diagnosis::Roots;
use neuron_ndl::environment::Reading;
use neuron_ndl::kernel::Kernel;
use neuron_ndl::software;
use neuron_ndl::testing::kernel_over;
use serde_json::Value;

fn args(options: &str) -> DoctorArgs {
    match Cli::try_parse_from(["neuron-mem", "doctor"].into_iter().chain(options.split_whitespace())) {
        Ok(Cli { command: Command::Doctor(args) }) => args,
        other => panic!("{other:?}"),
    }
}

/// The exit code, and what was written.
fn ask(machine: &Machine, options: &str) -> (Exit, String) {
    let mut out = Vec::new();
    let ended = doctor::on(machine, Reading::default(), &args(options), &mut out);
    (ended.map_or_else(|failure| failure.exit(), |()| Exit::Done), String::from_utf8(out).unwrap())
}

#[test]
fn the_software_machine_can_be_used_anywhere() {
    let text = neuron_mem("doctor").done();
    assert!(
        text.starts_with("backend software, instance trn1.2xlarge\n\nok       backend     software: "),
        "{text}"
    );
    for line in [
        "-        module      the software machine has none",
        "ok       open        neuron0: opens",
        "ok       version     neuron0: V2; the driver works with versions 5 to 7, this program speaks 5 to 7",
        "ok       device      can be used: neuron0",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in {text}");
    }
    let text = neuron_mem("doctor --instance trn2.48xlarge").done();
    assert!(text.contains("can be used: neuron0 to neuron15\n"), "{text}");
    neuron_mem("doctor --instance none").refused(&["unknown instance type"]);
}

#[test]
fn json_has_the_documented_keys() {
    let json: Value = serde_json::from_str(&neuron_mem("doctor --json").done()).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["backend", "checks", "instance", "usable"]);
    assert_eq!(json["usable"], true);
    for check in json["checks"].as_array().unwrap() {
        let keys: Vec<&str> = check.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["advice", "found", "name", "status"]);
        let statuses = ["ok", "warning", "failed", "not_applicable"];
        assert!(statuses.contains(&check["status"].as_str().unwrap()), "{check}");
    }
}

#[test]
fn a_machine_without_devices_ends_with_the_device_exit_code_and_advice() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = Kernel::at(folder.path().join("dev"));
    let machine = Machine::kernel(kernel, Roots::below(folder.path()));
    let (exit, text) = ask(&machine, "--backend kernel");
    assert_eq!(exit, Exit::Device);
    assert!(text.starts_with("backend kernel\n\n"), "{text}");
    for words in [
        "FAILED   pci         there is no Neuron device",
        "-> use an instance of type",
        "no device can be used",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let (exit, json) = ask(&machine, "--backend kernel --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((exit, &json["usable"], &json["instance"]), (Exit::Device, &false.into(), &Value::Null));
}

#[test]
fn devices_behind_the_kernel_backend_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel_over(software::Machine::new("trn1.32xlarge").unwrap());
    let machine = Machine::kernel(kernel, Roots::below(folder.path()));
    let (_, text) = ask(&machine, "--backend kernel");
    assert!(text.contains("ok       open        neuron0 to neuron15: opens\n"), "{text}");
    assert!(text.contains("ok       device      can be used: neuron0 to neuron15\n"), "{text}");
}

#[test]
fn every_wrong_variable_is_a_line() {
    let mut doctor = command("doctor");
    doctor
        .env("NEURON_MEM_BACKEND", "cuda")
        .env("NEURON_RT_VISIBLE_CORES", "0,2")
        .env("NEURON_RT_NUM_CORES", "x");
    doctor.env("NEURON_RT_DEBUG_MEMLOG_MAX_SIZE", "many");
    doctor.env("NEURON_RT_OOM_DUMP_DIRECTORY", "x".repeat(201));
    let ran = Ran::from(doctor.output().unwrap()).failed(Exit::Device, &["not in order: variables\n"]);
    for words in [
        "NEURON_MEM_BACKEND is `cuda`",
        "NEURON_RT_VISIBLE_CORES is `0,2`, whose entry `2`",
        "NEURON_RT_NUM_CORES is `x`",
        "NEURON_RT_DEBUG_MEMLOG_MAX_SIZE is `many`",
        "NEURON_RT_OOM_DUMP_DIRECTORY has more than 200 characters",
    ] {
        assert!(
            ran.stdout.contains(&format!("FAILED   variables   {words}")),
            "no {words} in {}",
            ran.stdout
        );
    }
}

#[test]
fn folders_that_files_go_to_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let run = |log: &str, dumps: &str| {
        let mut doctor = command("doctor");
        doctor.env("NEURON_MEM_LOG", folder.path().join(log));
        doctor.env("NEURON_RT_OOM_DUMP_DIRECTORY", folder.path().join(dumps));
        // A small log: it fits wherever tests run.
        Ran::from(doctor.env("NEURON_RT_DEBUG_MEMLOG_MAX_SIZE", "16").output().unwrap())
    };
    let text = run("usage.log", "").stdout;
    let shown = folder.path().display();
    assert!(text.contains(&format!("{shown} (NEURON_MEM_LOG) can be written to")), "{text}");
    // Without the log's folder a program does not start; without the other it does.
    let ran = run("none/usage.log", "none").failed(Exit::Device, &["not in order: folder\n"]);
    assert!(ran.stdout.contains("FAILED   folder      "), "{}", ran.stdout);
    assert!(ran.stdout.contains("none (NEURON_RT_OOM_DUMP_DIRECTORY): No such file"), "{}", ran.stdout);
    assert_eq!(run("usage.log", "none").code, Some(0));
}
