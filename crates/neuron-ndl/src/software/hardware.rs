//! Software devices as the driver sees hardware, and those of a machine that are up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_driver::hw::{DmaMemory, Hardware, Identity};
use neuron_udma::MmioError;
use vm_memory::VolatileSlice;

use super::host::HostMemory;
use super::iommu::Iommu;

/// The devices of a machine that are up.
#[derive(Default)]
pub(super) struct Devices {
    running: Mutex<HashMap<u8, Running>>,
}

impl Devices {
    /// By number.
    pub(super) fn running(&self) -> MutexGuard<'_, HashMap<u8, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hardware of a device that is up.
    pub(super) fn hardware(&self, index: u8) -> Option<Arc<SoftHardware>> {
        self.running().get(&index).map(|running| Arc::clone(&running.hardware))
    }
}

/// A device that is up: the hardware and its driver.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) hardware: Arc<SoftHardware>,
    pub(super) driver: Arc<neuron_driver::Device>,
}

/// A software device in a machine, as the driver sees hardware.
pub struct SoftHardware {
    pub(super) device: Arc<neuron_softdev::Device>,
    pub(super) host: Arc<HostMemory>,
    pub(super) iommu: Arc<Iommu>,
}

impl SoftHardware {
    /// Puts a device into a machine: its DMA reaches all host memory.
    pub fn new(device: Arc<neuron_softdev::Device>, host: Arc<HostMemory>) -> Self {
        let iommu = Arc::new(Iommu::new(Arc::clone(&device), host.dma_mapping()));
        Self { device, host, iommu }
    }
}

impl Hardware for SoftHardware {
    fn identity(&self) -> Identity {
        let ids = self.device.config_read(0, 4);
        Identity { device_id: (ids >> 16) as u16, revision: self.device.config_read(8, 1) as u8 }
    }

    fn read(&self, offset: u64) -> Result<u32, MmioError> {
        self.device.bar_read(0, offset).map_err(|_| MmioError { offset })
    }

    fn write(&self, offset: u64, value: u32) -> Result<(), MmioError> {
        self.device.bar_write(0, offset, value).map_err(|_| MmioError { offset })
    }

    fn bar_size(&self, bar: u8) -> u64 {
        self.device.bar_size(bar)
    }

    fn window(&self, offset: u64, bytes: u64) -> Option<VolatileSlice<'_>> {
        self.device.bar4().slice(offset, bytes).ok()
    }

    fn dma_alloc(&self, bytes: u64) -> Option<DmaMemory> {
        self.host.allocate(bytes)
    }

    fn dma_free(&self, memory: &DmaMemory) {
        self.host.free(memory);
    }
}
