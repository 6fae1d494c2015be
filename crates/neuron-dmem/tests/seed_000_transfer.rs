//! Seed 000 §3, quirk by quirk, by the commands that go out to the driver.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod sent;

use std::collections::HashMap;
use std::sync::Arc;

use neuron_abi::arg::{MemBufCopy64Zc, MemBufCopy64ZcBatches, MemCopyAsyncWait};
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::memory::UsageType;
use neuron_abi::status::NrtStatus;
use neuron_dmem::batch::{self, Batch, Operation};
use neuron_dmem::transfer::{ChunkPolicy, Path};
use neuron_dmem::{AllocRequest, DeviceMemory, Dmem, DmemError, Setup};
use neuron_ndl::HostBytes;
use neuron_ndl::software::Execution;
use sent::{Recorder, Sent, allocator, open, pattern, requests};
use vm_memory::VolatileSlice;

const INLINE: Execution = Execution::Inline;
const THREADED: Execution = Execution::Threaded { workers: 2 };
const NONE: u32 = u32::MAX;
const MIB: usize = 1 << 20;

fn recorded(instance: &str, setup: Setup) -> (Arc<Recorder>, Arc<DeviceMemory>) {
    let recorder = Arc::new(Recorder::default());
    let memory = open(instance, INLINE, Arc::clone(&recorder) as _, setup);
    (recorder, memory)
}

fn device_dmem(memory: &Arc<DeviceMemory>, size: usize) -> Dmem {
    allocator(memory, 0).allocate(&AllocRequest::device(size as u64, UsageType::Tensor)).unwrap()
}

/// §3, quirk "the dispatch order is asymmetric": a host allocation is copied directly on the
/// way in whatever the path, and on the way out without a bounce if that is the path.
#[test]
fn seed_000_dispatch_asks_for_host_first_on_the_way_in_and_for_the_path_first_on_the_way_out() {
    let (staged, direct, zero_copy) =
        (cmd::MEM_COPY_ASYNC64.word, cmd::MEM_BUF_COPY64.word, cmd::MEM_BUF_ZEROCOPY64.word);
    for (path, host, way_in, way_out) in [
        (Path::Staged, false, staged, staged),
        (Path::Staged, true, direct, direct),
        (Path::ZeroCopy { direct_write: 0x1000 }, false, zero_copy, zero_copy),
        (Path::ZeroCopy { direct_write: 0x1000 }, true, direct, zero_copy),
    ] {
        let (recorder, memory) = recorded("trn2.3xlarge", Setup::default().path(path));
        let request = match host {
            true => AllocRequest::host(8192, UsageType::Tensor),
            false => AllocRequest::device(8192, UsageType::Tensor),
        };
        let dmem = allocator(&memory, 1).allocate(&request).unwrap();
        recorder.take();
        let sent = pattern(8000, 1);
        dmem.write(0, &sent).unwrap();
        let words = |sent: &[Sent]| sent.iter().map(|sent| sent.word).collect::<Vec<_>>();
        assert_eq!(words(&recorder.take()), [way_in], "{path:?} host {host}");
        let mut back = vec![0; 8000];
        dmem.read(0, &mut back).unwrap();
        assert_eq!(words(&recorder.take()), [way_out], "{path:?} host {host}");
        assert_eq!(back, sent);
    }
}

/// §3: zero-copy in goes to queue -1 with the direct BAR4 write size, out to -1 with none. The
/// size is 4096 after V2, else 0 (`spec/ndl.md` 7).
#[test]
fn seed_000_zero_copy_takes_the_default_queue_and_the_window_only_on_the_way_in() {
    for (instance, threshold) in [("trn1.2xlarge", 0), ("trn2.3xlarge", 0x1000)] {
        let (recorder, memory) = recorded(instance, Setup::default());
        let path = Path::zero_copy(memory.device().facts().generation);
        assert_eq!(path, Path::ZeroCopy { direct_write: threshold }, "{instance}");
        drop(memory);
        let (direct, memory) = recorded(instance, Setup::default().path(path));
        let dmem = device_dmem(&memory, 4096);
        recorder.take();
        // Refused on V2, which is not the question here.
        let _written = dmem.write(4, &[1; 64]);
        let _read = dmem.read(8, &mut [0; 64]);
        let sent: Vec<MemBufCopy64Zc> = direct
            .take()
            .iter()
            .filter(|sent| sent.is(cmd::MEM_BUF_ZEROCOPY64))
            .map(Sent::argument)
            .collect();
        let seen: Vec<_> = sent
            .iter()
            .map(|sent| {
                (sent.is_copy_to_device, sent.offset, sent.size, sent.h2t_qid, sent.bar4_wr_threshold)
            })
            .collect();
        assert_eq!(seen, [(1, 4, 64, -1, threshold), (0, 8, 64, -1, 0)], "{instance}");
    }
}

/// §3, the chunk table, and `spec/dmem.md` 6.2: for each row the requests as they go out.
#[test]
fn seed_000_chunk_table_to_the_byte_on_the_way_in_and_out() {
    // Size, chunk, first wait handle, requests.
    let rows: [(usize, u64, u32, usize); 10] = [
        (0, 0x4000, 0, 0),
        (1, 0x4000, 0, 1),
        (0x3fff, 0x4000, 0, 1),
        (0x4000, 0x2000, NONE, 2),
        (0x4001, 0x2000, NONE, 3),
        (0xf_e001, 0x7_f000, NONE, 3),
        (0xf_ffff, 0x8_0000, NONE, 2),
        (0x10_0000, 0x8_0000, NONE, 2),
        (0x10_0001, 0x10_0000, NONE, 2),
        (0x50_0000, 0x10_0000, NONE, 5),
    ];
    let (recorder, memory) = recorded("trn1.2xlarge", Setup::default());
    let dmem = device_dmem(&memory, 6 * MIB);
    for (size, chunk, first, count) in rows {
        for out in [false, true] {
            recorder.take();
            let mut bytes = pattern(size, 5);
            let start = bytes.as_ptr() as u64;
            match out {
                false => dmem.write(100, &bytes).unwrap(),
                true => dmem.read(100, &mut bytes).unwrap(),
            }
            assert_eq!(bytes, pattern(size, 5), "{size:#x}");
            let sent = recorder.take();
            let requests = requests(&sent);
            assert_eq!(requests.len(), count, "{size:#x}");
            let mut previous = first;
            for (index, request) in requests.iter().enumerate() {
                let done = index as u64 * chunk;
                let (device, bounce) = match out {
                    false => (request.dst_offset, request.src_offset),
                    true => (request.src_offset, request.dst_offset),
                };
                assert_eq!(request.size, chunk.min(size as u64 - done), "{size:#x} request {index}");
                assert_eq!(device, 100 + done);
                assert_eq!(bounce, index as u64 % 2 * chunk, "the places take turns");
                assert_eq!(request.host_prefetch_addr, if out { start + done } else { 0 });
                assert_eq!(request.pwait_handle, previous);
                previous = match previous {
                    0 => 0,
                    1 => 2,
                    _ => 1,
                };
            }
            // Then one wait, named by the dmem twice, unless all was synchronous.
            let waits: Vec<MemCopyAsyncWait> = sent[count..].iter().map(Sent::argument).collect();
            let waits: Vec<_> = waits
                .iter()
                .map(|wait| (wait.src_mem_handle == wait.dst_mem_handle, wait.pwait_handle))
                .collect();
            let expected = if previous == 0 || count == 0 { vec![] } else { vec![(true, previous)] };
            assert_eq!(waits, expected, "{size:#x}");
        }
    }
}

/// §3, gotcha on the copy-out path: when a chunk cannot be started, the chunk **before** it is
/// saved, if its own copy ended well, and nothing of the failed one.
#[test]
fn seed_000_a_failed_copy_out_saves_the_previous_chunk_and_not_the_failed_one() {
    let (recorder, memory) = recorded("trn1.2xlarge", Setup::default());
    let dmem = device_dmem(&memory, 5 * MIB);
    let bytes = pattern(5 * MIB, 3);
    dmem.write(0, &bytes).unwrap();
    for failing in 0..5 {
        recorder.take();
        recorder.refuse_once(cmd::MEM_COPY_ASYNC64, failing, Errno::EIO);
        let mut back = vec![0xee; 5 * MIB];
        let error = dmem.read(0, &mut back).unwrap_err();
        assert_eq!(error.status(), NrtStatus::Failure);
        let text = error.to_string();
        assert!(text.contains("Copy from memory  to buffer failed"), "{text}");
        let DmemError::Transfer { done, source, .. } = error else { panic!("{error}") };
        assert!(source.to_string().contains("Failed to copy out dmem to buffer"), "{source}");
        let arrived = failing * MIB;
        assert_eq!(done, arrived as u64);
        assert!(back[..arrived] == bytes[..arrived], "chunk {failing}");
        assert!(back[arrived..].iter().all(|&byte| byte == 0xee), "nothing of chunk {failing} or later");
        // The wait for the one before, and none when there is none.
        let waits = recorder.take().iter().filter(|sent| sent.is(cmd::MEM_COPY_ASYNC_WAIT)).count();
        assert_eq!(waits, usize::from(failing > 0));
    }
}

/// §3, the same, when the wait fails too: nothing is saved, and no second wait is tried.
#[test]
fn seed_000_a_failed_wait_is_final_and_saves_nothing() {
    let (recorder, memory) = recorded("trn1.2xlarge", Setup::default());
    let dmem = device_dmem(&memory, 5 * MIB);
    let bytes = pattern(5 * MIB, 3);
    dmem.write(0, &bytes).unwrap();
    recorder.take();
    recorder.refuse_once(cmd::MEM_COPY_ASYNC64, 3, Errno::EIO);
    recorder.refuse_once(cmd::MEM_COPY_ASYNC_WAIT, 0, Errno::ETIMEDOUT);
    let mut back = vec![0xee; 5 * MIB];
    let error = dmem.read(0, &mut back).unwrap_err();
    let DmemError::Transfer { done, source, .. } = error else { panic!("{error}") };
    assert_eq!((done, source.errno), (2 << 20, Errno::EIO), "chunk 2 was staged and is not to be had");
    assert!(back[..2 * MIB] == bytes[..2 * MIB]);
    assert!(back[2 * MIB..].iter().all(|&byte| byte == 0xee));
    let waits = recorder.take().iter().filter(|sent| sent.is(cmd::MEM_COPY_ASYNC_WAIT)).count();
    assert_eq!(waits, 1);
}

/// §3, copy-in: the first failure leaves at once, after the request before it was waited for,
/// result ignored (`spec/dmem.md` 6.3, our choice).
#[test]
fn seed_000_a_failed_copy_in_waits_for_the_previous_request_before_it_lets_the_buffer_go() {
    let (recorder, memory) = recorded("trn1.2xlarge", Setup::default());
    let dmem = device_dmem(&memory, 5 * MIB);
    for failing in 0..5 {
        recorder.take();
        recorder.refuse_once(cmd::MEM_COPY_ASYNC64, failing, Errno::EIO);
        let error = dmem.write(0, &pattern(5 * MIB, 7)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("Copy from buffer to memory failed"), "{text}");
        let DmemError::Transfer { source, done, .. } = error else { panic!("{error}") };
        assert!(source.to_string().contains("Failed to copy in buffer to dmem"), "{source}");
        assert_eq!(
            done,
            failing.saturating_sub(1) as u64 * MIB as u64,
            "the last one started is not known of"
        );
        let sent = recorder.take();
        assert_eq!(sent.len(), failing + 1 + usize::from(failing > 0));
        assert_eq!(sent.last().unwrap().is(cmd::MEM_COPY_ASYNC_WAIT), failing > 0);
    }
    dmem.write(0, &pattern(5 * MIB, 7)).unwrap();
}

/// §1, §3: the bounce buffer is the core's, made when the device was opened: a dmem has none of
/// its own, and asking for it is no command.
#[test]
fn seed_000_all_dmems_of_a_core_share_its_bounce_buffer() {
    let (recorder, memory) = recorded("trn2.3xlarge", Setup::default());
    recorder.take();
    let cores = [0, 0, 3, 3].map(|core| {
        allocator(&memory, core).allocate(&AllocRequest::device(65536, UsageType::Tensor)).unwrap()
    });
    let allocated = recorder.take();
    assert_eq!(allocated.len(), 8, "memory and its address for each: {allocated:?}");
    let bounces = cores.each_ref().map(|dmem| {
        dmem.write(0, &[1; 65536]).unwrap();
        let sent = recorder.take();
        assert!(sent.iter().all(|sent| sent.is(cmd::MEM_COPY_ASYNC64) || sent.is(cmd::MEM_COPY_ASYNC_WAIT)));
        requests(&sent)[0].src_mem_handle
    });
    assert_eq!((bounces[0], bounces[2]), (bounces[1], bounces[3]));
    assert_ne!(bounces[0], bounces[2]);
}

/// §3: the buffer's lock is held for the whole transfer, so chains of requests on one core never
/// interleave, and threads that share it never see each other's bytes.
#[test]
fn seed_000_transfers_of_one_core_never_mix() {
    for (instance, policy) in [
        ("trn1.2xlarge", ChunkPolicy::Exact),
        ("trn2.3xlarge", ChunkPolicy::Exact),
        ("trn1.2xlarge", ChunkPolicy::Adaptive),
        ("trn2.3xlarge", ChunkPolicy::Serial),
    ] {
        let recorder = Arc::new(Recorder::default());
        let memory = open(instance, THREADED, Arc::clone(&recorder) as _, Setup::default().chunks(policy));
        let dmems: [Dmem; 4] = std::array::from_fn(|_| device_dmem(&memory, 3 * MIB));
        recorder.take();
        std::thread::scope(|scope| {
            for (seed, dmem) in (0_u8..).zip(&dmems) {
                scope.spawn(move || {
                    // Half the threads begin with a read, so that both directions meet.
                    let mut held = vec![0; 3 * MIB];
                    if seed % 2 == 0 {
                        dmem.write(0, &held).unwrap();
                    }
                    for (round, len) in (0..).zip([3 * MIB, 0x4001, 700_001, MIB, 0x3fff, 2 * MIB + 5]) {
                        let bytes = pattern(len, seed * 16 + round);
                        dmem.write(round.into(), &bytes[..len - usize::from(round)]).unwrap();
                        held[round.into()..len].copy_from_slice(&bytes[..len - usize::from(round)]);
                        let mut back = vec![0; len];
                        dmem.read(0, &mut back).unwrap();
                        assert!(round == 0 || back == held[..len], "{policy:?} thread {seed} round {round}");
                    }
                });
            }
        });
        let sent = recorder.take();
        let mut chains = HashMap::new();
        let mut owner = None;
        for sent in
            sent.iter().filter(|sent| sent.is(cmd::MEM_COPY_ASYNC64) || sent.is(cmd::MEM_COPY_ASYNC_WAIT))
        {
            let first = requests(std::slice::from_ref(sent)).first().map(|request| request.pwait_handle);
            match first {
                Some(NONE) => {
                    assert_eq!(owner, None, "{policy:?}: a chain begins in another");
                    owner = Some(sent.thread);
                    *chains.entry(sent.thread).or_insert(0) += 1;
                }
                Some(0) => assert_eq!(owner, None, "{policy:?}: a copy in another's chain"),
                Some(_) => assert_eq!(owner, Some(sent.thread), "{policy:?}"),
                None => assert_eq!(owner.take(), Some(sent.thread), "{policy:?}"),
            }
        }
        assert_eq!(owner, None);
        match policy {
            ChunkPolicy::Exact => assert_eq!(chains.len(), 4),
            ChunkPolicy::Serial => assert!(chains.is_empty()),
            // It goes by how fast this machine is.
            ChunkPolicy::Adaptive => {}
        }
    }
}

/// §3, the batch: all tensors' operations in one command, sequence 0, queue -1.
#[test]
fn seed_000_a_batch_is_one_command() {
    let (recorder, memory) = recorded("trn2.3xlarge", Setup::default());
    let dmems: Vec<Dmem> = (0..3).map(|_| device_dmem(&memory, 70_000)).collect();
    recorder.take();
    let bytes = pattern(70_000, 9);
    let operations: Vec<_> = [(0, 0..100), (104, 104..5000), (5000, 5000..70_000)]
        .map(|(offset, part)| Operation { offset, buffer: HostBytes::Plain(&bytes[part]) })
        .into();
    let batches: Vec<_> =
        dmems.iter().map(|dmem| Batch { dmem, offset: 0, operations: &operations }).collect();
    batch::copy_in(&batches).unwrap();
    let sent = recorder.take();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].is(cmd::MEM_BUF_ZEROCOPY64_BATCHES));
    let argument: MemBufCopy64ZcBatches = sent[0].argument();
    let seen = (argument.sequence_num, argument.num_batches, argument.is_copy_to_device, argument.h2t_qid);
    assert_eq!(seen, (0, 3, 1, -1));

    let mut back = vec![vec![0; 69_000]; 3];
    let operations: Vec<_> = back
        .iter_mut()
        .map(|back| [Operation { offset: 900, buffer: VolatileSlice::from(&mut back[..]) }])
        .collect();
    let batches: Vec<_> = dmems
        .iter()
        .zip(&operations)
        .map(|(dmem, operations)| Batch { dmem, offset: 100, operations: &operations[..] })
        .collect();
    batch::copy_out(&batches).unwrap();
    let sent = recorder.take();
    assert_eq!(sent.len(), 1);
    let argument: MemBufCopy64ZcBatches = sent[0].argument();
    assert_eq!((argument.num_batches, argument.is_copy_to_device), (3, 0));
    assert!(back.iter().all(|back| back[..] == bytes[1000..]));
}
