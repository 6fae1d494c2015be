//! Requests whose end the completion queue tells.

use std::time::{Duration, Instant};

use neuron_abi::arch::Generation;
use neuron_abi::arg::{self, CompletionEntry, CompletionHeader};
use neuron_abi::cmd;
use neuron_abi::limits::COMPLETION_QUEUE_ENTRIES;
use neuron_softdev::fault::Fault;
use neuron_tests::client::Client;
use neuron_tests::machine::{UserPages, Window};
use vm_memory::Bytes;

use crate::rig::{EINVAL, ETIMEDOUT, Rig, batch, operation, pattern, set_user_bytes, user_bytes};

const EBUSY: i64 = -16;
const E2BIG: i64 = -7;
/// How long a completion may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The reader's side of a completion queue, as a runtime maps it.
struct Reader {
    window: Window,
    read: u32,
}

impl Reader {
    fn of(rig: &Rig, core: u32, qid: u32) -> Self {
        let mut argument =
            arg::GetAsyncH2tDmaComplQueues { nc_id: core, qid_bitmap: 1 << qid, ..Default::default() };
        assert_eq!(rig.client.call(&cmd::GET_ASYNC_H2T_DMA_COMPL_QUEUES, &mut argument), 0);
        let queue = argument.queues[qid as usize];
        let mapped = rig.client.file().mmap(queue.mmap_offset, queue.mmap_size).unwrap();
        assert!(mapped.writable, "the reader writes its index");
        let reader = Self { window: rig.board.memory(queue.mmap_offset, queue.mmap_size).unwrap(), read: 0 };
        assert_eq!(reader.header().capacity, COMPLETION_QUEUE_ENTRIES);
        reader
    }

    fn header(&self) -> CompletionHeader {
        let words: [u32; 4] = self.window.slice().unwrap().read_obj(0).unwrap();
        CompletionHeader { capacity: words[0], head: words[1], tail: words[2], _pad: [0; 4] }
    }

    /// Waits until `count` more entries are there.
    fn wait(&self, count: u32) {
        let start = Instant::now();
        while self.header().tail.wrapping_sub(self.read) < count {
            assert!(start.elapsed() < PATIENCE, "no completion came");
            std::thread::yield_now();
        }
    }

    /// (result, context, sequence) of the next entry, which is taken.
    fn next(&mut self) -> (i64, u64, u64) {
        self.wait(1);
        let slot = (self.read % COMPLETION_QUEUE_ENTRIES) as usize;
        let at = size_of::<CompletionHeader>() + slot * size_of::<CompletionEntry>();
        let slice = self.window.slice().unwrap();
        let [result, context, sequence]: [u64; 3] = slice.read_obj(at).unwrap();
        self.read = self.read.wrapping_add(1);
        slice.write_obj(self.read, 4).unwrap();
        (result.cast_signed(), context, sequence)
    }
}

fn request(rig: &Rig, user: &UserPages, sequence: u64, context: u64, at: u64, size: u64) -> i64 {
    let chunk = rig.client.allocate(Some(0), size, 0).unwrap();
    let batch = arg::MemcpyBatch { context, ..batch(chunk) };
    rig.batches(user, true, sequence, &[(batch, vec![operation(user, 0, at, size)])])
}

#[test]
fn the_end_of_each_request_is_told_once_in_order_with_its_words() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(1000);
    let chunk = rig.client.allocate(Some(0), 4_000_000, 0).unwrap();
    let mut reader = Reader::of(&rig, 0, 0);
    set_user_bytes(&user, 0, &pattern(1, 4_000_000));
    let parts = [operation(&user, 0, 0, 3_000_000), operation(&user, 3_000_000, 3_000_000, 1_000_000)];
    let first = arg::MemcpyBatch { context: 11, ..batch(chunk) };
    let second = arg::MemcpyBatch { context: 12, ..batch(chunk) };
    assert_eq!(
        rig.batches(&user, true, 77, &[(first, parts[..1].to_vec()), (second, parts[1..].to_vec())]),
        0
    );
    assert_eq!(reader.next(), (0, 12, 77), "the word of the batch that ended it");
    assert!(rig.chunk_bytes(chunk, 0, 4_000_000) == pattern(1, 4_000_000));

    set_user_bytes(&user, 0, &vec![0; 4_000_000]);
    for sequence in 100..120 {
        let at = (sequence - 100) * 200_000;
        let part = vec![operation(&user, at, at, 200_000)];
        assert_eq!(rig.batches(&user, false, sequence, &[(first, part)]), 0);
    }
    for sequence in 100..120 {
        assert_eq!(reader.next(), (0, 11, sequence));
    }
    assert!(user_bytes(&user, 0, 4_000_000) == pattern(1, 4_000_000));
    assert_eq!(user.pinned(), 0);
    assert_eq!(reader.header().tail, 21, "and nothing else was told");
}

#[test]
fn a_refused_request_changes_nothing_and_is_not_told() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(400);
    let (mine, other) = (
        rig.client.allocate(Some(0), 1 << 20, 0).unwrap(),
        rig.client.allocate(Some(0), 1 << 20, 1).unwrap(),
    );
    let mut reader = Reader::of(&rig, 0, 0);
    rig.doorbells();
    let good = |chunk| (batch(chunk), vec![operation(&user, 0, 0, 4096)]);
    let bad = (batch(mine), vec![operation(&user, 1 << 20, 0, 1)]);
    assert_eq!(rig.batches(&user, true, 5, &[good(mine), bad]), EINVAL);
    assert_eq!(rig.batches(&user, true, 5, &[good(mine), good(other)]), EINVAL, "batches of two cores");
    user.fail_pin(1);
    assert_eq!(rig.batches(&user, true, 5, &[good(mine), good(mine)]), crate::rig::ENOMEM);
    user.fail_pin(usize::MAX / 2);
    let too_long = (batch(mine), vec![operation(&user, 0, 0, 4); 1024]);
    assert_eq!(rig.batches(&user, true, 5, &[too_long]), E2BIG);
    assert_eq!((rig.doorbells(), user.pinned()), (0, 0));
    assert_eq!(rig.batches(&user, true, 6, &[good(mine)]), 0);
    assert_eq!(reader.next(), (0, 0, 6));
}

#[test]
fn a_failed_request_is_told_once_and_its_pages_are_let_go() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(600);
    let mut reader = Reader::of(&rig, 0, 0);
    let faults = rig.board.engines().unwrap().faults();
    let hang = faults.add(Fault::Hang { nth: 1, engine: None });
    assert_eq!(request(&rig, &user, 1, 21, 0, 600 * 4096), 0);
    assert_eq!(reader.next(), (ETIMEDOUT, 21, 1));
    faults.remove(hang);
    assert_eq!(request(&rig, &user, 2, 22, 0, 600 * 4096), 0);
    assert_eq!(reader.next(), (0, 22, 2), "the ring was programmed anew");
    assert_eq!((reader.header().tail, user.pinned()), (2, 0));
}

/// A reader that does not read stops new requests, loses nothing, and cannot make the
/// driver keep more than a queue of ends.
#[test]
fn a_full_queue_makes_new_requests_busy_until_it_is_read() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(1);
    let chunk = rig.client.allocate(Some(0), 4096, 0).unwrap();
    let mut reader = Reader::of(&rig, 0, 0);
    let one = (batch(chunk), vec![operation(&user, 0, 0, 64)]);
    let mut accepted = 0_u64;
    let start = Instant::now();
    loop {
        match rig.batches(&user, true, accepted + 1, std::slice::from_ref(&one)) {
            0 => accepted += 1,
            // Busy for the moment, or for good once both queues are full.
            EBUSY if accepted >= u64::from(COMPLETION_QUEUE_ENTRIES) + 1023 => break,
            EBUSY => std::thread::yield_now(),
            other => panic!("{other}"),
        }
        assert!(start.elapsed() < PATIENCE);
    }
    reader.wait(COMPLETION_QUEUE_ENTRIES);
    assert_eq!(reader.header().tail, COMPLETION_QUEUE_ENTRIES, "not one too many");
    for sequence in 1..=accepted {
        assert_eq!(reader.next(), (0, 0, sequence));
    }
    assert_eq!(rig.batches(&user, true, 9999, &[one]), 0);
    assert_eq!(reader.next(), (0, 0, 9999));
}

/// The reader's memory is shared: what it writes there must not harm the driver.
#[test]
fn a_reader_that_writes_nonsense_only_hurts_itself() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(1);
    let chunk = rig.client.allocate(Some(0), 4096, 0).unwrap();
    let reader = Reader::of(&rig, 0, 0);
    let one = (batch(chunk), vec![operation(&user, 0, 0, 64)]);
    for head in [u32::MAX, 1 << 31, 7] {
        let slice = reader.window.slice().unwrap();
        slice.write_obj(head, 4).unwrap();
        slice.write_obj(0xdead_beef_u32, 8).unwrap();
        slice.write_obj(0_u32, 0).unwrap();
        assert_eq!(rig.batches(&user, true, 3, std::slice::from_ref(&one)), 0);
    }
    let what = crate::rig::Move { chunk, offset: 0, at: 0, bytes: 4096 };
    assert_eq!(rig.zero_copy(&user, true, what), 0);
}

#[test]
fn a_process_that_exits_leaves_no_page_pinned_and_no_memory_behind() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(2000);
    let stays = Client::open_as(rig.board.device(), 55).unwrap();
    let allocated = || rig.board.device().pools().hbm(0).unwrap().allocated;
    let before = allocated();
    for sequence in 1..=3 {
        assert_eq!(request(&rig, &user, sequence, 0, 0, 2000 * 4096), 0);
    }
    assert!(allocated() > before);
    drop(rig.client);
    assert_eq!((user.pinned(), rig.board.device().pools().hbm(0).unwrap().allocated), (0, before));
    drop(stays);
}

#[test]
fn completion_queues_are_those_of_the_cores_own_rings() {
    let rig = Rig::new(Generation::V3);
    let ask = |core, qid_bitmap| {
        let mut argument = arg::GetAsyncH2tDmaComplQueues { nc_id: core, qid_bitmap, ..Default::default() };
        (rig.client.call(&cmd::GET_ASYNC_H2T_DMA_COMPL_QUEUES, &mut argument), argument)
    };
    assert_eq!(ask(8, 1).0, EINVAL);
    assert_eq!(ask(0, 2).0, EINVAL, "the other core's queue");
    assert_eq!(ask(0, 1 << 9).0, EINVAL);
    let (ret, found) = ask(1, 2);
    assert_eq!(ret, 0);
    assert_eq!(found, ask(1, 2).1, "asked twice, one queue");
    assert_ne!(found.queues[1].mmap_offset, 0);
    assert_eq!(found.queues[0], arg::ComplQueueMmap::default(), "what was not asked for is zero");
}
