//! Random lives against a model that remembers everything and counts anew each time.

use std::collections::BTreeMap;

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};
use proptest::prelude::*;

use super::super::{
    Action, Amount, Charge, Event, LogFile, LogOptions, OwnerRow, Record, UsageLog, WriterState,
};
use crate::kind::AllocatorKind;

#[derive(Clone, Debug)]
enum Step {
    Alloc { record: Record, hint: Option<u8>, owner: usize },
    Free(usize),
    Owner(u32),
    Leave(usize),
}

fn alloc() -> impl Strategy<Value = Step> {
    let place = (any::<bool>(), 0u32..22, 0u32..4, 0u32..8);
    let sizes =
        (1u64..1 << 40, prop_oneof![Just(0u64), (0u32..20).prop_map(|shift| 1 << shift)], any::<u64>());
    (place, sizes, prop::option::of(0u8..9), any::<usize>()).prop_map(|(place, sizes, hint, owner)| {
        let ((device, usage, hbm, core), (size, padding, pa)) = (place, sizes);
        let record = Record {
            location: if device { MemLocation::Device } else { MemLocation::Host },
            usage: UsageType::from_raw(usage).unwrap(),
            hbm: if device { hbm } else { 0 },
            core,
            size,
            padding,
            pa,
            align_offset: padding / 2,
        };
        Step::Alloc { record, hint, owner }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => alloc(),
        5 => any::<usize>().prop_map(Step::Free),
        1 => (0u32..8).prop_map(Step::Owner),
        1 => any::<usize>().prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 1..150)
}

/// What happened, in order, and what is expected of it.
#[derive(Default)]
struct Model {
    events: Vec<(Action, Record, Option<String>)>,
}

impl Model {
    /// Current and peak of the events that a filter lets through.
    fn amount(&self, filter: impl Fn(&Record, Option<&str>) -> bool) -> Amount {
        let (mut now, mut peak) = (0, 0);
        for (action, record, hint) in &self.events {
            if filter(record, hint.as_deref()) {
                let charged = record.size + record.padding;
                if *action == Action::Alloc {
                    now += charged
                } else {
                    now -= charged
                }
                peak = peak.max(now);
            }
        }
        Amount { current: now, peak }
    }

    fn check_events(&self, events: &[Event], capacity: usize, names_for_all: bool) {
        let start = self.events.len() - self.events.len().min(capacity);
        assert_eq!(events.len(), self.events.len() - start);
        for (event, (number, (action, record, hint))) in
            events.iter().zip(self.events.iter().enumerate().skip(start))
        {
            assert_eq!(event.number, number as u64);
            assert_eq!((event.action, event.location, event.usage), (*action, record.location, record.usage));
            assert_eq!((event.hbm, event.core, event.size), (record.hbm, record.core, record.size));
            assert_eq!((event.pa, event.align_offset), (record.pa, record.align_offset));
            assert_eq!(event.charged, record.size + record.padding);
            let shown = event.hint.as_deref();
            assert!(
                shown == hint.as_deref() || !names_for_all && shown == Some("(other)"),
                "{shown:?} {hint:?}"
            );
            let until = Model { events: self.events[..=number].to_vec() };
            let total = match record.location {
                MemLocation::Device => until.amount(|r, _| on_device(r) && r.hbm == record.hbm).current,
                _ => 0,
            };
            assert_eq!(event.hbm_total, total);
        }
    }

    fn check_counters(&self, statistics: &super::super::Statistics, names_for_all: bool) {
        assert_eq!(statistics.device(), self.amount(|r, _| on_device(r)));
        assert_eq!(statistics.host(), self.amount(|r, _| !on_device(r)));
        for hbm in 0..4 {
            assert_eq!(statistics.hbm(hbm), self.amount(|r, _| on_device(r) && r.hbm == hbm));
        }
        for core in 0..8 {
            assert_eq!(statistics.core(core), self.amount(|r, _| on_device(r) && r.core == core));
            for &usage in UsageType::ALL {
                let of = |r: &Record, _: Option<&str>| on_device(r) && r.core == core && r.usage == usage;
                assert_eq!(statistics.core_usage(core, usage), self.amount(of));
            }
        }
        for &category in Aggregate::ALL {
            let of = |r: &Record, _: Option<&str>| on_device(r) && r.usage.aggregate() == category;
            assert_eq!(statistics.category(category), self.amount(of));
        }
        let now =
            |amounts: &mut dyn Iterator<Item = Amount>| amounts.map(|amount| amount.current).sum::<u64>();
        let owned =
            now(&mut statistics.owners.iter().map(|owner| owner.amount)) + statistics.other_owners.current;
        assert_eq!(owned, statistics.device().current);
        let hinted =
            now(&mut statistics.hints.iter().map(|hint| hint.amount)) + statistics.other_hints.current;
        assert_eq!(hinted, self.amount(|r, hint| on_device(r) && hint.is_some()).current);
        if names_for_all {
            let listed: BTreeMap<&str, Amount> =
                statistics.hints.iter().map(|hint| (&*hint.hint, hint.amount)).collect();
            let known: BTreeMap<&str, Amount> = self
                .events
                .iter()
                .filter_map(|(_, _, hint)| hint.as_deref())
                .map(|hint| (hint, self.amount(|r, of| on_device(r) && of == Some(hint))))
                .collect();
            assert_eq!(listed, known);
            assert_eq!(statistics.other_hints, Amount::default());
        }
    }
}

fn on_device(record: &Record) -> bool {
    record.location == MemLocation::Device
}

/// The hints end alike, and some are longer than a row's text.
fn hint_text(hint: u8) -> String {
    format!("{hint}.{}", "é".repeat(usize::from(hint) * 7))
}

fn shown(hint: &str) -> String {
    super::super::rows::cut(hint).to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_life_is_counted_and_logged_as_a_naive_model_does(
        steps in steps(),
        capacity in prop::sample::select(vec![0u64, 1, 2, 3, 7, 16, 500]),
        names in prop::sample::select(vec![1u32, 4, 9, 400]),
        look_every in 1usize..20,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let options = LogOptions::default().events(capacity).names(names).file(&path);
        let log = UsageLog::new(3, &options).unwrap();
        let mut reader = LogFile::open(&path).unwrap();
        let (mut model, mut seen) = (Model::default(), 0);
        let mut owners: Vec<OwnerRow> = vec![log.owner(AllocatorKind::Global, 0, "first")];
        let mut live: Vec<(Charge, Record, Option<String>)> = Vec::new();
        let names_for_all = names == 400;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Alloc { record, hint, owner } => {
                    let hint = hint.map(hint_text);
                    let owner = owners[owner % owners.len()];
                    let charge = log.allocated(&record, owner, hint.as_deref());
                    let hint = hint.as_deref().map(shown);
                    model.events.push((Action::Alloc, record, hint.clone()));
                    live.push((charge, record, hint));
                }
                Step::Free(pick) if !live.is_empty() => {
                    let (charge, record, hint) = live.swap_remove(pick % live.len());
                    log.freed(&charge);
                    model.events.push((Action::Free, record, hint));
                }
                Step::Owner(core) => owners.push(log.owner(AllocatorKind::Model, core, "next")),
                Step::Leave(pick) if owners.len() > 1 => log.owner_left(owners.swap_remove(pick % owners.len())),
                Step::Free(_) | Step::Leave(_) => {}
            }
            if number % look_every == 0 {
                reader.refresh().unwrap();
                seen += 1;
            }
        }
        let events = log.events();
        model.check_events(&events, capacity as usize, names_for_all);
        model.check_counters(&log.statistics(), names_for_all);
        let (written, dropped) = log.counts();
        prop_assert_eq!(written, model.events.len() as u64);
        prop_assert_eq!(dropped, if capacity == 0 { 0 } else { written.saturating_sub(capacity) });

        // The reader that followed and one that comes late see what the process itself sees.
        reader.refresh().unwrap();
        prop_assert!(seen > 0 && reader.writer() == WriterState::Writing);
        for reader in [reader, LogFile::open(&path).unwrap()] {
            prop_assert_eq!(reader.statistics(), log.statistics());
            prop_assert_eq!((reader.written(), reader.dropped()), log.counts());
            prop_assert!(reader.events_from(0).eq(events.iter().cloned()));
            let last = written.saturating_sub(1);
            prop_assert!(reader.events_from(last).all(|event| event.number == last));
            prop_assert!(reader.repairs().is_empty());
            prop_assert_eq!((reader.device(), reader.capacity()), (3, capacity));
        }

        for (charge, record, hint) in live {
            log.freed(&charge);
            model.events.push((Action::Free, record, hint));
        }
        let statistics = log.statistics();
        model.check_counters(&statistics, names_for_all);
        prop_assert_eq!(statistics.device().current, 0);
        drop(log);
        let reader = LogFile::open(&path).unwrap();
        prop_assert_eq!(reader.statistics(), statistics);
        prop_assert_eq!(reader.writer(), WriterState::Closed);
    }
}

#[test]
fn an_owner_that_left_stays_listed_while_its_memory_is_in_use() {
    let log = UsageLog::new(0, &LogOptions::default().events(2).names(1)).unwrap();
    let owner = log.owner(AllocatorKind::Model, 1, "m");
    let charge = log.allocated(&super::record(4096), owner, None);
    log.owner_left(owner);
    let owners = log.statistics().owners;
    assert_eq!((owners.len(), owners[0].left, owners[0].amount.current), (1, true, 4096));
    let other = log.owner(AllocatorKind::Model, 0, "no room");
    assert_eq!(log.statistics().owners, owners);
    let second = log.allocated(&super::record(5), other, None);
    assert_eq!(log.statistics().other_owners, Amount { current: 5, peak: 5 });
    log.freed(&charge);
    log.freed(&second);
    // Two events of the others pushed the owner's own out of the ring: its row is free.
    let third = log.allocated(&super::record(6), other, None);
    log.freed(&third);
    let next = log.owner(AllocatorKind::Global, 0, "next");
    let owners = log.statistics().owners;
    assert_eq!((owners.len(), &*owners[0].owner.label, owners[0].amount), (1, "next", Amount::default()));
    log.owner_left(next);
}

/// Seed 000 §5: the runtime's ring keeps a pointer to a hint that is freed before the free is
/// logged (`spec/dmem.md` 1.5, trap).
#[test]
fn seed_000_a_hint_outlives_the_handle_it_came_with() {
    let log = UsageLog::new(0, &LogOptions::default().events(8)).unwrap();
    let owner = log.owner(AllocatorKind::Model, 0, "m");
    let hint = String::from("layer.0.weight");
    let charge = log.allocated(&super::record(64), owner, Some(&hint));
    drop(hint);
    log.freed(&charge);
    let hints: Vec<_> = log.events().into_iter().map(|event| event.hint.unwrap()).collect();
    assert_eq!(hints.iter().map(|hint| &**hint).collect::<Vec<_>>(), ["layer.0.weight"; 2]);
}

/// Seed 000 §5: the ring has host and device alike, the counters device memory only.
#[test]
fn seed_000_host_memory_is_logged_and_moves_no_device_counter() {
    let log = UsageLog::new(0, &LogOptions::default().events(8)).unwrap();
    let owner = log.owner(AllocatorKind::Global, 0, "");
    let host = Record { location: MemLocation::Host, ..super::record(4096) };
    let _charge = log.allocated(&host, owner, Some("ring"));
    assert_eq!(log.usage(), crate::Usage::default());
    let statistics = log.statistics();
    assert_eq!((statistics.device().peak, statistics.host().current), (0, 4096));
    assert_eq!((statistics.owners[0].amount, statistics.hints[0].amount), Default::default());
    let [event] = &log.events()[..] else { panic!() };
    assert_eq!((event.location, event.hbm_total), (MemLocation::Host, 0));
}

/// Seed 000 §5: a full ring overwrites its oldest event and counts each; without a ring there
/// are counters all the same.
#[test]
fn seed_000_a_full_ring_overwrites_and_no_ring_counts_on() {
    for (capacity, there, dropped) in [(3, vec![2, 3, 4], 2), (0, vec![], 0)] {
        let log = UsageLog::new(0, &LogOptions::default().events(capacity)).unwrap();
        let owner = log.owner(AllocatorKind::Model, 0, "");
        let charges: Vec<_> = (1..=5).map(|size| log.allocated(&super::record(size), owner, None)).collect();
        assert_eq!(log.events().iter().map(|event| event.number).collect::<Vec<_>>(), there);
        assert_eq!((log.counts(), log.capacity()), ((5, dropped), capacity));
        assert_eq!(log.usage().channel(1), 15);
        assert_eq!(log.events().first().map_or(6, |oldest| oldest.hbm_total), 6);
        charges.iter().for_each(|charge| log.freed(charge));
        assert_eq!(log.usage(), crate::Usage::default());
    }
}

/// What is left when not even address space can be had.
#[test]
fn a_log_on_the_heap_counts_without_a_ring() {
    let log = UsageLog::without_ring(0);
    let _live = super::work(&log, 50);
    let full = UsageLog::new(0, &LogOptions::default()).unwrap();
    let _live = super::work(&full, 50);
    assert_eq!(log.statistics(), full.statistics());
    assert!(log.events().is_empty() && full.events().len() == 50);
}
