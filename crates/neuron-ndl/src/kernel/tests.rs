//! Lanes, interrupted calls and return values, with a fake in the kernel's place.

use std::path::Path;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use neuron_abi::cmd;
use neuron_abi::errno::Errno;

use super::Kernel;
use super::syscalls::{Node, Syscalls};
use crate::backend::{Backend, Lane, Mapping};

/// What happened, in order.
type Log = Arc<Mutex<Vec<String>>>;
/// The errno of opening a node, by its name.
type Refuse = fn(&str) -> Option<Errno>;
/// What an ioctl returns, by word and by how often it was made before.
type Answer = fn(u32, usize) -> Result<i32, Errno>;

struct Fake {
    log: Log,
    refuse: Refuse,
    answer: Answer,
    /// Meets the other open before it returns.
    meet: Option<Arc<Barrier>>,
}

struct FakeNode {
    name: String,
    log: Log,
    answer: Answer,
}

fn write(log: &Log, line: String) {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

fn read(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}

impl Syscalls for Fake {
    fn exists(&self, path: &Path) -> bool {
        (self.refuse)(path.file_name().unwrap().to_str().unwrap()) != Some(Errno::ENOENT)
    }

    fn open(&self, path: &Path, lane: Lane) -> Result<Box<dyn Node>, Errno> {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        write(&self.log, format!("open {name} {lane:?}"));
        if let Some(meet) = &self.meet {
            meet.wait();
        }
        match (self.refuse)(&name) {
            Some(errno) => Err(errno),
            None => Ok(Box::new(FakeNode { name, log: Arc::clone(&self.log), answer: self.answer })),
        }
    }
}

impl Node for FakeNode {
    unsafe fn ioctl(&self, word: u32, _: &mut [u8]) -> Result<i32, Errno> {
        let line = format!("ioctl {word:#x}");
        let before = read(&self.log).iter().filter(|&made| *made == line).count();
        write(&self.log, line);
        (self.answer)(word, before)
    }

    fn mmap(&self, offset: u64, bytes: usize, _: bool) -> Result<Mapping, Errno> {
        write(&self.log, format!("mmap {offset:#x} {bytes:#x}"));
        Err(Errno::EPERM)
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        write(&self.log, format!("close {}", self.name));
    }
}

fn fake(refuse: Refuse, answer: Answer) -> (Kernel, Log) {
    let log = Log::default();
    let fake = Fake { log: Arc::clone(&log), refuse, answer, meet: None };
    (Kernel::with("/dev", Box::new(fake)), log)
}

fn none(_: &str) -> Option<Errno> {
    None
}

#[test]
fn the_handle_lane_is_a_file_of_its_own_and_the_read_only_lane_one_for_the_device() {
    let (kernel, log) = fake(none, |_, _| Ok(0));
    drop((kernel.open(3, Lane::Full).unwrap(), kernel.open(3, Lane::Full).unwrap()));
    assert_eq!(read(&log).len(), 4, "two opens, two closes");
    log.lock().unwrap().clear();

    let kept = kernel.open(3, Lane::ReadOnly).unwrap();
    drop(kernel.open(3, Lane::ReadOnly).unwrap());
    drop(kernel.open(4, Lane::ReadOnly).unwrap());
    assert_eq!(read(&log), ["open neuron3 ReadOnly", "open neuron4 ReadOnly"]);
    drop(kernel);
    assert_eq!(read(&log)[2..], ["close neuron4"], "a file in use stays open");
    drop(kept);
    assert_eq!(read(&log)[3..], ["close neuron3"]);
}

#[test]
fn of_two_that_open_at_once_the_loser_closes_its_own() {
    let log = Log::default();
    let meet = Some(Arc::new(Barrier::new(2)));
    let fake = Fake { log: Arc::clone(&log), refuse: none, answer: |_, _| Ok(0), meet };
    let kernel = Kernel::with("/dev", Box::new(fake));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| drop(kernel.open(0, Lane::ReadOnly).unwrap()));
        }
    });
    let mut happened = read(&log);
    happened.sort();
    assert_eq!(happened, ["close neuron0", "open neuron0 ReadOnly", "open neuron0 ReadOnly"]);
}

#[test]
fn the_table_has_64_places() {
    let (kernel, log) = fake(none, |_, _| Ok(0));
    assert_eq!(kernel.open(64, Lane::ReadOnly).err(), Some(Errno::EINVAL));
    assert_eq!(read(&log), [""; 0]);
    assert!(kernel.open(63, Lane::ReadOnly).is_ok());
}

#[test]
fn the_misc_lane_is_one_file_of_the_lowest_number_that_opens() {
    let (kernel, log) = fake(
        |name| match name {
            "neuron0" => Some(Errno::ENOENT),
            "neuron1" => Some(Errno::EACCES),
            _ => None,
        },
        |_, _| Ok(0),
    );
    drop((kernel.misc().unwrap(), kernel.misc().unwrap()));
    assert_eq!(read(&log), ["open neuron0 Misc", "open neuron1 Misc", "open neuron2 Misc"]);
    assert_eq!(kernel.devices().len(), 63);

    let refused = |refuse| fake(refuse, |_, _| Ok(0)).0.misc().err();
    assert_eq!(refused(|_| Some(Errno::ENOENT)), Some(Errno::ENOENT));
    assert_eq!(
        refused(|name| Some(if name == "neuron7" { Errno::EACCES } else { Errno::ENOENT })),
        Some(Errno::EACCES),
        "a node that is there tells more"
    );
}

#[test]
fn an_open_says_its_errno_and_is_not_repeated() {
    let refusals: [(Errno, Refuse); 5] = [
        (Errno::ENOENT, |_| Some(Errno::ENOENT)),
        (Errno::EACCES, |_| Some(Errno::EACCES)),
        (Errno::EBUSY, |_| Some(Errno::EBUSY)),
        (Errno::ENODEV, |_| Some(Errno::ENODEV)),
        (Errno::EINTR, |_| Some(Errno::EINTR)),
    ];
    for (errno, refuse) in refusals {
        let (kernel, log) = fake(refuse, |_, _| Ok(0));
        assert_eq!(kernel.open(0, Lane::Full).err(), Some(errno));
        assert_eq!(read(&log), ["open neuron0 Full"], "{errno}: once");
    }
}

fn ioctl(answer: Answer, word: u32) -> (Result<(), Errno>, usize) {
    let (kernel, log) = fake(none, answer);
    let file = kernel.open(0, Lane::Full).unwrap();
    // SAFETY: the fake reaches no address.
    let result = unsafe { file.ioctl(word, &mut [0; 56]) };
    let made = read(&log).iter().filter(|line| line.starts_with("ioctl")).count();
    (result, made)
}

#[test]
fn an_interrupted_command_is_repeated_only_if_it_just_tells() {
    let twice: Answer = |_, before| if before < 2 { Err(Errno::EINTR) } else { Ok(0) };
    assert_eq!(ioctl(twice, cmd::MEM_GET_PA.word), (Ok(()), 3));
    assert_eq!(ioctl(twice, cmd::DUMP_MEM_CHUNKS.word), (Ok(()), 3));
    for command in [cmd::MEM_COPY_ASYNC64, cmd::MEM_FREE, cmd::MEM_ALLOC_V2MT64, cmd::MEM_COPY_ASYNC_WAIT] {
        assert_eq!(ioctl(twice, command.word), (Err(Errno::EINTR), 1), "{}", command.name);
    }
}

#[test]
fn a_positive_return_is_a_failure() {
    assert_eq!(ioctl(|_, _| Ok(22), cmd::MEM_GET_EXTENDED_INFO.word), (Err(Errno::EINVAL), 1));
    assert_eq!(ioctl(|_, _| Ok(56), cmd::MEM_ALLOC_V2MT64.word), (Err(Errno::EFAULT), 1));
    assert_eq!(ioctl(|_, _| Err(Errno::ENOTSUPP), cmd::DRIVER_INFO_SET.word), (Err(Errno::ENOTSUPP), 1));
}

#[test]
fn mappings_are_whole_pages() {
    let (kernel, log) = fake(none, |_, _| Ok(0));
    let file = kernel.open(0, Lane::Full).unwrap();
    for (offset, bytes) in [(0, 0), (0, 100), (1, 4096), (4096, 4097)] {
        assert_eq!(file.mmap(offset, bytes, true).err(), Some(Errno::EINVAL), "{offset} {bytes}");
    }
    assert_eq!(file.mmap(0x1000, 0x2000, true).err(), Some(Errno::EPERM), "the driver's answer");
    assert_eq!(read(&log), ["open neuron0 Full", "mmap 0x1000 0x2000"]);
}

#[test]
fn nodes_that_are_no_devices_refuse_the_first_command() {
    let directory = tempfile::tempdir().unwrap();
    let kernel = Kernel::at(directory.path());
    assert_eq!(kernel.devices(), []);
    std::fs::write(kernel.node(2), b"").unwrap();
    assert_eq!(kernel.devices(), [2]);
    let refused = crate::Device::open(&kernel, 2).unwrap_err();
    assert_eq!(refused.to_string(), "neuron2: asking what the device is: ENOTTY (25): no such ioctl");
    let missing = crate::Device::open(&kernel, 0).unwrap_err();
    assert_eq!(missing.to_string(), "neuron0: opening the device: ENOENT (2): no such entry");
}
