//! Whether a log is right: its counters must be what base and events make
//! (`spec/dmem.md` 9.12).

use neuron_abi::memory::MemLocation;

use super::entry::Entry;
use super::error::{Damage, Repair};
use super::meters;
use super::rows::{FIRST_ROW, Row};
use super::tables::Tables;

/// A counter while events are counted again.
#[derive(Clone, Copy)]
struct Running {
    now: u64,
    most: u64,
}

impl Running {
    fn from_base(meter: &[u64; 3]) -> Self {
        Self { now: meter[2], most: meter[2] }
    }

    fn count(&mut self, entry: &Entry) {
        self.now = entry.change(self.now);
        self.most = self.most.max(self.now);
    }
}

/// Counts all events again from the bases. `entries` are the events from `first` on, `None`
/// where one is not whole; if that is the last, the tables become what the others make.
pub(super) fn recount<'a>(
    first: u64,
    entries: impl ExactSizeIterator<Item = &'a Option<Entry>>,
    tables: &mut Tables,
) -> Result<Option<Repair>, Damage> {
    let end = first + entries.len() as u64;
    let mut counters: Vec<Running> = tables.meters.iter().map(Running::from_base).collect();
    let mut rows: Vec<Running> = tables.rows.iter().map(|row| Running::from_base(&row.meter)).collect();
    if first == 0 && counters.iter().chain(&rows).any(|counter| counter.now != 0) {
        return Err(Damage::State { what: "base" });
    }
    let mut torn = None;
    for (number, entry) in (first..).zip(entries) {
        match entry {
            Some(entry) => count(number, entry, &mut counters, &mut rows, &tables.rows)?,
            None if number + 1 == end => torn = Some(Repair::TornEvent { number }),
            None => return Err(Damage::Event { number, first, end }),
        }
    }
    // What is stored cannot be compared behind a torn event; at least the HBMs must add up.
    let of_hbms = counters.iter().take(meters::CHANNELS);
    let of_hbms = of_hbms.fold(0_u64, |sum, counter| sum.wrapping_add(counter.now));
    if torn.is_some() && counters.get(meters::DEVICE).is_some_and(|device| device.now != of_hbms) {
        return Err(Damage::State { what: "base" });
    }
    let complete = first == 0;
    let stored = tables.meters.iter_mut().enumerate();
    for ((index, meter), running) in stored.zip(&counters) {
        settle(meter, running, torn.is_some(), complete, || meters::name(index))?;
    }
    for ((index, row), running) in tables.rows.iter_mut().enumerate().zip(&rows) {
        let Row { meter, text, .. } = row;
        settle(meter, running, torn.is_some(), complete, || {
            format!("row {index} ({})", text.escape_debug())
        })?;
    }
    Ok(torn)
}

fn count(
    number: u64,
    entry: &Entry,
    counters: &mut [Running],
    rows: &mut [Running],
    names: &[Row],
) -> Result<(), Damage> {
    for row in entry.referenced() {
        let named = |name: &Row| u64::from(row) < FIRST_ROW || name.kind.is_some();
        if !names.get(row as usize).is_some_and(named) {
            return Err(Damage::Row { number, row });
        }
    }
    for meter in meters::moved_by(entry).into_iter().flatten() {
        if let Some(counter) = counters.get_mut(meter) {
            counter.count(entry);
        }
    }
    for row in entry.rows().into_iter().flatten() {
        if let Some(counter) = rows.get_mut(row as usize) {
            counter.count(entry);
        }
    }
    let total = match (entry.location, meters::channel(entry.channel)) {
        (MemLocation::Device, Some(channel)) => counters.get(channel).map_or(0, |counter| counter.now),
        _ => 0,
    };
    if entry.total != total {
        let counter = format!("HBM {} after event {number}", entry.channel);
        return Err(Damage::Counter { counter, stored: entry.total, recomputed: total });
    }
    Ok(())
}

/// Compares one counter, or, after an event was left out, sets it.
fn settle(
    meter: &mut [u64; 3],
    running: &Running,
    torn: bool,
    complete: bool,
    name: impl Fn() -> String,
) -> Result<(), Damage> {
    let [current, peak, _] = meter;
    if torn {
        (*current, *peak) = (running.now, running.most.max(*peak));
        return Ok(());
    }
    if *current != running.now {
        return Err(Damage::Counter { counter: name(), stored: *current, recomputed: running.now });
    }
    // With all events at hand the peak is known, not only bounded.
    if *peak < running.most || complete && *peak != running.most {
        return Err(Damage::Peak { counter: name(), stored: *peak, seen: running.most });
    }
    Ok(())
}
