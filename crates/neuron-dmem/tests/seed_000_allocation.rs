//! Seed 000 §2: from a request to memory, aligned memory, and all the ways in which it fails.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::sync::Arc;

use common::{Alloc, GIB, MIB, Watch, driver_bytes, open, pattern, u64_at, warnings};
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::memory::{MemLocation, UsageType};
use neuron_abi::status::NrtStatus;
use neuron_dmem::batch::{self, Batch, Operation};
use neuron_dmem::transfer::Path;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, DmemError, Setup, Usage};
use neuron_ndl::testing::{Age, OldDriver};
use neuron_ndl::{Device, HostBytes};
use proptest::prelude::*;
use vm_memory::VolatileSlice;

fn model(memory: &Arc<DeviceMemory>) -> Allocator {
    Allocator::new(memory, AllocatorKind::Model, 0).unwrap()
}

fn tensor(size: u64) -> AllocRequest<'static> {
    AllocRequest::device(size, UsageType::Tensor)
}

fn host(size: u64) -> AllocRequest<'static> {
    AllocRequest::host(size, UsageType::Tensor)
}

/// What failed left nothing: no memory, no counter, no event, no listing.
fn nothing_stays(memory: &DeviceMemory, allocator: &Allocator, start: u64) {
    assert_eq!(driver_bytes(memory), start);
    assert_eq!((memory.usage(), memory.log().counts()), (Usage::default(), (0, 0)));
    assert_eq!(allocator.live().len(), 0);
}

/// Seed 000 §2, note: `host_memory` follows from the location, the region is always 0, and the
/// bounce buffer is no command. Two commands, and a third to free.
#[test]
fn seed_000_an_allocation_is_two_commands_and_a_free_is_one() {
    let watch = Watch::on("trn2.3xlarge");
    let memory = watch.open(Setup::default());
    let model = Allocator::new(&memory, AllocatorKind::Model, 5).unwrap();
    for (request, host, hbm, category) in
        [(tensor(5000), 0, 2, 9), (tensor(5000).on_hbm(1), 0, 1, 9), (host(5000).on_hbm(1), 1, 0, 2)]
    {
        let dmem = model.allocate(&request).unwrap();
        let words: Vec<_> = watch.take().into_iter().collect();
        let [(alloc, argument), (get_pa, _)] = &words[..] else { panic!("{words:?}") };
        assert_eq!((*alloc, *get_pa), (cmd::MEM_ALLOC_V2MT64.word, cmd::MEM_GET_PA.word));
        assert_eq!(u64_at(argument, 0), 5000, "as asked for: rounding is the driver's");
        drop(dmem);
        let words: Vec<_> = watch.take().into_iter().map(|(word, _)| word).collect();
        assert_eq!(words, [cmd::MEM_FREE.word]);
        model.allocate(&request).unwrap();
        let asked = Alloc { size: 5000, align: 0, host, hbm, region: 0, core: 5, category };
        assert_eq!(watch.allocs(), [asked]);
    }
}

/// Seed 000 §2, gotcha: the bounce buffers are the device's, one per core; handles have none.
#[test]
fn seed_000_handles_share_the_bounce_buffers_of_the_device() {
    let memory = open("trn1.2xlarge");
    let host_bytes = || memory.device().processes().unwrap().iter().map(|app| app.host_mem_size).sum::<u64>();
    let before = host_bytes();
    assert_eq!(before, 8 * 2 * MIB);
    let model = model(&memory);
    let live: Vec<_> = (0..100).map(|_| model.allocate(&tensor(4096)).unwrap()).collect();
    live.iter().for_each(|dmem| dmem.write(0, &[1; 4096]).unwrap());
    assert_eq!(host_bytes(), before);
}

/// Seed 000 §2: ENOMEM is one of two statuses, with a report; every other errno is NRT_FAILURE.
#[test]
fn seed_000_only_enomem_is_told_apart_and_by_location() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let (start, model) = (driver_bytes(&memory), model(&memory));
    for errno in [Errno::ENOMEM, Errno::EINVAL, Errno::EPERM, Errno::EIO, Errno::EAGAIN] {
        watch.refuse(move |_, word, _| (word == cmd::MEM_ALLOC_V2MT64.word).then_some(errno));
        for (request, no_room, location) in [
            (tensor(4096).hint("t"), NrtStatus::Resource, MemLocation::Device),
            (host(4096).hint("t"), NrtStatus::FailHostMemAlloc, MemLocation::Host),
        ] {
            let error = model.allocate(&request).unwrap_err();
            let expected = if errno == Errno::ENOMEM { no_room } else { NrtStatus::Failure };
            assert_eq!(error.status(), expected, "{errno}");
            let report = error.report().map(|report| (report.request.size, report.request.location));
            assert_eq!(report, (errno == Errno::ENOMEM).then_some((4096, location)));
        }
    }
    nothing_stays(&memory, &model, start);
}

/// Seed 000 §2, `spec/dmem.md` 9.10: memory without a physical address goes back, as
/// NRT_RESOURCE and without a report, whatever errno says so.
#[test]
fn seed_000_memory_without_an_address_goes_back() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let (start, model) = (driver_bytes(&memory), model(&memory));
    for errno in [Errno::EINVAL, Errno::ENOMEM] {
        watch.refuse(move |_, word, _| (word == cmd::MEM_GET_PA.word).then_some(errno));
        for request in [tensor(4096), host(4096), tensor(4096).aligned(1 << 16), host(4096).aligned(1 << 16)]
        {
            watch.take();
            let error = model.allocate(&request).unwrap_err();
            assert_eq!((error.status(), error.report()), (NrtStatus::Resource, None));
            assert!(error.to_string().starts_with("Failed to get the phys address"), "{error}");
            let words: Vec<_> = watch.take().into_iter().map(|(word, _)| word).collect();
            assert_eq!(words, [cmd::MEM_ALLOC_V2MT64, cmd::MEM_GET_PA, cmd::MEM_FREE].map(|it| it.word));
        }
    }
    assert!(memory.driver_aligns(), "NRT_RESOURCE is no refusal of an alignment");
    nothing_stays(&memory, &model, start);
}

/// `spec/dmem.md` 9.13: the driver would answer 0 bytes with ENOMEM. And an alignment that is no
/// power of two, or that leaves no room for the size, is refused before it is asked as well.
#[test]
fn what_no_driver_need_be_asked_is_not_asked() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let (start, model) = (driver_bytes(&memory), model(&memory));
    watch.take();
    let invalid = [
        (tensor(0), DmemError::ZeroSize),
        (host(0), DmemError::ZeroSize),
        (tensor(0).aligned(4096), DmemError::ZeroSize),
        (tensor(4096).aligned(12288), DmemError::Alignment { align: 12288 }),
        (host(4096).aligned(3), DmemError::Alignment { align: 3 }),
        (tensor(4096).aligned(u64::MAX), DmemError::Alignment { align: u64::MAX }),
        (tensor(u64::MAX).aligned(4096), DmemError::AlignedSize { size: u64::MAX, align: 4096 }),
        (host(u64::MAX - 5).aligned(8), DmemError::AlignedSize { size: u64::MAX - 5, align: 8 }),
    ];
    for (request, expected) in invalid {
        let error = model.allocate(&request).unwrap_err();
        assert_eq!((error.status(), &error), (NrtStatus::Invalid, &expected));
        assert!(!error.to_string().is_empty());
    }
    assert!(watch.take().is_empty() && memory.driver_aligns());
    nothing_stays(&memory, &model, start);
}

/// Seed 000 §2: a driver that aligns is asked to, and nothing is added.
#[test]
fn seed_000_a_driver_that_aligns_is_asked_to() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let model = model(&memory);
    let _off = model.allocate(&tensor(MIB + 4096)).unwrap();
    watch.take();
    let mut dmem = None;
    let warned = warnings(|| dmem = Some(model.allocate(&tensor(3 * MIB).aligned(4 * MIB)).unwrap()));
    let dmem = dmem.unwrap();
    assert_eq!((warned, memory.driver_aligns()), (vec![], true));
    assert_eq!((dmem.pa() % (4 * MIB), dmem.align_offset(), dmem.allocated_size()), (0, 0, 3 * MIB));
    let asked: Vec<_> = watch.allocs().iter().map(|it| (it.size, it.align)).collect();
    assert_eq!(asked, [(3 * MIB, 4 * MIB)]);
}

/// Seed 000 §2: the first NRT_FAILURE turns the latch off with one warning; from then on the
/// driver is not asked to align, and as many bytes more are allocated.
#[test]
fn seed_000_a_driver_that_cannot_align_is_asked_once() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    watch.cannot_align();
    let (start, model) = (driver_bytes(&memory), model(&memory));
    // So that the next block is not aligned by chance.
    let odd = model.allocate(&tensor(MIB + 4096)).unwrap();
    watch.take();
    let mut live = Vec::new();
    let warned = warnings(|| {
        for _ in 0..3 {
            live.push(model.allocate(&tensor(3 * MIB).aligned(MIB).hint("a")).unwrap());
        }
    });
    let [warning] = &warned[..] else { panic!("{warned:?}") };
    let text = "(Non-FATAL) aligned memory allocation API not available in driver. Please consider \
                upgrading driver for more efficient memory allocation.";
    assert!(warning.contains(text), "{warning}");
    assert!(!memory.driver_aligns());
    let asked: Vec<_> = watch.allocs().iter().map(|it| (it.size, it.align)).collect();
    assert_eq!(asked, [(3 * MIB, MIB), (4 * MIB, 0), (4 * MIB, 0), (4 * MIB, 0)]);

    for dmem in &live {
        assert_eq!((dmem.pa() % MIB, dmem.size(), dmem.allocated_size()), (0, 3 * MIB, 4 * MIB));
        assert_eq!(dmem.align_offset(), MIB - 4096, "behind the odd block");
    }
    // The counters, the log and a report charge what the driver was asked for.
    assert_eq!(memory.usage().core_usage(0, UsageType::Tensor), 13 * MIB + 4096);
    let event = memory.log().events().pop().unwrap();
    assert_eq!((event.size, event.charged, event.align_offset), (3 * MIB, 4 * MIB, MIB - 4096));
    assert_eq!(event.pa, live[2].pa() - live[2].align_offset());
    let report = model.allocate(&tensor(16 * GIB).aligned(MIB).hint("big")).unwrap_err();
    let report = report.report().unwrap();
    assert_eq!((report.request.size, report.request.align), (16 * GIB + MIB, 0), "as the driver was asked");
    let hints = &report.hbm.as_ref().unwrap().hints;
    assert_eq!((hints.biggest[0].bytes, hints.unlisted_bytes), (12 * MIB, 0));

    drop((live, odd));
    assert_eq!((memory.usage(), driver_bytes(&memory)), (Usage::default(), start));
    assert_eq!(memory.statistics().device().peak, 13 * MIB + 4096);
}

/// Seed 000 §2: any status but NRT_FAILURE is returned as it is: the driver understood.
#[test]
fn seed_000_an_aligned_request_without_room_keeps_the_latch() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let model = model(&memory);
    watch.take();
    let error = model.allocate(&tensor(16 * GIB).aligned(MIB)).unwrap_err();
    assert_eq!(error.status(), NrtStatus::Resource);
    assert_eq!(
        error.report().map(|report| (report.request.size, report.request.align)),
        Some((16 * GIB, MIB))
    );
    assert_eq!((watch.allocs().len(), memory.driver_aligns()), (1, true));
}

/// Our choice: the latch is each device's own.
#[test]
fn one_device_that_cannot_align_says_nothing_of_another() {
    let (old, new) = (Watch::on("trn1.2xlarge"), Watch::on("trn1.2xlarge"));
    let memories = [&old, &new].map(|watch| watch.open(Setup::default()));
    old.cannot_align();
    for memory in &memories {
        model(memory).allocate(&tensor(4096).aligned(1 << 16)).unwrap();
    }
    assert_eq!([0, 1].map(|device: usize| memories[device].driver_aligns()), [false, true]);
}

/// `spec/dmem.md` 5.1: drivers refuse aligned host memory, so it is padded at once, and the
/// device's latch stays.
#[test]
fn seed_000_aligned_host_memory_is_padded_and_leaves_the_latch() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let model = model(&memory);
    watch.take();
    let mut dmem = None;
    let warned = warnings(|| dmem = Some(model.allocate(&host(5000).aligned(1 << 16)).unwrap()));
    let dmem = dmem.unwrap();
    assert_eq!((warned, memory.driver_aligns()), (vec![], true));
    let asked: Vec<_> = watch.allocs().iter().map(|it| (it.size, it.align, it.host)).collect();
    assert_eq!(asked, [(5000 + (1 << 16), 0, 1)]);
    assert_eq!((dmem.pa() % (1 << 16), dmem.size(), dmem.allocated_size()), (0, 5000, 5000 + (1 << 16)));
    let statistics = memory.statistics();
    assert_eq!((statistics.host().current, statistics.device().current), (5000 + (1 << 16), 0));
    holds_its_bytes(&memory, &dmem);
    let _ = model.allocate(&tensor(4096).aligned(1 << 16)).unwrap();
    assert_eq!(watch.allocs().last().map(|it| it.align), Some(1 << 16));
}

/// Seed 000 §2: an address that is aligned already is moved by the whole alignment all the same,
/// and the block is long enough for it.
#[test]
fn seed_000_an_aligned_address_is_moved_by_a_whole_alignment() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    watch.cannot_align();
    let model = model(&memory);
    let dmem = model.allocate(&tensor(3 * MIB).aligned(MIB)).unwrap();
    assert_eq!(dmem.align_offset(), MIB, "the main pool begins on a MiB");
    holds_its_bytes(&memory, &dmem);
}

/// Seed 000 §2, over the real widths of the commands (`spec/ndl.md` 3.2): on a driver that knows
/// nothing newer than the oldest allocation, padding; on all others the driver aligns.
#[test]
fn seed_000_drivers_of_every_age_give_aligned_memory() {
    for age in Age::ALL {
        let old = OldDriver::new(common::machine("trn2.3xlarge"), age);
        let memory = DeviceMemory::new(Device::open(&old, 0).unwrap());
        let model = model(&memory);
        let _odd = model.allocate(&tensor(MIB + 4096)).unwrap();
        for request in [tensor(3 * MIB), host(3 * MIB)] {
            let dmem = model.allocate(&request.aligned(MIB)).unwrap();
            assert_eq!(dmem.pa() % MIB, 0, "{age:?}");
            holds_its_bytes(&memory, &dmem);
        }
        assert_eq!(memory.driver_aligns(), age != Age::BeforeAlignment, "{age:?}");
    }
}

/// Budgets charge what the driver is asked for: padding too. What was taken for a request that
/// could not be aligned goes back before the padded one is tried.
#[test]
fn a_budget_is_charged_for_padding_and_only_once() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    watch.cannot_align();
    let model = model(&memory);
    let in_use = || memory.budgets().get(model.budget()).in_use;
    memory.budgets().limit(model.budget(), Some(4 * MIB)).unwrap();
    let dmem = model.allocate(&tensor(3 * MIB).aligned(MIB)).unwrap();
    assert_eq!((in_use(), dmem.allocated_size()), (4 * MIB, 4 * MIB));
    drop(dmem);
    let error = model.allocate(&tensor(3 * MIB + 1).aligned(MIB)).unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!((error.status(), refusal.request.size), (NrtStatus::Resource, 4 * MIB + 1));
    assert_eq!(in_use(), 0);
}

/// Seed 000 §3, note: a batch too goes to `align_offset` and the tensor's offset, by one call of
/// the driver or piece by piece.
#[test]
fn seed_000_batches_of_padded_handles_begin_at_their_first_byte() {
    for instance in ["trn2.3xlarge", "trn1.2xlarge"] {
        let watch = Watch::on(instance);
        let memory = watch.open(Setup::default());
        watch.cannot_align();
        let model = model(&memory);
        let dmems = [70_000, 9000].map(|size| model.allocate(&tensor(size).aligned(1 << 16)).unwrap());
        let bytes = [pattern(60_000, 1), pattern(500, 2)];
        let sent = [0, 1].map(|at: usize| [Operation { offset: 100, buffer: HostBytes::Plain(&bytes[at]) }]);
        let to = [0, 1].map(|at: usize| Batch { dmem: &dmems[at], offset: 7, operations: &sent[at] });
        batch::copy_in(&to).unwrap();
        for (dmem, bytes) in dmems.iter().zip(&bytes) {
            assert_ne!(dmem.align_offset(), 0);
            let mut back = vec![0; bytes.len()];
            dmem.read(107, &mut back).unwrap();
            assert!(back == *bytes, "{instance}");
            let operation = Operation { offset: 100, buffer: VolatileSlice::from(&mut back[..]) };
            batch::copy_out(&[Batch { dmem, offset: 7, operations: &[operation] }]).unwrap();
            assert!(back == *bytes, "{instance}");
        }
    }
}

/// Every consumer of a padded handle: copies of all kinds, the mapping, the address.
fn holds_its_bytes(memory: &DeviceMemory, dmem: &Dmem) {
    let size = dmem.size() as usize;
    let bytes = pattern(size, 7);
    dmem.write(0, &bytes).unwrap();
    let mapped = dmem.map().unwrap();
    assert_eq!(mapped.len(), size);
    let mut seen = vec![0_u8; size];
    mapped.copy_to(&mut seen[..]);
    assert!(seen == bytes, "the mapping begins at the first byte");
    mapped.subslice(size - 1, 1).unwrap().copy_from(&[0x5a_u8]);
    let mut last = [0];
    dmem.read(size as u64 - 1, &mut last).unwrap();
    assert_eq!(last, [0x5a]);
    let error = dmem.write(1, &bytes).unwrap_err();
    assert!(matches!(error, DmemError::OutOfBounds { .. }), "padding is nobody's: {error}");
    // The driver's own view of the address: the block that holds it holds all of it.
    // Some drivers have none.
    if !dmem.is_host()
        && let Ok(chunks) = memory.device().chunks(dmem.hbm())
    {
        assert!(chunks.iter().any(|it| it.pa <= dmem.pa() && dmem.pa() + size as u64 <= it.pa + it.size));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Seed 000 §2: with a driver that cannot align, neighbours never touch each other through
    /// any path, and every address is aligned and inside its block.
    #[test]
    fn seed_000_padded_handles_are_aligned_and_hold_only_their_own_bytes(
        requests in prop::collection::vec((1u64..300_000, 0u32..22, any::<bool>()), 2..6),
        zero_copy: bool,
    ) {
        let watch = Watch::on("trn2.3xlarge");
        let path = if zero_copy { Path::ZeroCopy { direct_write: 0x1000 } } else { Path::Staged };
        let memory = watch.open(Setup::default().path(path));
        watch.cannot_align();
        let start = driver_bytes(&memory);
        let model = model(&memory);
        let live: Vec<_> = requests.iter().map(|&(size, shift, on_host)| {
            let request = if on_host { host(size) } else { tensor(size) };
            model.allocate(&request.aligned(1 << shift)).unwrap()
        }).collect();
        for (seed, dmem) in live.iter().enumerate() {
            dmem.write(0, &pattern(dmem.size() as usize, seed as u8)).unwrap();
        }
        for ((seed, dmem), &(size, shift, _)) in live.iter().enumerate().zip(&requests) {
            prop_assert_eq!((dmem.size(), dmem.allocated_size()), (size, size + (1 << shift)));
            prop_assert_eq!(dmem.pa() % (1 << shift), 0);
            prop_assert!(dmem.align_offset() <= 1 << shift);
            let expected = pattern(size as usize, seed as u8);
            let mut back = vec![0; size as usize];
            dmem.read(0, &mut back).unwrap();
            prop_assert!(back == expected, "copied");
            dmem.map().unwrap().copy_to(&mut back[..]);
            prop_assert!(back == expected, "mapped");
        }
        let charged: u64 = live.iter().filter(|it| !it.is_host()).map(Dmem::allocated_size).sum();
        prop_assert_eq!(memory.usage().channel(0), charged);
        drop(live);
        prop_assert_eq!((memory.usage(), driver_bytes(&memory)), (Usage::default(), start));
    }
}
