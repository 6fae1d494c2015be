//! A driver on a device whose engines move bytes before a doorbell's write returns, alone or
//! beside others of the same machine. Time is virtual.

use std::sync::Arc;

use neuron_abi::arch::Geometry;
use neuron_abi::cmd::Command;
use neuron_driver::hw::{Hardware, VirtualClock};
use neuron_driver::{Device, OpenFile, OpenMode, Params, System};
use neuron_ndl::software::{HostMemory, SoftHardware};
use neuron_softdev::{DeviceConfig, FaultPlan, Product};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::client::Client;
use crate::vectors::Mismatch;

/// A device that is up.
pub struct Rig {
    system: Arc<System>,
    host: Arc<HostMemory>,
    hardware: Arc<neuron_softdev::Device>,
    device: Arc<Device>,
}

impl Rig {
    /// A device that is alone in its machine.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn new(product: Product) -> Result<Self, Mismatch> {
        Self::with(product, Params::default(), "")
    }

    /// The same with driver parameters, and faults in their text form.
    ///
    /// # Errors
    /// If the text is no plan, or the device does not come up.
    pub fn with(product: Product, params: Params, faults: &str) -> Result<Self, Mismatch> {
        let host = HostMemory::new().map_err(|error| Mismatch::new(format!("host memory: {error}")))?;
        let faults: FaultPlan =
            faults.parse().map_err(|error| Mismatch::new(format!("fault plan: {error}")))?;
        let config = DeviceConfig { faults, ..DeviceConfig::new(product) };
        Self::of(&Arc::default(), &Arc::new(host), config, params)
    }

    /// Another device of the machine.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn beside(&self, routing_id: u32) -> Result<Self, Mismatch> {
        let config = DeviceConfig { routing_id, ..DeviceConfig::new(self.hardware.geometry().product) };
        Self::of(&self.system, &self.host, config, *self.device.params())
    }

    fn of(
        system: &Arc<System>,
        host: &Arc<HostMemory>,
        config: DeviceConfig,
        params: Params,
    ) -> Result<Self, Mismatch> {
        let hardware = neuron_softdev::Device::new(config)
            .map_err(|error| Mismatch::new(format!("software device: {error}")))?;
        let soft: Arc<dyn Hardware> = Arc::new(SoftHardware::new(Arc::clone(&hardware), Arc::clone(host)));
        let device = Device::probe_in(system, soft, Arc::new(VirtualClock::default()), params)
            .map_err(|error| Mismatch::new(format!("probe: {error}")))?;
        Ok(Self { system: Arc::clone(system), host: Arc::clone(host), hardware, device })
    }

    /// The driver.
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The device itself.
    pub const fn hardware(&self) -> &Arc<neuron_softdev::Device> {
        &self.hardware
    }

    /// The machine's memory.
    pub const fn host(&self) -> &Arc<HostMemory> {
        &self.host
    }

    /// Cores and memory ranges.
    pub fn geometry(&self) -> &'static Geometry {
        self.device.geometry()
    }

    /// A process with the device open.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn client(&self, pid: i32) -> Result<Client, Mismatch> {
        Client::open_as(&self.device, pid)
    }

    /// A process's file that reaches discovery only.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn misc(&self, pid: i32) -> Result<OpenFile, Mismatch> {
        OpenFile::open(&self.device, pid, OpenMode::Misc)
            .map_err(|errno| Mismatch::new(format!("open: {errno}")))
    }
}

/// One command through any file and by any process, with the argument in `space`. Returns 0
/// or a negative errno, and the argument as the driver left it.
pub fn call_as<T: IntoBytes + Immutable + FromBytes + Copy>(
    file: &OpenFile,
    pid: i32,
    command: &Command,
    argument: T,
) -> (i64, T) {
    const ARGUMENT: u64 = 0x10_0000;
    let space = crate::client::Space::default();
    space.map(ARGUMENT, argument.as_bytes().to_vec());
    let ret = match file.ioctl_as(pid, command.word, ARGUMENT, &space) {
        Ok(()) => 0,
        Err(errno) => errno.negated().into(),
    };
    let after = space.bytes(ARGUMENT, size_of::<T>()).ok().and_then(|bytes| T::read_from_bytes(&bytes).ok());
    (ret, after.unwrap_or(argument))
}
