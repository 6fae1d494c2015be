//! Programs under the library with the server that they are meant for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{compiled, told};
use neuron_serve::{Options, Server};
use neuron_wire::Address;
use tempfile::TempDir;

/// A server with a folder of its own.
struct Served {
    server: Server,
    folder: TempDir,
}

impl Served {
    fn new(instance: &str, memory_by_socket: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::new(folder.path().join("socket")).unwrap();
        let options = Options { memory_by_socket, ..Options::new(instance, address) };
        Self { server: Server::start(options).unwrap(), folder }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        common::command(program, self.server.address().path(), self.server.tree())
    }

    fn bash(&self, script: &str) -> String {
        told(self.command("bash").args(["--norc", "-c", script]))
    }
}

#[test]
fn programs_look_around_on_a_machine_of_six_devices() {
    let served = Served::new("inf2.24xlarge", false);
    assert_eq!(
        served.bash("ls -d /dev/neuron* | wc -l; ls /sys/class/neuron_device | grep -c neuron"),
        "6\n6\n"
    );
    assert_eq!(served.bash("cat /sys/module/neuron/version"), "2.27.4.0\n");
    assert_eq!(
        served
            .bash("cd /sys/class/neuron_device/neuron3; cat info/architecture/device_name reset core_count"),
        "Inferentia2\n1\n2"
    );
    assert_eq!(
        served.bash(
            "cd /sys/devices/virtual/neuron_device/neuron0/info; echo 0 > notify_delay; cat notify_delay"
        ),
        "0\n",
        "what is written is there when the shell goes on"
    );
    let files =
        "find /sys/devices/virtual/neuron_device /sys/module/neuron /sys/class/neuron_device/ -type f";
    let count: usize = served.bash(&format!("{files} | wc -l")).trim().parse().unwrap();
    assert!(count > 6 * 2 * 70, "{count}");
    // Every file can be read.
    assert_eq!(
        served.bash(
            "find -L /sys/class/neuron_device/neuron5 -maxdepth 9 -type f -exec cat {} + | wc -l > /dev/null"
        ),
        ""
    );
}

fn client(memory_by_socket: bool) {
    let served = Served::new("trn2.3xlarge", memory_by_socket);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/served.c");
    let Some(program) = compiled(&source, served.folder.path()) else { return };
    told(&mut served.command(program));
    let left = served.server.left();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(served.server.clients(), []);
}

#[test]
fn a_client_allocates_maps_copies_exports_and_forks() {
    client(false);
}

/// As where the server may not reach a client's memory: a thread of the library gives it.
#[test]
fn a_client_gives_its_memory_to_a_server_that_may_not_reach_it() {
    client(true);
}
