//! The usage log behind the allocator: each allocation and each free once, whatever way it
//! takes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};
use neuron_dmem::log::{Action, Amount, LogFile, LogOptions};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, Setup, Usage};
use neuron_ndl::Device;
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use proptest::prelude::*;

fn memory(options: &LogOptions) -> Arc<DeviceMemory> {
    let machine = MachineOptions { execution: Execution::Inline, ..MachineOptions::default() };
    let machine = Machine::with_options("trn1.2xlarge", machine).unwrap();
    DeviceMemory::with(Device::open(&machine, 0).unwrap(), Setup::default().log(options.clone())).unwrap()
}

fn actions(memory: &DeviceMemory) -> Vec<(Action, u64)> {
    memory.log().events().iter().map(|event| (event.action, event.size)).collect()
}

#[test]
fn a_handle_is_logged_once_however_often_it_is_shared() {
    let memory = memory(&LogOptions::default());
    let allocator = Allocator::labelled(&memory, AllocatorKind::Model, 1, "m").unwrap();
    let dmem = allocator.allocate(&AllocRequest::device(5000, UsageType::Tensor).hint("t")).unwrap();
    let (pa, clones) = (dmem.pa(), [dmem.clone(), dmem.clone()]);
    drop(dmem);
    assert_eq!(actions(&memory), [(Action::Alloc, 5000)]);
    drop(clones);
    assert_eq!(actions(&memory), [(Action::Alloc, 5000), (Action::Free, 5000)]);
    let events = memory.log().events();
    for (event, total) in events.iter().zip([5000, 0]) {
        assert_eq!((event.pa, event.hbm, event.core, event.hbm_total), (pa, 1, 1, total));
        assert_eq!((event.location, event.usage), (MemLocation::Device, UsageType::Tensor));
        assert_eq!((event.charged, event.hint.as_deref()), (5000, Some("t")), "charged as asked for");
        let owner = event.owner.as_ref().unwrap();
        assert_eq!((owner.kind, owner.core, &*owner.label), (AllocatorKind::Model, 1, "m"));
    }
}

#[test]
fn what_was_refused_is_not_logged() {
    let memory = memory(&LogOptions::default());
    let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    for request in [
        AllocRequest::device(0, UsageType::Weight),
        AllocRequest::device(64 << 30, UsageType::Weight),
        AllocRequest::device(4096, UsageType::Weight).on_hbm(7),
        AllocRequest::host(4096, UsageType::Cc),
        AllocRequest::host(64 << 30, UsageType::Tensor),
    ] {
        allocator.allocate(&request).unwrap_err();
    }
    Allocator::new(&memory, AllocatorKind::Model, 2).unwrap_err();
    assert_eq!((memory.log().counts(), memory.statistics().device()), ((0, 0), Amount::default()));
    assert_eq!(memory.statistics().owners.len(), 1);
}

#[test]
fn peaks_stay_and_are_of_each_counter_itself() {
    let memory = memory(&LogOptions::default());
    let allocators = [0, 1].map(|core| Allocator::new(&memory, AllocatorKind::Model, core).unwrap());
    for (core, size) in [(0, 3000), (1, 2000), (0, 1000)] {
        let usage = if core == 0 { UsageType::Weight } else { UsageType::InstrPe };
        drop(allocators[core].allocate(&AllocRequest::device(size, usage)).unwrap());
    }
    let statistics = memory.statistics();
    let peaks =
        [statistics.device(), statistics.core(0), statistics.core(1), statistics.hbm(0), statistics.hbm(1)];
    assert_eq!(
        peaks.map(|amount| (amount.current, amount.peak)),
        [3000, 3000, 2000, 3000, 2000].map(|peak| (0, peak))
    );
    assert_eq!(statistics.category(Aggregate::ModelConstants).peak, 3000);
    assert_eq!(statistics.category(Aggregate::ModelCode).peak, 2000);
    assert_eq!(statistics.owners.iter().map(|owner| owner.amount.peak).collect::<Vec<_>>(), [3000, 2000]);
    assert_eq!(statistics.usage(), Usage::default());
}

#[test]
fn what_an_allocator_leaves_alive_is_still_its_owners() {
    let memory = memory(&LogOptions::default());
    let allocator = Allocator::labelled(&memory, AllocatorKind::Global, 0, "core 0").unwrap();
    let dmem = allocator.allocate(&AllocRequest::device(4096, UsageType::Notification)).unwrap();
    assert!(!memory.statistics().owners[0].left);
    drop(allocator);
    let owners = memory.statistics().owners;
    assert_eq!((owners[0].left, owners[0].amount.current), (true, 4096));
    drop(dmem);
    assert_eq!(memory.statistics().owners[0].amount, Amount { current: 0, peak: 4096 });
}

/// The ring of a log in memory is address space until events are written to it.
#[test]
fn an_unused_ring_takes_no_memory() {
    let resident = || -> u64 {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let before = resident();
    let logs: Vec<_> = (0..64)
        .map(|device| neuron_dmem::log::UsageLog::new(device, &LogOptions::default()).unwrap())
        .collect();
    // 64 rings of 64 MiB are 4 GiB; other tests of this process take some of what is allowed.
    assert!(logs.iter().all(|log| log.capacity() == 0x10_0000));
    let taken = resident().saturating_sub(before);
    assert!(taken < 256 << 20, "{taken}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn counters_in_a_file_are_those_of_the_handles_that_live(
        steps in prop::collection::vec((0u8..3, 1u64..3_000_000, 0u32..2, any::<bool>()), 1..80),
        capacity in prop::sample::select(vec![2u64, 9, 1000]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let memory = memory(&LogOptions::default().events(capacity).names(20).file(&path));
        let allocators = [0, 1].map(|core| Allocator::new(&memory, AllocatorKind::Model, core).unwrap());
        let mut live: Vec<Dmem> = Vec::new();
        for (kind, size, core, host) in steps {
            if kind == 0 && !live.is_empty() {
                live.swap_remove(size as usize % live.len());
                continue;
            }
            let hint = format!("{}", size % 30);
            let request = match host {
                true => AllocRequest::host(size, UsageType::Tensor),
                false => AllocRequest::device(size, UsageType::Tensor).hint(&hint),
            };
            live.push(allocators[core as usize].allocate(&request).unwrap());
        }
        let log = LogFile::open(&path).unwrap();
        let sum = |host: bool, core: u32| -> u64 {
            let of = live.iter().filter(|dmem| dmem.is_host() == host && dmem.core() == core);
            of.map(Dmem::size).sum()
        };
        let statistics = log.statistics();
        for core in 0..2 {
            prop_assert_eq!(statistics.core(core).current, sum(false, core));
            prop_assert_eq!(memory.usage().core_total(core), sum(false, core));
        }
        prop_assert_eq!(statistics.host().current, sum(true, 0) + sum(true, 1));
        prop_assert_eq!(statistics, memory.statistics());
        drop(live);
        prop_assert_eq!(LogFile::open(&path).unwrap().statistics().usage(), Usage::default());
    }
}
