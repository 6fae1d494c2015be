//! `neuron-mem replay` and `neuron-mem diff`: traces against pools, and against each other.
//!
//! The work is `neuron-replay`'s. Here: files, arguments, exit codes; `report`: a log that is compared.

mod report;

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use neuron_dmem::trace::Sink;
use neuron_dmem::trace::chrome::ChromeTrace;
use neuron_replay::diff::{self, DiffError};
use neuron_replay::outcome::Outcome;
use neuron_replay::picture::picture;
use neuron_replay::replay::Options;
use neuron_replay::scenario::{Scenario, ScenarioError};
use neuron_replay::trace::{Reader, TraceError};

use crate::bytes::plural;
use crate::cli::{DEFAULT_INSTANCE, DiffArgs, ReplayArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::page;
use crate::render::paint::Paint;
use crate::render::replay::{DiffReport, ReplayReport};
use crate::render::write_json;
use crate::shown::{ShownPath, bounded};

/// Bytes that are read at a time.
const READ: usize = 256 << 10;

/// Runs `replay` and writes its result to `out`, as text in colours if `paint` has some.
///
/// # Errors
/// [`Exit::Input`] with line and column of what is wrong with the trace; [`Exit::Usage`] for a scenario
/// that cannot be, and for a page of what cannot be read twice; [`Exit::Output`] for a page that cannot be written;
/// after the report, [`Exit::DoesNotFit`] if the first scenario refused something.
pub fn run(args: &ReplayArgs, paint: Paint, out: &mut dyn Write) -> Result<(), Failure> {
    let file = open(&args.trace)?;
    if args.html.is_some() && !file.metadata().is_ok_and(|about| about.is_file()) {
        let what = format!("--html reads the trace twice, and {} is no file", ShownPath(&args.trace));
        return Err(Failure::new(Exit::Usage, what));
    }
    let bad = |error| bad_trace(&args.trace, error);
    let mut reader = Reader::new(BufReader::with_capacity(READ, file), args.from.into()).map_err(bad)?;
    let recorded = reader.header().instance.as_deref();
    let instance = args.instance.as_deref().or(recorded).unwrap_or(DEFAULT_INSTANCE);
    let scenarios = scenarios(args, instance)?;
    let timeline = args.timeline.as_ref().map(ChromeTrace::create).transpose()?;
    let sink = timeline.as_ref().map(|timeline| timeline as &dyn Sink);

    let options = Options { stop_at_refusal: args.stop };
    let outcome = neuron_replay::run(&mut reader, &scenarios, &options, sink).map_err(bad);
    // Also of a trace that goes wrong: what is there can be opened.
    let written = timeline.as_ref().map(ChromeTrace::finish).transpose();
    let (outcome, written) = (outcome?, written?);

    let report = ReplayReport { trace: &args.trace, outcome: &outcome, timeline: written };
    if args.json {
        write_json(out, &report).map_err(Failure::output)?;
    } else {
        out.write_all(report.text(paint).as_bytes()).map_err(Failure::output)?;
    }
    if let (Some(page), Some(scenario)) = (&args.html, scenarios.first()) {
        draw(args, page, scenario, &outcome)?;
    }
    served(&outcome)
}

/// Writes the page of the first scenario, which is run once more for it.
fn draw(args: &ReplayArgs, file: &Path, scenario: &Scenario, outcome: &Outcome) -> Result<(), Failure> {
    let Some(column) = outcome.columns.first() else { return Ok(()) };
    let bad = |error| bad_trace(&args.trace, error);
    let trace = BufReader::with_capacity(READ, open(&args.trace)?);
    let mut reader = Reader::new(trace, args.from.into()).map_err(bad)?;
    let line = page::replay::line(column);
    let picture = picture(&mut reader, scenario, line, column.peak_line).map_err(bad)?;
    let page = page::replay::page(&args.trace, outcome, column, &picture).html();
    page::file::write(file, &page, &[&args.trace])
}

fn scenarios(args: &ReplayArgs, instance: &str) -> Result<Vec<Scenario>, Failure> {
    let usage = |error: ScenarioError| Failure::new(Exit::Usage, error);
    let base = Scenario::named(instance).map_err(|error| match &args.instance {
        Some(_) => usage(error),
        None => usage(error).with_note("the trace was recorded there; --instance names another"),
    })?;
    let what_ifs = args.what_if.iter().map(|what_if| {
        let refused = |error| Failure::because(Exit::Usage, format!("--what-if {}", what_if.name), error);
        base.with(&what_if.name, &what_if.changes).map_err(refused)
    });
    std::iter::once(Ok(base.clone())).chain(what_ifs).collect()
}

/// The first scenario is the one that was asked about; the others only say what would be.
fn served(outcome: &Outcome) -> Result<(), Failure> {
    match outcome.columns.first() {
        Some(first) if first.refused > 0 => {
            let (refused, of) = (first.refused, plural(outcome.allocations, "allocation"));
            let line = first.refusals.first().map_or(0, |refusal| refusal.line);
            let why = format!("{refused} of {of} refused, the first on line {line}");
            Err(Failure::new(Exit::DoesNotFit, why))
        }
        _ => Ok(()),
    }
}

/// Runs `diff` and writes its result to `out`.
///
/// # Errors
/// [`Exit::Input`] with what is wrong with a file.
pub fn diff(args: &DiffArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let state = |path: &Path| {
        diff::State::read(path).or_else(|error| match error {
            // Containers log lines of JSON, too.
            DiffError::Log(_) | DiffError::Trace(TraceError::Line { line: 1, .. }) => {
                report::read(path).ok().flatten().ok_or(error)
            }
            error => Err(error),
        })
    };
    let state = |path: &Path| {
        state(path).map_err(|error| match error {
            DiffError::Trace(error) => bad_trace(path, error),
            error => Failure::because(Exit::Input, format!("{} cannot be compared", ShownPath(path)), error),
        })
    };
    let (before, after) = (state(&args.a)?, state(&args.b)?);
    let diff = diff::Diff::of(&before, &after);
    let report = DiffReport { a: &args.a, b: &args.b, diff: &diff };
    if args.json {
        write_json(out, &report).map_err(Failure::output)
    } else {
        out.write_all(report.text().as_bytes()).map_err(Failure::output)
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    let cannot =
        |error| Failure::because(Exit::Input, format!("{} cannot be opened", ShownPath(path)), error);
    File::open(path).map_err(cannot)
}

/// Messages repeat what is in the file, so they are made fit for a terminal.
fn bad_trace(path: &Path, error: TraceError) -> Failure {
    match error {
        TraceError::Line { .. } => {
            Failure::new(Exit::Input, format!("trace {}: {}", ShownPath(path), bounded(&error)))
        }
        error => Failure::because(Exit::Input, format!("trace {}", ShownPath(path)), error),
    }
}
