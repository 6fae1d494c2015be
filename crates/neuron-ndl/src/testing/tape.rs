//! A record of everything that goes through a backend: opens, ioctls with the bytes that were
//! sent, mappings, unmappings and closes, a line each.
//!
//! ```text
//! open neuron0 Full: ok
//! ioctl 80084e19 MEM_GET_PA 0200000000000000 [pointer]: ok
//! mmap 0x410001000 0x200000 rw: ok
//! ```
//!
//! Bytes are in memory's order, eight in a group, before the call. A group that is a user
//! address says `[pointer]` (0 is shown as it is), and `0*N` stands for more than two groups
//! of zeroes. What batches point to is on lines of its own.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_abi::arg::{BatchOp, MemBufCopy64ZcBatches, MemcpyBatch};
use neuron_abi::cmd::{self, Command};
use neuron_abi::errno::Errno;
use zerocopy::{FromBytes, IntoBytes};

use crate::backend::{Backend, DeviceFile, Lane, Mapping};
use crate::introspect::Introspection;

/// Where the user addresses of an argument are, bytes.
const POINTERS: &[(Command, &[usize])] = &[
    (cmd::MEM_ALLOC, &[24]),
    (cmd::MEM_ALLOC_V2, &[32]),
    (cmd::MEM_ALLOC_V2MT, &[40]),
    (cmd::MEM_ALLOC_V2MT64, &[40]),
    (cmd::MEM_GET_PA, &[8]),
    (cmd::MEM_GET_INFO, &[8, 16]),
    (cmd::MEM_BUF_COPY, &[8]),
    (cmd::MEM_BUF_COPY64, &[8]),
    (cmd::MEM_BUF_ZEROCOPY64, &[8]),
    (cmd::MEM_BUF_ZEROCOPY64_BATCHES, &[8]),
    (cmd::MEM_COPY_ASYNC, &[32]),
    (cmd::MEM_COPY_ASYNC64, &[40]),
    (cmd::DMA_ENG_GET_STATE, &[8]),
    (cmd::DMA_QUEUE_GET_STATE, &[8, 16]),
    (cmd::DMA_DESCRIPTOR_COPYOUT, &[24]),
    (cmd::DMABUF_FD, &[0, 16]),
    (cmd::DUMP_MEM_CHUNKS, &[16]),
];

/// What was recorded so far, shared.
#[derive(Clone, Debug, Default)]
pub struct Tape(Arc<Mutex<Vec<String>>>);

impl Tape {
    /// The lines.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lines, each ended.
    pub fn text(&self) -> String {
        self.lines().into_iter().fold(String::new(), |text, line| text + &line + "\n")
    }

    /// A line of the test's own.
    pub fn note(&self, text: &str) {
        self.write(format!("# {text}"));
    }

    fn write(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// A backend that is recorded.
pub struct Recorder {
    inner: Box<dyn Backend>,
    tape: Tape,
}

impl Recorder {
    /// Records all that goes to `inner`.
    pub fn new(inner: impl Backend + 'static) -> (Self, Tape) {
        let tape = Tape::default();
        (Self { inner: Box::new(inner), tape: tape.clone() }, tape)
    }
}

impl Backend for Recorder {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
        let opened = self.inner.open(index, lane);
        self.tape.write(format!("open neuron{index} {lane:?}: {}", outcome(&opened)));
        Ok(Box::new(RecordedFile { inner: opened?, index, tape: self.tape.clone() }))
    }
}

struct RecordedFile {
    inner: Box<dyn DeviceFile>,
    index: u8,
    tape: Tape,
}

impl DeviceFile for RecordedFile {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno> {
        let mut line = format!("ioctl {word:08x}");
        let command = cmd::lookup(word);
        let name = command.map_or("?", |command| command.name);
        let _infallible = write!(line, " {name}{}", groups(argument, pointers(word)));
        // SAFETY: the caller promises that addresses in the argument are valid.
        let batches = if name == BATCHES { unsafe { batches(argument) } } else { Vec::new() };
        // SAFETY: passed on to the caller.
        let answer = unsafe { self.inner.ioctl(word, argument) };
        let _infallible = write!(line, ": {}", outcome(&answer));
        self.tape.write(line);
        batches.into_iter().for_each(|line| self.tape.write(line));
        answer
    }

    fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno> {
        let mapped = self.inner.mmap(offset, bytes, writable);
        let rights = if writable { "rw" } else { "r" };
        self.tape.write(format!("mmap {offset:#x} {bytes:#x} {rights}: {}", outcome(&mapped)));
        let line = format!("munmap {offset:#x} {bytes:#x}");
        Ok(mapped?.holding(Box::new(End { tape: self.tape.clone(), line })))
    }

    fn introspect(&self) -> Option<Introspection> {
        self.inner.introspect()
    }
}

impl Drop for RecordedFile {
    fn drop(&mut self) {
        self.tape.write(format!("close neuron{}", self.index));
    }
}

/// Writes its line when it goes.
struct End {
    tape: Tape,
    line: String,
}

impl Drop for End {
    fn drop(&mut self) {
        self.tape.write(std::mem::take(&mut self.line));
    }
}

const BATCHES: &str = cmd::MEM_BUF_ZEROCOPY64_BATCHES.name;

fn outcome<T>(result: &Result<T, Errno>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(errno) => errno.name().map_or_else(|| errno.to_string(), str::to_owned),
    }
}

fn pointers(word: u32) -> &'static [usize] {
    POINTERS.iter().find(|(command, _)| command.word == word).map_or(&[], |(_, offsets)| offsets)
}

/// Bytes as the tape shows them, each group behind a space.
fn groups(bytes: &[u8], pointers: &[usize]) -> String {
    let mut text = String::new();
    let mut zeroes = 0;
    let flush = |text: &mut String, zeroes: &mut usize| {
        match *zeroes {
            0..=2 => (0..*zeroes).for_each(|_| text.push_str(" 0000000000000000")),
            many => text.push_str(&format!(" 0*{many}")),
        }
        *zeroes = 0;
    };
    for (index, group) in bytes.chunks(8).enumerate() {
        if group.len() == 8 && group.iter().all(|byte| *byte == 0) {
            zeroes += 1;
            continue;
        }
        flush(&mut text, &mut zeroes);
        if pointers.contains(&(index * 8)) {
            text.push_str(" [pointer]");
            continue;
        }
        text.push(' ');
        group.iter().for_each(|byte| text.push_str(&format!("{byte:02x}")));
    }
    flush(&mut text, &mut zeroes);
    text
}

/// What a request of batches points to.
///
/// # Safety
/// Addresses in the argument, and in the batches there, are valid to read as far as the
/// command reads them.
unsafe fn batches(argument: &[u8]) -> Vec<String> {
    let Ok((request, _)) = MemBufCopy64ZcBatches::read_from_prefix(argument) else { return Vec::new() };
    // SAFETY: so many batches are there, by this function's contract.
    let batches = unsafe { array::<MemcpyBatch>(request.batches_ptr, request.num_batches) };
    let mut lines = Vec::new();
    for batch in batches {
        lines.push(format!("  batch{}", groups(batch.as_bytes(), &[16])));
        // SAFETY: as above.
        let operations = unsafe { array::<BatchOp>(batch.ops_ptr, batch.num_ops) };
        lines.extend(
            operations.iter().map(|operation| format!("    op{}", groups(operation.as_bytes(), &[16]))),
        );
    }
    lines
}

/// # Safety
/// If `count` is not 0 and `address` not null, so many `T` are there to read.
unsafe fn array<T: FromBytes>(address: u64, count: u32) -> Vec<T> {
    let start = address as *const T;
    if start.is_null() {
        return Vec::new();
    }
    let at = |index: u32| {
        // SAFETY: inside the array, by this function's contract.
        let element = unsafe { start.add(index as usize) };
        // SAFETY: any bytes are a `T`; no alignment is asked for.
        unsafe { element.read_unaligned() }
    };
    (0..count).map(at).collect()
}
