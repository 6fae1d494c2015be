//! Which machine it is, and what it has: told without opening anything for good, taking a core or
//! printing a line, so that programs which never use a device can ask (`spec/nrt-abi.md` 4.2).

use std::sync::Arc;

use neuron_abi::arch::{Generation, Product, VENDOR_ID};
use neuron_abi::errno::Errno;
use neuron_ndl::Backend;
use neuron_ndl::diagnosis::{self, Roots};
use neuron_ndl::environment::{BackendName, CoreLayout, DEFAULT_INSTANCE, Environment};
use neuron_ndl::kernel::Kernel;
use neuron_ndl::remote::{Address, Remote};
use neuron_ndl::software::{Instance, Machine, MachineOptions};

use crate::instance;
use crate::layout::{InstanceInfo, text};
use crate::refusal::Refusal;

/// Where the devices are.
#[derive(Clone, Debug)]
enum Devices {
    /// In this process, of an instance type.
    Software(&'static Instance),
    Kernel,
    /// In a server.
    Unix(Address),
}

/// What a machine is.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    devices: Devices,
    /// Number of the device that answered.
    pub(crate) first: u8,
    pub(crate) layout: CoreLayout,
    family: u32,
    size: u32,
    core_arch: &'static str,
    revision: u32,
}

impl Census {
    /// The machine that the environment asks for.
    pub(crate) fn take(environment: &Environment) -> Result<Self, Refusal> {
        match &environment.backend {
            None | Some(BackendName::Software) => {
                let known = environment.instance.or_else(|| Instance::by_name(DEFAULT_INSTANCE));
                Self::without_hardware(environment, known, Devices::Software)
            }
            Some(BackendName::Kernel) => Self::kernel(environment),
            Some(BackendName::Unix(address)) => {
                let server = Remote::connect(address.clone());
                let server = server.map_err(|error| Refusal::failure(error.to_string()))?;
                let known = Instance::by_name(server.instance());
                Self::without_hardware(environment, known, |_| Devices::Unix(address.clone()))
            }
        }
    }

    fn without_hardware(
        environment: &Environment,
        known: Option<&'static Instance>,
        devices: impl FnOnce(&'static Instance) -> Devices,
    ) -> Result<Self, Refusal> {
        let product = |instance: &Instance| Product::from_pci(VENDOR_ID, instance.product.device_id());
        let unknown = || Refusal::failure("the machine is of no known product");
        let software = known.ok_or_else(unknown)?;
        let product = product(software).ok_or_else(unknown)?;
        let (family, size) = instance::named(software.name);
        Ok(Self {
            devices: devices(software),
            first: 0,
            layout: layout(environment, product.generation, software.devices.into()),
            family,
            size,
            core_arch: product.core_arch,
            revision: software.device_config(0).revision.into(),
        })
    }

    fn kernel(environment: &Environment) -> Result<Self, Refusal> {
        let (kernel, roots) = (Kernel::new(), Roots::system());
        let devices = kernel.devices();
        let none = || Refusal::failure(diagnosis::explain_open_error(&roots, 0, Errno::ENOENT).to_string());
        let (first, last) = devices.first().zip(devices.last()).ok_or_else(none)?;
        let facts = diagnosis::device_facts(&kernel, *first).map_err(|error| {
            Refusal::failure(
                diagnosis::explain_failed_open(&roots, &error).unwrap_or_else(|| error.to_string()),
            )
        })?;
        let name = roots.instance();
        let (family, size) = instance::counted(name.as_deref(), facts.generation, devices.len());
        let product = Product::ALL.iter().find(|product| product.generation == facts.generation);
        Ok(Self {
            devices: Devices::Kernel,
            first: *first,
            layout: layout(environment, facts.generation, u32::from(*last) + 1),
            family,
            size,
            core_arch: product.map_or("v2", |product| product.core_arch),
            revision: facts.revision,
        })
    }

    /// The machine to open devices of.
    pub(crate) fn backend(&self) -> Result<Arc<dyn Backend>, Refusal> {
        match &self.devices {
            Devices::Software(instance) => {
                let machine = Machine::with_options(instance.name, MachineOptions::default());
                Ok(Arc::new(machine.map_err(|error| Refusal::failure(error.to_string()))?))
            }
            Devices::Kernel => Ok(Arc::new(Kernel::new())),
            Devices::Unix(address) => {
                let server = Remote::connect(address.clone());
                Ok(Arc::new(server.map_err(|error| Refusal::failure(error.to_string()))?))
            }
        }
    }

    /// As `nrt_get_instance_info` tells it.
    pub(crate) fn instance_info(&self) -> InstanceInfo {
        InstanceInfo {
            family: self.family,
            size: self.size,
            arch_name: text(&format!("NC{}", self.core_arch)),
            device_revision: text(&self.revision.to_string()),
        }
    }
}

/// Cores are counted from core 0 of device 0, whether that is there or not.
fn layout(environment: &Environment, generation: Generation, devices: u32) -> CoreLayout {
    CoreLayout {
        devices,
        cores_per_device: generation.geometry().cores,
        logical_size: environment.logical_size(generation),
    }
}
