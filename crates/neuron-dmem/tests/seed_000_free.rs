//! Seed 000 §4: references, the last one, and lists of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::sync::{Arc, Mutex};

use common::{Watch, driver_bytes, open, u64_at};
use neuron_abi::cmd;
use neuron_abi::memory::UsageType;
use neuron_dmem::log::Action;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, GcList, Setup, Usage};
use proptest::prelude::*;

fn model(memory: &Arc<DeviceMemory>) -> Allocator {
    Allocator::new(memory, AllocatorKind::Model, 0).unwrap()
}

fn weight(size: u64) -> AllocRequest<'static> {
    AllocRequest::device(size, UsageType::Weight)
}

fn frees(watch: &Watch) -> usize {
    watch.take().iter().filter(|(word, _)| *word == cmd::MEM_FREE.word).count()
}

/// Seed 000 §4: only the last reference goes on, and it asks the driver once.
#[test]
fn seed_000_the_last_reference_frees_and_no_other() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let start = driver_bytes(&memory);
    let model = model(&memory);
    let dmem = model.allocate(&weight(8192)).unwrap();
    let references: Vec<_> = (0..5).map(|_| dmem.clone()).collect();
    drop(dmem);
    for reference in references {
        assert_eq!((frees(&watch), model.live().len(), memory.usage().channel(0)), (0, 1, 8192));
        drop(reference);
    }
    assert_eq!((frees(&watch), model.live().len(), memory.usage()), (1, 0, Usage::default()));
    assert_eq!(driver_bytes(&memory), start);
}

/// Seed 000 §4, note: unmap before free, or the driver reclaims pages that are still mapped. The
/// software driver holds a chunk for as long as it is mapped, so right behind `MEM_FREE` it is
/// gone only if the mapping went first.
#[test]
fn seed_000_a_mapping_goes_before_the_memory() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let model = model(&memory);
    for map in [true, false] {
        let dmem = model.allocate(&weight(8192)).unwrap();
        if map {
            dmem.map().unwrap();
        }
        let (pa, held) = (dmem.pa(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&held);
        watch.change(move |watch, word, _| {
            if word == cmd::MEM_FREE.word {
                let driver = watch.machine.driver(0).unwrap();
                seen.lock().unwrap().push(driver.pools().at_address(pa).is_some());
            }
        });
        drop(dmem);
        assert_eq!(*held.lock().unwrap(), [false], "mapped: {map}");
    }
}

/// Seed 000 §2 and §4: what the driver frees is the number it gave, not an address of ours.
#[test]
fn seed_000_the_driver_gets_its_own_number_back() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let dmem = model(&memory).allocate(&weight(4096)).unwrap();
    let asked = watch.take();
    let [(_, _), (word, get_pa)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(*word, cmd::MEM_GET_PA.word);
    let driver = watch.machine.driver(0).unwrap();
    let handle = u64_at(get_pa, 0);
    assert_eq!(driver.pools().lookup(handle).unwrap().pa(), dmem.pa());
    drop(dmem);
    let freed = watch.take();
    let [(word, argument)] = &freed[..] else { panic!("{freed:?}") };
    assert_eq!((*word, u64_at(argument, 0)), (cmd::MEM_FREE.word, handle));
}

/// Seed 000 §4: the driver's memory is gone when the free is counted and logged, and it is
/// unlisted in the end.
#[test]
fn seed_000_a_free_is_logged_once_the_driver_has_freed() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let dmem = model(&memory).allocate(&weight(4096).hint("h")).unwrap();
    let (seen, weak) = (Arc::new(Mutex::new(Vec::new())), Arc::downgrade(&memory));
    let note = Arc::clone(&seen);
    watch.change(move |_, word, _| {
        if let (true, Some(memory)) = (word == cmd::MEM_FREE.word, weak.upgrade()) {
            let events = memory.log().events();
            note.lock().unwrap().push((events.len(), memory.usage().channel(0)));
        }
    });
    drop(dmem);
    assert_eq!(*seen.lock().unwrap(), [(1, 4096)], "while the driver freed");
    let events = memory.log().events();
    let last = events.last().unwrap();
    assert_eq!((last.action, last.hint.as_deref(), last.hbm_total), (Action::Free, Some("h"), 0));
}

/// Seed 000 §4: a list drops one reference for each place, in order, and is as good as new.
#[test]
fn seed_000_a_gc_list_drops_one_reference_per_place_in_order() {
    let memory = open("trn1.2xlarge");
    let model = model(&memory);
    let mut list = GcList::new();
    for round in 0..2 {
        let sizes = [4096, 8192, 12288];
        for size in sizes {
            model.allocate_listed(&weight(size), &mut list).unwrap();
        }
        let borrowed = list.iter().nth(1).unwrap().clone();
        // On the list twice: two references.
        list.add(&borrowed);
        assert_eq!((list.len(), model.live().len()), (4, 3), "round {round}");
        let before = memory.log().counts().0;
        list.free();
        assert!(list.is_empty());
        let freed: Vec<_> = memory.log().events_since(before);
        assert_eq!(freed, [4096, 12288], "a borrowed one stays");
        assert_eq!(memory.usage().channel(0), 8192);
        drop(borrowed);
        assert_eq!(memory.usage().channel(0), 0);
    }
    let kept = model.allocate_listed(&weight(4096), &mut list).unwrap();
    drop(list);
    assert_eq!(model.live().len(), 1, "a dropped list lets go too, of its own reference");
    drop(kept);
}

/// Seed 000 §2: what was not allocated is on no list.
#[test]
fn seed_000_a_refused_allocation_is_on_no_list() {
    let memory = open("trn1.2xlarge");
    let model = model(&memory);
    let mut list = GcList::new();
    model.allocate_listed(&weight(64 << 30), &mut list).unwrap_err();
    model.allocate_listed(&weight(0), &mut list).unwrap_err();
    assert_eq!((list.len(), model.live().len()), (0, 0));
}

trait EventsSince {
    fn events_since(&self, number: u64) -> Vec<u64>;
}

impl EventsSince for neuron_dmem::log::UsageLog {
    fn events_since(&self, number: u64) -> Vec<u64> {
        let events = self.events().into_iter().filter(|event| event.number >= number);
        events.map(|event| event.size).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Allocates, on a list too.
    Allocate(Option<usize>),
    /// Puts a handle that somebody holds on a list.
    Add(usize, usize),
    /// Drops a handle that is held.
    Drop(usize),
    /// Frees a list, or drops it for a new one.
    Free(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::option::of(0usize..3).prop_map(Step::Allocate),
        (0usize..16, 0usize..3).prop_map(|(dmem, list)| Step::Add(dmem, list)),
        (0usize..16).prop_map(Step::Drop),
        (0usize..3, any::<bool>()).prop_map(|(list, anew)| Step::Free(list, anew)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Against a model that counts: a handle lives exactly while somebody or a list refers to it.
    #[test]
    fn seed_000_gc_lists_behave_like_counted_references(steps in prop::collection::vec(step(), 1..80)) {
        let memory = open("trn1.2xlarge");
        let model = model(&memory);
        let mut lists: [GcList; 3] = Default::default();
        let mut held: Vec<(u64, Dmem)> = Vec::new();
        let mut listed: [Vec<u64>; 3] = Default::default();
        let mut alive: Vec<u64> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            // Each has a size of its own, which names it.
            let name = (number as u64 + 1) * 8;
            match step {
                Step::Allocate(list) => {
                    let dmem = match list {
                        Some(list) => {
                            listed[list].push(name);
                            model.allocate_listed(&weight(name), &mut lists[list]).unwrap()
                        }
                        None => model.allocate(&weight(name)).unwrap(),
                    };
                    held.push((name, dmem));
                    alive.push(name);
                }
                Step::Add(pick, list) if !held.is_empty() => {
                    let (name, dmem) = &held[pick % held.len()];
                    lists[list].add(dmem);
                    listed[list].push(*name);
                }
                Step::Drop(pick) if !held.is_empty() => drop(held.swap_remove(pick % held.len())),
                Step::Free(list, anew) => {
                    listed[list].clear();
                    match anew {
                        true => lists[list] = GcList::new(),
                        false => lists[list].free(),
                    }
                }
                _ => {}
            }
            alive.retain(|name| {
                held.iter().any(|(other, _)| other == name) || listed.iter().flatten().any(|other| other == name)
            });
            let living: Vec<_> = model.live().iter().map(Dmem::size).collect();
            prop_assert_eq!(&living, &alive);
            for (list, expected) in lists.iter().zip(&listed) {
                prop_assert!(list.iter().map(Dmem::size).eq(expected.iter().copied()));
            }
            prop_assert_eq!(memory.usage().channel(0), alive.iter().sum::<u64>());
        }
        drop((held, lists));
        prop_assert_eq!(memory.usage(), Usage::default());
    }
}

/// References dropped by many threads at once: one free.
#[test]
fn seed_000_threads_that_drop_at_once_free_once() {
    let watch = Watch::on("trn1.2xlarge");
    let memory = watch.open(Setup::default());
    let model = model(&memory);
    for _ in 0..50 {
        let dmem = model.allocate(&weight(4096)).unwrap();
        watch.take();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (dmem, model) = (dmem.clone(), &model);
                scope.spawn(move || {
                    let live = model.live();
                    drop(dmem);
                    drop(live);
                });
            }
            drop(dmem);
        });
        assert_eq!((frees(&watch), model.live().len()), (1, 0));
    }
    assert_eq!(memory.log().counts(), (100, 0));
}
