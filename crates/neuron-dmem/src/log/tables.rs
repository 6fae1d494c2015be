//! The counters as numbers: what a writer has and a reader copies, and what is made of them
//! for users. Whether they are right is [`check`](super::check)'s business.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};

use super::entry::{Action, Entry};
use super::layout::{Geometry, METER, METERS, ROW};
use super::meters;
use super::rows::{FIRST_ROW, OTHER_HINTS, OTHER_OWNERS, Row, RowKind};
use super::words::Words;
use crate::kind::AllocatorKind;
use crate::usage::Usage;

/// What an event shows for a hint that found no row.
const OTHER: &str = "(other)";

/// Bytes now, and the most there ever were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// In use.
    pub current: u64,
    /// Most that was in use at one time, since the log began.
    pub peak: u64,
}

/// An allocator, as the log knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What its handles belong to.
    pub kind: AllocatorKind,
    /// Its core.
    pub core: u32,
    /// What it was called; empty for nothing.
    pub label: Arc<str>,
}

/// Device memory of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerUse {
    /// Whose.
    pub owner: Owner,
    /// The allocator is gone. What is still in use then lives on without it (seed 000 §1).
    pub left: bool,
    /// Bytes.
    pub amount: Amount,
}

/// Device memory of all handles with the same hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintUse {
    /// The hint, of which the first 96 bytes count.
    pub hint: Arc<str>,
    /// Bytes.
    pub amount: Amount,
}

/// Current and peak by category, core, HBM, owner and hint, at one moment.
///
/// Bytes as charged by this process: sizes as asked for, not rounded to pages
/// (`spec/dmem.md` 9.7). Device memory, except for [`host`](Self::host).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    meters: Box<[Amount]>,
    /// Owners in order of appearance. One that left and has nothing in use may make room for
    /// another.
    pub owners: Vec<OwnerUse>,
    /// Owners for which there was no room.
    pub other_owners: Amount,
    /// Hints in order of appearance. One that nothing uses may make room for another.
    pub hints: Vec<HintUse>,
    /// Hints for which there was no room.
    pub other_hints: Amount,
}

impl Statistics {
    fn meter(&self, meter: Option<usize>) -> Amount {
        meter.and_then(|meter| self.meters.get(meter)).copied().unwrap_or_default()
    }

    /// All device memory.
    pub fn device(&self) -> Amount {
        self.meter(Some(meters::DEVICE))
    }

    /// All host memory.
    pub fn host(&self) -> Amount {
        self.meter(Some(meters::HOST))
    }

    /// An HBM.
    pub fn hbm(&self, hbm: u32) -> Amount {
        self.meter(meters::channel(hbm))
    }

    /// A core.
    pub fn core(&self, core: u32) -> Amount {
        self.meter(meters::of_core(core, UsageType::COUNT))
    }

    /// A core and usage type.
    pub fn core_usage(&self, core: u32, usage: UsageType) -> Amount {
        self.meter(meters::of_core(core, usage.index()))
    }

    /// A category, over all cores.
    pub fn category(&self, category: Aggregate) -> Amount {
        self.meter(Some(meters::category(category)))
    }

    /// What is in use now, without the peaks.
    pub fn usage(&self) -> Usage {
        Usage::from_counters(|meter| self.meter(meter).current)
    }
}

/// One event, its names looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number since the log began, from 0.
    pub number: u64,
    /// What happened.
    pub action: Action,
    /// Where.
    pub location: MemLocation,
    /// For what.
    pub usage: UsageType,
    /// HBM; 0 for host memory.
    pub hbm: u32,
    /// Core.
    pub core: u32,
    /// Bytes asked for.
    pub size: u64,
    /// Bytes counted: more than `size` where alignment was made by padding.
    pub charged: u64,
    /// Physical address.
    pub pa: u64,
    /// Offset of the first byte, for alignment made by padding.
    pub align_offset: u64,
    /// Bytes on the HBM after the event; 0 for host memory.
    pub hbm_total: u64,
    /// The hint, its first 96 bytes; `(other)` if there was no room for it.
    pub hint: Option<Arc<str>>,
    /// The allocator; `None` if there was no room for it.
    pub owner: Option<Owner>,
}

/// Counters and rows at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    /// Current, peak, base.
    pub(super) meters: Vec<[u64; METER]>,
    pub(super) rows: Vec<Row>,
}

pub(super) fn read_meters(words: &Words) -> Vec<[u64; METER]> {
    (0..meters::COUNT)
        .map(|meter| std::array::from_fn(|word| words.load(METERS + meter * METER + word)))
        .collect()
}

pub(super) fn read_row(words: &Words, geometry: Geometry, row: u64) -> [u64; ROW] {
    let (at, mut row_words) = (geometry.row(row), [0; ROW]);
    words.load_block(at, &mut row_words);
    // A row loses its head before it gets another text: who saw that text sees no old head.
    fence(Ordering::Acquire);
    row_words[0] = words.load(at);
    row_words
}

impl Tables {
    pub(super) fn statistics(&self) -> Statistics {
        let amount = |meter: &[u64; METER]| Amount { current: meter[0], peak: meter[1] };
        let other = |row: u32| self.rows.get(row as usize).map(|row| amount(&row.meter)).unwrap_or_default();
        let named = || self.rows.iter().skip(FIRST_ROW as usize).filter_map(|row| Some((row, row.kind?)));
        let owners = named().filter_map(|(row, kind)| match kind {
            RowKind::Owner { left, .. } => {
                Some(OwnerUse { owner: owner(row)?, left, amount: amount(&row.meter) })
            }
            RowKind::Hint => None,
        });
        let hints = named().filter(|&(_, kind)| kind == RowKind::Hint);
        Statistics {
            meters: self.meters.iter().map(amount).collect(),
            owners: owners.collect(),
            other_owners: other(OTHER_OWNERS),
            hints: hints
                .map(|(row, _)| HintUse { hint: Arc::clone(&row.text), amount: amount(&row.meter) })
                .collect(),
            other_hints: other(OTHER_HINTS),
        }
    }

    pub(super) fn event(&self, number: u64, entry: &Entry) -> Event {
        let hint = match entry.hint {
            0 => None,
            OTHER_HINTS => Some(Arc::from(OTHER)),
            row => self.rows.get(row as usize).map(|row| Arc::clone(&row.text)),
        };
        Event {
            number,
            action: entry.action,
            location: entry.location,
            usage: entry.usage,
            hbm: entry.channel,
            core: entry.core,
            size: entry.size,
            charged: entry.charged(),
            pa: entry.pa,
            align_offset: entry.align_offset,
            hbm_total: entry.total,
            hint,
            owner: self.rows.get(entry.owner as usize).and_then(owner),
        }
    }
}

fn owner(row: &Row) -> Option<Owner> {
    match row.kind? {
        RowKind::Owner { kind, core, .. } => Some(Owner { kind, core, label: Arc::clone(&row.text) }),
        RowKind::Hint => None,
    }
}
