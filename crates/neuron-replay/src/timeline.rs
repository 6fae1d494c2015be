//! A replay as a timeline: what is in use on each HBM and by category, and the allocations that are
//! refused, as records for a sink of `neuron_dmem::trace`.

use neuron_abi::memory::MemLocation;
use neuron_abi::status::NrtStatus;
use neuron_dmem::trace::{About, EventNumber, Record, Sink, What};

use crate::ledger::Slot;
use crate::replay::Replay;
use crate::trace::{Event, Wrong};

/// Nanoseconds from one event to the next where the trace has no times.
const STEP: u64 = 1000;

/// Shows the first scenario.
pub(crate) struct Timeline<'a> {
    sink: &'a dyn Sink,
    now: u64,
    id: u64,
    /// One allocation of each counter that was shown.
    shown: Vec<Slot>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(sink: &'a dyn Sink) -> Self {
        Self { sink, now: 0, id: 0, shown: Vec::new() }
    }

    /// Runs the event, and shows what it did.
    pub(crate) fn apply(&mut self, replay: &mut Replay, line: u64, event: &Event<'_>) -> Result<(), Wrong> {
        let time = match event {
            Event::Alloc(alloc) => alloc.time,
            Event::Copy(copy) => copy.time,
            Event::Free { time, .. }
            | Event::Mark { time, .. }
            | Event::Load { time, .. }
            | Event::Unload { time, .. }
            | Event::Exit { time, .. } => *time,
        };
        // Never back: threads may have written out of order.
        self.now = time.unwrap_or(self.now.saturating_add(STEP)).max(self.now);
        let about = replay.about(event);
        let before = replay.first().map_or(0, |column| column.refused());
        replay.apply(line, event)?;
        let refused = replay.first().is_some_and(|column| column.refused() > before);
        match event {
            Event::Alloc(alloc) => {
                if refused {
                    let hint = alloc.hint.as_deref();
                    let about = About {
                        location: alloc.location,
                        hbm: alloc.hbm,
                        usage: Some(alloc.usage),
                        size: alloc.size,
                        hint,
                    };
                    self.id += 1;
                    let (id, event) = (self.id, EventNumber::ALLOCATION);
                    self.record(alloc.device, alloc.core, What::Begin { id, event, about });
                    let status = NrtStatus::Resource;
                    self.record(alloc.device, alloc.core, What::Stop { id, event, about, status });
                }
                if let Some(slot) = replay.allocated(alloc.id) {
                    self.in_use(replay, &slot);
                    if !self.shown.iter().any(|shown| counters(shown) == counters(&slot)) {
                        self.shown.push(slot);
                    }
                }
            }
            Event::Free { .. } => about.iter().for_each(|slot| self.in_use(replay, slot)),
            Event::Exit { .. } => self.shown.iter().for_each(|slot| self.in_use(replay, slot)),
            _ => {}
        }
        Ok(())
    }

    fn in_use(&self, replay: &Replay, slot: &Slot) {
        let Some(column) = replay.first() else { return };
        let (hbm, bytes, category) = if slot.location == MemLocation::Host {
            (None, column.meters.host.now, None)
        } else {
            let category = slot.usage.aggregate();
            let of_category = column.meters.categories.get(category.index()).map_or(0, |meter| meter.now);
            (Some(slot.hbm), column.taken_on(slot.device, slot.hbm), Some((category, of_category)))
        };
        self.record(slot.device, slot.core, What::InUse { hbm, bytes, category });
    }

    fn record(&self, device: u8, core: u32, what: What<'_>) {
        self.sink.record(&Record { time_ns: self.now, device, core, thread: 1, what });
    }
}

/// Which counters an allocation moves.
fn counters(slot: &Slot) -> (u8, u32, MemLocation, usize) {
    (slot.device, slot.hbm, slot.location, slot.usage.aggregate().index())
}
