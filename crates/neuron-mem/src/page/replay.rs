//! A replay as a page: the first scenario, where everything was at its first refusal, or when most
//! was in use, and the way there.

use std::path::Path;

use neuron_abi::arch::FIRMWARE_RESERVE;
use neuron_page::{Axis, Block, Cell, HbmMap, Layout, Moment, Page, Point, Table, Timeline, Verdict};
use neuron_replay::outcome::{ColumnOutcome, Outcome, Refusal};
use neuron_replay::picture::{HbmPicture, Held, Picture};

use super::{BEFORE, fact, pools};
use crate::bytes::{exact_and_human, human, plural, thousands};
use crate::render::replay::{asked, cause};
use crate::shown::ShownPath;

/// HBMs that are drawn at most.
const HBMS: usize = 32;

/// The line that a picture of a scenario is of.
#[must_use]
pub fn line(column: &ColumnOutcome) -> u64 {
    column.refusals.first().map_or(column.peak_line, |refusal| refusal.line)
}

/// The page of a scenario of an outcome, and its picture.
#[must_use]
pub fn page(trace: &Path, outcome: &Outcome, column: &ColumnOutcome, picture: &Picture) -> Page {
    let refusal = column.refusals.first();
    let mut notes = Vec::new();
    if picture.hbms.len() > HBMS {
        let (all, some) = (picture.hbms.len(), HBMS);
        notes.push(format!("of {all} HBMs that were used these {some} have most, or refused something"));
    }
    Page {
        title: format!("neuron-mem replay: {} on {}", ShownPath(trace), column.instance),
        verdict: if refusal.is_some() { Verdict::Bad } else { Verdict::Good },
        sentence: match refusal {
            Some(refusal) => {
                let (refused, all) = (thousands(column.refused), plural(outcome.allocations, "allocation"));
                let line = refusal.line;
                format!("{refused} of {all} refused on {}, the first on line {line}", column.instance)
            }
            None => {
                format!("All {} served on {}", plural(outcome.allocations, "allocation"), column.instance)
            }
        },
        facts: facts(outcome, column, picture),
        hbms: drawn(picture, refusal).into_iter().map(|hbm| map(hbm, column)).collect(),
        timeline: timeline(column, picture),
        owners: Some(owners(picture)),
        notes,
    }
}

fn facts(outcome: &Outcome, column: &ColumnOutcome, picture: &Picture) -> Vec<neuron_page::Fact> {
    let mut facts = Vec::new();
    if let Some(refusal) = column.refusals.first() {
        facts.push(fact("refused", asked(refusal)));
        facts.push(fact("cause", cause(column, refusal)));
        if let Some(graph) = &refusal.loading {
            facts.push(fact("while", format!("{graph} was loaded")));
        }
        if let Some(mark) = &refusal.after_mark {
            facts.push(fact("after", format!("the mark {mark}")));
        }
    }
    let (events, frees) = (plural(outcome.events, "event"), plural(outcome.frees, "free"));
    facts.push(fact("trace", format!("{events}, {}, {frees}", plural(outcome.allocations, "allocation"))));
    let peak = exact_and_human(column.peak_device_bytes);
    facts.push(fact("peak", format!("{peak} of device memory, line {}", thousands(column.peak_line))));
    let worst = column.worst_fragmentation * 100.0;
    facts.push(fact(
        "holes",
        format!("worst fragmentation {worst:.1} %, line {}", thousands(column.worst_line)),
    ));
    let (count, bytes) = outcome.never_freed.iter().fold((0, 0_u64), |(count, bytes), leak| {
        (count + leak.at_exit + leak.alive, bytes.saturating_add(leak.at_exit_bytes + leak.alive_bytes))
    });
    if count > 0 {
        let owners = plural(outcome.never_freed.len() as u64, "owner");
        facts
            .push(fact("never freed", format!("{} in {} of {owners}", human(bytes), plural(count, "block"))));
    }
    facts.push(fact("shown", format!("what was there behind line {}", thousands(picture.line))));
    facts
}

/// Those that have most, and the one that refused something.
fn drawn<'a>(picture: &'a Picture, refusal: Option<&Refusal>) -> Vec<&'a HbmPicture> {
    let refused = |hbm: &HbmPicture| refusal.is_some_and(|it| (it.device, it.hbm) == (hbm.device, hbm.hbm));
    let used = |hbm: &HbmPicture| hbm.blocks.iter().map(|held| held.bytes).sum::<u64>();
    let mut hbms: Vec<&HbmPicture> = picture.hbms.iter().collect();
    hbms.sort_by_key(|hbm| std::cmp::Reverse((refused(hbm), used(hbm))));
    hbms.truncate(HBMS);
    hbms.sort_by_key(|hbm| (hbm.device, hbm.hbm));
    hbms
}

fn map(hbm: &HbmPicture, column: &ColumnOutcome) -> HbmMap {
    let HbmPicture { device, hbm: index, range, blocks } = hbm;
    let before = Block {
        from: range.base,
        bytes: FIRMWARE_RESERVE,
        category: BEFORE.to_owned(),
        owner: String::new(),
        hint: String::new(),
    };
    let block = |held: &Held| Block {
        from: held.pa,
        bytes: held.bytes,
        category: held.category.to_owned(),
        owner: held.owner.clone(),
        hint: held.hint.clone(),
    };
    let used = FIRMWARE_RESERVE + blocks.iter().map(|held| held.bytes).sum::<u64>();
    let refusal = column.refusals.first().filter(|it| (it.device, it.hbm) == (*device, *index));
    HbmMap {
        name: format!("neuron{device} HBM {index}"),
        note: Some(format!("{} of {} in use", human(used), human(range.size))),
        refused: refusal.map(|refusal| {
            let hole = human(refusal.largest_hole);
            format!("no room for {}, {}: the largest hole was {hole}", refusal.hint, human(refusal.size))
        }),
        layout: Layout::Addresses {
            pools: pools(range),
            blocks: std::iter::once(before).chain(blocks.iter().map(block)).collect(),
        },
    }
}

fn timeline(column: &ColumnOutcome, picture: &Picture) -> Option<Timeline> {
    let failing = column.refusals.first().map(|refusal| Moment {
        at: refusal.line,
        text: format!("{} of {} was refused", human(refusal.size), refusal.hint),
    });
    let points = picture.steps.iter().map(|step| Point { at: step.line, bytes: step.bytes.clone() });
    Some(Timeline {
        label: "Device memory in use, by line of the trace".to_owned(),
        axis: Axis::Events,
        categories: picture.categories.iter().map(|&category| category.to_owned()).collect(),
        points: points.collect(),
        failing,
        limit: None,
    })
    .filter(|timeline| !timeline.categories.is_empty())
}

fn owners(picture: &Picture) -> Table {
    let place = |hbm: &HbmPicture| format!("neuron{} HBM {}", hbm.device, hbm.hbm);
    let held = picture.hbms.iter().flat_map(|hbm| hbm.blocks.iter().map(move |held| (place(hbm), held)));
    let mut held: Vec<(String, &Held)> = held.collect();
    held.sort_by_key(|(_, held)| std::cmp::Reverse(held.bytes));
    let row = |(place, held): (String, &Held)| {
        vec![
            Cell::Text(held.hint.clone()),
            Cell::Text(held.owner.clone()),
            Cell::Text(held.category.to_owned()),
            Cell::Text(place),
            Cell::Bytes(held.bytes),
            Cell::Address(held.pa),
        ]
    };
    Table {
        label: "Blocks".to_owned(),
        columns: ["block", "owner", "category", "where", "size", "address"].map(str::to_owned).into(),
        rows: held.into_iter().map(row).collect(),
    }
}
