//! Asynchronous zero-copy: requests, the device's completer, the reader of the completion
//! queue, and an end of the process, the ring or the device at any point. No page stays pinned.

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::arg::{CompletionEntry, CompletionHeader};
use neuron_abi::errno::Errno;
use neuron_driver::dma::zerocopy::Ticket;
use neuron_driver::pool::ChunkRef;
use neuron_driver::requests::Wanted;
use neuron_driver::ring::H2tRing;
use shuttle::thread;
use std::sync::atomic::Ordering;
use vm_memory::Bytes;

use crate::explore;
use crate::rig::{Pages, Process, Rig, WRITE, bytes, only, operation};

/// One request: a buffer of two pages into a chunk.
struct Request {
    chunk: ChunkRef,
    expected: Vec<u8>,
    sequence: u64,
}

/// Hands a request in; `None` if it is refused.
fn request(process: &Process, ring: &Arc<H2tRing>, sequence: u64) -> Result<Request, Errno> {
    let buffer: Arc<Pages> = process.buffer(2);
    let (chunk, _) = process.chunk(buffer.len(), 0);
    let expected = buffer.fill(sequence as u8);
    let operations = [operation(&chunk, &buffer, 10 + sequence)];
    let ticket = Ticket { pid: process.pid, sequence };
    process.device().request_zero_copy(ring, &operations, WRITE, ticket)?;
    Ok(Request { chunk, expected, sequence })
}

/// The reader's side of a completion queue.
struct Reader {
    queue: ChunkRef,
    head: u32,
}

impl Reader {
    fn new(process: &Process, ring: &Arc<H2tRing>) -> Self {
        let device = process.device();
        let (bus, len) = device.completion_queue(ring).unwrap();
        Self { queue: process.file.mmap(bus, len).unwrap().chunk.unwrap(), head: 0 }
    }

    /// Takes the entry that comes next, if there is one.
    fn next(&mut self) -> Option<CompletionEntry> {
        let memory = self.queue.host_slice().unwrap();
        let word = |at| memory.load::<u32>(at, Ordering::Acquire).unwrap();
        let capacity = word(std::mem::offset_of!(CompletionHeader, capacity));
        if word(std::mem::offset_of!(CompletionHeader, tail)) == self.head {
            return None;
        }
        let at =
            size_of::<CompletionHeader>() + (self.head % capacity) as usize * size_of::<CompletionEntry>();
        let mut entry = CompletionEntry::default();
        memory.read_slice(zerocopy::IntoBytes::as_mut_bytes(&mut entry), at).unwrap();
        self.head += 1;
        memory.store(self.head, std::mem::offset_of!(CompletionHeader, head), Ordering::Release).unwrap();
        Some(entry)
    }
}

/// Two threads of a process ask, a third one reads what is told.
fn told_once() {
    let rig = Rig::new(Generation::V3, 0b11);
    let process = Arc::new(Process::open(&rig, 100));
    let ring = rig.device.zero_copy_ring(0, None).unwrap();
    let mut reader = Reader::new(&process, &ring);
    let asking = [1, 2].map(|sequence| {
        let (process, ring) = (Arc::clone(&process), Arc::clone(&ring));
        thread::spawn(move || request(&process, &ring, sequence).unwrap())
    });
    let reading = thread::spawn(move || {
        let mut told = Vec::new();
        while told.len() < 2 {
            match reader.next() {
                Some(entry) => told.push((entry.sequence_num, entry.context, entry.compl_ret)),
                None => thread::yield_now(),
            }
        }
        (reader, told)
    });
    let (mut reader, mut told) = reading.join().unwrap();
    told.sort_unstable();
    assert_eq!(told, [(1, 11, 0), (2, 12, 0)]);
    for asked in asking {
        let Request { chunk, expected, sequence } = asked.join().unwrap();
        assert!(
            bytes(&chunk, chunk.size()) == expected,
            "request {sequence} was told and its bytes are missing"
        );
    }
    drop((process, ring));
    assert!(reader.next().is_none(), "a request was told twice");
    drop(reader);
    rig.end();
}

#[test]
fn each_request_is_told_once_and_after_its_bytes() {
    explore(150, told_once);
}

/// The process exits, and with `device` everybody lets the device go, at any point.
fn gone(device: bool) {
    let rig = Rig::new(Generation::V3, 0b11);
    let (process, other) = (Process::open(&rig, 100), Process::open(&rig, 200));
    let ring = rig.device.zero_copy_ring(0, None).unwrap();
    let asking = thread::spawn({
        let ring = Arc::clone(&ring);
        move || {
            let _requests = [request(&process, &ring, 1).unwrap(), request(&process, &ring, 2).unwrap()];
        }
    });
    let beside = thread::spawn(move || {
        // Somebody else's copy in between, which waits.
        let buffer = other.buffer(1);
        let (chunk, _) = other.chunk(buffer.len(), 0);
        let expected = buffer.fill(0x77);
        other.device().zero_copy(&ring, &[operation(&chunk, &buffer, 0)], WRITE).unwrap();
        assert!(bytes(&chunk, chunk.size()) == expected);
    });
    if device {
        // Whoever is left ends the device: a process, or the completer itself.
        rig.end();
        [asking, beside].into_iter().for_each(|thread| thread.join().unwrap());
    } else {
        [asking, beside].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(rig.machine.shared().state().memory.in_use().1, 0, "pages of a dead process are pinned");
        rig.end();
    }
}

#[test]
fn an_exit_leaves_no_page_pinned() {
    explore(150, || gone(false));
}

#[test]
fn a_device_may_go_with_requests_on_it() {
    explore(150, || gone(true));
}

/// A requested ring is released while others use it: refused or done, and nothing is left.
fn released(use_it: fn(&Process, Arc<H2tRing>) -> Result<(), Errno>) {
    let rig = Rig::new(Generation::V3, 0b11);
    let (process, other) = (Process::open(&rig, 100), Process::open(&rig, 200));
    let queue = rig.device.request_queue(0, Wanted::H2t, process.pid).unwrap();
    let ring = rig.device.zero_copy_ring(0, Some(queue)).unwrap();
    let release = thread::spawn(move || {
        other.device().release_queue(0, queue).unwrap();
        other
    });
    let use_it = thread::spawn(move || {
        // The ring goes with its last holder, and what is still on it.
        only(use_it(&process, ring), &[Errno::ENOENT]);
        process
    });
    drop([release, use_it].map(|thread| thread.join().unwrap()));
    rig.all_is_back();
    rig.end();
}

#[test]
fn a_ring_released_under_a_request_ends_it_first() {
    explore(150, || released(|process, ring| request(process, &ring, 1).map(drop)));
}

#[test]
fn a_ring_released_under_its_users_takes_everything_along() {
    explore(100, || {
        released(|process, ring| {
            let buffer = process.buffer(1);
            let (chunk, _) = process.chunk(buffer.len(), 0);
            let expected = buffer.fill(0x12);
            let copied = process.device().zero_copy(&ring, &[operation(&chunk, &buffer, 0)], WRITE);
            assert!(copied.is_err() || bytes(&chunk, chunk.size()) == expected);
            copied.and(process.device().completion_queue(&ring).map(drop))
        });
    });
}
