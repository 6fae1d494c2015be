//! Clients of other users.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use neuron_abi::errno::Errno;
use neuron_ndl::Device;
use neuron_ndl::remote::{OpenError, Remote};
use neuron_serve::{Admit, Options};
use neuron_wire::Calls;
use neuron_wire::client::open::open_attribute;

use crate::child::{Client, address, command, report};
use crate::common::Served;
use crate::work::{Random, allocate};

const NOBODY: u32 = 65534;

pub(crate) fn act() {
    let remote = match Remote::connect(address()) {
        Ok(remote) => remote,
        Err(OpenError::Refused { errno: Errno::EACCES, .. }) => return report("refused"),
        Err(error) => panic!("{error}"),
    };
    let device = Device::open(&remote, 0).unwrap();
    let memory = allocate(&device, 1 << 20, false, 0);
    let sent = Random::new(1).bytes(1 << 20);
    device.buffer_copy_in(&memory, 0, &sent).unwrap();
    let mapping = memory.map().unwrap();
    let mut back = vec![0; sent.len()];
    mapping.slice().copy_to(&mut back);
    assert!(back == sent);
    device.buffer_copy_out(&memory, 0, &mut back).unwrap();
    assert!(back == sent);
    files_of_another_user();
    report("served");
}

/// Files under `/sys` are the server's user's: others may do with them what their modes say.
fn files_of_another_user() {
    let node = "sys/devices/virtual/neuron_device/neuron0";
    let calls = Calls::new(address());
    let read = |path: &str| calls.read_attribute(Path::new(path)).map(drop).map_err(|error| error.errno());
    assert_eq!(read("sys/module/neuron/version"), Ok(()));
    assert_eq!(read(&format!("{node}/core_count")), Err(Errno::EACCES));
    for path in ["reset", "info/notify_delay", "neuron_core0/stats/memory_usage/device_mem/total"] {
        let opened = open_attribute(&address(), &Path::new(node).join(path));
        assert_eq!(opened.map(drop).map_err(|error| error.errno()), Err(Errno::EACCES), "{path}");
    }
}

/// What a client of the user nobody says, of a server that anybody can connect to.
fn nobody_says(admit: Admit, memory_by_socket: bool) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be another user");
        return None;
    }
    let served = Served::with("trn1.2xlarge", |options| Options { admit, memory_by_socket, ..options });
    let folder = served.address().path().parent().unwrap();
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    if let Some(picture) = served.tree().parent().filter(|_| !memory_by_socket) {
        let mode = std::fs::metadata(picture).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "the picture is for all");
    }
    let command = command("foreign", served.address());
    // The test program is where only this user may be: nobody gets it by a descriptor.
    let program = std::fs::File::open(command.get_program()).unwrap();
    let program = OwnedFd::from(program);
    let path = format!("/proc/self/fd/{}", program.as_raw_fd());
    let mut as_nobody = std::process::Command::new(path);
    as_nobody.args(command.get_args()).uid(NOBODY).gid(NOBODY).current_dir("/");
    as_nobody.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let client = Client::spawn_with(as_nobody, Some(&program));
    let said = client.next();
    client.end();
    Some(said)
}

#[test]
fn a_user_that_is_not_admitted_is_refused_with_eacces() {
    let others = Admit::Users(vec![12345]);
    assert!(nobody_says(others, false).is_none_or(|said| said == "refused"));
}

#[test]
fn an_admitted_user_is_served_whichever_way_its_bytes_go() {
    for memory_by_socket in [false, true] {
        let admit = Admit::Users(vec![NOBODY]);
        assert!(nobody_says(admit, memory_by_socket).is_none_or(|said| said == "served"));
    }
    assert!(nobody_says(Admit::Everybody, false).is_none_or(|said| said == "served"));
}
