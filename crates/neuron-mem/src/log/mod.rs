//! `neuron-mem log`: the usage log of a process, while it runs or after it ended, however it ended.
//!
//! Reading and checking are `neuron_dmem::log`'s. Here: when to look, and what to show of it.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use neuron_dmem::log::{LogError, LogFile, WriterState};
use neuron_dmem::trace::events::{self, EventTrace, Written};

use crate::bytes::plural;
use crate::cli::LogArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::log::{EventReport, LogReport, Missed};
use crate::render::write_json;
use crate::shown::ShownPath;

/// Time between two looks at a log that is followed.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs the command and writes its result to `out`.
///
/// With `--follow` it goes on until the writer has ended and all its events are shown, or `stop` says yes.
///
/// # Errors
/// [`Exit::Input`] with what is wrong with the file; [`Exit::Interrupted`].
pub fn run(args: &LogArgs, stop: &dyn Fn() -> bool, out: &mut dyn Write) -> Result<(), Failure> {
    let mut log = LogFile::open(&args.file).map_err(cannot_read)?;
    if args.follow {
        follow(args, &mut log, stop, out)?;
    }
    let report = LogReport { file: &args.file, log: &log, with_events: !args.follow };
    let written = args.trace.as_ref().map(|path| trace(&log, path)).transpose()?;
    if args.json {
        return write_json(out, &report).map_err(Failure::output);
    }
    out.write_all(report.text().as_bytes()).map_err(Failure::output)?;
    match written {
        Some(Written { path, events }) => {
            let (events, path) = (plural(events, "event"), ShownPath(&path));
            writeln!(out, "\ntrace {path}: {events}").map_err(Failure::output)
        }
        None => Ok(()),
    }
}

/// Writes the log's events as a trace.
fn trace(log: &LogFile, path: &Path) -> Result<Written, Failure> {
    let trace = EventTrace::create(path, &events::header_of(log))?;
    events::of_log(log, |event| trace.push(event));
    Ok(trace.close()?)
}

fn follow(
    args: &LogArgs,
    log: &mut LogFile,
    stop: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut next = log.first();
    loop {
        let missed = log.first().saturating_sub(next);
        if missed > 0 {
            let missed = Missed { missed };
            match args.json {
                true => write_json(out, &missed),
                false => writeln!(out, "{missed}"),
            }
            .map_err(Failure::output)?;
        }
        for event in log.events_from(next) {
            let event = EventReport::from(&event);
            match args.json {
                true => write_json(out, &event),
                false => writeln!(out, "{event}"),
            }
            .map_err(Failure::output)?;
        }
        next = log.written();
        out.flush().map_err(Failure::output)?;
        // The log was looked at after its writer was: nothing is left to come.
        if log.writer() != WriterState::Writing {
            return Ok(());
        }
        if stop() {
            return Err(Failure::new(Exit::Interrupted, "interrupted"));
        }
        std::thread::sleep(PAUSE);
        match log.refresh() {
            // It is there to be followed: there will be another moment.
            Err(LogError::Busy { .. }) => {}
            refreshed => refreshed.map_err(cannot_read)?,
        }
    }
}

fn cannot_read(error: LogError) -> Failure {
    Failure::new(Exit::Input, error)
}

/// Why a log cannot be kept: [`Exit::Usage`] for what was asked, [`Exit::Output`] where its file cannot be made.
pub(crate) fn cannot_write(error: LogError) -> Failure {
    let exit = match error {
        LogError::Io { .. } => Exit::Output,
        _ => Exit::Usage,
    };
    Failure::new(exit, error)
}
