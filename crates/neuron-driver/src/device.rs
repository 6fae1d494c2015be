//! One device, from probe to removal (`spec/driver.md` 7.1, 7.2).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::arch::{Geometry, PAGE_SIZE, Product, VENDOR_ID};
use neuron_abi::errno::Errno;
use neuron_abi::limits::{DATASTORE_SIZE, MAX_PROCESSES};

use crate::arch::{Arch, WaitPolicy};
use crate::dma::buffer::BOUNCE_BYTES;
use crate::hw::{Clock, Hardware, Identity};
use crate::pool::{ChunkRef, Lifespan, PoolParams, Pools, Request};
use crate::process::Processes;
use crate::ring::Engines;
use crate::{reset, topology};

/// Module parameters (`spec/driver.md` 9) and what the machine around the device knows.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Pool sizes.
    pub pools: PoolParams,
    /// Skip hardware resets.
    pub no_reset: bool,
    /// Overrides the generation's wait factor (`spec/arch.md` 6), to show older drivers.
    pub wait_factor: Option<u64>,
    /// Devices in the machine, for the neighbour tables.
    pub device_count: u8,
}

impl Default for Params {
    fn default() -> Self {
        Self { pools: PoolParams::default(), no_reset: false, wait_factor: None, device_count: 1 }
    }
}

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
/// Bytes of the ring that queues of dead processes are pointed at: 64 descriptors.
const DUMMY_RING_BYTES: u64 = 1024;

/// A device that is up. All methods may be called from any thread.
pub struct Device {
    hardware: Arc<dyn Hardware>,
    clock: Arc<dyn Clock>,
    arch: &'static Arch,
    product: &'static Product,
    identity: Identity,
    params: Params,
    wait: WaitPolicy,
    index: u8,
    pools: Pools,
    engines: Engines,
    processes: Processes,
    /// Cores whose rings are up, one bit each.
    cores_up: Mutex<u32>,
    memset: Mutex<ChunkRef>,
    /// Ring that queues of dead processes are pointed at.
    dummy_ring: ChunkRef,
}

impl Device {
    /// Probes the device: pools, the driver's own memory, reset, then all cores.
    ///
    /// # Errors
    /// [`ProbeError`]; everything done before is undone.
    pub fn probe(
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
        let index = device_index(&*hardware, &*clock, arch, product)?;
        let pools = Pools::new(arch.geometry(), Arc::clone(&hardware), &params.pools)
            .map_err(step("setting up the memory pools"))?;
        let own = |bytes| {
            pools.allocate(Request::driver_host(bytes, 0, Lifespan::Device)).map_err(step("driver memory"))
        };
        for _ in 0..MAX_PROCESSES {
            own(DATASTORE_SIZE as u64)?;
        }
        let dummy_ring = own(DUMMY_RING_BYTES)?;
        let memset = Mutex::new(own(BOUNCE_BYTES)?);
        let factor = params.wait_factor.unwrap_or(arch.wait.factor);
        let device = Self {
            hardware,
            clock,
            arch,
            product,
            identity,
            params,
            wait: WaitPolicy { factor, ..arch.wait },
            index,
            pools,
            engines: Engines::new(arch),
            processes: Processes::default(),
            cores_up: Mutex::new(0),
            memset,
            dummy_ring,
        };
        if !params.no_reset {
            reset::run(&*device.hardware, &*device.clock, arch, reset::Scope::Device)
                .map_err(step("resetting the device"))?;
        }
        device.init_cores(u32::MAX).map_err(step("bringing up the cores"))?;
        Ok(Arc::new(device))
    }

    /// Registers and host memory.
    pub(crate) fn hardware(&self) -> &dyn Hardware {
        &*self.hardware
    }

    /// Time.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The generation's tables.
    pub const fn arch(&self) -> &'static Arch {
        self.arch
    }

    /// Cores and memory ranges.
    pub fn geometry(&self) -> &'static Geometry {
        self.arch.geometry()
    }

    /// Product line.
    pub const fn product(&self) -> &'static Product {
        self.product
    }

    /// PCI ids.
    pub const fn identity(&self) -> Identity {
        self.identity
    }

    /// Node number: the N of `/dev/neuronN`.
    pub const fn index(&self) -> u8 {
        self.index
    }

    /// Node numbers of connected devices.
    pub fn neighbours(&self) -> Vec<u8> {
        topology::neighbours(self.product, self.index, self.params.device_count)
    }

    /// Bytes of the HBM window, 0 if there is none.
    pub fn bar4_size(&self) -> u64 {
        self.hardware.bar_size(4)
    }

    /// Memory.
    pub const fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Engines, queues and rings.
    pub const fn engines(&self) -> &Engines {
        &self.engines
    }

    pub(crate) const fn processes(&self) -> &Processes {
        &self.processes
    }

    pub(crate) const fn wait_policy(&self) -> &WaitPolicy {
        &self.wait
    }

    pub(crate) fn cores_up(&self) -> MutexGuard<'_, u32> {
        self.cores_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memset pattern's chunk, locked: outermost of the copy locks.
    pub(crate) fn memset_pattern(&self) -> MutexGuard<'_, ChunkRef> {
        self.memset.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Address of the ring that queues of dead processes are pointed at.
    pub fn dummy_ring_address(&self) -> u64 {
        self.dummy_ring.pa()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.close_cores(u32::MAX);
        self.pools.sweep_device();
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

const _: () = assert!((DATASTORE_SIZE as u64).is_multiple_of(PAGE_SIZE));
