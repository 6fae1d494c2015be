//! `run`: unmodified programs on a machine without hardware.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::Folder;
use common::run::command;
use neuron_mem::exit::Exit;
use rustix::process::{Pid, Signal, kill_process};

/// `neuron-mem run` with these options, apart at blanks, and this program.
fn run(options: &str, program: &[&str]) -> Command {
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libneuron_preload.so");
    assert!(library.exists(), "{} was not built with this test", library.display());
    let mut run = command(&format!("run {options} --"));
    run.env("NEURON_MEM_PRELOAD", library).args(program);
    run
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What a program wrote that ended well and left nothing.
fn done(options: &str, program: &[&str]) -> String {
    let Output { status, stdout, stderr } = run(options, program).output().unwrap();
    assert_eq!((status.code(), text(&stderr)), (Some(0), ""), "{program:?}");
    text(&stdout).to_owned()
}

/// Whether the system has a program; a test that needs it says that it was skipped.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: there is no {program} here");
    }
    found
}

/// The example that knows only numbers and structures, compiled; `None` without a compiler.
fn example(folder: &Folder) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = folder.join("ioctl");
    has("cc").then(|| {
        let compiled = Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("include"))
            .arg(root.join("examples/c/ioctl.c"))
            .arg("-o")
            .arg(&program)
            .status();
        assert!(compiled.unwrap().success());
        program
    })
}

#[test]
fn unmodified_readers_see_the_machine_that_was_asked_for() {
    assert_eq!(done("", &["cat", "/sys/module/neuron/version"]), "2.27.4.0\n");
    let many = done(
        "--instance trn1.32xlarge",
        &[
            "sh",
            "-c",
            "ls -d /dev/neuron*; cat /sys/class/neuron_device/neuron15/info/architecture/instance_type",
        ],
    );
    assert_eq!(many.lines().count(), 17);
    assert!(many.contains("/dev/neuron15\n") && many.ends_with("Trn1\n"), "{many}");
    if has("python3") {
        let script = "import glob, os; d = '/sys/devices/virtual/neuron_device/neuron0'; \
                      print(open(d + '/core_count').read(), sorted(os.listdir('/sys/class/neuron_device'))[0], \
                      glob.glob('/dev/neuron*'), os.path.realpath('/sys/class/neuron_device/neuron0') == d)";
        let read = done("--instance trn2.3xlarge", &["python3", "-c", script]);
        assert_eq!(read, "8 neuron0 ['/dev/neuron0'] True\n");
    }
}

#[test]
fn our_own_commands_use_the_machine_of_the_run_without_being_told() {
    let program = env!("CARGO_BIN_EXE_neuron-mem");
    let devices = done("--instance trn2.3xlarge", &[program, "devices"]);
    assert!(devices.contains("unix:") && devices.contains("trn2.3xlarge"), "{devices}");
    assert!(done("", &[program, "load"]).contains("verified"));
    // By way of `/dev/neuron0`, which is no kernel's.
    let loaded = done("", &[program, "load", "--backend", "kernel"]);
    assert!(loaded.contains("kernel") && loaded.contains("verified"), "{loaded}");
    let doctor = done("", &[program, "doctor", "--backend", "kernel"]);
    assert!(doctor.contains("can be used: neuron0"), "{doctor}");
}

#[test]
fn a_program_that_knows_only_numbers_and_structures_uses_a_device() {
    let folder = Folder::new();
    let Some(program) = example(&folder) else { return };
    let program = program.to_str().unwrap();
    for instance in ["trn1.2xlarge", "trn2.3xlarge", "inf2.xlarge"] {
        let told = done(&format!("--instance {instance} --fail-on-leak"), &[program]);
        assert!(told.contains("copied 12288 bytes with descriptors of our own"), "{told}");
    }
}

#[test]
fn what_a_program_leaves_is_told_and_the_next_one_finds_everything_free() {
    let folder = Folder::new();
    let Some(program) = example(&folder) else { return };
    let program = program.to_str().unwrap();
    let left = "left on neuron0: 4 blocks, 1,048,576 B (1.0 MiB) of device memory, 73,728 B (72.0 KiB) of host memory";

    let told = run("", &[program, "leave"]).output().unwrap();
    assert_eq!(told.status.code(), Some(0), "it is no failure unless that is asked for");
    assert!(text(&told.stderr).contains(left), "{}", text(&told.stderr));
    assert!(text(&told.stderr).contains("  HBM 0, core 0: tensors, 1 block"), "{}", text(&told.stderr));

    let failed = run("--fail-on-leak", &[program, "leave"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(Exit::Left.code().into()));
    let quiet = run("--quiet --fail-on-leak", &[program, "leave"]).output().unwrap();
    assert_eq!(quiet.status.code(), Some(Exit::Left.code().into()));
    assert!(!text(&quiet.stderr).contains("left on neuron0"), "{}", text(&quiet.stderr));

    // One machine for three programs, each of which needs what the others had.
    let script = format!("{program} leave >/dev/null && {program} leave >/dev/null && exec {program}");
    let all = run("", &["sh", "-c", &script]).output().unwrap();
    assert_eq!(all.status.code(), Some(0), "{}", text(&all.stderr));
    assert_eq!(text(&all.stderr).matches(left).count(), 2, "{}", text(&all.stderr));
}

#[test]
fn faults_strike_where_they_are_asked_for() {
    let folder = Folder::new();
    let Some(program) = example(&folder) else { return };
    let program = program.to_str().unwrap();
    for (fault, word) in [
        ("alloc:2", "Cannot allocate memory"),
        ("alloc:1=EBUSY", "Device or resource busy"),
        ("copy:1=EIO", "Input/output error"),
        ("copy:1=abort", "MEM_COPY"),
        ("copy:1=timeout", "MEM_COPY"),
        ("hbm-bytes=16M", "Cannot allocate memory"),
    ] {
        let failed = run(&format!("--fault {fault}"), &[program]).output().unwrap();
        assert_eq!(failed.status.code(), Some(1), "{fault}: {}", text(&failed.stdout));
        assert!(text(&failed.stderr).contains(word), "{fault}: {}", text(&failed.stderr));
    }
}

#[test]
fn a_fault_that_did_not_strike_is_told() {
    let ran = run("--fault alloc:7 --fault copy:1=EIO", &["true"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    for line in [
        "neuron-mem run: the fault alloc:7=ENOMEM has not struck: there were 0 allocations\n",
        "neuron-mem run: the fault copy:1=EIO has not struck: there were 0 copies\n",
    ] {
        assert!(text(&ran.stderr).contains(line), "{}", text(&ran.stderr));
    }
    assert_eq!(done("--quiet --fault alloc:7", &["true"]), "");
}

#[test]
fn our_own_commands_meet_the_same_faults() {
    let program = env!("CARGO_BIN_EXE_neuron-mem");
    let load = |fault: &str| run(&format!("--fault {fault}"), &[program, "load"]).output().unwrap();
    let lost = load("copy:3=timeout");
    assert_eq!(lost.status.code(), Some(Exit::Device.code().into()), "{}", text(&lost.stderr));
    assert!(text(&lost.stderr).contains("everything allocated was freed"), "{}", text(&lost.stderr));
    let small = load("hbm-bytes=32M");
    assert_eq!(small.status.code(), Some(Exit::DoesNotFit.code().into()), "{}", text(&small.stderr));
    // The report reckons with the part's size, so it has to find what is missing of it.
    let told = text(&small.stderr);
    assert!(told.contains("are not this process") && !told.contains("try again"), "{told}");
}

#[test]
fn a_program_on_a_server_of_its_own_choice_meets_others_there() {
    let folder = Folder::new();
    let socket = folder.join("socket");
    let mut serve = command("serve --instance trn2.3xlarge");
    serve.arg("--socket").arg(&socket).stdout(std::process::Stdio::piped());
    let mut server = serve.spawn().unwrap();
    let mut line = String::new();
    let out = server.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    let socket = socket.to_str().unwrap();
    let script = "exec 3<>/dev/neuron0; exec cat /sys/class/neuron_device/neuron0/core_count";
    assert_eq!(done(&format!("--socket {socket}"), &["bash", "-c", script]), "8");
    let _already = server.kill();
    server.wait().unwrap();
    let refused = run(&format!("--socket {socket}"), &["true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(Exit::Device.code().into()));
    assert!(text(&refused.stderr).contains("start one with `neuron-mem serve"), "{}", text(&refused.stderr));
}

#[test]
fn the_exit_code_is_the_programs() {
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        assert_eq!(run("", &["sh", "-c", script]).output().unwrap().status.code(), Some(code), "{script}");
    }
    let missing = run("", &["/no/such/program"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(Exit::NotStarted.code().into()));
    assert!(
        text(&missing.stderr).contains("/no/such/program cannot be started"),
        "{}",
        text(&missing.stderr)
    );
    let kind = run("--fault earthquake", &["true"]).output().unwrap();
    assert_eq!(kind.status.code(), Some(Exit::Usage.code().into()));
}

#[test]
fn a_program_that_would_see_the_machines_own_devices_is_refused() {
    let folder = Folder::new();
    if !has("cc") {
        return;
    }
    let (source, program) = (folder.raw("main.c", b"int main(void) { return 0; }"), folder.join("program"));
    let compiled = Command::new("cc").args(["-static", "-o"]).arg(&program).arg(&source).status().unwrap();
    if !compiled.success() {
        println!("skipped: the C compiler makes no static programs here");
        return;
    }
    let refused = run("", &[program.to_str().unwrap()]).output().unwrap();
    assert_eq!(refused.status.code(), Some(Exit::NotStarted.code().into()));
    assert!(text(&refused.stderr).contains("is statically linked"), "{}", text(&refused.stderr));
}

#[test]
fn a_signal_that_ends_the_run_ends_the_program_first() {
    let mut run = run("", &["sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 1; done"]);
    let mut child = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let out = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9), "the program's own answer to the signal");
}

#[test]
fn a_library_that_is_not_there_is_said_so() {
    let refused = command("run -- true").env("NEURON_MEM_PRELOAD", "/no/such.so").output().unwrap();
    assert_eq!(refused.status.code(), Some(Exit::Device.code().into()));
    let told = text(&refused.stderr);
    assert!(
        told.contains("/no/such.so") && told.contains("cargo build --release -p neuron-preload"),
        "{told}"
    );
}
