//! The results of `replay` and `diff`, as JSON and as text that fits a screen.

use std::fmt::Write as _;
use std::path::Path;

use neuron_dmem::trace::chrome::Timeline;
use neuron_replay::diff::{Amounts, Change, Diff, Kind, Source};
use neuron_replay::outcome::{Cause, ColumnOutcome, HbmPeak, Holder, Outcome, Refusal};
use serde::Serialize;

use super::bar;
use super::load::Timeline as Written;
use super::paint::Paint;
use crate::bytes::{exact_and_human, human, plural, thousands};
use crate::shown::{Shown, ShownPath, bounded};

/// Rows of a kind that the text shows; the JSON has all.
const FEW: usize = 5;

/// The result of `replay`.
#[derive(Debug)]
pub struct ReplayReport<'a> {
    /// The file, as given.
    pub trace: &'a Path,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// The timeline, if one was asked for.
    pub timeline: Option<Timeline>,
}

/// The result of `diff`.
#[derive(Debug)]
pub struct DiffReport<'a> {
    /// A, as given.
    pub a: &'a Path,
    /// B, as given.
    pub b: &'a Path,
    /// What is different.
    pub diff: &'a Diff,
}

impl Serialize for ReplayReport<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Report<'a> {
            trace: String,
            #[serde(flatten)]
            outcome: &'a Outcome,
            #[serde(skip_serializing_if = "Option::is_none")]
            timeline: Option<Written>,
        }
        let file = |path: &Path| path.to_string_lossy().into_owned();
        let timeline = self
            .timeline
            .as_ref()
            .map(|written| Written { file: file(&written.path), events: written.events });
        Report { trace: file(self.trace), outcome: self.outcome, timeline }.serialize(serializer)
    }
}

impl Serialize for DiffReport<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Report<'a> {
            a: String,
            b: String,
            #[serde(flatten)]
            diff: &'a Diff,
        }
        let file = |path: &Path| path.to_string_lossy().into_owned();
        Report { a: file(self.a), b: file(self.b), diff: self.diff }.serialize(serializer)
    }
}

/// A share as per cent.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl ReplayReport<'_> {
    /// The report for people. Ends with a newline.
    #[must_use]
    pub fn text(&self, paint: Paint) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut text, paint);
        text
    }

    fn write_text(&self, text: &mut String, paint: Paint) -> std::fmt::Result {
        let outcome = self.outcome;
        let source = if outcome.source.is_empty() { "an unnamed source" } else { &outcome.source };
        write!(
            text,
            "trace {} of {}: {}",
            ShownPath(self.trace),
            bounded(&source),
            plural(outcome.events, "event")
        )?;
        if outcome.stopped {
            write!(text, " until the first refusal")?;
        }
        writeln!(
            text,
            ", {}, {}, {} of {}",
            plural(outcome.allocations, "allocation"),
            plural(outcome.frees, "free"),
            if outcome.copies == 1 {
                "1 copy".to_owned()
            } else {
                format!("{} copies", thousands(outcome.copies))
            },
            human(outcome.copied_bytes)
        )?;
        if outcome.dropped > 0 {
            writeln!(text, "note: {} before them are missing", plural(outcome.dropped, "event"))?;
        }
        writeln!(text, "\n{}", self.scenarios())?;
        if let Some(first) = outcome.columns.first() {
            writeln!(text, "\n{}", peaks(first))?;
            bars(text, first, paint)?;
        }
        for column in &outcome.columns {
            if let Some(refusal) = column.refusals.first() {
                refused(text, column, refusal)?;
            }
        }
        self.leaks(text)?;
        if let Some(written) = &self.timeline {
            let events = plural(written.events, "event");
            writeln!(text, "\ntimeline   {events} in {}", ShownPath(&written.path))?;
        }
        Ok(())
    }

    /// One column for each scenario.
    fn scenarios(&self) -> String {
        let columns = &self.outcome.columns;
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN);
        let names = columns.iter().map(|column| bounded(&column.scenario));
        table.set_header(std::iter::once(String::new()).chain(names));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
        let mut row = |name: &str, cell: &dyn Fn(&ColumnOutcome) -> String| {
            table.add_row(std::iter::once(name.to_owned()).chain(columns.iter().map(cell)));
        };
        row("refused", &|column| thousands(column.refused));
        row("bytes of them", &|column| human(column.refused_bytes));
        if self.outcome.recorded_refusals > 0 {
            row("refused when recorded, served here", &|column| thousands(column.would_be_served));
        }
        row("peak, device memory", &|column| human(column.peak_device_bytes));
        row("peak, fullest HBM", &|column| {
            let fullest = column.hbms.iter().max_by_key(|hbm| hbm.bytes);
            fullest.map_or_else(
                || "-".to_owned(),
                |hbm| {
                    let share = percent(hbm.bytes as f64 / hbm.size as f64);
                    format!("{} ({share})", human(hbm.bytes))
                },
            )
        });
        row("worst fragmentation", &|column| match column.worst_line {
            0 => percent(0.0),
            line => format!("{}, line {line}", percent(column.worst_fragmentation)),
        });
        row("fragmentation at the end", &|column| percent(column.end_fragmentation));
        if columns.iter().any(|column| column.same_address + column.other_address > 0) {
            row("at the recorded address", &|column| {
                let of = column.same_address + column.other_address;
                format!("{} of {}", thousands(column.same_address), thousands(of))
            });
        }
        table.trim_fmt()
    }

    fn leaks(&self, text: &mut String) -> std::fmt::Result {
        let leaks = &self.outcome.never_freed;
        if leaks.is_empty() {
            return writeln!(text, "\nnever freed: nothing");
        }
        let mut table = super::table(["never freed", "unloaded", "freed by exit", "alive at the end"], 2);
        let amount = |count: u64, bytes: u64| match count {
            0 => "-".to_owned(),
            count => format!("{} in {}", human(bytes), thousands(count)),
        };
        for leak in leaks.iter().take(FEW) {
            table.add_row([
                bounded(&leak.owner),
                if leak.unloaded { "yes" } else { "" }.to_owned(),
                amount(leak.at_exit, leak.at_exit_bytes),
                amount(leak.alive, leak.alive_bytes),
            ]);
        }
        writeln!(text, "\n{}", table.trim_fmt())?;
        more(text, leaks.len(), "more owner")
    }
}

fn more(text: &mut String, len: usize, noun: &str) -> std::fmt::Result {
    match len.saturating_sub(FEW) {
        0 => Ok(()),
        rest => writeln!(text, "... and {}; --json has all", plural(rest as u64, noun)),
    }
}

/// How full each HBM of the first scenario was at its peak.
fn bars(text: &mut String, column: &ColumnOutcome, paint: Paint) -> std::fmt::Result {
    for (place, &HbmPeak { device, hbm, bytes, size }) in column.hbms.iter().take(FEW).enumerate() {
        let refused = column.refusals.iter().any(|it| (it.device, it.hbm) == (device, hbm));
        let (bar, percent) = (bar::bar(bytes, size, refused), bar::percent(bytes, size));
        let line = format!("{bar} {percent:>3} % of {}  neuron{device} HBM {hbm}, at its peak", human(size));
        let gap = if place == 0 { "\n" } else { "" };
        writeln!(text, "{gap}{}", bar::coloured(&line, bytes, size, refused, paint))?;
    }
    Ok(())
}

/// Peaks of the first scenario.
fn peaks(column: &ColumnOutcome) -> String {
    let mut table = super::table(["peak of", "", "bytes"], 2);
    let mut row = |kind: &str, name: String, bytes: u64| {
        table.add_row([kind.to_owned(), name, exact_and_human(bytes)]);
    };
    if column.peak_host_bytes > 0 {
        row("host", String::new(), column.peak_host_bytes);
    }
    for hbm in column.hbms.iter().take(FEW) {
        row("HBM", format!("neuron{} HBM {}", hbm.device, hbm.hbm), hbm.bytes);
    }
    for core in column.cores.iter().take(FEW) {
        row("core", format!("neuron{} core {}", core.device, core.core), core.bytes);
    }
    for category in &column.categories {
        row("category", category.name.clone(), category.bytes);
    }
    for owner in column.owners.iter().take(FEW) {
        row("owner", bounded(&owner.name), owner.bytes);
    }
    table.trim_fmt()
}

fn refused(text: &mut String, column: &ColumnOutcome, refusal: &Refusal) -> std::fmt::Result {
    let scenario = Shown(&column.scenario);
    writeln!(text, "\nrefused by {scenario}, line {}: {}", refusal.line, asked(refusal))?;
    writeln!(text, "  {}", cause(column, refusal))?;
    holders(text, "owners:", &refusal.top_owners)?;
    holders(text, "largest:", &refusal.top_hints)?;
    if let Some(graph) = &refusal.loading {
        writeln!(text, "  while {} was loaded", Shown(graph))?;
    }
    if let Some(mark) = &refusal.after_mark {
        writeln!(text, "  after the mark {}", Shown(mark))?;
    }
    if column.refused > 1 {
        let rest = plural(column.refused - 1, "more refusal");
        writeln!(text, "  and {rest}; --json tells of {}", column.refusals.len())?;
    }
    Ok(())
}

/// What was asked for, and where.
pub(crate) fn asked(refusal: &Refusal) -> String {
    let Refusal { device, hbm, core, usage, .. } = refusal;
    let recorded = if refusal.recorded { ", as when it was recorded" } else { "" };
    let (size, hint) = (human(refusal.size), Shown(&refusal.hint));
    format!("{size} of {usage} {hint} for core {core} on neuron{device} HBM {hbm}{recorded}")
}

/// Why it was not served.
pub(crate) fn cause(column: &ColumnOutcome, refusal: &Refusal) -> String {
    let (free, largest) = (human(refusal.free), human(refusal.largest_hole));
    let (aligned, missing) = (human(refusal.largest_aligned), human(refusal.missing));
    let align = human(refusal.align.max(neuron_abi::arch::PAGE_SIZE));
    let instance = &column.instance;
    match refusal.cause {
        Cause::Full => format!("full: {free} free, {missing} too little for it"),
        Cause::Fragmented => {
            format!("fragmented: {free} free, but the largest hole has {largest}, {missing} too little")
        }
        Cause::Alignment => format!(
            "alignment: the largest hole has {largest}, but {aligned} from a multiple of {align} on, {missing} too \
             little"
        ),
        Cause::NoDevice => format!("{instance} has no such device"),
        Cause::NoHbm => format!("a device of {instance} has no such HBM"),
        Cause::NoCore => "no device has such a core".to_owned(),
        Cause::ZeroBytes => "zero bytes are never served".to_owned(),
        Cause::TooLarge => "more than the driver takes in one request".to_owned(),
        Cause::BadAlignment => "an alignment above 2 GiB, or any for host memory, is refused".to_owned(),
    }
}

fn holders(text: &mut String, what: &str, holders: &[Holder]) -> std::fmt::Result {
    if holders.is_empty() {
        return Ok(());
    }
    let shown = holders.iter().take(3).map(|holder| {
        let times =
            if holder.count == 1 { String::new() } else { format!(" in {}", thousands(holder.count)) };
        format!("{} {}{times}", Shown(&holder.name), human(holder.bytes))
    });
    writeln!(text, "  {what:<8} {}", shown.collect::<Vec<_>>().join(", "))
}

/// A difference with its sign, and how far rounding may have moved it.
fn signed(bytes: Amounts) -> String {
    let sign = if bytes.b > bytes.a { "+" } else { "-" };
    let rounding = if bytes.tol > 0 { format!(" ± {}", human(bytes.tol)) } else { String::new() };
    match bytes.difference() {
        0 => format!("0{rounding}"),
        difference => format!("{sign}{}{rounding}", human(difference)),
    }
}

impl DiffReport<'_> {
    /// The report for people. Ends with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        let diff = self.diff;
        let reported = diff.a_source == Source::Report || diff.b_source == Source::Report;
        for (side, path, source) in [("A", self.a, diff.a_source), ("B", self.b, diff.b_source)] {
            let when = match source {
                _ if !reported => "",
                Source::Report => ", as it reports last",
                Source::Trace | Source::UsageLog => ", at its peak",
            };
            writeln!(text, "{side} {}{when}", ShownPath(path))?;
        }
        writeln!(text, "{}", if reported { "" } else { "at the peak of each\n" })?;
        let mut table = super::table(["memory of", "", "A", "B", "change"], 2);
        let mut row = |kind: &str, name: String, bytes: Amounts| {
            table.add_row([kind.to_owned(), name, human(bytes.a), human(bytes.b), signed(bytes)]);
        };
        row("all", String::new(), diff.total);
        let groups: [(&str, &[Change]); 5] = [
            ("category", &diff.categories),
            ("owner", &diff.owners),
            ("core", &diff.cores),
            ("HBM", &diff.hbms),
            ("never freed", &diff.never_freed),
        ];
        for (kind, changes) in groups {
            for change in changes.iter().take(FEW) {
                row(kind, bounded(&change.name), change.bytes);
            }
        }
        writeln!(text, "{}", table.trim_fmt())?;
        if reported {
            writeln!(text, "\nreports tell no names of memory")?;
        } else if diff.memory.is_empty() {
            writeln!(text, "\nno memory of any name is different")?;
        } else {
            let mut table = super::table(["name", "", "A", "B", "change"], 2);
            for change in diff.memory.iter().take(2 * FEW) {
                let how = match change.change {
                    Kind::Moved => format!("to {}", change.b_places.first().map_or("", |place| place)),
                    _ => signed(change.bytes),
                };
                let (a, b) = (human(change.bytes.a), human(change.bytes.b));
                table.add_row([bounded(&change.name), change.change.name().to_owned(), a, b, how]);
            }
            writeln!(text, "\n{}", table.trim_fmt())?;
            if let Some(rest) = diff.memory.len().checked_sub(2 * FEW).filter(|&rest| rest > 0) {
                writeln!(text, "... and {}; --json has all", plural(rest as u64, "more name"))?;
            }
        }
        if !diff.duplicates.is_empty() {
            let mut table = super::table(["twice in B", "owners", "copies", "each", "too much"], 2);
            for twice in diff.duplicates.iter().take(FEW) {
                let owners = bounded(&twice.owners.join(", "));
                let (count, size) = (thousands(twice.count), human(twice.size));
                table.add_row([bounded(&twice.name), owners, count, size, human(twice.extra)]);
            }
            writeln!(text, "\n{}", table.trim_fmt())?;
            more(text, diff.duplicates.len(), "more name")?;
        }
        Ok(())
    }
}
