//! The allocator on drivers of every age, through both backends: bytes arrive, and what a
//! driver cannot tell is missing from the report.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
use neuron_ndl::testing::{Age, OldDriver, kernel_over};
use neuron_ndl::{Backend, Device, software::Machine};

fn open(age: Age, through_kernel: bool) -> Arc<DeviceMemory> {
    let old = OldDriver::new(Machine::new("trn2.3xlarge").unwrap(), age);
    let backend: Box<dyn Backend> = if through_kernel { Box::new(kernel_over(old)) } else { Box::new(old) };
    DeviceMemory::new(Device::open(&*backend, 0).unwrap())
}

#[test]
fn bytes_go_there_and_back_whatever_the_driver_lacks() {
    for age in Age::ALL {
        for through_kernel in [false, true] {
            let memory = open(age, through_kernel);
            let allocator = Allocator::new(&memory, AllocatorKind::Model, 3).unwrap();
            // Around the thresholds of the chunk table: one piece, two, several.
            for size in [1_usize, 0x3fff, 0x4000, 0x10_0000, 0x10_0001, 5_000_003] {
                for request in [
                    AllocRequest::device(size as u64 + 9, UsageType::Tensor),
                    AllocRequest::host(size as u64 + 9, UsageType::Tensor),
                ] {
                    let dmem = allocator.allocate(&request).unwrap();
                    let sent: Vec<u8> =
                        (0..size).map(|index| (index % 253) as u8 ^ (index >> 14) as u8).collect();
                    dmem.write(7, &sent).unwrap();
                    let mut back = vec![0; size];
                    dmem.read(7, &mut back).unwrap();
                    assert!(back == sent, "{age:?} {size}");
                }
            }
        }
    }
}

#[test]
fn a_report_of_a_driver_that_lists_no_chunks_says_so() {
    for (age, listed) in [(Age::Before64Bit, true), (Age::BeforeChunkList, false)] {
        let memory = open(age, false);
        let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
        // In pieces that these drivers take, until the HBM is full.
        let request = AllocRequest::device(3 << 30, UsageType::Weight);
        let mut living = Vec::new();
        let error = loop {
            match allocator.allocate(&request) {
                Ok(dmem) => living.push(dmem),
                Err(error) => break error,
            }
        };
        assert_eq!(living.len(), 7, "{age:?}");
        let state = error.report().unwrap().hbm.as_ref().unwrap();
        assert_eq!((state.room.is_some(), !state.chunks.is_empty()), (listed, listed), "{age:?}");
        assert_eq!(error.to_string().contains("this driver cannot list what is left"), !listed, "{error}");
    }
}
