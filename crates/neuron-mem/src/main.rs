#![forbid(unsafe_code)]
//! The command `neuron-mem`: parses, dispatches, reports. Everything else is in the library.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use neuron_mem::cli::{Cli, Command};
use neuron_mem::exit::Exit;
use neuron_mem::failure::Failure;
use neuron_mem::interrupt::Interrupt;
use neuron_mem::render::paint::Paint;
use neuron_mem::{devices, doctor, explain, load, log, plan, replay, rings, run, serve, trace};

fn main() -> ExitCode {
    match dispatch(&Cli::parse()) {
        Ok(code) => code,
        Err(failure) => {
            if !failure.reader_left() {
                // With standard error gone too there is nobody left to tell.
                let _ = writeln!(io::stderr(), "error: {failure}");
            }
            failure.exit().into()
        }
    }
}

fn dispatch(cli: &Cli) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    match &cli.command {
        Command::Load(args) => {
            let interrupt = Interrupt::install().map_err(|error| Failure::new(Exit::Device, error))?;
            load::run(args, &|| interrupt.requested(), &mut out)?;
        }
        Command::Plan(args) => plan::run(args, Paint::of_stdout(), &mut out)?,
        Command::Devices(args) => devices::run(args, &mut out)?,
        Command::Rings(args) => rings::run(args, &mut out)?,
        Command::TraceCopy(args) => trace::run(args, &mut out)?,
        Command::Doctor(args) => doctor::run(args, &mut out)?,
        Command::Explain(args) => explain::run(args, Paint::of_stdout(), &mut out)?,
        Command::Replay(args) => replay::run(args, Paint::of_stdout(), &mut out)?,
        Command::Diff(args) => replay::diff(args, &mut out)?,
        Command::Serve(args) => serve::run(args, &mut out)?,
        Command::Run(args) => return run::run(args),
        Command::Log(args) => {
            let interrupt = match args.follow {
                true => Interrupt::install().map_err(|error| Failure::new(Exit::Device, error))?,
                false => Interrupt::detached(),
            };
            log::run(args, &|| interrupt.requested(), &mut out)?;
        }
    }
    out.flush().map_err(Failure::output)?;
    Ok(Exit::Done.into())
}
