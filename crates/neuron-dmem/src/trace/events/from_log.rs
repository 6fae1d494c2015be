//! The events of a usage log. Its ring keeps the newest only: what was allocated before them and is
//! freed in them was there when they begin, and is allocated first, lowest address first (our
//! choice). What came before them and never goes is not known.

use std::collections::{BTreeMap, HashSet};

use neuron_abi::memory::MemLocation;

use super::event::{Alloc, Event, Header};
use super::names::Names;
use crate::log::{self, Action, LogFile, WriterState};

/// The header of a log's trace.
pub fn header_of(log: &LogFile) -> Header<'static> {
    Header { instance: None, source: "usage log".into(), dropped: log.dropped() }
}

/// Gives each event of a log to `take`, in order; at the end that the process has ended, if it has.
pub fn of_log(log: &LogFile, mut take: impl FnMut(&Event<'_>)) {
    let device = u8::try_from(log.device()).unwrap_or_default();
    let mut names = Names::default();
    let mut before: BTreeMap<(MemLocation, u64), log::Event> = BTreeMap::new();
    let mut living = HashSet::new();
    for event in log.events_from(0) {
        match event.action {
            Action::Alloc => {
                living.insert((event.location, event.pa));
            }
            Action::Free if !living.remove(&(event.location, event.pa)) => {
                before.entry((event.location, event.pa)).or_insert(event);
            }
            Action::Free => {}
        }
    }
    let at = |event: &log::Event| Some((device, event.location, event.pa));
    for event in before.values() {
        take(&alloc(names.give(at(event)), device, event));
    }
    for event in log.events_from(0) {
        match event.action {
            Action::Alloc => take(&alloc(names.give(at(&event)), device, &event)),
            Action::Free => {
                if let Some(id) = names.take((device, event.location, event.pa)) {
                    take(&Event::Free { id, time: None });
                }
            }
        }
    }
    if log.writer() != WriterState::Writing {
        take(&Event::Exit { pid: 0, time: None });
    }
}

fn alloc(id: u64, device: u8, event: &log::Event) -> Event<'_> {
    let owner = event.owner.as_ref().map(|owner| &*owner.label).filter(|label| !label.is_empty());
    Event::Alloc(Alloc {
        id,
        size: event.charged,
        align: 0,
        location: event.location,
        device,
        hbm: if event.location == MemLocation::Host { 0 } else { event.hbm },
        core: event.core,
        usage: event.usage,
        owner: owner.map(Into::into),
        hint: event.hint.as_deref().map(Into::into),
        pa: Some(event.pa),
        refused: false,
        pid: 0,
        time: None,
    })
}
