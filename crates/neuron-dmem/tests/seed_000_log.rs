//! Seed 000 §5: counters and events behind the allocator. What needs no allocator is tested in
//! `src/log/tests/model.rs`, under the same prefix.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use common::{driver_bytes, machine, open};
use neuron_abi::memory::{MemLocation, UsageType};
use neuron_dmem::log::{Action, LogOptions};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, CHANNELS, CORES, DeviceMemory, Setup, Usage};
use neuron_ndl::Device;

/// Seed 000 §5, quirk: rows of 23, the last one the core's total. Of every core and usage one
/// allocation of its own size: none is counted anywhere else.
#[test]
fn seed_000_a_row_has_22_usages_and_a_total_of_its_own() {
    assert_eq!((CORES, UsageType::COUNT, CHANNELS), (8, 22, 4));
    let memory = open("trn2.3xlarge");
    let size = |core: u32, usage: UsageType| 1 + u64::from(core) * 1000 + usage.index() as u64;
    let mut live = Vec::new();
    for core in 0..8 {
        let model = Allocator::new(&memory, AllocatorKind::Model, core).unwrap();
        for &usage in UsageType::ALL {
            live.push(model.allocate(&AllocRequest::device(size(core, usage), usage)).unwrap());
        }
    }
    let usage = memory.usage();
    for core in 0..8 {
        for &kind in UsageType::ALL {
            assert_eq!(usage.core_usage(core, kind), size(core, kind), "core {core}, {kind}");
        }
        let total: u64 = UsageType::ALL.iter().map(|&kind| size(core, kind)).sum();
        assert_eq!(usage.core_total(core), total);
    }
    for hbm in 0..4 {
        assert_eq!(usage.channel(hbm), usage.core_total(2 * hbm) + usage.core_total(2 * hbm + 1));
    }
    assert_eq!((usage.core_total(8), usage.channel(4)), (0, 0));
    drop(live);
    assert_eq!(memory.usage(), Usage::default());
}

/// Seed 000 §5: host memory is logged and moves none of the device's counters.
#[test]
fn seed_000_host_memory_moves_no_counter() {
    let memory = open("trn1.2xlarge");
    let model = Allocator::new(&memory, AllocatorKind::Model, 1).unwrap();
    for &usage in UsageType::ALL.iter().filter(|usage| usage.host_category().is_some()) {
        drop(model.allocate(&AllocRequest::host(4096, usage).hint("h")).unwrap());
    }
    assert_eq!((memory.usage(), memory.statistics().device().peak), (Usage::default(), 0));
    let events = memory.log().events();
    assert_eq!(events.len(), 2 * 19);
    assert!(events.iter().all(|it| it.location == MemLocation::Host && it.hbm_total == 0));
}

/// Seed 000 §5: the total of an event is that of its HBM, after the event.
#[test]
fn seed_000_events_have_the_hbms_total_after_them() {
    let memory = open("trn2.3xlarge");
    let cores = [0, 1, 2].map(|core| Allocator::new(&memory, AllocatorKind::Model, core).unwrap());
    let allocate =
        |core: usize, size| cores[core].allocate(&AllocRequest::device(size, UsageType::Io)).unwrap();
    let (first, second, _third) = (allocate(0, 100), allocate(1, 50), allocate(2, 7));
    drop(first);
    drop(second);
    let totals: Vec<_> =
        memory.log().events().iter().map(|it| (it.action, it.hbm, it.core, it.hbm_total)).collect();
    let (alloc, free) = (Action::Alloc, Action::Free);
    assert_eq!(
        totals,
        [(alloc, 0, 0, 100), (alloc, 0, 1, 150), (alloc, 1, 2, 7), (free, 0, 0, 50), (free, 0, 1, 0)]
    );
}

/// Seed 000 §5: a full ring overwrites the oldest and counts it; hints that were freed long ago
/// are whole, and so are the counters.
#[test]
fn seed_000_a_full_ring_keeps_the_newest_with_their_hints() {
    for capacity in [0, 3] {
        let setup = Setup::default().log(LogOptions::default().events(capacity));
        let memory = DeviceMemory::with(Device::open(&machine("trn1.2xlarge"), 0).unwrap(), setup).unwrap();
        let start = driver_bytes(&memory);
        let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
        for n in 1..=10_u64 {
            let hint = format!("weight {n}");
            drop(model.allocate(&AllocRequest::device(n, UsageType::Weight).hint(&hint)).unwrap());
        }
        let kept = model.allocate(&AllocRequest::device(11, UsageType::Weight).hint("kept")).unwrap();
        let (events, counts) = (memory.log().events(), memory.log().counts());
        let newest: Vec<_> =
            events.iter().map(|it| (it.action, it.size, it.hint.as_deref().unwrap())).collect();
        let (alloc, free) = (Action::Alloc, Action::Free);
        let expected = [(alloc, 10, "weight 10"), (free, 10, "weight 10"), (alloc, 11, "kept")];
        match capacity {
            0 => assert_eq!((newest, counts), (vec![], (21, 0))),
            _ => assert_eq!((newest, counts), (expected.to_vec(), (21, 18))),
        }
        assert_eq!((memory.usage().channel(0), memory.statistics().device().peak), (11, 11));
        drop(kept);
        assert_eq!((memory.usage(), driver_bytes(&memory)), (Usage::default(), start));
    }
}
