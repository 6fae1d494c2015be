//! What a device shall be: chosen before it is made, never changed after.

use vm_memory::VolatileSlice;

use crate::fault::FaultPlan;
use crate::geometry::{Product, REVISION_SILICON};

/// Who executes descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// The thread that writes a doorbell, before the write returns: deterministic.
    Inline,
    /// Worker threads, so that engines and their users overlap. A doorbell that announces only a little is
    /// still executed by its writer, because handing it over would take longer.
    Threaded {
        /// Threads, at least one.
        workers: usize,
    },
}

/// What a device shall be. Start from [`DeviceConfig::new`] and change fields.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Product: PCI id and geometry.
    pub product: Product,
    /// PCI revision id: 1 for silicon (the default), 255 for the vendor driver's "qemu" mode. 240 is refused.
    pub revision: u8,
    /// Routing id as the misc RAM tells it. Drivers want it below 64 and distinct in a machine.
    pub routing_id: u32,
    /// Serial number.
    pub serial: u64,
    /// Who executes descriptors.
    pub execution: Execution,
    /// Faults in place from the start.
    pub faults: FaultPlan,
    /// Reads of the reset word that still show a reset under way, after it has been started.
    pub reset_polls: u64,
    /// Firmware API version: from 3 on a driver samples power.
    pub firmware_api_version: u32,
    /// Power use in 1/100 %, 0 to 10000.
    pub power: u16,
    /// Makes pages of HBM without changing a byte. Large writes have theirs made by it, many at a time, and
    /// with worker threads a thread makes those of the next ones. Without it pages come as they are touched.
    pub populate: Option<fn(&VolatileSlice<'_>)>,
    /// Bytes of an HBM channel in qemu mode on V3 and later, a power of two; not looked at otherwise.
    pub qemu_hbm_size: u64,
}

impl DeviceConfig {
    /// The default device of a product: silicon, routing id 0, inline execution, no faults, resets done when
    /// first looked at, firmware API 3, 4 GiB per HBM channel if it should become a qemu one.
    #[must_use]
    pub fn new(product: Product) -> Self {
        Self {
            product,
            revision: REVISION_SILICON,
            routing_id: 0,
            serial: 0x5d00_0000_0000_0000 | u64::from(product.device_id()) << 32 | 1,
            execution: Execution::Inline,
            faults: FaultPlan::default(),
            reset_polls: 0,
            firmware_api_version: 3,
            power: 0,
            populate: None,
            qemu_hbm_size: 4 << 30,
        }
    }
}
