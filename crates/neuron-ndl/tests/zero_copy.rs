//! Zero-copy by the typed calls, on a machine whose engines reach this process's own memory.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use neuron_abi::errno::Errno;
use neuron_abi::memory::Category;
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use neuron_ndl::{
    AllocRequest, Batch, BatchOperation, Completion, CompletionReader, Device, Direction, Memory,
    ZeroCopyOptions,
};
use vm_memory::VolatileSlice;

const THREADED: Execution = Execution::Threaded { workers: 2 };
/// How long an end may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(instance: &str, execution: Execution) -> Arc<Device> {
    let options = MachineOptions { execution, ..MachineOptions::default() };
    Device::open(&Machine::with_options(instance, options).unwrap(), 0).unwrap()
}

fn allocate(device: &Arc<Device>, size: u64, core: u32) -> Memory {
    let category = Category::TensorsDevice;
    device.allocate(AllocRequest { size, align: 0, host: false, hbm: 0, core, category }).unwrap()
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8 ^ (index >> 12) as u8 ^ seed).collect()
}

fn wait(reader: &mut CompletionReader) -> Completion {
    let start = Instant::now();
    loop {
        if let Some(completion) = reader.poll() {
            return completion;
        }
        assert!(start.elapsed() < PATIENCE, "no end was told");
        std::thread::yield_now();
    }
}

#[test]
fn odd_ranges_of_plain_memory_go_there_and_back() {
    for execution in [Execution::Inline, THREADED] {
        let device = open("trn2.3xlarge", execution);
        assert!(device.offers_zero_copy());
        let memory = allocate(&device, 8 << 20, 0);
        for (offset, len) in [(0, 1), (3, 4097), (4096, 65536), (777, 1_234_567), (11, (8 << 20) - 11)] {
            let sent = pattern(len, offset as u8);
            device.zero_copy_in(&memory, offset, &sent, ZeroCopyOptions::default()).unwrap();
            let mut back = vec![0; len + 2];
            let into = VolatileSlice::from(&mut back[1..=len]);
            device.zero_copy(&memory, offset, into, Direction::Out, ZeroCopyOptions::default()).unwrap();
            assert!(back[1..=len] == sent, "{execution:?} {offset} {len}");
            assert_eq!((back[0], back[len + 1]), (0, 0), "the neighbours stay");
        }
    }
}

#[test]
fn threads_on_one_core_and_on_two_do_not_disturb_each_other() {
    let device = open("trn2.3xlarge", THREADED);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let device = &device;
            scope.spawn(move || {
                let memory = allocate(device, 1 << 20, u32::from(thread / 2));
                for round in 0..20 {
                    let sent = pattern(1_000_003, thread * 50 + round);
                    device.zero_copy_in(&memory, 5, &sent, ZeroCopyOptions::default()).unwrap();
                    let mut back = vec![0; sent.len()];
                    let into = VolatileSlice::from(&mut back[..]);
                    device.zero_copy(&memory, 5, into, Direction::Out, ZeroCopyOptions::default()).unwrap();
                    assert!(back == sent);
                }
            });
        }
    });
}

#[test]
fn a_device_that_does_not_offer_it_answers_einval_but_takes_small_writes() {
    let device = open("trn1.2xlarge", Execution::Inline);
    assert!(!device.offers_zero_copy());
    let memory = allocate(&device, 8192, 0);
    let refused = device.zero_copy_in(&memory, 0, &[1; 64], ZeroCopyOptions::default()).unwrap_err();
    assert_eq!(refused.errno, Errno::EINVAL);
    let direct = ZeroCopyOptions { direct_write: 64, ..ZeroCopyOptions::default() };
    device.zero_copy_in(&memory, 0, &[7; 64], direct).unwrap();
    let mut back = [0; 64];
    device.buffer_copy_out(&memory, 0, &mut back).unwrap();
    assert_eq!(back, [7; 64]);
}

/// The buffer in pieces of an odd size, one behind the other in the allocation too.
fn operations(buffer: &mut [u8]) -> Vec<BatchOperation<'_>> {
    let pieces = (0..).step_by(300_001).zip(buffer.chunks_mut(300_001));
    pieces.map(|(offset, piece)| BatchOperation { offset, buffer: VolatileSlice::from(piece) }).collect()
}

#[test]
fn batches_and_requests_copy_many_pieces() {
    let device = open("trn2.3xlarge", THREADED);
    let memory = allocate(&device, 4 << 20, 0);
    let mut sent = pattern(3 << 20, 1);
    let operations = operations(&mut sent);
    let batch = Batch { memory: &memory, offset: 100, operations: &operations, context: 9 };
    device.zero_copy_batches(&[batch], Direction::In, ZeroCopyOptions::default()).unwrap();

    let mut back = vec![0; sent.len()];
    let mut reader = device.completion_queue(0, 0).unwrap();
    assert_eq!(reader.poll(), None);
    let operations = self::operations(&mut back);
    let batch = Batch { memory: &memory, offset: 100, operations: &operations, context: 9 };
    // SAFETY: `back` is not touched until the end was read below.
    unsafe { device.request_zero_copy(&[batch], Direction::Out, ZeroCopyOptions::default(), 42) }.unwrap();
    assert_eq!(wait(&mut reader), Completion { result: Ok(()), context: 9, sequence: 42 });
    assert!(back == pattern(3 << 20, 1));
    assert_eq!(reader.poll(), None);
}

#[test]
fn what_is_no_request_or_queue_is_refused() {
    let device = open("trn2.3xlarge", Execution::Inline);
    let memory = allocate(&device, 4096, 0);
    let mut bytes = [0; 16];
    let operations = [BatchOperation { offset: 0, buffer: VolatileSlice::from(&mut bytes[..]) }];
    let batch = Batch { memory: &memory, offset: 0, operations: &operations, context: 0 };
    // SAFETY: refused, so nothing uses the buffer.
    let unnumbered =
        unsafe { device.request_zero_copy(&[batch], Direction::In, ZeroCopyOptions::default(), 0) };
    assert_eq!(unnumbered.unwrap_err().errno, Errno::EINVAL);
    for (core, queue) in [(0, 1), (0, 16), (0, 200), (8, 0)] {
        assert_eq!(device.completion_queue(core, queue).unwrap_err().errno, Errno::EINVAL, "{core} {queue}");
    }
}
