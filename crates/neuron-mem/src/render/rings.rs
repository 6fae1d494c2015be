//! Queues of engines, as JSON and as text for people.

use std::fmt::Write as _;

use neuron_ndl::introspect::FlavourView;
use serde::Serialize;

use super::{headline, table};
use crate::bytes::plural;

/// The result of `rings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RingsReport {
    /// The backend that was asked: `software` or `kernel`.
    pub backend: String,
    /// Instance type; of the kernel's devices what the driver calls them, `None` (JSON `null`) if it does not
    /// show it.
    pub instance: Option<String>,
    /// Device index.
    pub device: u32,
    /// Which queues are listed.
    pub selection: Selection,
    /// Whether the backend shows what no ioctl does: `owner` and `cursor` of each queue.
    pub owners_shown: bool,
    /// Initialised engines that were looked at.
    pub engine_count: u32,
    /// Their queues.
    pub queue_count: u32,
    /// Engines with listed queues, ascending.
    pub engines: Vec<Engine>,
}

/// Which queues are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// Those that something is on.
    InUse,
    /// Those whose registers name a ring: all that can be told without the driver's view.
    Programmed,
    /// All.
    All,
}

/// One engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// Engine index.
    pub engine: u32,
    /// State of the TX half: 0 disabled, 1 idle, 2 normal, 3 abort, 4 reset (`spec/udma.md` 5).
    pub tx_state: u32,
    /// State of the RX half.
    pub rx_state: u32,
    /// The queues listed, ascending.
    pub queues: Vec<Queue>,
}

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Queue number on its engine.
    pub queue: u32,
    /// Whose it is; `null` where the backend does not show it.
    pub owner: Option<Owner>,
    /// TX ring.
    pub tx: Ring,
    /// RX ring.
    pub rx: Ring,
}

/// What is on a queue and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// What is on it.
    pub flavour: Flavour,
    /// Process that owns the ring, 0 for the driver or nobody.
    pub owner: i32,
    /// Process whose exit ends it.
    pub held_by: Option<i32>,
    /// Core it belongs to.
    pub core: Option<u32>,
    /// The driver copies with it.
    pub is_h2t: bool,
    /// A request claimed it.
    pub is_allocated: bool,
    /// The core whose H2T ring it is.
    pub is_owner_core: Option<u32>,
    /// NX cores drive it.
    pub is_nx: bool,
}

/// What is on a queue (`spec/driver.md` 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    /// Nothing.
    Unused,
    /// A core's default H2T ring.
    H2tDefault,
    /// An H2T ring that a process asked for.
    H2tRequested,
    /// Claimed by a process that manages it.
    Service,
    /// Bound by a process without a claim.
    Model,
}

impl Flavour {
    /// As people read it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::H2tDefault => "H2T default",
            Self::H2tRequested => "H2T request",
            Self::Service => "service",
            Self::Model => "model",
        }
    }
}

impl From<FlavourView> for Flavour {
    fn from(flavour: FlavourView) -> Self {
        match flavour {
            FlavourView::Unused => Self::Unused,
            FlavourView::DefaultH2t => Self::H2tDefault,
            FlavourView::RequestedH2t => Self::H2tRequested,
            FlavourView::Service => Self::Service,
            FlavourView::Model => Self::Model,
        }
    }
}

/// One ring of a queue. Sizes, heads and tails in descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ring {
    /// Length, 0 for none.
    pub size: u32,
    /// Bus address of its memory.
    pub base: u64,
    /// The device's head: next to fetch.
    pub head: u32,
    /// The device's tail: end of what doorbells announced.
    pub tail: u32,
    /// The device's status register.
    pub hw_status: u32,
    /// What software last did: 0 nothing, 1 disabled, 2 enabled, 3 aborted.
    pub sw_status: u32,
    /// The driver's cursors; `null` where the backend does not show them.
    pub cursor: Option<Cursor>,
}

/// The driver's cursors into a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cursor {
    /// Whether the driver puts descriptors into the ring; if not, a process does.
    pub driver_fills: bool,
    /// Slot that is prepared next.
    pub next: u32,
    /// Slot that is acknowledged next.
    pub completed: u32,
    /// Ring id of the slot at `next`.
    pub ring_id: u8,
    /// Slots that can be prepared; `null` for a size that is no power of two.
    pub available: Option<u32>,
    /// Slots prepared and not acknowledged; `null` as for `available`.
    pub in_flight: Option<u32>,
}

/// Name of an engine state (`spec/udma.md` 5).
#[must_use]
pub fn engine_state(state: u32) -> String {
    match state {
        0 => "disabled".to_owned(),
        1 => "idle".to_owned(),
        2 => "normal".to_owned(),
        3 => "abort".to_owned(),
        4 => "reset".to_owned(),
        other => format!("state {other}"),
    }
}

/// What stands where a backend shows nothing.
const NOT_SHOWN: &str = "?";
/// What stands where there is nothing to show.
const NONE: &str = "-";

impl RingsReport {
    /// The report for people. Ends with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = headline(&self.backend, self.instance.as_deref());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "device {}: {}", self.device, self.shown());
        if !self.owners_shown {
            let _ = writeln!(text, "{NOT_SHOWN}: the driver behind this backend does not show it");
        }
        for engine in &self.engines {
            let Engine { engine: index, tx_state, rx_state, queues } = engine;
            let (tx, rx) = (engine_state(*tx_state), engine_state(*rx_state));
            let _ = writeln!(text, "\nengine {index}: TX {tx}, RX {rx}\n\n{}", queue_table(queues));
        }
        text
    }

    fn shown(&self) -> String {
        let listed: usize = self.engines.iter().map(|engine| engine.queues.len()).sum();
        let of = format!(
            "{} of {}",
            plural(self.queue_count.into(), "queue"),
            plural(self.engine_count.into(), "engine")
        );
        match self.selection {
            Selection::All => format!("all {of}"),
            Selection::InUse => format!("{listed} of {of}: those in use; --all lists the others"),
            Selection::Programmed => format!("{listed} of {of}: those with a ring; --all lists the others"),
        }
    }
}

fn queue_table(queues: &[Queue]) -> String {
    let header =
        ["queue", "flavour", "owner", "core", "", "size", "next", "done", "id", "in flight", "head", "tail"];
    let mut table = table(header, 5);
    for queue in queues {
        let [number, flavour, owner, core] = whose(queue);
        for (name, ring, first) in [("TX", &queue.tx, true), ("RX", &queue.rx, false)] {
            let once = |cell: &String| if first { cell.clone() } else { String::new() };
            let [next, done, id, in_flight] = cursors(ring.cursor.as_ref());
            table.add_row([
                once(&number),
                once(&flavour),
                once(&owner),
                once(&core),
                name.to_owned(),
                ring.size.to_string(),
                next,
                done,
                id,
                in_flight,
                ring.head.to_string(),
                ring.tail.to_string(),
            ]);
        }
    }
    table.trim_fmt()
}

/// The first cells of a queue's first row.
fn whose(queue: &Queue) -> [String; 4] {
    let number = queue.queue.to_string();
    let Some(owner) = &queue.owner else {
        return [number, NOT_SHOWN.to_owned(), NOT_SHOWN.to_owned(), NOT_SHOWN.to_owned()];
    };
    let who = match (owner.held_by, owner.is_h2t) {
        (Some(pid), _) => pid.to_string(),
        (None, true) => "driver".to_owned(),
        (None, false) => NONE.to_owned(),
    };
    [number, owner.flavour.words().to_owned(), who, super::index_or(owner.core, NONE)]
}

/// Next, done, ring id, in flight. A ring that a process fills is not in the driver's `next`: what of it is
/// outstanding shows in head and tail.
fn cursors(cursor: Option<&Cursor>) -> [String; 4] {
    let Some(cursor) = cursor else { return [NOT_SHOWN; 4].map(str::to_owned) };
    let done = cursor.completed.to_string();
    if !cursor.driver_fills {
        return [NONE.to_owned(), done, NONE.to_owned(), NONE.to_owned()];
    }
    let (next, id) = (cursor.next.to_string(), cursor.ring_id.to_string());
    [next, done, id, super::index_or(cursor.in_flight, NONE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(size: u32, next: u32, driver_fills: bool) -> Ring {
        let in_flight = size.is_power_of_two().then_some(next);
        let available = in_flight.map(|flight| size - 16 - flight);
        let cursor = Cursor { driver_fills, next, completed: 0, ring_id: 1, available, in_flight };
        Ring { size, base: 0x1000, head: 3, tail: next, hw_status: 0, sw_status: 2, cursor: Some(cursor) }
    }

    fn queue(queue: u32, flavour: Flavour, held_by: Option<i32>, core: Option<u32>, ring: Ring) -> Queue {
        let is_h2t = matches!(flavour, Flavour::H2tDefault | Flavour::H2tRequested);
        let is_allocated = matches!(flavour, Flavour::H2tRequested | Flavour::Service);
        let owner = Owner {
            flavour,
            owner: if is_h2t { 0 } else { held_by.unwrap_or(0) },
            held_by,
            core,
            is_h2t,
            is_allocated,
            is_owner_core: core.filter(|_| is_h2t),
            is_nx: false,
        };
        Queue { queue, owner: Some(owner), tx: ring, rx: ring }
    }

    fn report() -> RingsReport {
        let queues = vec![
            queue(0, Flavour::H2tDefault, None, Some(1), ring(8192, 5, true)),
            queue(1, Flavour::H2tRequested, Some(4_194_304), Some(1), ring(8192, 8176, true)),
            queue(2, Flavour::Service, Some(77), Some(1), ring(0, 0, false)),
            queue(3, Flavour::Model, Some(77), None, ring(1 << 16, 0, false)),
        ];
        RingsReport {
            backend: "software".to_owned(),
            instance: Some("trn1.2xlarge".to_owned()),
            device: 0,
            selection: Selection::InUse,
            owners_shown: true,
            engine_count: 34,
            queue_count: 544,
            engines: vec![Engine { engine: 33, tx_state: 1, rx_state: 3, queues }],
        }
    }

    #[test]
    fn text_says_what_is_listed_and_whose_each_queue_is() {
        let expected = "\
backend software, instance trn1.2xlarge
device 0: 4 of 544 queues of 34 engines: those in use; --all lists the others

engine 33: TX idle, RX abort

| queue | flavour     | owner   | core |    |  size | next | done | id | in flight | head | tail |
|-------|-------------|---------|------|----|-------|------|------|----|-----------|------|------|
| 0     | H2T default | driver  | 1    | TX |  8192 |    5 |    0 |  1 |         5 |    3 |    5 |
|       |             |         |      | RX |  8192 |    5 |    0 |  1 |         5 |    3 |    5 |
| 1     | H2T request | 4194304 | 1    | TX |  8192 | 8176 |    0 |  1 |      8176 |    3 | 8176 |
|       |             |         |      | RX |  8192 | 8176 |    0 |  1 |      8176 |    3 | 8176 |
| 2     | service     | 77      | 1    | TX |     0 |    - |    0 |  - |         - |    3 |    0 |
|       |             |         |      | RX |     0 |    - |    0 |  - |         - |    3 |    0 |
| 3     | model       | 77      | -    | TX | 65536 |    - |    0 |  - |         - |    3 |    0 |
|       |             |         |      | RX | 65536 |    - |    0 |  - |         - |    3 |    0 |
";
        assert_eq!(report().text(), expected);
        assert!(expected.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn a_backend_that_shows_only_ioctls_says_so() {
        let mut report = report();
        (report.owners_shown, report.selection) = (false, Selection::Programmed);
        for queue in &mut report.engines[0].queues {
            (queue.owner, queue.tx.cursor, queue.rx.cursor) = (None, None, None);
        }
        let text = report.text();
        assert!(text.contains("those with a ring; --all lists the others\n?: the driver behind"), "{text}");
        let row =
            "| 0     | ?       | ?     | ?    | TX |  8192 |    ? |    ? |  ? |         ? |    3 |    5 |";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn json_has_a_key_for_every_column() {
        let json = serde_json::to_value(report()).unwrap();
        let queue = &json["engines"][0]["queues"][1];
        assert_eq!(json["selection"], "in_use");
        assert_eq!(
            (&queue["owner"]["flavour"], &queue["owner"]["held_by"]),
            (&"h2t_requested".into(), &4_194_304.into())
        );
        assert_eq!(queue["tx"]["cursor"]["in_flight"], 8176);
        assert_eq!(queue["rx"]["tail"], 8176);
        assert_eq!(json["engines"][0]["rx_state"], 3);
    }

    #[test]
    fn states_without_a_name_keep_their_number() {
        assert_eq!([0, 1, 2, 3, 4].map(engine_state), ["disabled", "idle", "normal", "abort", "reset"]);
        assert_eq!(engine_state(9), "state 9");
    }
}
