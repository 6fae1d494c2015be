//! Sizes, places and consumers in words.

use neuron_dmem::report::Size;
use neuron_dmem::report::figures::{short, thousands};

use crate::facts::{Align, Facts, Failure, Row, Scope};

/// Consumers that are named.
const TOP: usize = 3;
/// Places that are named.
const PLACES: usize = 4;

/// `13,743,184 B (13.1 MiB)`, with how far off it may be.
pub(super) fn size(size: Size) -> String {
    let exact = format!("{} B", thousands(size.bytes));
    let tol = if size.tol == 0 { String::new() } else { format!(", give or take {} B", thousands(size.tol)) };
    if size.bytes < 1024 && size.tol == 0 { exact } else { format!("{exact} ({}{tol})", short(size.bytes)) }
}

/// `134.5 MiB`, with how far off it may be.
pub(super) fn brief(size: Size) -> String {
    if size.tol == 0 {
        short(size.bytes)
    } else {
        format!("{} give or take {}", short(size.bytes), short(size.tol))
    }
}

/// `12 %`, `less than 1 %`.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let percent =
        (u128::from(part) * 100 + u128::from(whole) / 2).checked_div(u128::from(whole)).unwrap_or(0);
    if percent == 0 && part > 0 { "less than 1 %".to_owned() } else { format!("{percent} %") }
}

/// What was asked for.
pub(super) fn request(failure: &Failure) -> String {
    let Some(requested) = failure.requested else {
        return if failure.cut {
            "the input ends before its size".to_owned()
        } else {
            "no size in this log".to_owned()
        };
    };
    let mut text = size(requested);
    if let Some(usage) = &failure.usage {
        text += &format!(" of {usage}");
    }
    text += match failure.location {
        Some("host") => ", host memory",
        _ => ", device memory",
    };
    match failure.alignment {
        Align::Bytes(align) => text += &format!(", aligned to {}", short(align.bytes)),
        Align::None => text += ", no alignment",
        Align::NotPrinted => {}
    }
    if let Some(tensor) = &failure.tensor {
        text += &format!(", for {}", neuron_dmem::report::figures::quoted(tensor));
    }
    text
}

/// `ND 0 HBM 2 NC 4`
pub(crate) fn scope(scope: Scope) -> String {
    let parts = [("ND", scope.device), ("HBM", scope.hbm), ("NC", scope.core)];
    let parts: Vec<_> =
        parts.iter().filter_map(|(name, number)| Some(format!("{name} {}", (*number)?))).collect();
    if parts.is_empty() { "device, HBM and core not told".to_owned() } else { parts.join(" ") }
}

/// Where and when, of all failures of an answer.
pub(super) fn place(facts: &Facts, group: &[usize]) -> String {
    let one = |index: &usize| {
        let failure = facts.failures.get(*index)?;
        let mut text = scope(Scope { device: failure.device, hbm: failure.hbm, core: failure.core });
        if let Some(time) = &failure.time {
            text += &format!(" at {time}");
        }
        match (failure.pid, failure.tid) {
            (Some(pid), Some(tid)) => text += &format!(", process {pid}, thread {tid}"),
            (Some(pid), None) => text += &format!(", process {pid}"),
            _ => {}
        }
        Some(text)
    };
    let mut text = group.iter().take(PLACES).filter_map(one).collect::<Vec<_>>().join("; ");
    if group.len() > PLACES {
        text += &format!("; and {} more", group.len() - PLACES);
    }
    let shared: Vec<_> = facts.cores_on_hbm.iter().map(|core| format!("NC {core}")).collect();
    if group.len() == 1 && shared.len() > 1 {
        text += &format!("; {} share the HBM", shared.join(" and "));
    }
    text
}

/// The largest categories of a row.
pub(super) fn consumers(row: &Row) -> String {
    let mut all: Vec<_> = row.categories.iter().filter(|(_, size)| size.bytes > 0).collect();
    all.sort_by_key(|(_, size)| std::cmp::Reverse(size.bytes));
    let share = |bytes: u64| match row.total {
        Some(total) if total.bytes > 0 => format!(" ({})", percent(bytes, total.bytes)),
        _ => String::new(),
    };
    let parts: Vec<_> = all
        .iter()
        .take(TOP)
        .map(|(key, size)| format!("{} {}{}", key.printed(), short(size.bytes), share(size.bytes)))
        .collect();
    let total = row.total.map_or_else(|| "a total that is not there".to_owned(), |total| short(total.bytes));
    let parts = if parts.is_empty() { "no category has any".to_owned() } else { parts.join(", ") };
    format!("of {total} on {}: {parts}", scope(row.scope))
}
