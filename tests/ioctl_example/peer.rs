//! The other side of `shim.c`: a program's system calls on the device, made here.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use neuron_abi::errno::Errno;
use neuron_driver::ioctl::mmap::{Mapped, Window};
use neuron_driver::{Held, OpenFile, OpenMode, UserMemory};
use neuron_tests::rig::Rig;
use vm_memory::VolatileSlice;

/// A program that runs.
pub(crate) struct Peer {
    child: Child,
    memory: Memory,
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
    /// What it held when its last file went.
    pub(crate) left: Vec<Held>,
}

/// Memory of the program, which it reads and writes for us while it waits for a result.
struct Memory(UnixStream);

const READ: u64 = 0;
const WRITE: u64 = 1;
const DONE: u64 = 2;

impl Memory {
    fn order(&self, kind: u64, a: u64, b: u64) {
        let words = [kind, a, b].map(u64::to_le_bytes).concat();
        (&self.0).write_all(&words).unwrap();
    }

    fn bytes(&self, address: u64, len: usize) -> Vec<u8> {
        self.order(READ, address, len as u64);
        let mut bytes = vec![0; len];
        (&self.0).read_exact(&mut bytes).unwrap();
        bytes
    }

    fn store(&self, address: u64, bytes: &[u8]) {
        self.order(WRITE, address, bytes.len() as u64);
        (&self.0).write_all(bytes).unwrap();
    }

    /// The next question; `None` when the program is gone.
    fn question(&self) -> Option<[u64; 5]> {
        let mut words = [0; 40];
        (&self.0).read_exact(&mut words).ok()?;
        let word = |at: usize| u64::from_le_bytes(words[at * 8..at * 8 + 8].try_into().unwrap());
        Some([word(0), word(1), word(2), word(3), word(4)])
    }
}

impl UserMemory for Memory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        into.copy_from(&self.bytes(address, into.len()));
        Ok(())
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        let mut bytes = vec![0_u8; from.len()];
        from.copy_to(&mut bytes);
        self.store(address, &bytes);
        Ok(())
    }
}

/// Calls `act` with the memory that a window shows.
fn shown(rig: &Rig, window: &Window, act: impl FnOnce(VolatileSlice<'_>)) {
    match window {
        Window::Host(memory) => act(memory.slice()),
        Window::Bar4 { offset, bytes } => act(rig.hardware().bar4().slice(*offset, *bytes).unwrap()),
        Window::Bar0 { .. } => panic!("the example maps no registers"),
    }
}

impl Peer {
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(program)
            .args(arguments)
            .env_remove("NEURON_DEVICE")
            .env("LC_ALL", "C")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, memory: Memory(ours) }
    }

    /// Answers until the program ends, then closes what it left open.
    pub(crate) fn serve(self, rig: &Rig) -> Ended {
        let pid = self.child.id() as i32;
        let mut files: BTreeMap<u64, OpenFile> = BTreeMap::new();
        let mut maps: BTreeMap<u64, Mapped> = BTreeMap::new();
        let (mut next, mut left) = (1000, Vec::new());
        while let Some([kind, a, b, c, d]) = self.memory.question() {
            for (address, mapped) in &maps {
                shown(rig, &mapped.window, |slice| {
                    slice.copy_from(&self.memory.bytes(*address, slice.len()))
                });
            }
            let result: Result<u64, Errno> = match kind {
                0 => {
                    let mode = if a & 1 == 1 { OpenMode::Misc } else { OpenMode::Full };
                    OpenFile::open(rig.device(), pid, mode).map(|file| {
                        next += 1;
                        files.insert(next, file);
                        next
                    })
                }
                1 => files[&a].ioctl(b as u32, c, &self.memory).map(|()| 0),
                2 => files[&a].mmap(c, b).map(|mut mapped| {
                    mapped.place(d);
                    maps.insert(d, mapped);
                    0
                }),
                3 => maps.remove(&a).map(|_| 0).ok_or(Errno::EINVAL),
                _ => files
                    .remove(&a)
                    .map(|file| left.extend(file.leaving().into_iter().flatten()))
                    .map(|()| 0)
                    .ok_or(Errno::EINVAL),
            };
            for (address, mapped) in &maps {
                shown(rig, &mapped.window, |slice| {
                    let mut bytes = vec![0_u8; slice.len()];
                    slice.copy_to(&mut bytes);
                    self.memory.store(*address, &bytes);
                });
            }
            let answer = result.unwrap_or_else(|errno| i64::from(errno.negated()).cast_unsigned());
            self.memory.order(DONE, answer, 0);
        }
        for file in files.into_values() {
            left.extend(file.leaving().into_iter().flatten());
        }
        drop(maps);
        let output = self.child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended {
            code: output.status.code().unwrap_or(-1),
            output: text(output.stdout),
            errors: text(output.stderr),
            left,
        }
    }
}
