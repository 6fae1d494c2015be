//! A refused device request: from its row, the generation's pools, and a chunk dump if there is
//! one, to the cause and to who holds the memory.

use std::collections::BTreeMap;

use neuron_abi::arch::Generation;
use neuron_dmem::report::figures::short;
use neuron_dmem::report::{CauseKind as DumpCause, Size};

use super::change::{Case, change};
use super::{Answer, Basis, CauseKind, Holder, words};
use crate::dump::{Dump, Shown};
use crate::facts::{Facts, Failure, Row};
use crate::stack::{RoomLeft, Stack};
use crate::tags::{Fit, fit, splits};

/// What rounding to pages may add to a process's own total before it counts as another's.
const NOISE: u64 = 64 << 20;

pub(super) fn answer(
    facts: &Facts,
    failure: &Failure,
    group: Vec<usize>,
    stack: Option<&Stack>,
    dumps: &[Dump],
) -> Answer {
    let row = failure.row.and_then(|row| facts.usage.get(row));
    let left = row.and_then(|row| stack?.room(row));
    let shown = dumps.iter().find_map(|dump| Some((dump, dump.shown(failure, stack)?)));
    let (cause, basis) = cause(failure, left.as_ref(), shown.as_ref().map(|(_, shown)| shown));
    let free = free(left.as_ref(), shown.as_ref().map(|(_, shown)| shown));
    let missing = failure.requested.zip(free).map(|(requested, free)| Size {
        bytes: requested.bytes.saturating_sub(free.bytes),
        tol: requested.tol.saturating_add(free.tol),
    });
    let holder = holder(facts, failure, row, missing, shown.as_ref().map(|(_, shown)| shown));
    let case = Case {
        facts,
        failure,
        row,
        left: left.as_ref(),
        room: shown.as_ref().map(|(_, shown)| &shown.room),
        cause,
        missing,
        holder: holder.as_ref(),
        stack,
    };
    let change = change(&case);
    let mut room = Vec::new();
    if let Some((dump, shown)) = &shown {
        room.extend(dumped(dump, shown, failure));
    }
    room.extend(by_subtraction(stack, left.as_ref(), row));
    let mut unknown = Vec::new();
    if shown.is_none() {
        unknown.push(match row {
            Some(_) => "holes, other processes: --chunks with the driver's dump shows them".to_owned(),
            None => "what else was in use: no list or table belongs to this request".to_owned(),
        });
    }
    if failure.status.is_none() && !failure.status_seen {
        let inferred =
            failure.status_inferred.map_or_else(String::new, |it| format!("; a refusal answers {it}"));
        unknown.push(format!("the status: no line has it{inferred}"));
    }
    Answer {
        request: words::request(failure),
        place: words::place(facts, &group),
        consumers: row.map_or_else(|| "not in this log".to_owned(), words::consumers),
        room,
        cause,
        basis,
        sentence: sentence(
            failure,
            cause,
            basis,
            left.as_ref(),
            shown.as_ref().map(|(_, shown)| shown),
            missing,
            holder.as_ref(),
        ),
        holder,
        change,
        unknown,
        failures: group,
    }
}

fn cause(failure: &Failure, left: Option<&RoomLeft>, shown: Option<&Shown>) -> (CauseKind, Basis) {
    let Some(requested) = failure.requested else { return (CauseKind::Open, Basis::Open) };
    if let Some(shown) = shown {
        let kind = match DumpCause::of(requested.bytes, &shown.room) {
            DumpCause::LargerThanPool => CauseKind::LargerThanPool,
            DumpCause::Capacity => CauseKind::Capacity,
            DumpCause::PoolSplit => CauseKind::PoolSplit,
            DumpCause::Fragmentation => CauseKind::Fragmentation,
            DumpCause::Alignment => CauseKind::Alignment,
            DumpCause::FitsNow => CauseKind::FitsNow,
            DumpCause::Unknown | DumpCause::HostContiguous => CauseKind::Open,
        };
        return (kind, Basis::Fact);
    }
    let Some(left) = left.filter(|left| !left.contradiction) else { return (CauseKind::Open, Basis::Open) };
    let kind = match fit(requested, left) {
        Fit::TooLarge if requested.bytes > left.main_pool_bytes.saturating_add(requested.tol) => {
            CauseKind::LargerThanPool
        }
        Fit::TooLarge => CauseKind::Capacity,
        Fit::Fits => CauseKind::FragmentationOrAlignment,
        Fit::Unsure => CauseKind::CapacityOrFragmentation,
    };
    (kind, Basis::Inferred)
}

fn free(left: Option<&RoomLeft>, shown: Option<&Shown>) -> Option<Size> {
    let dumped =
        shown.map(|shown| Size::exact(shown.room.main.left().saturating_add(shown.room.small.left())));
    dumped.or_else(|| left.map(|left| left.free))
}

/// What the driver lists.
fn dumped(dump: &Dump, shown: &Shown, failure: &Failure) -> Vec<String> {
    let aligned = !matches!(failure.alignment, crate::facts::Align::NotPrinted | crate::facts::Align::None);
    let pool = |name: &str, pool: &neuron_dmem::PoolRoom| {
        let aligned =
            if aligned { format!(", aligned {}", short(pool.largest_aligned_hole)) } else { String::new() };
        format!(
            "{name} pool {} of {} left, largest hole {}{aligned}",
            short(pool.left()),
            short(pool.size),
            short(pool.largest_hole)
        )
    };
    let path = neuron_dmem::report::figures::quoted(&dump.path);
    vec![
        format!("{}; {}", pool("main", &shown.room.main), pool("small", &shown.room.small)),
        format!("by {} blocks in {path} ({})", shown.chunks, name(shown.generation)),
    ]
}

/// What the printed total leaves.
fn by_subtraction(stack: Option<&Stack>, left: Option<&RoomLeft>, row: Option<&Row>) -> Vec<String> {
    let Some(stack) = stack else {
        return vec![
            "not known: the log does not show the generation; --arch or --instance tells it".to_owned(),
        ];
    };
    let told = stack.because.map_or_else(|| "told".to_owned(), |why| format!("presumed: {why}"));
    let whose = format!("{} ({told}), {} an HBM", name(stack.generation), short(stack.stack_bytes()));
    let Some(left) = left else {
        let why = if row.is_some() { "the row has no total" } else { "no total in this log" };
        return vec![format!("{whose}; {why}")];
    };
    if left.contradiction {
        return vec![format!("{whose}: the printed total is more than it has, so it is another generation")];
    }
    vec![
        format!(
            "{} left of {} by the printed total; {whose}",
            words::brief(left.free),
            short(left.pool_bytes)
        ),
        main_pool(left),
    ]
}

/// The printed total is of both pools: what is in the small one is not in the main one.
fn main_pool(left: &RoomLeft) -> String {
    let main = short(left.main_pool_bytes);
    match u64::try_from(left.main_left) {
        Ok(rest) => {
            format!("its main pool ({main}, for blocks above 512 KiB) has {} of that or more", short(rest))
        }
        Err(_) => format!(
            "its main pool has {main} for blocks above 512 KiB, so at least {} of what is used is in the small pool",
            short(left.main_left.unsigned_abs())
        ),
    }
}

pub(super) fn name(generation: Generation) -> &'static str {
    match generation {
        Generation::V2 => "v2: trn1, inf2",
        Generation::V3 => "v3: trn2",
        Generation::V4 => "v4: trn3",
    }
}

/// Who holds what was missing.
fn holder(
    facts: &Facts,
    failure: &Failure,
    row: Option<&Row>,
    missing: Option<Size>,
    shown: Option<&Shown>,
) -> Option<Holder> {
    let row = row?;
    let total = row.total?;
    let needed = missing.map_or(0, |missing| missing.bytes);
    if let Some(shown) = shown {
        let others = shown.used.saturating_sub(total.bytes.saturating_add(total.tol));
        if others > NOISE && others >= needed && others > total.bytes / 8 {
            return Some(Holder::OtherProcess { bytes: others });
        }
    }
    if let Some(duplicates) = duplicates(facts, row)
        && let Holder::DuplicateModels { bytes, .. } = &duplicates
        && *bytes >= needed.max(1)
    {
        return Some(duplicates);
    }
    let core = failure.core?;
    let cores = facts
        .usage
        .iter()
        .filter(|other| other.table.is_some() && other.table == row.table && other.scope.core.is_some());
    let others = cores.filter(|other| other.scope.core != Some(core));
    let (neighbour, bytes) =
        others.filter_map(|other| Some((other.scope.core?, other.total?.bytes))).max_by_key(|it| it.1)?;
    // On an HBM that both share, the larger half; `Overall` counts a whole device.
    let shares = row.scope.hbm.is_some() || facts.cores_on_hbm.contains(&neighbour);
    (shares && u128::from(bytes) * 2 > u128::from(total.bytes))
        .then_some(Holder::NeighbourCore { core: neighbour, bytes })
}

/// The model of which most is held twice or more on one core. The same number on two cores is
/// one model spread over both.
fn duplicates(facts: &Facts, row: &Row) -> Option<Holder> {
    let mut by_name: BTreeMap<(Option<u32>, &str), Vec<u64>> = BTreeMap::new();
    for neff in facts.neffs_of(row) {
        if let (Some(name), Some(total)) = (&neff.name, neff.total)
            && !name.is_empty()
        {
            by_name.entry((neff.core, name)).or_default().push(total.bytes);
        }
    }
    let copies = by_name.into_iter().filter(|(_, sizes)| sizes.len() > 1).map(|((_, name), sizes)| {
        let sum = sizes.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        let bytes = sum.saturating_sub(sizes.iter().copied().max().unwrap_or(0));
        Holder::DuplicateModels { name: name.to_owned(), copies: sizes.len(), bytes }
    });
    copies.max_by_key(|holder| match holder {
        Holder::DuplicateModels { bytes, .. } => *bytes,
        _ => 0,
    })
}

fn sentence(
    failure: &Failure,
    cause: CauseKind,
    basis: Basis,
    left: Option<&RoomLeft>,
    shown: Option<&Shown>,
    missing: Option<Size>,
    holder: Option<&Holder>,
) -> String {
    let free = free(left, shown).map(words::brief).unwrap_or_default();
    let asked = failure.requested.map(|it| short(it.bytes)).unwrap_or_default();
    let largest = shown.map_or(0, |shown| shown.room.main.largest_hole.max(shown.room.small.largest_hole));
    let how = if basis == Basis::Fact { "" } else { " (by subtraction)" };
    let mut text = match cause {
        CauseKind::Capacity => {
            let missing =
                missing.map(|it| words::brief(Size { bytes: it.bytes.max(1), ..it })).unwrap_or_default();
            format!("capacity{how}: {asked} were asked for, {free} were left, {missing} too little")
        }
        CauseKind::LargerThanPool => {
            format!("capacity: {asked} are more than any pool of the HBM has, full or empty")
        }
        CauseKind::FragmentationOrAlignment => {
            let split = failure.requested.zip(left).is_some_and(|(requested, left)| splits(requested, left));
            let pool = if split { ", or the main pool is full and the rest is in the small one" } else { "" };
            format!(
                "fragmentation or alignment: {free} were left{how} and {asked} did not fit: no hole is as large, or none starts at the alignment{pool}; or another process, which this total does not count, has it"
            )
        }
        CauseKind::CapacityOrFragmentation => {
            format!(
                "capacity or fragmentation, both possible: {asked} were asked for and {free} were left; rounding hides which"
            )
        }
        CauseKind::Fragmentation => {
            format!("fragmentation: {free} were left, but the largest hole is {}", short(largest))
        }
        CauseKind::Alignment => {
            let aligned = shown.map_or(0, |shown| {
                shown.room.main.largest_aligned_hole.max(shown.room.small.largest_aligned_hole)
            });
            format!(
                "alignment: the largest hole is {}, but from an aligned address only {}",
                short(largest),
                short(aligned)
            )
        }
        CauseKind::PoolSplit => {
            let (main, small) =
                shown.map_or((0, 0), |shown| (shown.room.main.left(), shown.room.small.left()));
            format!(
                "pool split: {} were left in the main pool and {} in the small one; a block has to fit into one of them",
                short(main),
                short(small)
            )
        }
        CauseKind::FitsNow => format!(
            "by the dump a hole of {} would do: memory was freed between the refusal and the dump",
            short(largest)
        ),
        _ if failure.cut => "open: the input ends in the line that says how much".to_owned(),
        _ if left.is_some() => "open: the printed total does not fit the generation".to_owned(),
        _ => "open: with no totals, or no generation, neither capacity nor holes can be told".to_owned(),
    };
    text += &match holder {
        Some(Holder::OtherProcess { bytes }) => {
            format!("; {} of it are not this process's: another one's, or left by a dead one", short(*bytes))
        }
        Some(Holder::NeighbourCore { core, bytes }) => {
            format!("; NC {core}, which shares the HBM, holds {}", short(*bytes))
        }
        Some(Holder::DuplicateModels { name, copies, .. }) => {
            format!("; {} is loaded {copies} times on one core", neuron_dmem::report::figures::quoted(name))
        }
        None => String::new(),
    };
    text
}
