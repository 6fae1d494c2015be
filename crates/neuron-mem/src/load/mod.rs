//! `neuron-mem load`: a model to device memory and back.
//!
//! | module | what lives there |
//! |---|---|
//! | `session` | the device work: allocate, copy, read back, free |
//! | `timeline` | the file that shows it |
//!
//! Here: arguments in, report out.

mod session;
mod timeline;

use std::io::{IsTerminal as _, Write};
use std::sync::Arc;

use neuron_dmem::log::LogOptions;
use neuron_dmem::transfer::Path;
use neuron_dmem::{DeviceMemory, Setup};
use neuron_ndl::Device;
use neuron_ndl::software::{Execution, FaultPlan, Machine, MachineOptions};

use crate::cli::{self, LoadArgs, Transfer};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::log;
use crate::machine;
use crate::model::Model;
use crate::progress::Progress;
use crate::render::load::{LoadDetail, LoadReport, Verification, bytes_per_second};
use crate::render::{headline, write_json};
use crate::shown::ShownList;
use session::{Outcome, Session};
use timeline::Timeline;

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
/// The environment says whether the usage log goes to a file, and how long it is:
/// [`LogOptions::from_environment`].
///
/// # Errors
/// See [`Exit`] for which failure has which code. After a verification mismatch the
/// report is written all the same.
pub fn run(args: &LoadArgs, stop: &dyn Fn() -> bool, out: &mut dyn Write) -> Result<(), Failure> {
    let index = machine::device_index(args.device)?;
    let log_options = LogOptions::from_environment().map_err(log::cannot_write)?;
    let machine = machine::software(&args.instance, options(args)?)?;
    let device = machine::open(&machine, index)?;
    let present: Vec<u32> = (0..device.geometry().cores).collect();
    let cores = args.cores.resolve(&present).map_err(|error| Failure::new(Exit::Usage, error))?;
    let model = open_model(args)?;
    let timeline = Timeline::begin(args)?;
    if !args.json {
        let line = headline(&machine::backend(&machine), &args.instance);
        out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output)?;
    }
    let progress = progress(args, &model);

    let path = path(args.transfer, &device);
    let setup = Setup::default().path(path).log(log_options);
    let setup = timeline.attach(setup);
    let memory = DeviceMemory::with(Arc::clone(&device), setup).map_err(log::cannot_write)?;
    let session = Session { memory: &memory, model: &model, stop, progress: &progress };
    let baseline = session.driver_bytes()?;
    let outcome = session.run(&cores, !args.no_verify);
    let after = session.driver_bytes();
    drop(progress);
    let written = timeline.finish();
    let outcome = outcome.map_err(|failure| {
        let failure = match path {
            Path::ZeroCopy { .. } if !device.offers_zero_copy() => failure.with_note(NOT_OFFERED),
            _ => failure,
        };
        timeline::note(failure.with_note(&freed(baseline, &after)), &written)
    })?;

    let (mut report, detail) = report(&machine, args, &model, outcome, baseline, after?);
    report.timeline = written.as_ref().ok().cloned().flatten();
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
        _ => written.map(|_| ()),
    }
}

fn options(args: &LoadArgs) -> Result<MachineOptions, Failure> {
    let faults: FaultPlan = match &args.fault {
        Some(text) => text.parse().map_err(|error| Failure::new(Exit::Usage, error))?,
        None => FaultPlan::default(),
    };
    let execution = match args.execution {
        cli::Execution::Inline => Execution::Inline,
        cli::Execution::Threaded => Execution::Threaded { workers: 1 },
    };
    Ok(MachineOptions { execution, faults, ..MachineOptions::default() })
}

/// Why a zero-copy that was asked for by name may have been refused.
const NOT_OFFERED: &str = "this device does not offer zero-copy unless its driver's zerocopy_trn1_override is set; --transfer staged works";

/// What was asked for by name is tried, whatever the device says of itself.
fn path(transfer: Transfer, device: &Device) -> Path {
    let without_bounce = match transfer {
        Transfer::Staged => false,
        Transfer::Zerocopy => true,
        Transfer::Auto => device.offers_zero_copy(),
    };
    if without_bounce { Path::zero_copy(device.facts().generation) } else { Path::Staged }
}

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
    args: &LoadArgs,
    model: &Model,
    outcome: Outcome,
    baseline: u64,
    after: u64,
) -> (LoadReport, LoadDetail) {
    let seconds = outcome.copying.as_secs_f64();
    let bytes = model.total_bytes();
    let report = LoadReport {
        backend: machine::backend(machine),
        instance: args.instance.clone(),
        tensors: model.tensors().len() as u64,
        bytes,
        allocated_bytes: outcome.peak.saturating_sub(baseline),
        seconds,
        bytes_per_second: bytes_per_second(bytes, seconds),
        verified: matches!(outcome.verification, Verification::Equal(_)),
        usage: outcome.usage,
        leaked_bytes: after.saturating_sub(baseline),
        timeline: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_what_the_device_offers_and_a_name_is_taken_at_its_word() {
        let [never, small] = [0, 0x1000].map(|direct_write| Path::ZeroCopy { direct_write });
        for (instance, auto, zero_copy) in
            [("trn1.2xlarge", Path::Staged, never), ("trn2.3xlarge", small, small)]
        {
            let machine = Machine::new(instance).unwrap();
            let device = Device::open(&machine, 0).unwrap();
            let paths =
                [Transfer::Auto, Transfer::Staged, Transfer::Zerocopy].map(|asked| path(asked, &device));
            assert_eq!(paths, [auto, Path::Staged, zero_copy], "{instance}");
        }
    }
}
