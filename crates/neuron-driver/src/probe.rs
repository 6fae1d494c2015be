//! Bringing a device up (`spec/driver.md` 7.1): routing id, pools, the driver's own memory,
//! reset, cores.

use std::sync::Arc;

use neuron_abi::arch::{FIRMWARE_RESERVE, Product, VENDOR_ID};
use neuron_abi::errno::Errno;

use crate::arch::Arch;
use crate::device::System;
use crate::device::{Device, Params};
use crate::hw::{Clock, Hardware};
use crate::pool::Pools;
use crate::{reset, topology};

/// Why a device did not come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The PCI ids belong to no known product.
    #[error("PCI device {0:#06x} is no Neuron device this driver knows")]
    UnknownDevice(u16),
    /// PCI revisions 240 and 255 change where registers are, which is not supported.
    #[error("PCI revision {0} (emulator or qemu) is not supported; use a plain revision")]
    Revision(u8),
    /// The routing id never became ready, or is out of range.
    #[error("the device reports no usable routing id (last value {0:#010x})")]
    RoutingId(u32),
    /// [`PoolParams::hbm_bytes`](crate::pool::PoolParams::hbm_bytes) leaves less than the
    /// firmware takes for itself.
    #[error("an HBM of {bytes} bytes is too small: the firmware's reserve alone takes {FIRMWARE_RESERVE}")]
    HbmTooSmall {
        /// Bytes of an HBM, page-rounded.
        bytes: u64,
    },
    /// A step failed.
    #[error("{step}: {errno}")]
    Step {
        /// What was being done.
        step: &'static str,
        /// How it failed.
        errno: Errno,
    },
}

const ROUTING_ID: u64 = 0x24;
const NOT_READY: u32 = 0xdead_beef;
/// Rounds of waiting for the routing id, and the looks of one round, 1 ms apart.
const ROUTING_ID_ROUNDS: u32 = 20;
const ROUTING_ID_LOOKS: u32 = 15_000;

impl Device {
    /// Probes a device that is alone: [`probe_in`](Self::probe_in) a system of its own.
    ///
    /// # Errors
    /// [`ProbeError`]; everything done before is undone.
    pub fn probe(
        hardware: Arc<dyn Hardware>,
        clock: Arc<dyn Clock>,
        params: Params,
    ) -> Result<Arc<Self>, ProbeError> {
        Self::probe_in(&Arc::default(), hardware, clock, params)
    }

    /// Probes the device: pools, the driver's own memory, reset, then all cores unless
    /// [`Params::bring_up`] says otherwise. Other devices of the system can find it then.
    ///
    /// # Errors
    /// [`ProbeError`]; everything done before is undone.
    pub fn probe_in(
        system: &Arc<System>,
        hardware: Arc<dyn Hardware>,
        clock: Arc<dyn Clock>,
        params: Params,
    ) -> Result<Arc<Self>, ProbeError> {
        let step = |step| move |errno| ProbeError::Step { step, errno };
        let identity = hardware.identity();
        let product = Product::from_pci(VENDOR_ID, identity.device_id)
            .ok_or(ProbeError::UnknownDevice(identity.device_id))?;
        if matches!(identity.revision, 240 | 255) {
            return Err(ProbeError::Revision(identity.revision));
        }
        let arch = Arch::of(product.generation);
        for hbm in arch.geometry().hbm {
            let bytes = params.pools.channel_bytes(hbm.size);
            if bytes < FIRMWARE_RESERVE {
                return Err(ProbeError::HbmTooSmall { bytes });
            }
        }
        let index = device_index(&*hardware, &*clock, arch, product)?;
        let pools = Pools::new(arch.geometry(), Arc::clone(&hardware), &params.pools)
            .map_err(step("setting up the memory pools"))?;
        let device = Self::new(Arc::clone(system), hardware, clock, product, index, pools, params)
            .map_err(step("allocating the driver's own memory"))?;
        if !params.no_reset {
            reset::run(device.hardware(), device.clock(), arch, reset::Scope::Device)
                .map_err(step("resetting the device"))?;
        }
        if device.params().bring_up {
            device.init_cores(u32::MAX).map_err(step("bringing up the cores"))?;
        }
        let device = Arc::new(device);
        system.publish(device.index(), &device).map_err(step("publishing the device under its number"))?;
        Ok(device)
    }
}

/// Waits for the routing id and turns it into a node number.
fn device_index(
    hardware: &dyn Hardware,
    clock: &dyn Clock,
    arch: &Arch,
    product: &Product,
) -> Result<u8, ProbeError> {
    let mut routing_id = NOT_READY;
    for _ in 0..ROUTING_ID_ROUNDS * ROUTING_ID_LOOKS {
        routing_id = hardware
            .read(arch.misc_ram + ROUTING_ID)
            .map_err(|_| ProbeError::Step { step: "reading the routing id", errno: Errno::EIO })?;
        if routing_id != NOT_READY {
            break;
        }
        clock.sleep(1000);
    }
    topology::device_index(product, routing_id).ok_or(ProbeError::RoutingId(routing_id))
}
