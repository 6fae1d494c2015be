//! A traced copy as text: seven steps, each of what was read. What the steps mean is in `docs/trace-copy.md`.

use std::fmt::Write as _;

use super::{
    Batch, Context, Direction, Doorbell, End, Half, Marker, Moment, Outcome, Pair, Place, Rx, TraceReport,
    Tx, hex,
};
use crate::bytes::{exact_and_human, plural, thousands};
use crate::render::rings::{Cursor, engine_state};
use crate::render::{headline, index_or, table};

/// What is said where a backend shows nothing.
const NOT_SHOWN: &str = "not shown by the driver behind this backend";

// Writing to a String cannot fail, so what `write!` returns is let go.
impl TraceReport {
    /// The report for people. Ends with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = headline(&self.backend, self.instance.as_deref());
        let dir = match self.direction {
            Direction::H2d => "h2d",
            Direction::D2h => "d2h",
            Direction::D2d => "d2d",
        };
        let size = exact_and_human(self.bytes);
        let _ = writeln!(text, "copy of {size} on device {}, {dir}, by MEM_COPY", self.device);
        self.place(&mut text);
        self.staged(&mut text);
        self.markers(&mut text);
        self.doorbells(&mut text);
        self.landed(&mut text);
        self.acknowledged(&mut text);
        let found = if self.equal { "equal" } else { "different" };
        let _ = writeln!(text, "\n7. Bytes: the destination, read back, is {found}");
        text
    }

    fn place(&self, text: &mut String) {
        let whose = match self.direction {
            Direction::D2h => "source's core, since the destination is the host",
            Direction::H2d | Direction::D2d => "destination's core",
        };
        let _ = writeln!(text, "\n1. Ring: that of the {whose}");
        for (name, End { place, address, core }) in [("from", &self.from), ("to", &self.to)] {
            let core = core.map_or_else(String::new, |core| format!(", core {core}"));
            let _ = writeln!(text, "   {name:<6} {}, bus address {address:#x}{core}", at(place));
        }
        let super::Route { core, engine, queue } = self.route;
        let size = plural(self.before.tx.size.into(), "slot");
        let _ = writeln!(text, "   ring   engine {engine}, queue {queue}, for core {core}: {size}");
        let flavour = self.before.flavour.map_or(NOT_SHOWN, |flavour| flavour.words());
        let _ = writeln!(text, "   is     {flavour}");
        let _ = writeln!(text, "   state  {}", states(&self.before));
    }

    fn staged(&self, text: &mut String) {
        let pairs: u64 = self.batches.iter().map(|batch| u64::from(batch.count)).sum();
        let batches = match self.batches.len() {
            1 => String::new(),
            several => format!(" in {several} batches"),
        };
        let _ = writeln!(text, "\n2. Staged: {} of descriptors{batches}", plural(pairs, "pair"));
        for (batch, number) in self.batches.iter().zip(1..) {
            if self.batches.len() > 1 {
                let _ = writeln!(text, "   batch {number}: {}", plural(batch.count.into(), "pair"));
            }
            staged_batch(text, batch);
        }
    }

    fn markers(&self, text: &mut String) {
        let markers: Vec<_> = self.batches.iter().filter_map(|batch| batch.marker.as_ref()).collect();
        let behind = if self.batches.len() == 1 { "behind the data" } else { "one behind each batch" };
        let _ = writeln!(text, "\n3. Marker: {}, {behind}", plural(markers.len() as u64, "pair"));
        markers.into_iter().for_each(|pair| show(text, pair));
    }

    fn doorbells(&self, text: &mut String) {
        let Some(doorbells) = &self.doorbells else {
            let _ = writeln!(text, "\n4. Doorbells: {NOT_SHOWN}");
            return;
        };
        let _ = writeln!(text, "\n4. Doorbells, in the order the device heard them");
        if !doorbells.complete {
            let _ = writeln!(text, "   the first of this copy are no longer kept");
        }
        for Doorbell { number, engine, queue, half, count, outcome } in &doorbells.list {
            let half = match half {
                Half::Tx => "TX",
                Half::Rx => "RX",
            };
            let outcome = match outcome {
                Outcome::Announced => "",
                Outcome::Unnoticed => ", not noticed",
                Outcome::Refused => ", refused",
            };
            let count = plural((*count).into(), "descriptor");
            let _ =
                writeln!(text, "   no. {number:<4} {half}  engine {engine}, queue {queue}: {count}{outcome}");
        }
    }

    fn landed(&self, text: &mut String) {
        let _ = writeln!(text, "\n5. Landed: MEM_COPY succeeded, as it does when the marker has landed");
        let _ = writeln!(text, "   state  {}", states(&self.after));
        for (name, before, after) in
            [("TX", &self.before.tx, &self.after.tx), ("RX", &self.before.rx, &self.after.rx)]
        {
            let left = match after.head == after.tail {
                true => "nothing left to fetch",
                false => "not all fetched",
            };
            let _ = writeln!(
                text,
                "   {name:<6} head {} -> {}, tail {}: {left}",
                before.head, after.head, after.tail
            );
        }
        match (&self.before.marker, &self.after.marker) {
            (Some(before), Some(after)) => {
                let _ = writeln!(text, "   marker before: {}", marker_words(before));
                let _ = writeln!(text, "          after:  {}", marker_words(after));
            }
            _ => {
                let _ = writeln!(text, "   marker {NOT_SHOWN}");
            }
        }
    }

    fn acknowledged(&self, text: &mut String) {
        let rings = [("TX", &self.before.tx, &self.after.tx), ("RX", &self.before.rx, &self.after.rx)];
        let moved: Option<Vec<String>> = rings
            .iter()
            .map(|(name, before, after)| {
                let (old, new) = (before.cursor?.completed, after.cursor?.completed);
                Some(format!("{} {name} slots", thousands(distance(old, new, after.size).into())))
            })
            .collect();
        let Some(moved) = moved else {
            let _ = writeln!(text, "\n6. Acknowledge: {NOT_SHOWN}");
            return;
        };
        let _ = writeln!(text, "\n6. Acknowledged: {}\n", moved.join(", "));
        let mut table = table(["", "", "next", "ring id", "done", "in flight", "free"], 2);
        for (name, before, after) in rings {
            for (when, ring, label) in [("before", before, name), ("after", after, "")] {
                if let Some(cursor) = &ring.cursor {
                    table.add_row(cursor_row(label, when, cursor));
                }
            }
        }
        let _ = writeln!(text, "{}", table.trim_fmt());
    }
}

fn cursor_row(name: &str, when: &str, cursor: &Cursor) -> [String; 7] {
    [
        name.to_owned(),
        when.to_owned(),
        cursor.next.to_string(),
        cursor.ring_id.to_string(),
        cursor.completed.to_string(),
        index_or(cursor.in_flight, "-"),
        index_or(cursor.available, "-"),
    ]
}

/// Slots from one index to another in a ring of this size.
fn distance(from: u32, to: u32, size: u32) -> u32 {
    if to >= from { to - from } else { (size - from.min(size)).saturating_add(to) }
}

fn staged_batch(text: &mut String, batch: &Batch) {
    match (batch.omitted, &batch.pairs[..]) {
        (1.., [first, last]) => {
            show(text, first);
            let (omitted, per) = (thousands(batch.omitted.into()), thousands(first.tx.bytes.into()));
            let how = match batch.omitted_alike {
                true => format!("alike, each {per} B further on"),
                false => "not all alike; --full shows them".to_owned(),
            };
            let _ = writeln!(text, "   ... {omitted} more, {how}");
            show(text, last);
        }
        (_, pairs) => pairs.iter().for_each(|pair| show(text, pair)),
    }
}

fn show(text: &mut String, pair: &Pair) {
    let Pair { slot, rx_slot, tx, rx } = pair;
    // Two halves that differ are shown as they are, not hidden behind one of them.
    let both = |tx: String, rx: String| if tx == rx { tx } else { format!("{tx} (RX {rx})") };
    let slot = both(slot.to_string(), rx_slot.to_string());
    let bytes = both(thousands(tx.bytes.into()), thousands(rx.bytes.into()));
    let id = both(tx.ring_id.to_string(), rx.ring_id.to_string());
    let _ = writeln!(text, "   slot {slot}: {bytes} B, ring id {id}");
    let line = |words, flags: &[(bool, &str)], way, place| {
        let set: Vec<_> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        format!("{}  {:<24} {way:<4} {}", hex(words).join(" "), set.join(" "), at(place))
    };
    let _ = writeln!(text, "     TX {}", line(tx.words, &tx_flags(tx), "from", &tx.place));
    let _ = writeln!(text, "     RX {}", line(rx.words, &rx_flags(rx), "to", &rx.place));
}

fn tx_flags(tx: &Tx) -> [(bool, &'static str); 7] {
    [
        (tx.first, "first"),
        (tx.last, "last"),
        (tx.meta, "meta"),
        (tx.concat, "concat"),
        (tx.interrupt, "interrupt"),
        (tx.data_barrier, "data-barrier"),
        (tx.write_barrier, "write-barrier"),
    ]
}

fn rx_flags(rx: &Rx) -> [(bool, &'static str); 2] {
    [(rx.interrupt, "interrupt"), (rx.strong_order, "strong-order")]
}

fn at(place: &Place) -> String {
    let name = |context: &Context| match context {
        Context::Sync => "SYNC",
        Context::Async1 => "ASYNC1",
        Context::Async2 => "ASYNC2",
    };
    match place {
        Place::Host { physical } => format!("host {physical:#x}"),
        Place::Hbm { hbm, offset } => format!("HBM {hbm} + {offset:#x}"),
        Place::MarkerSource { context } => format!("marker source, {}", name(context)),
        Place::MarkerDestination { context } => format!("marker destination, {}", name(context)),
        Place::Other => "neither host nor HBM".to_owned(),
    }
}

fn states(moment: &Moment) -> String {
    format!("TX {}, RX {}", engine_state(moment.tx_state), engine_state(moment.rx_state))
}

fn marker_words(marker: &Marker) -> String {
    let Marker { source, destination, .. } = marker;
    format!("source {source:#010x}, destination {destination:#010x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::rings::{Flavour, Ring};
    use crate::render::trace::{Doorbells, Route};

    fn cursor(next: u32) -> Cursor {
        let (available, in_flight) = (Some(48), Some(0));
        Cursor { driver_fills: true, next, completed: next, ring_id: 1, available, in_flight }
    }

    fn moment(slot: u32, marker: u32) -> Moment {
        let ring = Ring {
            size: 64,
            base: 0,
            head: slot,
            tail: slot,
            hw_status: 0,
            sw_status: 2,
            cursor: Some(cursor(slot)),
        };
        let marker = Some(Marker { address: 0, source: marker, destination: 0 });
        let flavour = Some(Flavour::H2tDefault);
        Moment { tx_state: 1, rx_state: 1, flavour, tx: ring, rx: ring, marker }
    }

    fn pair(slot: u32) -> Pair {
        let address = u64::from(slot) << 16;
        let tx = Tx {
            words: (0x0d00_0000, 0x0108_0003, address),
            bytes: 65536,
            ring_id: 1,
            first: true,
            last: true,
            meta: false,
            concat: false,
            interrupt: false,
            data_barrier: false,
            write_barrier: false,
            address,
            place: Place::Hbm { hbm: 0, offset: address },
        };
        let rx = Rx {
            words: (0x0100_0000, 0, address),
            bytes: 65536,
            ring_id: 1,
            interrupt: false,
            strong_order: false,
            address,
            place: Place::Other,
        };
        Pair { slot, rx_slot: slot, tx, rx }
    }

    fn report() -> TraceReport {
        let end = |core| End { place: Place::Other, address: 0, core };
        TraceReport {
            backend: "software".to_owned(),
            instance: Some("trn1.2xlarge".to_owned()),
            device: 0,
            direction: Direction::D2h,
            bytes: 5 << 16,
            from: end(Some(0)),
            to: end(None),
            route: Route { core: 0, engine: 32, queue: 0 },
            before: moment(62, 0),
            after: moment(4, 0xabcd_ef01),
            batches: vec![Batch {
                count: 5,
                omitted: 3,
                omitted_alike: true,
                pairs: vec![pair(62), pair(2)],
                marker: Some(pair(3)),
            }],
            doorbells: Some(Doorbells { complete: true, list: Vec::new() }),
            equal: true,
        }
    }

    fn has(report: &TraceReport, line: &str) {
        let text = report.text();
        assert!(text.contains(line), "no {line:?} in {text}");
    }

    #[test]
    fn slots_are_counted_across_the_end_of_the_ring() {
        assert_eq!((distance(62, 4, 64), distance(4, 4, 64), distance(0, 63, 64)), (6, 0, 63));
        // Nothing a device says makes this panic.
        assert_eq!((distance(70, 4, 64), distance(1, 0, 0), distance(u32::MAX, 0, u32::MAX)), (4, 0, 0));
        has(&report(), "\n6. Acknowledged: 6 TX slots, 6 RX slots\n");
    }

    #[test]
    fn pairs_left_out_are_called_alike_only_if_they_are() {
        has(&report(), "\n   ... 3 more, alike, each 65,536 B further on\n   slot 2: ");
        let mut report = report();
        report.batches[0].omitted_alike = false;
        has(&report, "\n   ... 3 more, not all alike; --full shows them\n");
    }

    #[test]
    fn halves_of_a_pair_that_differ_are_both_shown() {
        let mut report = report();
        let pair = &mut report.batches[0].pairs[0];
        (pair.rx_slot, pair.rx.bytes, pair.rx.ring_id) = (9, 100, 3);
        has(&report, "\n   slot 62 (RX 9): 65,536 (RX 100) B, ring id 1 (RX 3)\n");
    }

    #[test]
    fn every_flag_that_is_set_is_named() {
        let mut report = report();
        let Pair { tx, rx, .. } = &mut report.batches[0].pairs[0];
        (tx.first, tx.meta, tx.concat, tx.interrupt, tx.data_barrier) = (false, true, true, true, true);
        (rx.interrupt, rx.strong_order) = (true, true);
        has(&report, "  last meta concat interrupt data-barrier from HBM 0 + 0x3e0000\n");
        has(&report, "  interrupt strong-order   to   neither host nor HBM\n");
    }

    #[test]
    fn what_came_of_a_doorbell_and_what_is_not_kept_is_told() {
        let mut report = report();
        let bell = |number, half, outcome| Doorbell { number, engine: 3, queue: 7, half, count: 1, outcome };
        let list = vec![bell(1, Half::Rx, Outcome::Refused), bell(2, Half::Tx, Outcome::Unnoticed)];
        report.doorbells = Some(Doorbells { complete: false, list });
        has(
            &report,
            "\n   the first of this copy are no longer kept\n   \
             no. 1    RX  engine 3, queue 7: 1 descriptor, refused\n   \
             no. 2    TX  engine 3, queue 7: 1 descriptor, not noticed\n",
        );
    }

    #[test]
    fn an_engine_that_is_behind_and_bytes_that_differ_are_told() {
        let mut report = report();
        (report.after.tx.head, report.after.rx_state, report.equal) = (63, 3, false);
        has(&report, "\n   TX     head 62 -> 63, tail 4: not all fetched\n");
        has(&report, "\n   state  TX idle, RX abort\n");
        has(&report, "\n7. Bytes: the destination, read back, is different\n");
    }

    #[test]
    fn the_ring_is_that_of_the_device_end() {
        has(&report(), "\n1. Ring: that of the source's core, since the destination is the host\n");
        let mut report = report();
        report.direction = Direction::D2d;
        has(&report, "\n1. Ring: that of the destination's core\n");
    }
}
