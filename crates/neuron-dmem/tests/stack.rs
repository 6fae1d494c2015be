//! The allocator over the whole stack: ioctl bytes, driver, rings, engines, memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_abi::status::NrtStatus;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, DmemError, Usage};
use neuron_driver::hw::VirtualClock;
use neuron_ndl::Device;
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use proptest::prelude::*;

const INLINE: Execution = Execution::Inline;
const THREADED: Execution = Execution::Threaded { workers: 1 };

fn open(instance: &str, execution: Execution, fault: &str) -> Arc<DeviceMemory> {
    // Polls that would run out pass at once where the engine works in the doorbell.
    let options = MachineOptions { execution, faults: fault.parse().unwrap(), ..MachineOptions::default() };
    let options = match execution {
        Execution::Inline => MachineOptions { clock: Arc::new(VirtualClock::default()), ..options },
        Execution::Threaded { .. } => options,
    };
    let machine = Machine::with_options(instance, options).unwrap();
    DeviceMemory::new(Device::open(&machine, 0).unwrap())
}

/// Device and own host bytes, as the driver counts them.
fn driver_bytes(memory: &DeviceMemory) -> u64 {
    let device = memory.device();
    let hbms = 0..device.geometry().hbm.len() as u32;
    let on_device: u64 = hbms.flat_map(|hbm| device.chunks(hbm).unwrap()).map(|chunk| chunk.size).sum();
    on_device + device.processes().unwrap().iter().map(|app| app.host_mem_size).sum::<u64>()
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add((index >> 8) as u8) ^ seed).collect()
}

/// Sizes around every threshold of the chunk table, and a few more.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![
        0usize..300,
        0x3ff0usize..0x4020,
        0xf_fff0usize..0x10_0010,
        0x20_0000usize..0x20_0010,
        0usize..3_000_000,
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Write { offset: usize, len: usize, seed: u8 },
    Read { offset: usize, len: usize },
}

fn steps(size: usize) -> impl Strategy<Value = Vec<Step>> {
    let step =
        (any::<bool>(), 0..=size, length(), any::<u8>()).prop_map(move |(write, offset, len, seed)| {
            let len = len.min(size - offset);
            if write { Step::Write { offset, len, seed } } else { Step::Read { offset, len } }
        });
    prop::collection::vec(step, 1..12)
}

fn behaves_like_an_array(dmem: &Dmem, steps: &[Step]) {
    let size = dmem.size() as usize;
    let mut model = pattern(size, 0);
    dmem.write(0, &model).unwrap();
    for step in steps {
        match *step {
            Step::Write { offset, len, seed } => {
                let bytes = pattern(len, seed);
                dmem.write(offset as u64, &bytes).unwrap();
                model[offset..offset + len].copy_from_slice(&bytes);
            }
            Step::Read { offset, len } => {
                let mut bytes = vec![0xee; len];
                dmem.read(offset as u64, &mut bytes).unwrap();
                assert_eq!(bytes, model[offset..offset + len]);
            }
        }
    }
    let mut all = vec![0; size];
    dmem.read(0, &mut all).unwrap();
    assert!(all == model, "whole contents differ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_split_of_writes_and_reads_equals_a_byte_array(
        steps in steps(3_200_001),
        trn2: bool, threaded: bool, host: bool, core in 0u32..2,
    ) {
        let instance = if trn2 { "trn2.3xlarge" } else { "trn1.2xlarge" };
        let memory = open(instance, if threaded { THREADED } else { INLINE }, "");
        let allocator = Allocator::new(&memory, AllocatorKind::Model, core).unwrap();
        let request = match host {
            true => AllocRequest::host(3_200_001, UsageType::Tensor),
            false => AllocRequest::device(3_200_001, UsageType::Tensor),
        };
        behaves_like_an_array(&allocator.allocate(&request).unwrap(), &steps);
    }

    #[test]
    fn living_blocks_never_overlap_and_stay_in_their_pools(
        steps in prop::collection::vec((0u8..5, 1u64..6_000_000, 0u32..8, 0u32..21), 1..120),
    ) {
        let memory = open("trn2.3xlarge", INLINE, "");
        let start = driver_bytes(&memory);
        let geometry = memory.device().geometry();
        let allocators: Vec<_> =
            (0..8).map(|core| Allocator::new(&memory, AllocatorKind::Model, core).unwrap()).collect();
        let mut live: Vec<Dmem> = Vec::new();
        for (kind, size, core, align) in steps {
            if kind == 0 && !live.is_empty() {
                live.swap_remove(size as usize % live.len());
                continue;
            }
            // Small and large sizes, so that both pools are used.
            let size = if kind == 1 { size % 600_000 + 1 } else { size };
            let request = AllocRequest::device(size, UsageType::Tensor);
            let request = if kind == 2 { request.aligned(1 << align) } else { request };
            let dmem = allocators[core as usize].allocate(&request).unwrap();
            let end = dmem.pa() + size.next_multiple_of(4096);
            let range = geometry.hbm(dmem.hbm()).unwrap();
            let inside = [range.main_pool(), range.small_pool()]
                .iter()
                .any(|pool| pool.start <= dmem.pa() && end <= pool.end);
            prop_assert!(inside && dmem.pa() >= range.firmware_reserve().end);
            prop_assert!(kind != 2 || dmem.pa() % (1 << align) == 0);
            for other in &live {
                let other_end = other.pa() + other.size().next_multiple_of(4096);
                prop_assert!(end <= other.pa() || other_end <= dmem.pa());
            }
            live.push(dmem);
        }
        let charged: u64 = live.iter().map(Dmem::size).sum();
        let usage = memory.usage();
        prop_assert_eq!((0..4).map(|hbm| usage.channel(hbm)).sum::<u64>(), charged);
        prop_assert_eq!((0..8).map(|core| usage.core_total(core)).sum::<u64>(), charged);
        drop(live);
        prop_assert_eq!(memory.usage(), Usage::default());
        prop_assert_eq!(driver_bytes(&memory), start);
    }
}

#[test]
fn a_freed_block_is_used_again_lowest_address_first() {
    let memory = open("trn1.2xlarge", INLINE, "");
    let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let allocate = |size| allocator.allocate(&AllocRequest::device(size, UsageType::Weight)).unwrap();
    let (first, second) = (allocate(1 << 20), allocate(1 << 20));
    assert_eq!((first.pa(), second.pa()), (0x100_0000, 0x110_0000));
    drop(first);
    assert_eq!(allocate(600_000).pa(), 0x100_0000);
    assert_eq!(allocate(512 << 10).pa(), 0x3_c000_0000);
}

#[test]
fn a_full_device_names_what_is_left_in_each_pool() {
    let memory = open("trn1.2xlarge", INLINE, "");
    let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let _most = allocator.allocate(&AllocRequest::device(14 << 30, UsageType::Weight)).unwrap();
    let error = allocator.allocate(&AllocRequest::device(2 << 30, UsageType::Weight)).unwrap_err();
    assert_eq!(error.status(), NrtStatus::Resource);
    let DmemError::OutOfDeviceMemory(report) = &error else { panic!("{error}") };
    assert_eq!((report.request.hbm, report.request.size), (Some(0), 2 << 30));
    let room = report.hbm.as_ref().and_then(|state| state.room).unwrap();
    assert_eq!((room.main.left(), room.main.largest_hole), ((1 << 30) - (16 << 20), (1 << 30) - (16 << 20)));
    assert_eq!((room.small.left(), room.small.largest_hole), (1 << 30, 1 << 30));
}

#[test]
fn a_range_outside_the_allocation_is_refused_before_anything_moves() {
    let memory = open("trn1.2xlarge", INLINE, "");
    let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let dmem = allocator.allocate(&AllocRequest::device(100, UsageType::Weight)).unwrap();
    for (offset, len) in [(0, 101), (100, 1), (u64::MAX, 1), (101, 0)] {
        let error = dmem.write(offset, &vec![0; len]).unwrap_err();
        assert!(matches!(error, DmemError::OutOfBounds { size: 100, .. }), "{error}");
    }
    dmem.write(100, &[]).unwrap();
}

/// The device fills and copies by itself, and what is next to a range stays; also where memory begins
/// behind padding.
#[test]
fn a_range_is_filled_and_copied_by_the_device() {
    for instance in ["trn1.2xlarge", "trn2.3xlarge"] {
        let memory = open(instance, INLINE, "");
        let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
        let request = AllocRequest::device(300_000, UsageType::Weight);
        let source = allocator.allocate(&request).unwrap();
        let host = AllocRequest::host(300_000, UsageType::Tensor).aligned(8192);
        for destination in [allocator.allocate(&request).unwrap(), allocator.allocate(&host).unwrap()] {
            source.write(0, &pattern(300_000, 1)).unwrap();
            destination.fill(0, 300_000, 0).unwrap();
            destination.fill(3, 200_001, 0xfe).unwrap();
            destination.copy_from(100, &source, 7, 150_000).unwrap();
            let mut back = vec![9; 300_000];
            destination.read(0, &mut back).unwrap();
            let expected =
                [&[0; 3][..], &[0xfe; 97], &pattern(300_000, 1)[7..150_007], &[0xfe; 49_904], &[0; 99_996]];
            assert!(back == expected.concat(), "{instance}");
        }
    }
}

#[test]
fn what_a_device_cannot_fill_or_copy_is_refused() {
    let (memory, other) = (open("trn1.2xlarge", INLINE, ""), open("trn1.2xlarge", INLINE, ""));
    let dmem = |memory| {
        let allocator = Allocator::new(memory, AllocatorKind::Model, 0).unwrap();
        allocator.allocate(&AllocRequest::device(100, UsageType::Weight)).unwrap()
    };
    let (one, two, far) = (dmem(&memory), dmem(&memory), dmem(&other));
    two.fill(0, 100, 1).unwrap();
    for error in [
        one.fill(1, 100, 2),
        one.fill(u64::MAX, 2, 2),
        two.copy_from(1, &one, 0, 100),
        two.copy_from(0, &one, 1, 100),
        two.copy_from(0, &far, 0, 100),
    ] {
        assert_eq!(error.unwrap_err().status(), NrtStatus::Invalid);
    }
    let mut back = [0; 100];
    two.read(0, &mut back).unwrap();
    assert_eq!(back, [1; 100]);
    two.fill(100, 0, 2).and_then(|()| two.copy_from(100, &one, 100, 0)).unwrap();
}

/// A host block is asked of the machine in one piece: the 3.75 GiB it has do not serve 4.
#[test]
fn host_memory_that_cannot_be_had_is_its_own_status() {
    let memory = open("trn1.2xlarge", INLINE, "");
    let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let error = allocator.allocate(&AllocRequest::host(4 << 30, UsageType::Tensor)).unwrap_err();
    assert_eq!(error.status(), NrtStatus::FailHostMemAlloc);
}

/// 5 MiB is five chunks of 16 descriptors. The engine stops in the third, so two arrive.
#[test]
fn a_failed_read_keeps_the_chunks_before_the_failed_one() {
    let memory = open("trn1.2xlarge", INLINE, "");
    let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let dmem = allocator.allocate(&AllocRequest::device(5 << 20, UsageType::Weight)).unwrap();
    let bytes = pattern(5 << 20, 3);
    dmem.write(0, &bytes).unwrap();

    let broken = open("trn1.2xlarge", INLINE, "abort:nth=120");
    let allocator = Allocator::new(&broken, AllocatorKind::Model, 0).unwrap();
    let dmem = allocator.allocate(&AllocRequest::device(5 << 20, UsageType::Weight)).unwrap();
    dmem.write(0, &bytes).unwrap();
    let mut back = vec![0; 5 << 20];
    let error = dmem.read(0, &mut back).unwrap_err();
    let DmemError::Transfer { done, .. } = error else { panic!("{error}") };
    assert_eq!(done, 2 << 20);
    assert!(back[..2 << 20] == bytes[..2 << 20]);

    // The ring was programmed anew: the next copy works.
    dmem.read(0, &mut back).unwrap();
    assert!(back == bytes);
}

#[test]
fn a_failed_write_says_how_far_it_came_and_the_next_one_works() {
    let memory = open("trn2.3xlarge", INLINE, "abort:nth=40");
    let allocator = Allocator::new(&memory, AllocatorKind::Model, 3).unwrap();
    let dmem = allocator.allocate(&AllocRequest::device(5 << 20, UsageType::Weight).hint("w3")).unwrap();
    let bytes = pattern(5 << 20, 9);
    let error = dmem.write(0, &bytes).unwrap_err();
    assert_eq!(error.status(), NrtStatus::Failure);
    let DmemError::Transfer { done, hint, .. } = &error else { panic!("{error}") };
    assert_eq!((*done, hint.as_str()), (2 << 20, "w3"));
    behaves_like_an_array(&dmem, &[]);
}

/// Two threads share a core's bounce buffer; each must see only its own bytes.
#[test]
fn copies_of_one_core_never_mix() {
    let memory = open("trn1.2xlarge", THREADED, "");
    let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let dmem = allocator.allocate(&AllocRequest::device(3 << 20, UsageType::Weight)).unwrap();
            scope.spawn(move || {
                for round in 0..4 {
                    let bytes = pattern(3 << 20, seed * 16 + round);
                    dmem.write(0, &bytes).unwrap();
                    let mut back = vec![0; 3 << 20];
                    dmem.read(0, &mut back).unwrap();
                    assert!(back == bytes);
                }
            });
        }
    });
    assert_eq!(memory.usage(), Usage::default());
}

#[test]
fn a_mapping_shows_what_was_written_and_is_made_once() {
    let memory = open("trn1.2xlarge", INLINE, "");
    let allocator = Allocator::new(&memory, AllocatorKind::Model, 1).unwrap();
    for request in
        [AllocRequest::device(5000, UsageType::Tensor), AllocRequest::host(5000, UsageType::Tensor)]
    {
        let dmem = allocator.allocate(&request).unwrap();
        dmem.write(1000, &[0x77; 50]).unwrap();
        let mapped = dmem.map().unwrap();
        let mut bytes = [0_u8; 50];
        mapped.subslice(1000, 50).unwrap().copy_to(&mut bytes);
        assert_eq!(bytes, [0x77; 50]);
        mapped.subslice(1010, 1).unwrap().copy_from(&[1_u8]);
        let mut back = [0; 1];
        dmem.read(1010, &mut back).unwrap();
        assert_eq!(back, [1]);
        assert_eq!(dmem.map().unwrap().ptr_guard().as_ptr(), mapped.ptr_guard().as_ptr());
    }
}
