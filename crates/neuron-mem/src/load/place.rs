//! Which device and cores a model goes to, and which way its bytes go. What the arguments say counts first,
//! then the environment, then the default.

use neuron_dmem::transfer::Path;
use neuron_ndl::Device;
use neuron_ndl::environment::{CoreLayout, Environment, EnvironmentError};

use crate::cli::{LoadArgs, Transfer};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::machine::{self, Machine};

fn usage(error: EnvironmentError) -> Failure {
    Failure::new(Exit::Usage, error)
}

/// The device: the one asked for, else that of the first core that the environment lists, else the first.
///
/// # Errors
/// [`Exit::Usage`] for a device or a core that is not there; [`Exit::Device`] if the devices do not say what
/// they are.
pub(super) fn device(args: &LoadArgs, environment: &Environment, machine: &Machine) -> Result<u8, Failure> {
    if let Some(device) = args.device {
        return machine::device_index(device);
    }
    let first = machine.first_device();
    if args.cores.is_some() || environment.visible_cores.is_none() {
        return Ok(first);
    }
    let generation = machine.generation(first)?;
    let layout = CoreLayout {
        devices: machine.device_numbers(),
        cores_per_device: generation.geometry().cores,
        logical_size: environment.logical_size(generation),
    };
    let visible = environment.visible(layout).map_err(usage)?;
    machine::device_index(layout.device_of(visible.start).unwrap_or(first.into()))
}

/// The device's cores: those asked for, else those of the environment that it has, else all.
///
/// # Errors
/// [`Exit::Usage`] for cores that are not there, or if the environment leaves none of this device.
pub(super) fn cores(
    args: &LoadArgs,
    environment: &Environment,
    machine: &Machine,
    device: &Device,
) -> Result<Vec<u32>, Failure> {
    let (generation, index) = (device.facts().generation, device.facts().index);
    let present = 0..device.geometry().cores;
    if let Some(cores) = &args.cores {
        let present: Vec<u32> = present.collect();
        return cores.resolve(&present).map_err(|error| Failure::new(Exit::Usage, error));
    }
    let layout = CoreLayout {
        devices: machine.device_numbers(),
        cores_per_device: device.geometry().cores,
        logical_size: environment.logical_size(generation),
    };
    let visible = environment.visible(layout).map_err(usage)?;
    let Some(list) = &environment.visible_cores else {
        // A number of cores is one of any cores: here, of this device's.
        let most = (visible.end - visible.start).saturating_mul(layout.logical_size);
        return Ok((0..present.end.min(most)).collect());
    };
    let cores = layout.of_device(&visible, index.into());
    if cores.is_empty() {
        let first = u32::from(index) * layout.logical_per_device();
        let why = format!(
            "NEURON_RT_VISIBLE_CORES is {list}, which leaves no core of neuron{index}: it has cores {first} to {}; name \
             another device with --device, or its cores with --cores",
            (first + layout.logical_per_device()).saturating_sub(1)
        );
        return Err(Failure::new(Exit::Usage, why));
    }
    Ok(cores.collect())
}

/// The way: what was asked for by name, here or in the environment, is tried whatever the device says of itself.
pub(super) fn path(transfer: Option<Transfer>, environment: &Environment, device: &Device) -> Path {
    let without_bounce = match (transfer, environment.zero_copy) {
        (Some(Transfer::Staged), _) => false,
        (Some(Transfer::Zerocopy), _) => true,
        (None, Some(set)) => set,
        (Some(Transfer::Auto), _) | (None, None) => device.offers_zero_copy(),
    };
    let direct_write = environment.direct_write(device.facts().generation);
    if without_bounce { Path::ZeroCopy { direct_write } } else { Path::Staged }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_ndl::software;

    fn environment(set: &[(&str, &str)]) -> Environment {
        let value = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        Environment::from_variables(value).unwrap()
    }

    fn open(instance: &str) -> std::sync::Arc<Device> {
        Device::open(&software::Machine::new(instance).unwrap(), 0).unwrap()
    }

    #[test]
    fn auto_takes_what_the_device_offers_and_a_name_is_taken_at_its_word() {
        let ways = [Some(Transfer::Auto), Some(Transfer::Staged), Some(Transfer::Zerocopy), None];
        for (instance, direct_write) in [("trn1.2xlarge", 0), ("trn2.3xlarge", 0x1000)] {
            let device = open(instance);
            let zero_copy = Path::ZeroCopy { direct_write };
            let auto = if device.offers_zero_copy() { zero_copy } else { Path::Staged };
            for (set, default) in [(None, auto), (Some("0"), Path::Staged), (Some("1"), zero_copy)] {
                let set: Vec<_> = set.map(|value| ("NEURON_RT_DBG_ZEROCOPY", value)).into_iter().collect();
                let paths = ways.map(|asked| path(asked, &environment(&set), &device));
                assert_eq!(paths, [auto, Path::Staged, zero_copy, default], "{instance} {set:?}");
            }
        }
    }

    #[test]
    fn the_size_of_direct_writes_is_the_environments() {
        for instance in ["trn1.2xlarge", "trn2.3xlarge"] {
            let environment = environment(&[("NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE", "64")]);
            let path = path(Some(Transfer::Zerocopy), &environment, &open(instance));
            assert_eq!(path, Path::ZeroCopy { direct_write: 64 });
        }
    }
}
