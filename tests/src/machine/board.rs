//! A driver on a recorded machine, and the bytes at any bus address.

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_driver::hw::{Hardware, VirtualClock};
use neuron_driver::{Device, Params};
use neuron_ndl::software::{HostMemory, SoftHardware};
use neuron_softdev::DeviceConfig;
use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

use super::mirror::{Mirror, Placement};
use super::recorder::Recording;
use super::registers::product;
use super::{Recorder, Registers};
use crate::vectors::Mismatch;

/// One device with the driver on it, nothing recorded yet.
///
/// Time is virtual: it passes only when the driver waits.
pub struct Board {
    device: Arc<Device>,
    recorder: Arc<Recorder>,
    behind: Behind,
}

/// What is behind the recorder.
enum Behind {
    /// A device whose engines move bytes.
    Engines(Arc<neuron_softdev::Device>),
    /// Such a device, but the registers in front of it only keep what is written.
    Mirrored(Arc<neuron_softdev::Device>),
    /// Registers and nothing else.
    Registers(Arc<Registers>),
}

/// Whether a driver comes with its cores up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// All of them, as after loading it.
    Up,
    /// None: no engine was initialised, no ring exists.
    Down,
}

/// Memory at a bus address.
pub struct Window {
    region: Arc<MmapRegion>,
    offset: usize,
    len: usize,
}

impl Window {
    /// The bytes.
    ///
    /// # Errors
    /// If the mapping is shorter than its owner said.
    pub fn slice(&self) -> Result<VolatileSlice<'_>, Mismatch> {
        self.region.get_slice(self.offset, self.len).map_err(|error| Mismatch::new(error.to_string()))
    }
}

impl Board {
    /// A device whose engines move bytes, each before the doorbell's write returns. Its
    /// DMA reaches all of `host`.
    ///
    /// # Errors
    /// If the device cannot be made or the driver does not come up.
    pub fn running(generation: Generation, host: &Arc<HostMemory>, cores: Cores) -> Result<Self, Mismatch> {
        Self::running_with(generation, host, cores, Params::default())
    }

    /// The same with parameters of the test's choice, but for those that the board sets.
    ///
    /// # Errors
    /// As [`running`](Self::running).
    pub fn running_with(
        generation: Generation,
        host: &Arc<HostMemory>,
        cores: Cores,
        params: Params,
    ) -> Result<Self, Mismatch> {
        let engines = neuron_softdev::Device::new(DeviceConfig::new(product(generation)))
            .map_err(|error| Mismatch::new(format!("software device: {error}")))?;
        let hardware = Arc::new(SoftHardware::new(Arc::clone(&engines), Arc::clone(host)));
        Self::on(generation, hardware, Behind::Engines(engines), cores, params)
    }

    /// A device as the sessions' recorder had it, all cores up.
    ///
    /// # Errors
    /// If the device cannot be made or the driver does not come up.
    pub fn mirrored(
        generation: Generation,
        host: &Arc<HostMemory>,
        placement: Placement,
    ) -> Result<Self, Mismatch> {
        let engines = neuron_softdev::Device::new(DeviceConfig::new(product(generation)))
            .map_err(|error| Mismatch::new(format!("software device: {error}")))?;
        let hardware = SoftHardware::new(Arc::clone(&engines), Arc::clone(host));
        let mirror = Arc::new(Mirror::new(generation, hardware, placement));
        Self::on(generation, mirror, Behind::Mirrored(engines), Cores::Up, Params::default())
    }

    /// Registers with nothing behind them: queues never run.
    ///
    /// # Errors
    /// If the driver does not come up.
    pub fn still(generation: Generation, host: &Arc<HostMemory>, cores: Cores) -> Result<Self, Mismatch> {
        let registers = Arc::new(Registers::new(generation, Some(Arc::clone(host))));
        let behind = Behind::Registers(Arc::clone(&registers));
        Self::on(generation, registers, behind, cores, Params::default())
    }

    fn on(
        generation: Generation,
        hardware: Arc<dyn Hardware>,
        behind: Behind,
        cores: Cores,
        params: Params,
    ) -> Result<Self, Mismatch> {
        let recorder = Arc::new(Recorder::new(generation, hardware));
        // Plain registers never end a reset.
        let no_reset = !matches!(behind, Behind::Engines(_));
        let params = Params { no_reset, bring_up: cores == Cores::Up, ..params };
        let shared: Arc<dyn Hardware> = Arc::clone(&recorder) as _;
        let device = Device::probe(shared, Arc::new(VirtualClock::default()), params)
            .map_err(|error| Mismatch::new(format!("probe: {error}")))?;
        recorder.take();
        Ok(Self { device, recorder, behind })
    }

    /// The driver.
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The machine, to make it fail.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The device whose engines move bytes, if there is one.
    pub const fn engines(&self) -> Option<&Arc<neuron_softdev::Device>> {
        match &self.behind {
            Behind::Engines(engines) | Behind::Mirrored(engines) => Some(engines),
            Behind::Registers(_) => None,
        }
    }

    /// Puts a value into a register that has nothing behind it.
    ///
    /// # Errors
    /// If this board's registers have.
    pub fn preload(&self, offset: u64, value: u32) -> Result<(), Mismatch> {
        match &self.behind {
            Behind::Registers(registers) => {
                registers.preload(offset, value);
                Ok(())
            }
            Behind::Engines(_) | Behind::Mirrored(_) => {
                Err(Mismatch::new("a device sets its registers itself"))
            }
        }
    }

    /// Takes what was recorded since the last call, or since the device came up.
    pub fn take(&self) -> Recording {
        self.recorder.take()
    }

    /// The `len` bytes at a bus address: allocated host memory, or HBM.
    ///
    /// # Errors
    /// If there is no such memory.
    pub fn memory(&self, bus: u64, len: u64) -> Result<Window, Mismatch> {
        let none = || Mismatch::new(format!("no memory of {len} bytes at {bus:#x}"));
        if let Some(memory) = self.recorder.host_memory(bus, len) {
            let (region, offset) = memory.region();
            return Ok(Window { region: Arc::clone(region), offset, len: memory.len() });
        }
        let offset = self.device.geometry().bar4_offset(bus, len).ok_or_else(none)?;
        let engines = self.engines().ok_or_else(none)?;
        let (region, offset) =
            engines.bar4().region(offset, len).map_err(|error| Mismatch::new(error.to_string()))?;
        let (offset, len) = (usize::try_from(offset), usize::try_from(len));
        offset.ok().zip(len.ok()).map(|(offset, len)| Window { region, offset, len }).ok_or_else(none)
    }

    /// Whether every engine found only descriptors of the right phase and memory at every
    /// address. True without engines.
    pub fn engines_found_no_error(&self) -> bool {
        let Some(engines) = self.engines() else { return true };
        let counters = engines.counters();
        counters.phase_errors + counters.masked_phase_errors + counters.axi_errors + counters.doorbell_errors
            == 0
    }
}
