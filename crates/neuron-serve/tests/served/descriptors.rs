//! What holds for the descriptor of an open device: fork, dup, exec and threads.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_ndl::Device;
use neuron_wire::Calls;
use neuron_wire::client::open;
use rustix::io::FdFlags;

use crate::child::{Client, SPAWN, address, command, report, variable, wait_for_word};
use crate::common::Served;
use crate::raw::Raw;
use crate::work::{Random, allocate};

/// Number of a descriptor that a client inherits.
pub(crate) const DESCRIPTOR: &str = "NEURON_SERVE_TEST_DESCRIPTOR";
/// Handle of the memory that a program allocated before it became another one.
const HANDLE: &str = "NEURON_SERVE_TEST_HANDLE";

fn inherited() -> Raw {
    let number = variable(DESCRIPTOR).parse().unwrap();
    // SAFETY: who started this process left it open for it, and nobody else here knows it.
    Raw::inherited(&address(), unsafe { OwnedFd::from_raw_fd(number) })
}

fn inheritable(raw: &Raw) -> String {
    let socket = raw.descriptor.as_ref().unwrap();
    rustix::io::fcntl_setfd(socket, FdFlags::empty()).unwrap();
    socket.as_raw_fd().to_string()
}

/// A process with a file that another one opened: reaches it, has no slot, and closes it.
pub(crate) fn act_holder() {
    report(&std::process::id().to_string());
    let mut raw = inherited();
    let try_gated = |raw: &Raw| {
        // What needs no slot is served.
        let mut info = [0_u8; 128];
        raw.calls.ioctl(raw.file, cmd::DEVICE_BASIC_INFO.word, info.as_mut_ptr() as u64).unwrap();
        let refused = raw.allocate(4096, false).unwrap_err().errno();
        assert!(refused == Errno::EACCES || refused == Errno::EPERM, "{refused}");
        report("no slot");
    };
    try_gated(&raw);
    wait_for_word();
    try_gated(&raw);
    wait_for_word();
    raw.close();
    report("closed");
}

fn is_client(served: &Served, pid: i32) -> bool {
    served.clients().iter().any(|(client, _)| *client == pid)
}

#[test]
fn a_childs_close_of_an_inherited_file_leaves_the_parent_what_it_has() {
    let served = Served::new("trn1.2xlarge");
    let own = std::process::id().cast_signed();
    let mut raw = Raw::open(served.address(), 0);
    let (handle, _) = raw.allocate(1 << 20, false).unwrap();
    let bytes = Random::new(1).bytes(1 << 20);
    raw.write(handle, &bytes).unwrap();
    let mut child = command("holder", served.address());
    let socket = raw.descriptor.as_ref().unwrap();
    child.env(DESCRIPTOR, socket.as_raw_fd().to_string());
    let mut child = Client::spawn_with(child, Some(socket));
    assert_eq!(child.next(), child.pid().to_string());
    for _ in 0..2 {
        assert_eq!(child.next(), "no slot");
        child.tell();
    }
    assert_eq!(child.next(), "closed");
    child.end();
    assert!(is_client(&served, own));
    assert!(raw.read(handle, bytes.len()).unwrap() == bytes);
    raw.close();
    assert!(!is_client(&served, own));
    assert_eq!(served.left().len(), 1);
}

#[test]
fn one_of_two_descriptors_keeps_the_file_and_its_slot() {
    let served = Served::new("trn1.2xlarge");
    let own = std::process::id().cast_signed();
    let mut raw = Raw::open(served.address(), 0);
    let (handle, _) = raw.allocate(4096, true).unwrap();
    raw.write(handle, &[7; 4096]).unwrap();
    let second = raw.descriptor.as_ref().unwrap().try_clone().unwrap();
    raw.close();
    assert!(is_client(&served, own));
    assert_eq!(raw.read(handle, 4096).unwrap(), [7; 4096]);
    // Nothing that is written is an end, nothing at all least of all.
    for bytes in [&b""[..], b"text"] {
        rustix::io::write(&second, bytes).unwrap();
        assert!(is_client(&served, own));
        assert_eq!(raw.read(handle, 4096).unwrap(), [7; 4096]);
    }
    {
        let _no_child_is_on_its_way = SPAWN.read();
        drop(second);
    }
    assert!(!is_client(&served, own));
    assert_eq!(served.machine().driver(0).unwrap().held_by(own), []);
    assert_eq!(raw.read(handle, 4096).unwrap_err().errno(), Errno::ENODEV);
}

/// A program that becomes another one with the same open file.
pub(crate) fn act_exec() {
    let raw = Raw::open(&address(), 0);
    let (handle, offset) = raw.allocate(1 << 20, true).unwrap();
    let mapping = raw.calls.mmap(raw.file, offset, 1 << 20, true).unwrap().b;
    raw.calls.place(raw.file, mapping, 1 << 30).unwrap();
    let mut next = command("executed", &address());
    let error = next.env(DESCRIPTOR, inheritable(&raw)).env(HANDLE, handle.to_string()).exec();
    panic!("{error}");
}

pub(crate) fn act_executed() {
    let raw = inherited();
    report("executed");
    wait_for_word();
    raw.free(variable(HANDLE).parse().unwrap()).unwrap();
    report("freed");
    wait_for_word();
}

#[test]
fn an_exec_keeps_open_files_and_ends_mappings() {
    let served = Served::new("trn1.2xlarge");
    let held = |pid| served.machine().driver(0).unwrap().held_by(pid).len();
    let before = served.machine().host_memory().in_use();
    for _ in 0..20 {
        let mut client = Client::start("exec", &served, &[]);
        assert_eq!(client.next(), "executed");
        assert!(is_client(&served, client.pid()) && held(client.pid()) == 1);
        client.tell();
        assert_eq!(client.next(), "freed");
        // A mapping would keep it.
        assert_eq!((held(client.pid()), served.machine().host_memory().in_use()), (0, before));
        assert!(is_client(&served, client.pid()));
        client.tell();
        client.end();
        assert!(served.left().is_empty());
    }
}

#[test]
fn eight_threads_of_a_process_work_at_once_and_each_finds_its_bytes() {
    for memory_by_socket in [false, true] {
        let options = |options| neuron_serve::Options { memory_by_socket, ..options };
        let served = Served::with("trn2.3xlarge", options);
        let device = served.device(0);
        let work = |seed: u32| {
            let mut random = Random::new(seed.into());
            for round in 0..20 {
                let size = 1 + random.below(100_000);
                let memory = allocate(&device, size, round % 4 == 0, seed);
                let sent = random.bytes(size as usize);
                device.buffer_copy_in(&memory, 0, &sent).unwrap();
                let mapping = memory.map().unwrap();
                let mut back = vec![0; sent.len()];
                mapping.slice().copy_to(&mut back);
                assert!(back == sent, "thread {seed}, mapped");
                back.fill(0);
                device.buffer_copy_out(&memory, 0, &mut back).unwrap();
                assert!(back == sent, "thread {seed}");
                let second = Device::open(&served.remote(), 0).unwrap();
                assert!(second.processes().unwrap().len() == 1);
            }
        };
        std::thread::scope(|scope| {
            for seed in 0..8 {
                scope.spawn(move || work(seed));
            }
        });
        drop(device);
        assert!(served.left().is_empty(), "{:?}", served.left());
    }
}

#[test]
fn writing_nothing_to_a_file_under_sys_is_no_end_of_it() {
    let served = Served::new("trn1.2xlarge");
    let shared = served.machine().sysfs().unwrap().files;
    let path = shared.iter().map(|file| &file.path).find(|path| path.ends_with("/notify_delay")).unwrap();
    let (path, calls) = (Path::new(path), Calls::new(served.address().clone()));
    let file = open::open_attribute(served.address(), path).unwrap();
    let shown = |written: &[u8]| {
        rustix::io::write(&file, b"").unwrap();
        rustix::io::write(&file, written).unwrap();
        let mut text = String::new();
        File::from(calls.read_attribute(path).unwrap()).read_to_string(&mut text).unwrap();
        text
    };
    assert_ne!(shown(b"0"), shown(b"-1"));
    assert_eq!(shown(b""), shown(b"-1"));
}
