//! Whether models fit, as text for people: the verdict, the figures that decide it, and each HBM. The JSON is
//! the answer itself.

use std::fmt::Write as _;

use neuron_plan::{Answer, Hbm, ModelFacts, Placement, Suggestion, Term};

use super::bar::{self, percent};
use super::paint::{Colour, Paint};
use super::table;
use crate::bytes::{exact_and_human, human, plural, thousands};
use crate::shown::Shown;

/// Most rows that the table has: with all else it is a screen.
const ROWS: usize = 8;
/// Columns after which the list of terms goes on in the next line.
const WIDTH: usize = 100;
/// Most models that have a line.
const MODELS: usize = 3;

/// The text. `costs_from` says where the figures of a core are from. Ends with a newline.
#[must_use]
pub fn text(answer: &Answer, notes: &[String], costs_from: &str, paint: Paint) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(&mut text, answer, notes, costs_from, paint);
    text
}

fn write_text(
    text: &mut String,
    answer: &Answer,
    notes: &[String],
    costs_from: &str,
    paint: Paint,
) -> std::fmt::Result {
    verdict(text, answer, paint)?;
    for model in answer.models.iter().take(MODELS) {
        writeln!(text, "model     {}", model_line(model))?;
    }
    if let Some(more @ 1..) = answer.models.len().checked_sub(MODELS) {
        let bytes =
            answer.models.iter().skip(MODELS).fold(0u64, |sum, model| sum.saturating_add(model.bytes));
        writeln!(text, "          and {more} more, {}", human(bytes))?;
    }
    for note in notes {
        writeln!(text, "note      {note}")?;
    }
    writeln!(text, "cores     {}", cores_line(answer))?;
    let all = answer.terms.iter().fold(0u64, |sum, facts| sum.saturating_add(facts.bytes));
    let mut line = format!("wanted    {}:", human(all));
    for (i, facts) in answer.terms.iter().enumerate() {
        let comma = if i + 1 < answer.terms.len() { "," } else { "" };
        let term = format!(" {} {}{comma}", facts.term.name(), human(facts.bytes));
        if line.len() + term.len() > WIDTH {
            writeln!(text, "{line}")?;
            line = " ".repeat(9);
        }
        line += &term;
    }
    writeln!(text, "{line}")?;
    if let Some(biggest) = answer.terms.first() {
        let (name, bytes) = (biggest.term.name(), exact_and_human(biggest.bytes));
        writeln!(text, "biggest   {name}: {bytes}, {} % of it", percent(biggest.bytes, all))?;
    }
    writeln!(text, "per core  {} ({costs_from})", costs_line(answer))?;
    if !answer.code_counted {
        writeln!(text, "without   instructions: a model's file does not tell them; --code-bytes does")?;
    }
    writeln!(text, "smallest  {}", smallest_line(answer))?;
    writeln!(text, "\n{}", hbm_table(answer, paint))
}

fn verdict(text: &mut String, answer: &Answer, paint: Paint) -> std::fmt::Result {
    let instance = &answer.instance;
    if answer.fits {
        let spare = exact_and_human(answer.spare_bytes);
        let verdict = paint.paint(Colour::Green, format!("fits on {instance}"));
        return writeln!(text, "{verdict}: {spare} left on the HBM that has least");
    }
    let verdict = paint.paint(Colour::Red, format!("does not fit on {instance}"));
    writeln!(text, "{verdict}: {} short", exact_and_human(answer.short_bytes))?;
    refused_line(answer).map_or(Ok(()), |line| writeln!(text, "refused   {line}"))
}

/// The first block that found no room.
pub(crate) fn refused_line(answer: &Answer) -> Option<String> {
    let (hbm, refused) = answer.hbms.iter().find_map(|hbm| Some((hbm, hbm.refused.as_ref()?)))?;
    let (place, bytes, hole) = (place(hbm), human(refused.bytes), human(refused.largest_hole));
    Some(format!("{}, {bytes}: the largest hole of {place} was {hole}", refused.name))
}

pub(crate) fn model_line(model: &ModelFacts) -> String {
    let (name, tensors) = (Shown(&model.name), plural(model.tensors, "tensor"));
    format!("{name}: {tensors}, {}", exact_and_human(model.bytes))
}

pub(crate) fn cores_line(answer: &Answer) -> String {
    let (cores, devices) =
        (plural(answer.cores.into(), "logical core"), plural(answer.devices.into(), "device"));
    let placement = match answer.placement {
        Placement::Shard => "every tensor split over all of them",
        Placement::Replicate => "every tensor on each",
        Placement::RoundRobin => "every tensor on one of them, as load does",
    };
    format!("{cores} of {} on {devices}, {placement}", plural(answer.lnc.into(), "physical core"))
}

pub(crate) fn costs_line(answer: &Answer) -> String {
    let costs = &answer.costs;
    let named = [
        (Term::Microcode, costs.microcode),
        (Term::Runtime, costs.runtime),
        (Term::Rings, costs.rings),
        (Term::Collectives, costs.collectives),
    ];
    let named: Vec<String> =
        named.iter().map(|(term, bytes)| format!("{} {}", term.name(), thousands(*bytes))).collect();
    format!("{} B", named.join(", "))
}

pub(crate) fn smallest_line(answer: &Answer) -> String {
    let mut line = match &answer.smallest_instance {
        Some(Suggestion { instance, hbm_bytes, tp, lnc, placement }) => {
            let option = |name: &str, value: Option<u32>| {
                value.map(|value| format!(" {name} {value}")).unwrap_or_default()
            };
            let placement = match (placement, tp) {
                // What is meant without the option.
                (Placement::Shard, Some(_)) | (Placement::RoundRobin, None) => "",
                (Placement::Shard, None) => " --placement shard",
                (Placement::Replicate, _) => " --placement replicate",
                (Placement::RoundRobin, Some(_)) => " --placement roundrobin",
            };
            let (tp, lnc, hbm) = (option("--tp", *tp), option("--lnc", *lnc), human(*hbm_bytes));
            format!("--instance {instance}{tp}{lnc}{placement}, of {hbm}")
        }
        None => "no instance known fits".to_owned(),
    };
    if !answer.fits {
        let _ = match answer.smallest_tp {
            Some(tp) => write!(line, "; on {} --tp {tp}", answer.instance),
            None => write!(line, "; on {} no --tp fits", answer.instance),
        };
    }
    line
}

pub(crate) fn place(hbm: &Hbm) -> String {
    format!("neuron{} HBM {}", hbm.device, hbm.hbm)
}

fn hbm_table(answer: &Answer, paint: Paint) -> String {
    let aligned = format!("at {}", human(answer.align));
    let header = ["HBM", "used", "", "main left", "hole", &aligned, "small left"];
    let mut table = table(header, 3);
    let rows = alike(&answer.hbms);
    for (hbm, others) in rows.iter().take(ROWS) {
        let used = used(hbm);
        let place = match others {
            0 => place(hbm),
            others => format!("{} and {others} alike", place(hbm)),
        };
        table.add_row([
            place,
            bar::bar(used, hbm.size, hbm.refused.is_some()),
            format!("{:>3} %", percent(used, hbm.size)),
            human(hbm.main.left),
            human(hbm.main.largest_hole),
            human(hbm.main.largest_aligned_hole),
            human(hbm.small.left),
        ]);
    }
    let mut text = table.trim_fmt();
    if paint != Paint::PLAIN {
        text = coloured(&text, &rows, paint);
    }
    let more: usize = rows.iter().skip(ROWS).map(|(_, others)| others + 1).sum();
    if more > 0 {
        text.push_str(&format!("\nand {more} more HBMs, none of them fuller"));
    }
    text
}

/// HBMs, those left out that are as another, which counts them; the fullest first.
fn alike(hbms: &[Hbm]) -> Vec<(&Hbm, usize)> {
    let mut rows: Vec<(&Hbm, usize)> = Vec::new();
    for hbm in hbms {
        let same = |one: &Hbm| {
            (one.main, one.small, one.short, one.size) == (hbm.main, hbm.small, hbm.short, hbm.size)
        };
        match rows.iter_mut().find(|(one, _)| same(one)) {
            Some((_, others)) => *others += 1,
            None => rows.push((hbm, 0)),
        }
    }
    rows.sort_by_key(|(hbm, _)| std::cmp::Reverse((hbm.short, used(hbm))));
    rows
}

fn used(hbm: &Hbm) -> u64 {
    hbm.main.used + hbm.small.used
}

/// Colours the rows' bars: a table measures what it is given.
fn coloured(text: &str, rows: &[(&Hbm, usize)], paint: Paint) -> String {
    let mut rows = rows.iter();
    let lines = text.lines().map(|line| match line.contains('[').then(|| rows.next()).flatten() {
        Some((hbm, _)) => bar::coloured(line, used(hbm), hbm.size, hbm.refused.is_some(), paint),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
