//! An explained log as a page. A log has no addresses: what it says is drawn as bars by category,
//! with its doubt. The driver's dump has them: with one beside it, the HBM is a map.

use neuron_abi::memory::Category;
use neuron_explain::{Bar, Dump, Explanation, Facts, Stack, answer::Basis, facts::Failure};
use neuron_page::{Axis, Block, Cell, Fact, HbmMap, Layout, Page, Point, Pool, Share, Table};
use neuron_page::{Timeline, Verdict};

use super::fact;
use crate::bytes::human;

/// The page of a log called `name`.
#[must_use]
pub fn page(explanation: &Explanation, stack: Option<&Stack>, dumps: &[Dump], name: &str) -> Page {
    let facts = &explanation.facts;
    let first = explanation.answers.first();
    let failing = first.and_then(|answer| facts.failures.get(*answer.failures.first()?));
    let mut hbms: Vec<HbmMap> = failing
        .into_iter()
        .flat_map(|failure| dumps.iter().filter_map(|dump| map(dump, failure, stack)))
        .collect();
    hbms.extend(explanation.bars().iter().map(bar));
    let failed = facts.failures.iter().any(|failure| failure.requested.is_some() || failure.cut);
    let mut notes = explanation.notes.clone();
    if explanation.answers.len() > 1 || explanation.answers_left_out > 0 {
        let more = explanation.answers.len().saturating_sub(1) + explanation.answers_left_out;
        notes.push(format!("{more} more answers: --json has them"));
    }
    Page {
        title: format!("neuron-mem explain: {name}"),
        verdict: if failed { Verdict::Bad } else { Verdict::Neutral },
        sentence: first.map_or_else(|| "Nothing failed in this log".to_owned(), |it| sentence(&it.sentence)),
        facts: first.map_or_else(Vec::new, |answer| self::facts(explanation, answer)),
        hbms,
        timeline: timeline(facts),
        owners: owners(facts),
        notes,
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn facts(explanation: &Explanation, answer: &neuron_explain::Answer) -> Vec<Fact> {
    let basis = match answer.basis {
        Basis::Fact => "shown by the log or the dump",
        Basis::Inferred => "inferred from printed figures",
        Basis::Open => "open: it cannot be told",
    };
    let mut facts = vec![
        fact("request", &*answer.request),
        fact("place", &*answer.place),
        fact("consumers", &*answer.consumers),
        fact("room", answer.room.join("\n")),
        fact("change", &*answer.change),
        fact("known by", basis),
        fact("not shown", answer.unknown.join("\n")),
        fact("tags", explanation.tags.iter().copied().collect::<Vec<_>>().join(", ")),
    ];
    facts.retain(|fact| !fact.text.is_empty());
    facts
}

/// A row, as a bar: where its blocks are nobody knows.
fn bar(bar: &Bar<'_>) -> HbmMap {
    let Bar { row, room } = *bar;
    let share = |category: &str, size: neuron_dmem::report::Size| Share {
        category: category.to_owned(),
        bytes: size.bytes,
        tol: size.tol,
    };
    let named = row.categories.iter().map(|(key, size)| share(key.printed(), *size));
    let shares: Vec<_> =
        named.chain(row.ambiguous.iter().map(|(heading, size)| share(heading, *size))).collect();
    let sum = shares.iter().fold((0_u64, 0_u64), |sum, share| {
        (sum.0.saturating_add(share.bytes), sum.1.saturating_add(share.tol))
    });
    let used = row.total.map_or(sum, |total| (total.bytes, total.tol));
    let note = match room {
        Some(room) if room.contradiction => "more than such an HBM has: the generation is another".to_owned(),
        Some(room) => format!(
            "of an HBM of v{}, without the firmware's 16 MiB; both pools together, and this process alone",
            room.arch
        ),
        None => "this process alone; the log does not tell how large the HBM is".to_owned(),
    };
    HbmMap {
        name: row.scope.words(),
        note: Some(note),
        refused: None,
        layout: Layout::Shares { shares, used, size: room.map(|room| room.pool_bytes) },
    }
}

/// A dump, as a map.
fn map(dump: &Dump, failure: &Failure, stack: Option<&Stack>) -> Option<HbmMap> {
    let (hbm, range, chunks) = dump.map(failure, stack)?;
    let pool = |name: &str, range: std::ops::Range<u64>| Pool {
        name: name.to_owned(),
        from: range.start,
        bytes: range.end - range.start,
    };
    let block = |chunk: &neuron_dmem::report::Chunk| {
        let known = Category::ALL.iter().find(|category| category.raw() == chunk.category);
        let category = known.map_or_else(
            || format!("category {}", chunk.category),
            |known| known.name().trim_end_matches("_DEVICE").to_lowercase().replace('_', " "),
        );
        let (from, bytes) = (chunk.pa, chunk.size);
        Block { from, bytes, category, owner: String::new(), hint: String::new() }
    };
    let place = failure.device.map_or_else(String::new, |device| format!("ND {device} "));
    Some(HbmMap {
        name: format!("{place}HBM {hbm}"),
        note: Some(format!("all processes, by the driver's dump {}", dump.path)),
        refused: failure.requested.map(|requested| format!("refused here: {}", human(requested.bytes))),
        layout: Layout::Addresses {
            pools: vec![pool("main pool", range.main_pool()), pool("small pool", range.small_pool())],
            blocks: chunks.iter().map(block).collect(),
        },
    })
}

/// The totals at each load of a model, of the core that has most of them.
fn timeline(facts: &Facts) -> Option<Timeline> {
    let blocks = &facts.memory_blocks;
    let of = |core: (u32, u32, Option<u64>)| {
        blocks.iter().filter(move |block| (block.device, block.core, block.pid) == core)
    };
    let cores: std::collections::BTreeSet<_> =
        blocks.iter().map(|block| (block.device, block.core, block.pid)).collect();
    let core = cores
        .into_iter()
        .rev()
        .max_by_key(|core| of(*core).count())
        .filter(|core| of(*core).nth(1).is_some())?;
    let points = (1..).zip(of(core)).map(|(at, block)| Point { at, bytes: vec![block.current_total.bytes] });
    let points: Vec<Point> = points.collect();
    let (device, number, pid) = core;
    let process = pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
    Some(Timeline {
        label: format!("In use by ND {device} NC {number}{process} at each load of a model, as printed"),
        axis: Axis::Events,
        categories: vec!["in use".to_owned()],
        failing: None,
        points,
        limit: None,
    })
}

fn owners(facts: &Facts) -> Option<Table> {
    let mut rows: Vec<(u64, Vec<Cell>)> = Vec::new();
    let most = |categories: &neuron_explain::facts::Categories| {
        let most = neuron_explain::facts::biggest(categories);
        most.map_or_else(String::new, |key| key.printed().to_owned())
    };
    let mut add = |name: String, kind: &str, place: String, bytes: u64, most: String| {
        let cells = [name, kind.to_owned(), place].map(Cell::Text).into_iter();
        rows.push((bytes, cells.chain([Cell::Bytes(bytes), Cell::Text(most)]).collect()));
    };
    let rows_of = facts.usage.iter().filter(|row| row.scope.core.is_some());
    for (row, total) in rows_of.filter_map(|row| Some((row, row.total?))) {
        let name = row.scope.core.map_or_else(String::new, |core| format!("NC {core}"));
        add(name, "core, its models included", row.scope.words(), total.bytes, most(&row.categories));
    }
    for (neff, total) in facts.neffs.iter().filter_map(|neff| Some((neff, neff.total?))) {
        let place = neuron_explain::facts::Scope { device: neff.device, hbm: None, core: neff.core };
        let name = neff
            .name
            .clone()
            .map_or_else(|| format!("NEFF {}", neff.neff), |name| format!("{name} ({})", neff.neff));
        add(name, "model", place.words(), total.bytes, most(&neff.categories));
    }
    for (block, total) in facts.memory_blocks.iter().filter_map(|block| Some((block, block.neff_total?))) {
        let place = format!("ND {} NC {}", block.device, block.core);
        let name = block.neff_name.clone().unwrap_or_else(|| "a model".to_owned());
        add(name, "model, at its load", place, total.bytes, most(&block.categories));
    }
    if rows.is_empty() {
        return None;
    }
    rows.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    Some(Table {
        label: "Owners".to_owned(),
        columns: ["owner", "kind", "where", "bytes", "mostly"].map(str::to_owned).to_vec(),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
    })
}
