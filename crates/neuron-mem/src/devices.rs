//! `neuron-mem devices`: from the arguments to what the instance has.

use std::io::Write;

use crate::cli::DevicesArgs;
use crate::exit::Exit;
use crate::failure::Failure;

/// Runs the command and writes its result to `out`.
///
/// # Errors
/// See [`Exit`] for which failure has which code.
pub fn run(args: &DevicesArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let _ = (args, out);
    Err(Failure::new(Exit::Device, "devices is not wired to a device"))
}
