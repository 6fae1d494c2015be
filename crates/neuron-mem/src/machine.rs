//! The device a command works on: a software machine of the instance asked for, and the
//! device opened on it.

use std::sync::Arc;

use neuron_ndl::software::{Machine, MachineError, MachineOptions, Sysfs};
use neuron_ndl::{Backend as _, Device};

use crate::exit::Exit;
use crate::failure::Failure;

/// A machine of this instance type, nothing on it up yet.
///
/// # Errors
/// [`Exit::Usage`] for an unknown name; [`Exit::Device`] if the machine's memory cannot
/// be had.
pub fn software(instance: &str, options: MachineOptions) -> Result<Machine, Failure> {
    Machine::with_options(instance, options).map_err(failure)
}

/// Brings device `index` up and opens it.
///
/// # Errors
/// [`Exit::Usage`] if the instance has no such device; [`Exit::Device`] with the step
/// that failed.
pub fn open(machine: &Machine, index: u8) -> Result<Arc<Device>, Failure> {
    machine.boot(index).map_err(|error| match error {
        MachineError::Probe(step) => {
            Failure::because(Exit::Device, format!("neuron{index} cannot be brought up"), step)
        }
        error => failure(error),
    })?;
    Device::open(machine, index).map_err(|error| Failure::new(Exit::Device, error))
}

/// The number of a device as the command line gives it.
///
/// # Errors
/// [`Exit::Usage`] above what any machine has.
pub fn device_index(device: u32) -> Result<u8, Failure> {
    u8::try_from(device).map_err(|_| Failure::new(Exit::Usage, format!("there is no device {device}")))
}

/// The tree that the machine's drivers show under `/sys`.
///
/// # Errors
/// [`Exit::Device`] if a device cannot be brought up.
pub fn sysfs(machine: &Machine) -> Result<Sysfs, Failure> {
    machine.sysfs().map_err(failure)
}

/// What users know the machine's backend by.
#[must_use]
pub fn backend(machine: &Machine) -> String {
    machine.name().to_owned()
}

fn failure(error: MachineError) -> Failure {
    let exit = match error {
        MachineError::UnknownInstance(_) | MachineError::NoDevice { .. } => Exit::Usage,
        _ => Exit::Device,
    };
    Failure::new(exit, error)
}
