//! Seed 000 §1: handles, the allocator's list, usage types and categories.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::sync::Arc;

use common::{GIB, Watch, driver_bytes, open, warnings};
use neuron_abi::memory::{Category, UsageType};
use neuron_abi::status::NrtStatus;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, DmemError, Setup, Usage};
use neuron_ndl::Device;
use proptest::prelude::*;

fn allocator(memory: &Arc<DeviceMemory>, core: u32) -> Allocator {
    Allocator::new(memory, AllocatorKind::Model, core).unwrap()
}

fn weight(size: u64) -> AllocRequest<'static> {
    AllocRequest::device(size, UsageType::Weight)
}

/// Seed 000 §1, note on `dmem_allocator_create`: what it stores is the core, and the list is empty.
#[test]
fn seed_000_a_new_allocator_has_its_core_and_lists_nothing() {
    let memory = open("trn2.3xlarge");
    for (kind, core) in [(AllocatorKind::Global, 7), (AllocatorKind::Model, 0)] {
        let allocator = Allocator::new(&memory, kind, core).unwrap();
        assert_eq!((allocator.kind(), allocator.core(), allocator.live().len()), (kind, core, 0));
        assert!(Arc::ptr_eq(allocator.memory(), &memory));
    }
    let error = Allocator::new(&memory, AllocatorKind::Model, 8).unwrap_err();
    assert_eq!(error.status(), NrtStatus::Invalid);
}

/// Seed 000 §1: the two fields that every consumer reads are the driver's handle and the address
/// it gave; the rest of a handle says what was asked.
#[test]
fn seed_000_a_handle_says_what_was_asked_and_where_it_is() {
    let memory = open("trn2.3xlarge");
    let model = allocator(&memory, 5);
    let dmem = model.allocate(&weight(5000).on_hbm(3).hint("w")).unwrap();
    let chunk = memory.device().chunks(3).unwrap().into_iter().find(|chunk| chunk.pa == dmem.pa()).unwrap();
    assert_eq!((chunk.size, chunk.mem_type), (8192, Category::ConstantsDevice as u32));
    assert_eq!((dmem.size(), dmem.allocated_size(), dmem.align_offset()), (5000, 5000, 0));
    assert_eq!((dmem.core(), dmem.hbm(), dmem.is_host()), (5, 3, false));
    assert_eq!((dmem.usage(), dmem.hint()), (UsageType::Weight, Some("w")));
}

/// Seed 000 §1, gotcha: the driver counts by category and the counters by usage. All 22 usages at
/// both locations; three are refused on the host, before the driver is asked.
#[test]
fn seed_000_the_driver_gets_the_category_and_the_counters_go_by_usage() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let model = allocator(&memory, 1);
    let mut refused = Vec::new();
    for &usage in UsageType::ALL {
        let dmem = model.allocate(&AllocRequest::device(4096, usage)).unwrap();
        let [asked] = &watch.allocs()[..] else { panic!("one command") };
        assert_eq!((asked.category, asked.host, asked.core), (usage.device_category() as u32, 0, 1));
        for &other in UsageType::ALL {
            let expected = if other == usage { 4096 } else { 0 };
            assert_eq!(memory.usage().core_usage(1, other), expected, "{usage} counts as {other}");
        }
        drop(dmem);

        watch.take();
        match model.allocate(&AllocRequest::host(4096, usage)) {
            Ok(_) => {
                let [asked] = &watch.allocs()[..] else { panic!("one command") };
                assert_eq!(
                    (Some(asked.category), asked.host),
                    (usage.host_category().map(|it| it as u32), 1)
                );
            }
            Err(error) => {
                assert_eq!(
                    (error.status(), &error),
                    (NrtStatus::Invalid, &DmemError::UsageLocation { usage })
                );
                let text = format!("Invalid mem_usage_type {} for host", usage.raw());
                assert!(error.to_string().starts_with(&text), "{error}");
                assert!(watch.take().is_empty());
                refused.push(usage);
            }
        }
    }
    assert_eq!(refused, [UsageType::Scratchpad, UsageType::Cc, UsageType::ScratchpadNotShared]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Seed 000 §1: a new handle goes to the tail, and any one is taken out without touching the
    /// order of the others.
    #[test]
    fn seed_000_living_handles_are_listed_in_order_of_allocation(
        steps in prop::collection::vec((any::<bool>(), 0usize..16), 1..60),
    ) {
        let memory = open("trn1.2xlarge");
        let model = allocator(&memory, 0);
        let mut live: Vec<Dmem> = Vec::new();
        for (allocate, pick) in steps {
            if allocate || live.is_empty() {
                live.push(model.allocate(&weight(4096)).unwrap());
            } else {
                live.remove(pick % live.len());
            }
            let addresses = |dmems: &[Dmem]| dmems.iter().map(Dmem::pa).collect::<Vec<_>>();
            prop_assert_eq!(addresses(&model.live()), addresses(&live));
        }
    }
}

/// Seed 000 §1, gotcha: destroying an allocator unlinks what lives and frees none of it. It tells
/// what that is, and so does the device for as long as it lives.
#[test]
fn seed_000_a_destroyed_allocator_frees_nothing_and_tells_what_it_left() {
    let memory = open("trn2.3xlarge");
    let start = driver_bytes(&memory);
    let model = Allocator::labelled(&memory, AllocatorKind::Model, 2, "llama").unwrap();
    let weights: Vec<_> = (0..3).map(|_| model.allocate(&weight(GIB).hint("layers")).unwrap()).collect();
    let rings = [
        model.allocate(&AllocRequest::host(4096, UsageType::DmaRing).hint("ring")).unwrap(),
        model.allocate(&AllocRequest::device(8192, UsageType::DmaRing).on_hbm(3)).unwrap(),
    ];
    drop(model.allocate(&weight(4096)).unwrap());
    let loaded = driver_bytes(&memory);
    let usage = memory.usage();

    let mut left = None;
    assert_eq!(warnings(|| left = Some(model.destroy())), [""; 0], "the caller is told");
    let left = left.unwrap();
    assert_eq!((driver_bytes(&memory), memory.usage()), (loaded, usage));
    assert_eq!((left.handles, left.hbm, left.host), (5, [0, 3 * GIB, 0, 8192], 4096));
    assert_eq!(left.device_bytes(), 3 * GIB + 8192);
    assert_eq!((left.kind, left.core, &*left.label), (AllocatorKind::Model, 2, "llama"));
    assert_eq!(left.usage, [(UsageType::Weight, 3 * GIB), (UsageType::DmaRing, 8192 + 4096)]);
    let hints: Vec<_> =
        left.hints.biggest.iter().map(|hint| (hint.hint.as_deref(), hint.allocations)).collect();
    assert_eq!(hints, [(Some("layers"), 3), (None, 1), (Some("ring"), 1)]);
    let text = left.to_string();
    for part in [
        "model allocator \"llama\" of neuron0 core 2 left 5 handles",
        "3221225472 bytes on HBM 1",
        "\"layers\"",
    ] {
        assert!(text.contains(part), "{text}");
    }

    assert_eq!(memory.left_alive(), [left]);
    drop(rings);
    assert_eq!(memory.left_alive()[0].handles, 3);
    drop(weights);
    assert_eq!((memory.left_alive(), driver_bytes(&memory)), (vec![], start));
}

/// The same by mere dropping: that warns. A clean teardown says nothing.
#[test]
fn seed_000_an_allocator_that_is_dropped_before_its_handles_warns() {
    let memory = open("trn1.2xlarge");
    let clean = warnings(|| {
        let model = allocator(&memory, 0);
        drop(model.allocate(&weight(4096)).unwrap());
        drop(model);
    });
    assert_eq!((clean, memory.left_alive()), (vec![], vec![]));
    let mut kept = None;
    let warned = warnings(|| {
        let model = allocator(&memory, 0);
        kept = Some(model.allocate(&weight(4096).hint("forgotten")).unwrap());
        drop(model);
    });
    let [warning] = &warned[..] else { panic!("{warned:?}") };
    assert!(warning.contains("left 1 handle alive") && warning.contains("forgotten"), "{warning}");
    assert_eq!(memory.left_alive()[0].hbm, [4096, 0, 0, 0]);
}

/// Hints of what was left are bounded however many there are.
#[test]
fn what_was_left_names_the_biggest_hints_and_counts_the_others() {
    let memory = open("trn1.2xlarge");
    let model = allocator(&memory, 0);
    let _live: Vec<_> =
        (1..=25).map(|n| model.allocate(&weight(n * 4096).hint(&format!("w{n}"))).unwrap()).collect();
    let left = model.destroy();
    assert_eq!((left.handles, left.hints.biggest.len()), (25, 10));
    assert_eq!(left.hints.biggest[0].hint.as_deref(), Some("w25"));
    assert_eq!((left.hints.other_allocations, left.hints.other_bytes), (15, (1..=15).sum::<u64>() * 4096));
    assert!(left.to_string().contains("15 others"), "{left}");
}

/// Seed 000 §1, `spec/dmem.md` 8: a handle whose allocator is gone frees as any other.
#[test]
fn seed_000_a_handle_outlives_its_allocator() {
    let memory = open("trn1.2xlarge");
    let start = driver_bytes(&memory);
    let model = allocator(&memory, 0);
    let dmem = model.allocate(&weight(4096)).unwrap();
    drop(model);
    dmem.write(0, &[9; 4096]).unwrap();
    drop(dmem);
    assert_eq!((memory.usage(), driver_bytes(&memory)), (Usage::default(), start));
}

/// Seed 000 §1, `spec/dmem.md` 8: a second model's use outlives the first model. The bytes stay
/// those of the allocating core, usage and owner, and a report knows them without listing them.
#[test]
fn seed_000_a_reference_shared_with_another_model_outlives_the_first() {
    let memory = open("trn1.2xlarge");
    let first = Allocator::labelled(&memory, AllocatorKind::Model, 0, "first").unwrap();
    let second = Allocator::labelled(&memory, AllocatorKind::Model, 1, "second").unwrap();
    let dmem = first.allocate(&weight(GIB).hint("embeddings")).unwrap();
    dmem.write(0, &[5; 4096]).unwrap();
    let borrowed = dmem.clone();
    drop((dmem, first));

    assert_eq!(second.live().len(), 0, "sharing changes no list");
    let mut back = [0; 4096];
    borrowed.read(0, &mut back).unwrap();
    assert_eq!(back, [5; 4096]);
    assert_eq!((memory.usage().core_total(0), memory.usage().core_total(1)), (GIB, 0));
    let owners = memory.statistics().owners;
    let amounts: Vec<_> = owners.iter().map(|it| (&*it.owner.label, it.left, it.amount.current)).collect();
    assert_eq!(amounts, [("first", true, GIB), ("second", false, 0)]);
    let full = AllocRequest::device(16 * GIB, UsageType::Tensor).on_hbm(0);
    let error = second.allocate(&full).unwrap_err();
    let hints = &error.report().unwrap().hbm.as_ref().unwrap().hints;
    assert_eq!((hints.unlisted_bytes, hints.biggest.len()), (GIB, 0));

    drop(borrowed);
    assert_eq!((memory.usage(), memory.left_alive()), (Usage::default(), vec![]));
    assert_eq!(memory.statistics().owners[0].amount.current, 0);
}

/// The same on one device of several: what lives on one is not the other's.
#[test]
fn what_was_left_is_the_devices_it_is_on() {
    let machine = common::machine("trn1.2xlarge");
    let open = || DeviceMemory::new(Device::open(&machine, 0).unwrap());
    let (one, other) = (open(), open());
    let _left = allocator(&one, 0).allocate(&weight(4096)).unwrap();
    assert_eq!((one.left_alive().len(), other.left_alive().len()), (1, 0));
}
