//! The events of the document, as the Trace Event Format has them. Times are microseconds
//! with a fraction.

use neuron_abi::memory::{MemLocation, UsageType};
use serde::Serialize;
use serde_json::{Value, json};

use super::rows::{Lane as RowLane, Row, Rows, Track};
use crate::trace::record::{About, EventNumber, Lane, Record, What};

/// Numbers come out with as many digits as tell nanoseconds apart, for months.
fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    args: Value,
}

impl Event<'_> {
    fn json(&self) -> Vec<u8> {
        // Strings and numbers into memory: there is nothing to fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The number of a device's process in the document, from 1: Perfetto has a meaning of its own for 0.
fn pid(device: u8) -> u32 {
    u32::from(device) + 1
}

/// Names a process or thread, or says where it stands.
fn metadata(name: &'static str, pid: u32, tid: u32, args: Value) -> Vec<u8> {
    Event { name, cat: "__metadata", ph: "M", ts: 0.0, dur: None, pid, tid, args }.json()
}

/// Makes events of records.
#[derive(Debug, Default)]
pub(super) struct Events {
    rows: Rows,
    named: Vec<u8>,
}

impl Events {
    /// The events that show a record, each a JSON object.
    pub(super) fn of(&mut self, record: &Record<'_>) -> Vec<Vec<u8>> {
        let Record { time_ns, device, core, thread, what } = *record;
        let (pid, mut events) = (pid(device), Vec::new());
        if !self.named.contains(&device) {
            self.named.push(device);
            events.push(metadata("process_name", pid, 0, json!({ "name": format!("neuron{device}") })));
        }
        let mut named = |row: Row, lane: RowLane| {
            if row.new {
                events.push(metadata("thread_name", pid, row.tid, json!({ "name": row.name(lane) })));
                let order = json!({ "sort_index": row.order(lane) });
                events.push(metadata("thread_sort_index", pid, row.tid, order));
            }
            row.tid
        };
        let ts = microseconds(time_ns);
        let runtime = (device, core, Track::Runtime);
        match what {
            What::Begin { id, event, about } => {
                let tid = named(self.rows.begin(runtime, id, time_ns), runtime);
                let args = begin(id, event, thread, &about);
                let event =
                    Event { name: event.name(), cat: "runtime", ph: "B", ts, dur: None, pid, tid, args };
                events.push(event.json());
            }
            What::Stop { id, event, status, .. } => {
                let Some(row) = self.rows.end(id, time_ns) else { return events };
                let args = json!({ "id": id, "event": event.0, "status": status.name() });
                let (name, tid) = (event.name(), row.tid);
                events.push(Event { name, cat: "runtime", ph: "E", ts, dur: None, pid, tid, args }.json());
            }
            What::Span { lane, began_ns, bytes } => {
                let track = match lane {
                    Lane::HostCopy => Track::HostCopy,
                    Lane::Dma => Track::Dma,
                    Lane::Wait => Track::Wait,
                };
                let to = (device, core, track);
                let tid = named(self.rows.span(to, began_ns, time_ns), to);
                let args = json!({ "bytes": bytes, "thread": thread });
                let (ts, dur) = (microseconds(began_ns), Some(microseconds(time_ns - began_ns.min(time_ns))));
                events
                    .push(Event { name: lane.name(), cat: "copy", ph: "X", ts, dur, pid, tid, args }.json());
            }
            What::InUse { hbm, bytes, category } => {
                let mut counter = |name: &str, bytes: u64| {
                    let args = json!({ "bytes": bytes });
                    events.push(
                        Event { name, cat: "memory", ph: "C", ts, dur: None, pid, tid: 0, args }.json(),
                    );
                };
                match hbm {
                    Some(hbm) => counter(&format!("HBM {hbm}"), bytes),
                    None => counter("host memory", bytes),
                }
                if let Some((category, bytes)) = category {
                    counter(category.name(), bytes);
                }
            }
        }
        events
    }
}

fn begin(id: u64, event: EventNumber, thread: u64, about: &About<'_>) -> Value {
    let location = match about.location {
        MemLocation::Host => "host",
        _ => "device",
    };
    json!({
        "id": id,
        "event": event.0,
        "bytes": about.size,
        "location": location,
        "hbm": about.hbm,
        "usage": about.usage.map(UsageType::name),
        "hint": about.hint,
        "thread": thread,
    })
}
