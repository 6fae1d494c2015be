//! `neuron-mem doctor`: what stands between a program and a device.
//!
//! The looking is [`neuron_ndl::diagnosis`]'s. Here: which backend is meant, and the folders and variables that
//! the allocator reads.

use std::io::Write;
use std::path::Path;

use neuron_dmem::log::LogOptions;
use neuron_dmem::report::DumpOptions;
use neuron_ndl::diagnosis::{Diagnosis, Folder, Status, Subject, examine};
use neuron_ndl::environment::{Environment, Reading};
use neuron_ndl::software::MachineOptions;

use crate::cli::DoctorArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::machine::{self, Machine};
use crate::render::doctor::DoctorReport;
use crate::render::write_json;

/// Room for the files of one out-of-memory report with a full event log (our choice: 1,048,576 lines of
/// 128 bytes).
const REPORT_BYTES: u64 = 128 << 20;

/// Runs the command and writes its result to `out`.
///
/// # Errors
/// [`Exit::Device`] after the result, if something keeps programs from every device. See [`Exit`] for the others.
pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let reading = Environment::read(|name| std::env::var_os(name));
    // A variable that names no backend is a finding, not the end.
    let name = machine::name(&args.machine, reading.environment.backend.as_ref());
    let machine = Machine::of(name, &args.machine, MachineOptions::default())?;
    on(&machine, reading, args, out)
}

/// As [`run`], on this machine and in this environment.
///
/// # Errors
/// As [`run`].
pub fn on(
    machine: &Machine,
    reading: Reading,
    args: &DoctorArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (folders, problems) = files();
    let subject = Subject::new(machine.backend(), machine.name().clone(), machine.devices().to_vec())
        .environment(reading)
        .folders(folders)
        .problems(problems);
    let Diagnosis { checks } = &examine(&subject, machine.roots());
    let failed: Vec<&str> =
        checks.iter().filter(|check| check.status == Status::Failed).map(|check| check.name).collect();
    let report = DoctorReport {
        backend: machine.name().to_string(),
        instance: machine.instance().map(str::to_owned),
        usable: failed.is_empty(),
        checks,
    };
    match args.json {
        true => write_json(out, &report),
        false => out.write_all(report.text().as_bytes()),
    }
    .map_err(Failure::output)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Exit::Device, format!("not in order: {}", names(&failed)))),
    }
}

/// Each name once, in order.
fn names(failed: &[&str]) -> String {
    let mut names = failed.to_vec();
    names.dedup();
    names.join(", ")
}

/// The folders that the allocator's files go to, and what is wrong with the variables that say so.
fn files() -> (Vec<Folder>, Vec<String>) {
    let (mut folders, mut problems) = (Vec::new(), Vec::new());
    match LogOptions::from_environment() {
        Ok(options) => folders.extend(options.path().map(|path| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Folder {
                variable: "NEURON_MEM_LOG",
                path: folder.unwrap_or(Path::new(".")).to_owned(),
                bytes: options.bytes(),
                required: true,
            }
        })),
        Err(error) => problems.push(error.to_string()),
    }
    let dumps = DumpOptions::from_env();
    problems.extend(dumps.problem());
    folders.extend(dumps.directory.map(|path| Folder {
        variable: "NEURON_RT_OOM_DUMP_DIRECTORY",
        path,
        bytes: REPORT_BYTES,
        required: false,
    }));
    (folders, problems)
}
