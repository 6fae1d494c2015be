//! What works on a machine in this process works on one in a server, whichever way the server
//! reaches this process's memory.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::{Duration, Instant};

use neuron_abi::errno::Errno;
use neuron_abi::memory::{Category, UsageType};
use neuron_dmem::{Allocator, AllocatorKind, DeviceMemory};
use neuron_ndl::{
    AllocRequest, Backend, Batch, BatchOperation, CompletionReader, Device, Direction, Lane, Memory,
    ZeroCopyOptions,
};
use neuron_serve::Options;
use vm_memory::VolatileSlice;

use crate::common::Served;

/// How long an end may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that reaches this process by the system's calls, and one that asks for every byte.
fn both_ways(instance: &str) -> [Served; 2] {
    [false, true]
        .map(|memory_by_socket| Served::with(instance, |options| Options { memory_by_socket, ..options }))
}

fn allocate(device: &Arc<Device>, size: u64, host: bool) -> Memory {
    let category = if host { Category::TensorsHost } else { Category::TensorsDevice };
    device.allocate(AllocRequest { size, align: 0, host, hbm: 0, core: 0, category }).unwrap()
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8 ^ (index >> 12) as u8 ^ seed).collect()
}

#[test]
fn a_server_says_what_it_has() {
    let served = Served::new("trn1.32xlarge");
    let remote = served.remote();
    assert_eq!((remote.instance(), remote.devices()), ("trn1.32xlarge", 16));
    assert_eq!(served.device(3).facts().index, 3);
    assert_eq!(remote.open(16, Lane::Full).err(), Some(Errno::ENOENT));
}

#[test]
fn bytes_go_there_and_back_by_every_copy_of_the_driver() {
    for served in both_ways("trn2.3xlarge") {
        let device = served.device(0);
        let memory = allocate(&device, 4 << 20, false);
        for (offset, len) in [(0, 1), (3, 4097), (4096, 65536), (777, 1_234_567)] {
            let sent = pattern(len, offset as u8);
            let mut back = vec![0; len];
            device.buffer_copy_in(&memory, offset, &sent).unwrap();
            device.buffer_copy_out(&memory, offset, &mut back).unwrap();
            assert!(back == sent, "buffer copy {offset} {len}");
            let sent = pattern(len, !offset as u8);
            device.zero_copy_in(&memory, offset, &sent, ZeroCopyOptions::default()).unwrap();
            let mut back = vec![0; len + 2];
            let into = VolatileSlice::from(&mut back[1..=len]);
            device.zero_copy(&memory, offset, into, Direction::Out, ZeroCopyOptions::default()).unwrap();
            assert!(back[1..=len] == sent, "zero copy {offset} {len}");
            assert_eq!((back[0], back[len + 1]), (0, 0), "the neighbours stay");
        }
        device.memset(&memory, 100, 5000, 0x5a).unwrap();
        let mut back = vec![0; 5002];
        device.buffer_copy_out(&memory, 99, &mut back).unwrap();
        assert!(back[1..=5000] == [0x5a; 5000] && back[0] != 0x5a && back[5001] != 0x5a);
    }
}

#[test]
fn the_allocator_loads_and_reads_back_over_a_server() {
    for served in both_ways("trn1.2xlarge") {
        let memory = DeviceMemory::new(served.device(0));
        let model = Allocator::new(&memory, AllocatorKind::Model, 1).unwrap();
        let weight = model.allocate(&neuron_dmem::AllocRequest::device(9 << 20, UsageType::Weight)).unwrap();
        let sent = pattern(9 << 20, 1);
        weight.write(0, &sent).unwrap();
        let mut back = vec![0; sent.len()];
        weight.read(0, &mut back).unwrap();
        assert!(back == sent);
        drop((weight, model, memory));
        assert!(served.left().is_empty(), "{:?}", served.left());
    }
}

#[test]
fn requests_end_in_the_completion_queue_with_their_bytes_there() {
    for served in both_ways("trn2.3xlarge") {
        let device = served.device(0);
        let memory = allocate(&device, 8 << 20, false);
        let mut reader = device.completion_queue(0, 0).unwrap();
        let wait = |reader: &mut CompletionReader| {
            let start = Instant::now();
            loop {
                if let Some(completion) = reader.poll() {
                    return completion;
                }
                assert!(start.elapsed() < PATIENCE, "no end was told");
                std::thread::yield_now();
            }
        };
        let mut sent = pattern(3 << 20, 9);
        let mut back = vec![0; sent.len()];
        for (sequence, bytes, direction) in [(1, &mut sent, Direction::In), (2, &mut back, Direction::Out)] {
            let part = VolatileSlice::from(&mut bytes[..]);
            let operations = [BatchOperation { offset: 0, buffer: part }];
            let batch = Batch { memory: &memory, offset: 100, operations: &operations, context: 7 };
            // SAFETY: the bytes stay until the end is told.
            unsafe { device.request_zero_copy(&[batch], direction, ZeroCopyOptions::default(), sequence) }
                .unwrap();
            let end = wait(&mut reader);
            assert_eq!((end.sequence, end.context, end.result), (sequence, 7, Ok(())));
        }
        assert!(back == sent);
    }
}

#[test]
fn mapped_memory_is_the_devices_and_is_kept_until_it_is_unmapped() {
    for served in both_ways("trn1.2xlarge") {
        let device = served.device(0);
        for host in [false, true] {
            let memory = allocate(&device, 1 << 20, host);
            let mapping = memory.map().unwrap();
            device.buffer_copy_in(&memory, 5000, b"from the driver").unwrap();
            let mut seen = [0; 15];
            mapping.slice().offset(5000).unwrap().copy_to(&mut seen);
            assert_eq!(&seen, b"from the driver");
            mapping.slice().offset(9000).unwrap().copy_from(&b"from the process"[..]);
            let mut seen = [0; 16];
            device.buffer_copy_out(&memory, 9000, &mut seen).unwrap();
            assert_eq!(&seen, b"from the process");

            let exported = device.export(&mapping, 4096, 8192).unwrap();
            let mut seen = [0; 15];
            let mut exported = std::fs::File::from(exported);
            exported.seek(SeekFrom::Current(904)).unwrap();
            exported.read_exact(&mut seen).unwrap();
            assert_eq!(&seen, b"from the driver");

            let pa = memory.pa();
            drop(memory);
            let next = allocate(&device, 1 << 20, host);
            assert_ne!(next.pa(), pa, "it is still mapped");
        }
    }
}
