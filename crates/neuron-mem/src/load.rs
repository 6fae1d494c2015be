//! `neuron-mem load`: from the arguments to a loaded model. The device work is called from here.

use std::io::Write;

use crate::cli::LoadArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::model::Model;

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

/// Runs the command and writes its result to `out`. The model is opened before any device is touched, so bad
/// input is told wherever the command runs.
///
/// # Errors
/// See [`Exit`] for which failure has which code.
pub fn run(args: &LoadArgs, interrupt: &Interrupt, out: &mut dyn Write) -> Result<(), Failure> {
    let model = open_model(args)?;
    let _ = (model, interrupt, out);
    Err(Failure::new(Exit::Device, "load is not wired to a device"))
}
