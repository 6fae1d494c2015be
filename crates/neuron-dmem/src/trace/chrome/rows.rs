//! Rows: which thread of the document an event is shown on. What overlaps is on rows of its
//! own, because viewers nest what shares one.

use std::collections::HashMap;

/// Lanes of a core, in the order they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Track {
    /// Allocations, frees and copies.
    Runtime,
    /// The host moves bytes.
    HostCopy,
    /// DMAs.
    Dma,
    /// The host waits.
    Wait,
}

impl Track {
    const fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::HostCopy => "host copy",
            Self::Dma => "DMA",
            Self::Wait => "marker wait",
        }
    }
}

/// A lane: device, core, track.
pub(super) type Lane = (u8, u32, Track);

/// A row of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Its thread number, from 1: Perfetto has a meaning of its own for 0.
    pub(super) tid: u32,
    /// Its number in its lane.
    pub(super) place: u32,
    /// It was not there before.
    pub(super) new: bool,
}

impl Row {
    /// What it is called.
    pub(super) fn name(self, (_, core, track): Lane) -> String {
        let name = track.name();
        if self.place == 0 {
            format!("core {core} {name}")
        } else {
            format!("core {core} {name} {}", self.place + 1)
        }
    }

    /// Where it stands among the rows of its device.
    pub(super) fn order(self, (_, core, track): Lane) -> u32 {
        (core * 4 + track as u32) * 100 + self.place.min(99)
    }
}

#[derive(Debug)]
struct State {
    tid: u32,
    /// Nothing is shown from here on; `None` while something is open.
    free_from: Option<u64>,
}

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Rows {
    lanes: HashMap<Lane, Vec<State>>,
    open: HashMap<u64, (Lane, Row)>,
    tids: u32,
}

impl Rows {
    /// A row for something that begins and will end.
    pub(super) fn begin(&mut self, lane: Lane, id: u64, at: u64) -> Row {
        let row = self.take(lane, at, None);
        self.open.insert(id, (lane, row));
        row
    }

    /// The row of what ends; `None` if it never began.
    pub(super) fn end(&mut self, id: u64, at: u64) -> Option<Row> {
        let (lane, row) = self.open.remove(&id)?;
        if let Some(state) = self.lanes.get_mut(&lane).and_then(|rows| rows.get_mut(row.place as usize)) {
            state.free_from = Some(at);
        }
        Some(row)
    }

    /// A row for something that has ended.
    pub(super) fn span(&mut self, lane: Lane, from: u64, to: u64) -> Row {
        self.take(lane, from, Some(to))
    }

    /// The first that is free at that time.
    fn take(&mut self, lane: Lane, from: u64, free_from: Option<u64>) -> Row {
        let rows = self.lanes.entry(lane).or_default();
        let free = rows.iter_mut().zip(0..).find(|(row, _)| row.free_from.is_some_and(|free| free <= from));
        if let Some((row, place)) = free {
            row.free_from = free_from;
            return Row { tid: row.tid, place, new: false };
        }
        self.tids += 1;
        rows.push(State { tid: self.tids, free_from });
        Row { tid: self.tids, place: (rows.len() - 1) as u32, new: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_overlaps_is_never_on_one_row(spans in prop::collection::vec((0u64..100, 0u64..20), 1..60)) {
            let mut rows = Rows::default();
            let mut shown: Vec<(u32, u64, u64)> = Vec::new();
            for (from, bytes) in spans {
                let (tid, to) = (rows.span((0, 0, Track::Dma), from, from + bytes).tid, from + bytes);
                prop_assert!(shown.iter().all(|&(other, f, t)| other != tid || t <= from || to <= f));
                shown.push((tid, from, to));
            }
        }
    }

    #[test]
    fn a_row_is_used_again_once_what_was_open_has_ended() {
        let (mut rows, lane) = (Rows::default(), (1, 3, Track::Runtime));
        let first = rows.begin(lane, 7, 10);
        let second = rows.begin(lane, 8, 11);
        assert_eq!((first.place, second.place, first.new, second.new), (0, 1, true, true));
        assert_eq!(rows.end(7, 20).map(|row| row.tid), Some(first.tid));
        assert_eq!(rows.end(7, 20), None);
        assert_eq!(rows.begin(lane, 9, 20), Row { new: false, ..first });
        assert_eq!(
            (first.name(lane), second.name(lane)),
            ("core 3 runtime".into(), "core 3 runtime 2".into())
        );
        assert_ne!(rows.begin((0, 3, Track::Runtime), 10, 0).tid, first.tid);
    }
}
