//! `neuron-mem load`: a model to device memory and back.
//!
//! | module | what lives there |
//! |---|---|
//! | `place` | which device and cores, and which way bytes go: arguments over environment over defaults |
//! | `session` | the device work: allocate, copy, read back, free |
//! | `told` | the files that tell of it: timeline, trace |
//!
//! Here: arguments in, report out.

mod place;
mod session;
mod told;

use std::io::{IsTerminal as _, Write};
use std::sync::Arc;

use neuron_dmem::log::LogOptions;
use neuron_dmem::transfer::Path;
use neuron_dmem::{DeviceMemory, Setup};
use neuron_ndl::environment::{BackendName, Environment};
use neuron_ndl::software::{Execution, FaultPlan, MachineOptions};

use crate::cli::{self, LoadArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::log;
use crate::machine::{self, Machine};
use crate::model::Model;
use crate::progress::Progress;
use crate::render::load::{LoadDetail, LoadReport, Verification, bytes_per_second};
use crate::render::{headline, write_json};
use crate::shown::ShownList;
use session::{Outcome, Session};
use told::Told;

/// Opens the model that the arguments name, or builds the built-in one.
///
/// # Errors
/// [`Exit::Input`] with what is wrong with the model.
pub fn open_model(args: &LoadArgs) -> Result<Model, Failure> {
    let model = match &args.path {
        Some(path) => Model::open(path)?,
        None => Model::synthetic(args.seed)?,
    };
    Ok(model)
}

/// Runs the command and writes its result to `out`.
///
/// What was asked is held against the instance first, then the model is opened, and only
/// then is device memory touched. Whatever happens after that, everything allocated is
/// freed again. As text, the headline is written before the work, the rest after it.
///
/// `stop` is asked before each step, which is one allocation or the copy or comparison of
/// a few MiB; once it says yes, no further step is begun.
///
/// The environment counts where the arguments say nothing ([`Environment`]), and says whether the
/// usage log goes to a file, and how long it is ([`LogOptions::from_environment`]).
///
/// # Errors
/// See [`Exit`] for which failure has which code. After a verification mismatch the
/// report is written all the same.
pub fn run(args: &LoadArgs, stop: &dyn Fn() -> bool, out: &mut dyn Write) -> Result<(), Failure> {
    let environment = Environment::from_process().map_err(|error| Failure::new(Exit::Usage, error))?;
    on(&machine(args, environment.backend.as_ref())?, &environment, args, stop, out)
}

/// As [`run`], on this machine and in this environment.
///
/// # Errors
/// As [`run`].
pub fn on(
    machine: &Machine,
    environment: &Environment,
    args: &LoadArgs,
    stop: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let log_options = LogOptions::from_environment().map_err(log::cannot_write)?;
    let index = place::device(args, environment, machine)?;
    let device = machine.open(index)?;
    let cores = place::cores(args, environment, machine, &device)?;
    let model = open_model(args)?;
    let timeline = Told::timeline(args)?;
    let events = Told::trace(args, machine.instance())?;
    if !args.json {
        let line = headline(&machine.name().to_string(), machine.instance());
        out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output)?;
    }
    let progress = progress(args, &model);

    let path = place::path(args.transfer, environment, &device);
    let setup = Setup::default().path(path).log(log_options);
    let setup = events.attach(timeline.attach(setup));
    let memory = DeviceMemory::with(Arc::clone(&device), setup).map_err(log::cannot_write)?;
    let session = Session { memory: &memory, model: &model, stop, progress: &progress };
    let baseline = session.driver_bytes()?;
    let outcome = session.run(&cores, !args.no_verify);
    let after = session.driver_bytes();
    drop(progress);
    let (written, trace) = (timeline.finish(), events.finish());
    let outcome = outcome.map_err(|failure| {
        let failure = match path {
            Path::ZeroCopy { .. } if !device.offers_zero_copy() => failure.with_note(NOT_OFFERED),
            _ => failure,
        };
        let failure = failure.with_note(&freed(baseline, &after));
        events.note(timeline.note(failure, &written), &trace)
    })?;

    let (mut report, detail) = report(machine, &model, outcome, baseline, after?);
    report.timeline = written.as_ref().ok().cloned().flatten();
    report.trace = trace.as_ref().ok().cloned().flatten();
    if args.json {
        write_json(out, &report).map_err(Failure::output)?;
    } else {
        out.write_all(report.text(&detail).as_bytes()).map_err(Failure::output)?;
    }
    match detail.verification {
        Verification::Different(names) => {
            let why = format!("read back different from what was loaded: {}", ShownList(&names));
            Err(Failure::new(Exit::Mismatch, why))
        }
        _ => written.and(trace).map(|_| ()),
    }
}

/// The machine, with what only a machine without hardware can be told.
fn machine(args: &LoadArgs, set: Option<&BackendName>) -> Result<Machine, Failure> {
    let name = machine::name(&args.machine, set);
    machine::only_software(&name, "--fault", args.fault.is_some())?;
    machine::only_software(&name, "--execution", args.execution.is_some())?;
    Machine::of(name, &args.machine, options(args)?)
}

fn options(args: &LoadArgs) -> Result<MachineOptions, Failure> {
    let faults: FaultPlan = match &args.fault {
        Some(text) => text.parse().map_err(|error| Failure::new(Exit::Usage, error))?,
        None => FaultPlan::default(),
    };
    let execution = match args.execution {
        Some(cli::Execution::Inline) => Execution::Inline,
        Some(cli::Execution::Threaded) | None => Execution::Threaded { workers: 1 },
    };
    Ok(MachineOptions { execution, faults, ..MachineOptions::default() })
}

/// Why a zero-copy that was asked for by name may have been refused.
const NOT_OFFERED: &str = "this device does not offer zero-copy unless its driver's zerocopy_trn1_override is set; --transfer staged works";

/// Each byte passes once, or twice when it is read back.
fn progress(args: &LoadArgs, model: &Model) -> Progress {
    if args.json || !std::io::stderr().is_terminal() {
        return Progress::silent();
    }
    let passes = if args.no_verify { 1 } else { 2 };
    Progress::on_stderr(model.total_bytes().saturating_mul(passes))
}

fn freed(baseline: u64, after: &Result<u64, Failure>) -> String {
    let after = match after {
        Ok(after) => *after,
        Err(error) => return format!("whether everything allocated was freed is not known: {error}"),
    };
    match after.saturating_sub(baseline) {
        0 => format!("everything allocated was freed: driver counters back to {baseline} bytes"),
        leaked => format!("{leaked} bytes stay allocated: driver counters at {after}, before {baseline}"),
    }
}

fn report(
    machine: &Machine,
    model: &Model,
    outcome: Outcome,
    baseline: u64,
    after: u64,
) -> (LoadReport, LoadDetail) {
    let seconds = outcome.copying.as_secs_f64();
    let bytes = model.total_bytes();
    let report = LoadReport {
        backend: machine.name().to_string(),
        instance: machine.instance().map(str::to_owned),
        tensors: model.tensors().len() as u64,
        bytes,
        allocated_bytes: outcome.peak.saturating_sub(baseline),
        seconds,
        bytes_per_second: bytes_per_second(bytes, seconds),
        verified: matches!(outcome.verification, Verification::Equal(_)),
        usage: outcome.usage,
        leaked_bytes: after.saturating_sub(baseline),
        timeline: None,
        trace: None,
    };
    let empty = model.tensors().iter().filter(|tensor| tensor.bytes() == 0);
    let detail = LoadDetail {
        model: model.source().to_string(),
        notes: model.notes().to_vec(),
        zero_sized: empty.map(|tensor| tensor.name().to_owned()).collect(),
        verification: outcome.verification,
        baseline_bytes: baseline,
    };
    (report, detail)
}
