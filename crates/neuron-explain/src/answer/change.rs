//! The smallest change that would have helped a refused device request, with its figure.

use neuron_dmem::Room;
use neuron_dmem::report::Size;
use neuron_dmem::report::figures::{quoted, short};

use super::words::{brief, percent};
use super::{CauseKind, Holder};
use crate::facts::{Facts, Failure, Key, Row};
use crate::stack::{RoomLeft, Stack};
use crate::tags::idle;

/// All that bears on it.
pub(super) struct Case<'a> {
    pub(super) facts: &'a Facts,
    pub(super) failure: &'a Failure,
    pub(super) row: Option<&'a Row>,
    pub(super) left: Option<&'a RoomLeft>,
    pub(super) room: Option<&'a Room>,
    pub(super) cause: CauseKind,
    /// Request less what is left.
    pub(super) missing: Option<Size>,
    pub(super) holder: Option<&'a Holder>,
    pub(super) stack: Option<&'a Stack>,
}

pub(super) fn change(case: &Case<'_>) -> String {
    let Some(requested) = case.failure.requested else {
        return "none can be told: give the log with the line whole".to_owned();
    };
    match case.cause {
        CauseKind::FitsNow => "try again: nothing else has to change".to_owned(),
        CauseKind::LargerThanPool => {
            let pool =
                case.room.map(|room| room.main.size).or_else(|| case.left.map(|left| left.main_pool_bytes));
            format!(
                "split the block, or spread it over more cores: the main pool has {}",
                short(pool.unwrap_or(0))
            )
        }
        CauseKind::Open => open(case, requested),
        CauseKind::Capacity => {
            let missing = case.missing.unwrap_or_default();
            // To be sure, rounding included; a page at least.
            free(case, missing.bytes.saturating_add(missing.tol).max(1))
        }
        CauseKind::PoolSplit => {
            let main = case.room.map_or(0, |room| room.main.left());
            free_in_main(requested.bytes.saturating_sub(main))
        }
        CauseKind::Fragmentation | CauseKind::Alignment => holes(case, requested),
        _ => {
            let mut text =
                graphs(case, requested).or_else(|| page(case)).unwrap_or_else(|| in_one_piece(requested));
            if let Some(left) = case.left
                && crate::tags::splits(requested, left)
            {
                let short_of = i128::from(requested.bytes) - i128::from(left.main_left);
                let short_of = u64::try_from(short_of).unwrap_or(0);
                text += &format!("; the main pool alone is short of at most {}", short(short_of));
            }
            text
        }
    }
}

/// What to do about memory that is simply full, by who has it.
fn free(case: &Case<'_>, needed: u64) -> String {
    let needs = short(needed);
    match case.holder {
        Some(Holder::DuplicateModels { name, bytes, .. }) => {
            return format!(
                "load {} once: its further copies hold {}, and {needs} are enough",
                quoted(name),
                short(*bytes)
            );
        }
        Some(Holder::OtherProcess { bytes }) => {
            return format!(
                "end the process that holds the {} which are not this one's, or wait for it; {needs} are enough",
                short(*bytes)
            );
        }
        _ => {}
    }
    if let Some(core) = idle(case.facts, case.stack).first() {
        return format!(
            "place {needs} on NC {} of ND {}: it has an HBM of its own and uses {}",
            core.core,
            core.device,
            short(core.total.bytes)
        );
    }
    if let Some(Holder::NeighbourCore { core, .. }) = case.holder {
        return format!("move {needs} of what NC {core} holds to a core with an HBM of its own");
    }
    if let Some(text) = page(case) {
        return text;
    }
    let Some(row) = case.row else { return format!("free {needs}") };
    let of = |key: Key| row.categories.get(&key).map_or(0, |size| size.bytes);
    let rings: u64 = Key::ALL.into_iter().filter(|key| key.is_rings()).map(of).fold(0, u64::saturating_add);
    let total = row.total.map_or(0, |total| total.bytes);
    if u128::from(rings) * 4 >= u128::from(total) && rings >= needed {
        return format!(
            "cut the DMA rings by {needs}, {} of their {}: a smaller batch, or fewer and shorter buckets",
            percent(needed, rings),
            short(rings)
        );
    }
    if let Some(text) = graphs(case, Size::exact(needed)) {
        return text;
    }
    match row.biggest.map(|key| (key, of(key))) {
        Some((key, bytes)) if bytes >= needed => {
            let how = match key {
                Key::Tensors => "a smaller cache or batch, or weights spread over more cores",
                Key::ModelCode => "fewer graphs or buckets loaded at once",
                Key::ModelConstants => "weights spread over more cores",
                Key::Scratchpad | Key::SharedScratchpad => "smaller graphs, or a smaller scratchpad page",
                Key::ProfilerBuffers => "no profiling",
                _ => "a smaller batch, or fewer graphs",
            };
            format!(
                "free {needs}: {} of the {} of {}, by {how}",
                percent(needed, bytes),
                short(bytes),
                key.printed()
            )
        }
        _ => format!("free {needs}, or spread the load over more cores"),
    }
}

fn free_in_main(needed: u64) -> String {
    format!(
        "free {} of blocks above 512 KiB, which the main pool holds; or make the request smaller by as much",
        short(needed)
    )
}

/// Graphs whose collectives add up: one fewer frees what each takes.
fn graphs(case: &Case<'_>, requested: Size) -> Option<String> {
    let row = case.row?;
    let total = row.total?.bytes;
    let all = row.categories.get(&Key::Collectives)?.bytes;
    let each = case
        .facts
        .neffs_of(row)
        .filter_map(|neff| neff.categories.get(&Key::Collectives))
        .map(|size| size.bytes)
        .max()?;
    if each == 0 || u128::from(all) * 20 < u128::from(total) || each > all {
        return None;
    }
    let fewer = requested.bytes.div_ceil(each).max(1);
    let graphs = if fewer == 1 { "one graph fewer".to_owned() } else { format!("{fewer} graphs fewer") };
    Some(format!(
        "load {graphs}: each takes {} of collectives, {} in all, and {} were asked for",
        short(each),
        short(all),
        short(requested.bytes)
    ))
}

/// A scratchpad page that is too large.
fn page(case: &Case<'_>) -> Option<String> {
    let requested =
        case.failure.requested.filter(|_| case.failure.usage.as_deref() == Some("shared scratchpad"))?;
    let set = case
        .facts
        .env
        .get("NEURON_SCRATCHPAD_PAGE_SIZE")
        .map(|value| format!(" (set to {})", quoted(value)))
        .unwrap_or_default();
    let half = short(requested.bytes / 2);
    Some(format!(
        "a smaller scratchpad page: NEURON_SCRATCHPAD_PAGE_SIZE{set} asks for {} in one piece, half of it needs holes of {half}",
        short(requested.bytes)
    ))
}

fn holes(case: &Case<'_>, requested: Size) -> String {
    let Some(room) = case.room else { return in_one_piece(requested) };
    let aligned = case.cause == CauseKind::Alignment;
    let hole =
        |pool: &neuron_dmem::PoolRoom| if aligned { pool.largest_aligned_hole } else { pool.largest_hole };
    let largest = hole(&room.main).max(hole(&room.small));
    let more = requested.bytes.saturating_sub(largest);
    if aligned {
        return format!(
            "a smaller alignment, or aligned blocks first; or free {} behind the largest aligned hole",
            short(more)
        );
    }
    format!(
        "free {} next to the largest hole, or allocate blocks of this size before the small ones",
        short(more)
    )
}

fn in_one_piece(requested: Size) -> String {
    format!(
        "allocate these {} before what cut the memory up, or start the process anew and load the largest first",
        short(requested.bytes)
    )
}

fn open(case: &Case<'_>, requested: Size) -> String {
    page(case).unwrap_or_else(|| {
        let what = if case.row.is_none() { "the log with its list or table" } else { "--arch or --instance" };
        format!("not to be told without {what}; {} in one piece must be free", brief(requested))
    })
}
