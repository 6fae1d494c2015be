//! `serve`: a server as a process, and the other commands on its machine.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use common::Folder;
use common::run::{Ran, command};
use neuron_mem::exit::Exit;
use rustix::process::{Pid, Signal, kill_process};

/// A server, ended with the test.
struct Server {
    child: Child,
    line: String,
    socket: PathBuf,
}

impl Server {
    fn start(folder: &Folder, options: &str) -> Self {
        let socket = folder.join("socket");
        let mut serve = command(&format!("serve {options}"));
        serve.arg("--socket").arg(&socket).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = serve.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, line, socket }
    }

    fn backend(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Another command on its machine.
    fn run(&self, line: &str) -> Ran {
        Ran::from(command(line).env("NEURON_MEM_BACKEND", self.backend()).output().unwrap())
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Ends it in order; what it told.
    fn end(mut self) -> String {
        self.signal(Signal::TERM);
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "SIGTERM is its proper end");
        let mut told = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert!(!self.socket.exists());
        told
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

#[test]
fn commands_find_the_servers_machine_by_the_environment_and_by_name() {
    let folder = Folder::new();
    let server = Server::start(&folder, "--instance trn2.3xlarge");
    assert_eq!(server.line, format!("serving trn2.3xlarge (1 device) at {}\n", server.backend()));
    let devices = server.run("devices").done();
    assert!(devices.contains("trn2.3xlarge") && devices.contains(&server.backend()), "{devices}");
    let named = Ran::from(command(&format!("devices --backend {}", server.backend())).output().unwrap());
    assert_eq!(named.done(), devices);
    let doctor = server.run("doctor").done();
    assert!(
        doctor.contains("the devices of a server") && doctor.contains("can be used: neuron0"),
        "{doctor}"
    );
    server.run("load --instance trn1.2xlarge").refused(&["--instance", "software"]);
    server.run("load --fault abort:nth=1").refused(&["--fault", "software"]);
    server.run("devices --sysfs x").refused(&["--sysfs", "software"]);
    assert_eq!(server.end(), "");
}

#[test]
fn a_model_is_loaded_on_a_server_and_nothing_stays() {
    let folder = Folder::new();
    for memory in ["auto", "socket"] {
        let server = Server::start(&folder, &format!("--memory {memory}"));
        let text = server.run("load").done();
        for line in ["verified   93 tensors", "freed ", &server.backend()] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let told = server.end();
        // Where the system forbids the other way, it is the only one.
        assert!(memory == "auto" || told.contains("its memory is reached over its socket"), "{told}");
    }
}

#[test]
fn faults_of_the_plan_strike() {
    let folder = Folder::new();
    let server = Server::start(&folder, "--fault hbm-bytes=32M");
    let ran = server.run("load");
    assert_eq!(ran.code, Some(Exit::DoesNotFit.code().into()), "{}", ran.stderr);
    drop(server);
    let server = Server::start(&folder, "--fault copy:3=EIO");
    let ran = server.run("load");
    assert_eq!(ran.code, Some(Exit::Device.code().into()), "{}", ran.stderr);
    assert!(ran.stderr.contains("EIO"), "{}", ran.stderr);
    assert!(server.run("load").done().contains("verified"), "once");
}

#[test]
fn a_second_server_is_refused_and_a_dead_ones_socket_is_taken_over() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let second = Ran::from(command("serve --socket").arg(&server.socket).output().unwrap());
    second.refused(&["another server has", "--socket"]);
    server.signal(Signal::KILL);
    let mut killed = server;
    killed.child.wait().unwrap();
    assert!(killed.socket.exists(), "nobody cleaned up");
    let refused = killed.run("devices");
    assert_eq!(refused.code, Some(Exit::Device.code().into()));
    assert!(refused.stderr.contains("start one with `neuron-mem serve --socket"), "{}", refused.stderr);
    let next = Server::start(&folder, "");
    next.run("devices").done();
    next.end();
}

#[test]
fn what_cannot_be_served_is_refused_with_why() {
    let folder = Folder::new();
    let socket = folder.join("s");
    let serve = |options: &str| {
        Ran::from(command(&format!("serve {options} --socket")).arg(&socket).output().unwrap())
    };
    serve("--instance none").refused(&["unknown instance type", "trn1.2xlarge"]);
    serve("--fault earthquake").refused(&["earthquake"]);
    serve("--any-user --allow-user 1").refused(&["--allow-user"]);
    std::fs::write(&socket, "precious").unwrap();
    serve("").refused(&["is no socket"]);
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "precious");
    let long = "x".repeat(200);
    Ran::from(command("serve --socket").arg(Path::new("/tmp").join(&long)).output().unwrap())
        .refused(&["at most 107 bytes"]);
}

#[test]
fn a_full_disk_for_the_log_is_told_at_the_end_and_stops_nobody() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "--memory socket --log /dev/full");
    server.run("load").done();
    server.signal(Signal::TERM);
    assert_eq!(server.child.wait().unwrap().code(), Some(Exit::Output.code().into()));
    let mut told = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(told.contains("of the log could not be written"), "{told}");
}

#[test]
fn the_folder_of_a_server_shows_the_tree_and_is_empty_afterwards() {
    let folder = Folder::new();
    let state = folder.join("state");
    let options = format!("--state {}", state.display());
    let server = Server::start(&folder, &options);
    for path in ["dev/neuron0", "sys/module/neuron/version", "sys/class/neuron_device/neuron0/core_count"] {
        assert!(state.join("tree").join(path).exists(), "{path}");
    }
    server.end();
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
    std::fs::create_dir_all(state.join("tree/precious")).unwrap();
    let refused = Ran::from(command(&format!("serve {options}")).output().unwrap());
    assert_eq!(refused.code, Some(Exit::Device.code().into()));
    assert!(
        refused.stderr.contains("no picture of devices") && state.join("tree/precious").exists(),
        "{}",
        refused.stderr
    );
}
