//! Tags: what a reader should look at, each by its rule (`spec/report.md` 6.2).

use std::collections::{BTreeMap, BTreeSet};

use neuron_abi::arch::SMALL_ALLOC_MAX;
use neuron_dmem::report::Size;

use crate::facts::{Block, Facts, Failure, Kernel, KernelLine, Key, Row};
use crate::stack::{RoomLeft, Stack};

/// Whether a request fits by subtraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is larger than what is left, by more than the tolerance.
    TooLarge,
    /// It fits, and was refused all the same.
    Fits,
    /// Rounding hides which.
    Unsure,
}

/// A request against the room.
pub(crate) fn fit(requested: Size, room: &RoomLeft) -> Fit {
    let tolerance = requested.tol.saturating_add(room.free.tol);
    if requested.bytes > room.free.bytes.saturating_add(tolerance) {
        Fit::TooLarge
    } else if requested.bytes.saturating_add(tolerance) <= room.free.bytes {
        Fit::Fits
    } else {
        Fit::Unsure
    }
}

/// Whether neither pool can have it, as far as the printed total tells.
pub(crate) fn splits(requested: Size, room: &RoomLeft) -> bool {
    requested.bytes > SMALL_ALLOC_MAX
        && i64::try_from(requested.bytes).is_ok_and(|bytes| bytes > room.main_left)
}

/// All tags of a log.
pub(crate) fn tags(facts: &Facts, stack: Option<&Stack>) -> BTreeSet<&'static str> {
    let mut tags = BTreeSet::new();
    let mut tag = |name, holds: bool| {
        if holds {
            tags.insert(name);
        }
    };
    for failure in &facts.failures {
        let Some(requested) = failure.requested else { continue };
        let host = failure.location == Some("host");
        tag("host-contiguous", host);
        tag("scratchpad-page", failure.usage.as_deref() == Some("shared scratchpad"));
        let row = failure.row.and_then(|row| facts.usage.get(row));
        tag("partial", !host && row.is_none());
        let room = row.and_then(|row| stack?.room(row)).filter(|room| !host && !room.contradiction);
        if let Some(room) = room {
            let fit = fit(requested, &room);
            tag("capacity", fit == Fit::TooLarge);
            tag("fragmentation-or-alignment", fit == Fit::Fits);
            tag("pool-split", fit == Fit::Fits && splits(requested, &room));
        }
    }
    for row in rows(facts) {
        row_tags(facts, row, &mut tag);
    }
    for line in &facts.kernel {
        match &line.kernel {
            Kernel::PoolExhausted { total, occupied, needed, .. } => {
                let room = total.saturating_sub(*occupied);
                tag("capacity", *needed > room);
                tag("fragmentation-or-alignment", *needed <= room);
            }
            Kernel::DmaTimeout { .. } => tag("dma-timeout", true),
            Kernel::CopyRetryDuringReset { .. } => tag("retried", true),
            Kernel::QueueTooLarge { .. } => tag("ring-limit", true),
            _ => {}
        }
    }
    let ring_limit = !facts.ring_limits.is_empty();
    let refused = facts.failures.iter().any(|failure| failure.requested.is_some() || failure.cut);
    let status = facts.failures.iter().any(|failure| failure.status_seen);
    tag("ring-limit", ring_limit);
    let by_kernel = |line: &KernelLine| {
        matches!(line.kernel, Kernel::QueueTooLarge { .. } | Kernel::PoolExhausted { .. })
    };
    tag("not-oom", status && !refused && !ring_limit && !facts.kernel.iter().any(by_kernel));
    tag("driver-mismatch", facts.mismatch);
    tag("partial", facts.table_cut || facts.failures.iter().any(|failure| failure.cut));
    tag("graph-growth", !growth(&facts.memory_blocks).is_empty());
    tag("idle-core", !idle(facts, stack).is_empty());
    tags
}

/// The rows that tags are about: those of the failures; without one, the first of each table and
/// every list.
pub(crate) fn rows(facts: &Facts) -> Vec<&Row> {
    if facts.failures.iter().any(|failure| failure.requested.is_some() || failure.cut) {
        let rows = facts.failures.iter().filter_map(|failure| failure.row);
        let rows: BTreeSet<usize> = rows.collect();
        return rows.into_iter().filter_map(|row| facts.usage.get(row)).collect();
    }
    let mut tables = BTreeSet::new();
    facts.usage.iter().filter(|row| row.table.is_none_or(|table| tables.insert(table))).collect()
}

fn row_tags(facts: &Facts, row: &Row, tag: &mut impl FnMut(&'static str, bool)) {
    let Some(total) = row.total.map(|total| u128::from(total.bytes)).filter(|total| *total > 0) else {
        return;
    };
    let of = |key: Key| row.categories.get(&key).map_or(0, |size| u128::from(size.bytes));
    let rings: u128 = Key::ALL.into_iter().filter(|key| key.is_rings()).map(of).sum();
    tag("tensors-dominate", of(Key::Tensors) * 2 >= total);
    tag("dma-rings-dominate", rings * 4 >= total);
    tag("scratchpad-private", of(Key::Scratchpad) * 4 >= total);
    let carry = facts
        .neffs_of(row)
        .filter(|neff| neff.categories.get(&Key::Collectives).is_some_and(|it| it.bytes > 0));
    tag("collectives-per-neff", of(Key::Collectives) * 20 >= total && carry.take(2).count() == 2);
}

/// Cores whose total grew from one load to a later one: the first block and the last that is
/// higher.
pub(crate) fn growth(blocks: &[Block]) -> Vec<(&Block, &Block)> {
    type Core = (u32, u32, Option<u64>);
    let mut first: BTreeMap<Core, (&Block, Option<&Block>)> = BTreeMap::new();
    for block in blocks {
        let entry = first.entry((block.device, block.core, block.pid)).or_insert((block, None));
        let (lowest, highest) = *entry;
        if block.current_total.bytes > highest.unwrap_or(lowest).current_total.bytes {
            entry.1 = Some(block);
        } else if highest.is_none() && block.current_total.bytes < lowest.current_total.bytes {
            entry.0 = block;
        }
    }
    first.into_values().filter_map(|(low, high)| Some((low, high?))).collect()
}

/// A core that has room on an HBM of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    pub(crate) device: u32,
    pub(crate) core: u32,
    pub(crate) total: Size,
}

/// Cores on other HBMs that use less than a tenth of the full one, as the log itself shows.
pub(crate) fn idle(facts: &Facts, stack: Option<&Stack>) -> Vec<Idle> {
    let cores = core_totals(facts);
    let failing = facts.failures.iter().find(|failure| failure.requested.is_some());
    let named =
        failing.and_then(|it| cores.iter().find(|core| Some(core.0) == it.device && Some(core.1) == it.core));
    let Some(full) = named.or_else(|| cores.iter().max_by_key(|core| core.3.bytes)) else {
        return Vec::new();
    };
    let share = |one: &(u32, u32, Option<u32>, Size), other: &(u32, u32, Option<u32>, Size)| {
        if one.0 != other.0 {
            return Some(false);
        }
        let listed = |core| facts.cores_on_hbm.contains(&core);
        match (one.2, other.2) {
            (Some(hbm), Some(other_hbm)) => Some(hbm == other_hbm),
            _ if listed(one.1) && listed(other.1) => Some(true),
            _ if listed(one.1) || listed(other.1) => Some(false),
            _ => stack.map(|stack| stack.share(one.1, other.1)),
        }
    };
    let mut idle = Vec::new();
    for core in &cores {
        let apart = share(core, full) == Some(false);
        // The whole HBM has to be free, not one of two cores on it.
        let used: u64 = cores
            .iter()
            .filter(|other| share(core, other) != Some(false))
            .fold(0, |sum, other| sum.saturating_add(other.3.bytes));
        if apart && u128::from(used) * 10 < u128::from(full.3.bytes) {
            idle.push(Idle { device: core.0, core: core.1, total: core.3 });
        }
    }
    idle
}

/// Device, core, HBM and newest total of every core that the log shows.
fn core_totals(facts: &Facts) -> Vec<(u32, u32, Option<u32>, Size)> {
    let mut all: BTreeMap<(u32, u32), (Option<u32>, Size)> = BTreeMap::new();
    for row in &facts.usage {
        if let (Some(device), Some(core), Some(total)) = (row.scope.device, row.scope.core, row.total) {
            all.insert((device, core), (row.scope.hbm, total));
        }
    }
    for block in &facts.memory_blocks {
        let entry = all.entry((block.device, block.core)).or_insert((None, block.current_total));
        entry.1 = block.current_total;
    }
    // Machines have at most 128 devices of 8 cores: what is more is no log of one.
    all.into_iter().take(1024).map(|((device, core), (hbm, total))| (device, core, hbm, total)).collect()
}

/// Failures that differ in nothing but where and when.
pub(crate) fn alike(one: &Failure, other: &Failure) -> bool {
    one.location == other.location
        && one.requested == other.requested
        && one.usage == other.usage
        && one.alignment == other.alignment
        && one.status == other.status
}
