//! Seed 000 §2: pages of the contiguous scratchpad, and of a paged one where there is none.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::sync::Arc;

use common::{GIB, MIB, Watch, driver_bytes, u64_at};
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::memory::UsageType;
use neuron_abi::status::NrtStatus;
use neuron_dmem::{
    AllocRequest, Allocator, AllocatorKind, DeviceMemory, DmemError, PagedBecause, ScratchpadOptions,
    ScratchpadPageSize, Setup, Usage,
};

const PAGE: u64 = 64 * MIB;

fn global(memory: &Arc<DeviceMemory>, core: u32) -> Allocator {
    Allocator::new(memory, AllocatorKind::Global, core).unwrap()
}

/// Addresses of the driver's own pages on an HBM: category 19, from the top down.
fn pages_of(memory: &DeviceMemory, hbm: u32) -> Vec<u64> {
    let chunks = memory.device().chunks(hbm).unwrap().into_iter().filter(|chunk| chunk.mem_type == 19);
    let mut pages: Vec<_> = chunks.map(|chunk| chunk.pa).collect();
    pages.reverse();
    pages
}

/// Frees of the addresses given, in order.
fn freed(watch: &Arc<Watch>) -> Arc<std::sync::Mutex<Vec<u64>>> {
    let freed = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = Arc::clone(&freed);
    watch.refuse(move |watch, word, argument| {
        if word == cmd::MEM_FREE.word {
            let driver = watch.machine.driver(0).unwrap();
            note.lock().unwrap().push(driver.pools().lookup(u64_at(argument, 0)).unwrap().pa());
        }
        None
    });
    freed
}

/// Seed 000 §2, quirk: a page is device memory of usage SCRATCHPAD, on the core's own HBM, under a
/// category of its own; each right under the last, from the main pool's end.
#[test]
fn seed_000_contiguous_pages_grow_down_from_the_main_pools_end() {
    for (instance, core, hbm) in [("trn1.2xlarge", 1, 1), ("trn2.3xlarge", 5, 2)] {
        let watch = Watch::on(instance);
        let memory = watch.open(Setup::default());
        let start = driver_bytes(&memory);
        let core_allocator = global(&memory, core);
        let scratchpad = core_allocator.scratchpad(3 * PAGE - 5, &ScratchpadOptions::default()).unwrap();
        let asked = watch.allocs();
        assert!(
            asked.iter().all(|it| (it.size, it.align, it.host, it.hbm, it.core, it.category)
                == (PAGE, 0, 0, hbm, core, 19))
        );
        assert_eq!((asked.len(), scratchpad.paged(), scratchpad.page_bytes()), (3, None, PAGE));
        let end = memory.device().geometry().hbm(hbm).unwrap().main_pool().end;
        let addresses: Vec<_> = scratchpad.pages().iter().map(|page| page.pa()).collect();
        assert_eq!(addresses, [end - PAGE, end - 2 * PAGE, end - 3 * PAGE]);
        assert_eq!(scratchpad.region(), Some(end - 3 * PAGE..end));
        for page in scratchpad.pages() {
            assert_eq!((page.usage(), page.is_host(), page.hbm()), (UsageType::Scratchpad, false, hbm));
            page.write(PAGE - 4, &[1; 4]).unwrap();
        }
        assert_eq!(memory.usage().core_usage(core, UsageType::Scratchpad), 3 * PAGE);
        assert_eq!(core_allocator.live().len(), 3, "the core's allocator lists them");
        drop(scratchpad);
        assert_eq!((memory.usage(), driver_bytes(&memory)), (Usage::default(), start));
    }
}

/// Seed 000 §2, quirk: the pages are the core's. A model that is unloaded would free them while
/// the core still refers to them, so it is refused, with the reason.
#[test]
fn seed_000_a_model_gets_no_scratchpad_pages() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let model = Allocator::new(&memory, AllocatorKind::Model, 1).unwrap();
    for options in [ScratchpadOptions::default(), ScratchpadOptions::default().paged()] {
        let error = model.scratchpad(PAGE, &options).unwrap_err();
        assert_eq!((error.status(), &error), (NrtStatus::Invalid, &DmemError::ScratchpadOwner { core: 1 }));
        assert!(error.to_string().contains("GLOBAL allocator"), "{error}");
    }
    assert!(watch.allocs().is_empty());
}

/// `spec/dmem.md` 5.2: pages are freed in the reverse order, also when clones or the pages of
/// another core on the same HBM would have it otherwise.
#[test]
fn seed_000_pages_are_freed_in_reverse_order_whoever_lets_go_first() {
    let watch = Watch::on("trn2.3xlarge");
    let memory = watch.open(Setup::default());
    let cores = [global(&memory, 0), global(&memory, 1)];
    let options = ScratchpadOptions::default();
    let freed = freed(&watch);
    let first = cores[0].scratchpad(2 * PAGE, &options).unwrap();
    let second = cores[1].scratchpad(2 * PAGE, &options).unwrap();
    let clone = second.pages()[0].clone();
    let placed = pages_of(&memory, 0);
    assert_eq!(placed.len(), 4);

    // The first core's lie above the second's, so they stay.
    drop(first);
    assert_eq!((&*freed.lock().unwrap(), memory.usage().core_total(0)), (&vec![], 2 * PAGE));
    // Of the second's only the lowest is nobody's.
    drop(second);
    assert_eq!(*freed.lock().unwrap(), [placed[3]]);
    // While the third is kept, the next page comes under it.
    let third = cores[0].scratchpad(PAGE, &options).unwrap();
    assert_eq!(third.pages()[0].pa(), placed[3]);
    drop(clone);
    assert_eq!(freed.lock().unwrap().len(), 1);
    drop(third);
    let order: Vec<_> = [3, 3, 2, 1, 0].map(|page: usize| placed[page]).to_vec();
    assert_eq!((&*freed.lock().unwrap(), pages_of(&memory, 0)), (&order, vec![]));
    assert_eq!(memory.usage(), Usage::default());
}

/// The allocator goes first, as it may: the pages know their order by themselves.
#[test]
fn seed_000_pages_outlive_their_allocator_in_order() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let core = global(&memory, 0);
    let scratchpad = core.scratchpad(3 * PAGE, &ScratchpadOptions::default()).unwrap();
    let placed = pages_of(&memory, 0);
    let freed = freed(&watch);
    assert_eq!(core.destroy().usage, [(UsageType::Scratchpad, 3 * PAGE)]);
    drop(scratchpad);
    assert_eq!(*freed.lock().unwrap(), [placed[2], placed[1], placed[0]]);
}

/// `spec/dmem.md` 5.2: without room NRT_RESOURCE and no report, else NRT_FAILURE; pages had by
/// then go back.
#[test]
fn seed_000_a_page_without_room_takes_the_others_back() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let (start, core) = (driver_bytes(&memory), global(&memory, 0));
    // Up to 160 MiB under the main pool's end: room for two pages.
    let filler = core.allocate(&AllocRequest::device(15 * GIB - 176 * MIB, UsageType::Weight)).unwrap();
    let error = core.scratchpad(4 * PAGE, &ScratchpadOptions::default()).unwrap_err();
    let expected = DmemError::NoScratchpadRoom { device: 0, hbm: 0, number: 2, page: PAGE };
    assert_eq!((error.status(), error.report(), &error), (NrtStatus::Resource, None, &expected));
    assert_eq!(pages_of(&memory, 0), [0; 0]);
    drop(filler);
    for (errno, command, status) in [
        (Errno::EINVAL, cmd::MEM_ALLOC_V2MT64, NrtStatus::Failure),
        (Errno::ENOMEM, cmd::MEM_ALLOC_V2MT64, NrtStatus::Resource),
        (Errno::EINVAL, cmd::MEM_GET_PA, NrtStatus::Resource),
    ] {
        watch.refuse(move |_, word, _| (word == command.word).then_some(errno));
        let error = core.scratchpad(PAGE, &ScratchpadOptions::default()).unwrap_err();
        assert_eq!((error.status(), error.report()), (status, None), "{error}");
    }
    assert_eq!((memory.usage(), driver_bytes(&memory)), (Usage::default(), start));
    // And the place is free for the next one.
    watch.refuse(|_, _, _| None);
    assert!(core.scratchpad(2 * PAGE, &ScratchpadOptions::default()).unwrap().region().is_some());
}

/// `spec/dmem.md` 5.2: it needs the driver's feature 0x80, and from Trainium2 on logical cores of
/// more than one physical core. Where it is not, the scratchpad is paged and says why.
#[test]
fn seed_000_without_the_feature_the_scratchpad_is_paged() {
    let old = Watch::on("trn1.2xlarge");
    old.change(|_, word, argument| {
        if word == cmd::DRIVER_INFO_GET.word {
            let flags = u64_at(argument, 16) & !Features::CONTIGUOUS_SCRATCHPAD.bits();
            argument[16..24].copy_from_slice(&flags.to_le_bytes());
        }
    });
    let single = Setup::default().cores_per_logical(1);
    for (watch, setup, because) in [
        (old, Setup::default(), Some(PagedBecause::DriverCannot)),
        (Watch::on("trn2.3xlarge"), single.clone(), Some(PagedBecause::OneCorePerLogical)),
        (Watch::on("trn2.3xlarge"), Setup::default(), None),
        (Watch::on("trn1.2xlarge"), single, None),
    ] {
        let memory = watch.open(setup);
        assert_eq!(memory.paged_scratchpad(), because);
        let start = driver_bytes(&memory);
        let core = global(&memory, 0);
        watch.take();
        let scratchpad = core.scratchpad(600 * MIB, &ScratchpadOptions::default()).unwrap();
        assert_eq!(scratchpad.paged(), because);
        let asked: Vec<_> = watch.allocs().iter().map(|it| (it.size, it.align, it.category)).collect();
        if because.is_some() {
            assert_eq!(asked, [(512 * MIB, 4 * MIB, 11); 2]);
            assert_eq!((scratchpad.region(), scratchpad.page_bytes()), (None, 512 * MIB));
            assert!(scratchpad.pages().iter().all(|page| page.pa() % (4 * MIB) == 0));
            assert_eq!(memory.usage().core_usage(0, UsageType::Scratchpad), GIB);
        } else {
            assert_eq!(asked, [(PAGE, 0, 19); 10]);
        }
        drop(scratchpad);
        assert_eq!((memory.usage(), driver_bytes(&memory)), (Usage::default(), start));
    }
}

/// Paged: pages of a size to choose, at most 1024 of them, refused with a report when they find no
/// room, padded where the driver cannot align, and freed in reverse order.
#[test]
fn seed_000_a_paged_scratchpad_is_what_ordinary_allocations_are() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let (start, core) = (driver_bytes(&memory), global(&memory, 0));
    let options = ScratchpadOptions::default().paged().page_size(ScratchpadPageSize::new(GIB).unwrap());
    watch.cannot_align();
    let scratchpad = core.scratchpad(3 * GIB, &options).unwrap();
    assert_eq!((scratchpad.paged(), scratchpad.pages().len()), (Some(PagedBecause::Asked), 3));
    assert!(scratchpad.pages().iter().all(|page| (page.pa() % (4 * MIB), page.size()) == (0, GIB)));
    let placed: Vec<_> = scratchpad.pages().iter().map(|page| page.pa() - page.align_offset()).collect();
    let freed = freed(&watch);
    drop(scratchpad);
    assert_eq!(*freed.lock().unwrap(), [placed[2], placed[1], placed[0]]);

    let error = core.scratchpad(20 * GIB, &options).unwrap_err();
    assert_eq!(error.status(), NrtStatus::Resource);
    assert_eq!(error.report().map(|report| report.request.usage), Some(UsageType::Scratchpad));
    assert_eq!((memory.usage(), driver_bytes(&memory)), (Usage::default(), start));

    let error = core.scratchpad(1024 * GIB + 1, &options).unwrap_err();
    assert!(matches!(error, DmemError::ScratchpadSize { pages: 1025, most: 1024, .. }), "{error}");
    assert_eq!(error.status(), NrtStatus::Invalid);
    assert_eq!(core.scratchpad(0, &options).unwrap_err(), DmemError::ZeroSize);
}

/// Budgets refuse a contiguous page as any allocation, and what it took goes back with it.
#[test]
fn a_contiguous_page_is_in_the_budgets() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let core = global(&memory, 0);
    memory.budgets().limit(core.budget(), Some(3 * PAGE - 1)).unwrap();
    let in_use = || memory.budgets().get(core.budget()).in_use;
    let scratchpad = core.scratchpad(2 * PAGE, &ScratchpadOptions::default()).unwrap();
    assert_eq!(in_use(), 2 * PAGE);
    let error = core.scratchpad(PAGE, &ScratchpadOptions::default()).unwrap_err();
    assert_eq!(
        (error.status(), error.refusal().map(|it| it.request.size)),
        (NrtStatus::Resource, Some(PAGE))
    );
    drop(scratchpad);
    assert_eq!((in_use(), pages_of(&memory, 0)), (0, vec![]));
}
