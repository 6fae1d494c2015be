//! One device: what it is made of, and who may reach which part. Bringing it up is
//! `probe`'s business, its cores `bringup`'s.

use std::sync::Arc;

use neuron_abi::arch::{Geometry, Product};
use neuron_abi::errno::Errno;
use neuron_abi::limits::{DATASTORE_SIZE, MAX_PROCESSES};

use crate::arch::{Arch, WaitPolicy};
use crate::cinit::CoreInits;
use crate::completer::Completer;
use crate::core_locks::CoreLocks;
use crate::datastore::DataStores;
use crate::hw::{Clock, Hardware, Identity};
use crate::mailbox::Mailbox;
use crate::notifications::NotificationQueues;
use crate::pool::{ChunkRef, Lifespan, PoolParams, Pools, Request};
use crate::resets::Resets;
use crate::ring::Engines;
use crate::scrubs::Scrubs;
use crate::slots::Slots;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::system::Registry;
use crate::topology;

/// Module parameters (`spec/driver.md` 9) and what the machine around the device knows.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Pool sizes.
    pub pools: PoolParams,
    /// Skip hardware resets.
    pub no_reset: bool,
    /// Reset the queues of a process that exits; without it its rings stay programmed.
    pub teardown_on_exit: bool,
    /// Offer zero-copy where a copy may have to be staged again after a reset (V2).
    pub zerocopy_trn1_override: bool,
    /// Overrides the generation's wait factor (`spec/arch.md` 6), to show older drivers.
    pub wait_factor: Option<u64>,
    /// Devices in the machine, for the neighbour tables.
    pub device_count: u8,
    /// Bytes of an HBM that a scrub covers, from the channel's start; without it all. Memory
    /// of a software device is there once it is written: a scrub of 16 GiB takes as much.
    pub scrub_bytes: Option<u64>,
    /// Bring all cores up when the device is probed: off for tools and tests that bring
    /// cores up themselves.
    pub bring_up: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            pools: PoolParams::default(),
            no_reset: false,
            teardown_on_exit: true,
            zerocopy_trn1_override: false,
            wait_factor: None,
            device_count: 1,
            scrub_bytes: None,
            bring_up: true,
        }
    }
}

/// Bytes of the ring that queues of dead processes are pointed at: 64 descriptors.
const DUMMY_RING_BYTES: u64 = 1024;
/// Bytes of the pattern that memset copies from.
pub(crate) const MEMSET_PATTERN_BYTES: u64 = 65536;

/// The devices of one machine.
pub type System = Registry<Device>;

/// A device that is up. All methods may be called from any thread.
pub struct Device {
    hardware: Arc<dyn Hardware>,
    clock: Arc<dyn Clock>,
    arch: &'static Arch,
    product: &'static Product,
    params: Params,
    wait: WaitPolicy,
    index: u8,
    pools: Pools,
    engines: Engines,
    slots: Slots,
    resets: Resets,
    system: Arc<System>,
    core_inits: CoreInits,
    core_locks: CoreLocks,
    data_stores: DataStores,
    mailbox: Mailbox,
    notification_queues: NotificationQueues,
    scrubs: Scrubs,
    /// Cores whose rings are up, one bit each.
    cores_up: Mutex<u32>,
    memset: Mutex<ChunkRef>,
    /// Ring that queues of dead processes are pointed at.
    dummy_ring: ChunkRef,
    completer: Completer,
}

impl Device {
    /// A device over its pools, with the driver's own memory: a data store for each
    /// process slot, the dummy ring, the memset pattern. No core is up.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn new(
        system: Arc<System>,
        hardware: Arc<dyn Hardware>,
        clock: Arc<dyn Clock>,
        product: &'static Product,
        index: u8,
        pools: Pools,
        params: Params,
    ) -> Result<Self, Errno> {
        let own = |bytes| pools.allocate(Request::driver_host(bytes, 0, Lifespan::Device));
        let stores = (0..MAX_PROCESSES).map(|_| own(DATASTORE_SIZE as u64)).collect::<Result<_, _>>()?;
        let dummy_ring = own(DUMMY_RING_BYTES)?;
        let memset = Mutex::new(own(MEMSET_PATTERN_BYTES)?);
        let arch = Arch::of(product.generation);
        let factor = params.wait_factor.unwrap_or(arch.wait.factor);
        Ok(Self {
            hardware,
            clock,
            arch,
            product,
            params,
            wait: WaitPolicy { factor, ..arch.wait },
            index,
            pools,
            engines: Engines::new(arch),
            slots: Slots::default(),
            resets: Resets::default(),
            system,
            core_inits: CoreInits::default(),
            core_locks: CoreLocks::default(),
            data_stores: DataStores::new(stores),
            mailbox: Mailbox::default(),
            notification_queues: NotificationQueues::default(),
            scrubs: Scrubs::default(),
            cores_up: Mutex::new(0),
            memset,
            dummy_ring,
            completer: Completer::default(),
        })
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
    pub fn identity(&self) -> Identity {
        self.hardware.identity()
    }

    /// Node number: the N of `/dev/neuronN`.
    pub const fn index(&self) -> u8 {
        self.index
    }

    /// Node numbers of connected devices.
    pub fn neighbours(&self) -> Vec<u8> {
        topology::neighbours(self.product, self.index, self.params.device_count)
    }

    /// Parameters it came up with.
    pub const fn params(&self) -> &Params {
        &self.params
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

    pub(crate) const fn resets(&self) -> &Resets {
        &self.resets
    }

    /// The machine it is in.
    pub const fn system(&self) -> &Arc<System> {
        &self.system
    }

    pub(crate) const fn core_inits(&self) -> &CoreInits {
        &self.core_inits
    }

    pub(crate) const fn core_locks(&self) -> &CoreLocks {
        &self.core_locks
    }

    pub(crate) const fn data_stores(&self) -> &DataStores {
        &self.data_stores
    }

    pub(crate) const fn firmware_mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    pub(crate) const fn notification_queues(&self) -> &NotificationQueues {
        &self.notification_queues
    }

    pub(crate) const fn scrubs(&self) -> &Scrubs {
        &self.scrubs
    }

    pub(crate) const fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(crate) const fn completer(&self) -> &Completer {
        &self.completer
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
