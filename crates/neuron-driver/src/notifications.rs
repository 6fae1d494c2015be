//! Memory of notification queues (`spec/abi.md` 10): rings in which a core or TopSP would
//! tell a runtime what happened. Found by what they belong to, kept until its reset.
//!
//! Which block's registers take a queue's base and size is not established, so none are
//! written (our choice): on a machine that computes nothing a queue stays empty either way.

use std::collections::BTreeMap;

use neuron_abi::arch::Geometry;
use neuron_abi::enums::NqDevice;
use neuron_abi::errno::Errno;
use neuron_abi::memory::{Category, MemLocation};

use crate::pool::{ChunkRef, Lifespan, Pools, Request};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Engines of a core or TopSP that may have queues (our choice).
const ENGINES: u32 = 16;
/// Kinds of queues (`spec/abi.md` 11).
const KINDS: u32 = 6;

/// What a queue belongs to and tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// On a TopSP instead of a core.
    pub(crate) on_topsp: bool,
    /// Core or TopSP.
    pub(crate) id: u32,
    /// Kind.
    pub(crate) kind: u32,
    /// Engine.
    pub(crate) engine: u32,
}

impl Key {
    /// The key of these numbers.
    ///
    /// # Errors
    /// ENOSYS for a device type but core and TopSP; E2BIG for a core or TopSP that is not
    /// there; EINVAL for a kind or engine.
    pub(crate) fn new(
        geometry: &Geometry,
        kind_of_device: u32,
        id: u32,
        kind: u32,
        engine: u32,
    ) -> Result<Self, Errno> {
        let (on_topsp, count) = match NqDevice::from_raw(kind_of_device) {
            Some(NqDevice::Nc) => (false, geometry.cores),
            Some(NqDevice::TopSp) => (true, geometry.topsps),
            None => return Err(Errno::ENOSYS),
        };
        if id >= count {
            return Err(Errno::E2BIG);
        }
        if kind >= KINDS || engine >= ENGINES {
            return Err(Errno::EINVAL);
        }
        Ok(Self { on_topsp, id, kind, engine })
    }

    /// Core that the memory is accounted to: TopSPs have none (our choice: 0).
    const fn core(&self) -> u32 {
        if self.on_topsp { 0 } else { self.id }
    }
}

/// What a queue's memory shall be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    /// Bytes.
    pub(crate) bytes: u32,
    /// Host memory, or an HBM.
    pub(crate) hbm: Option<u32>,
    /// Not the memory that the queue has, even if it would do.
    pub(crate) anew: bool,
}

/// Queues of a device.
#[derive(Debug, Default)]
pub(crate) struct NotificationQueues {
    rings: Mutex<BTreeMap<Key, ChunkRef>>,
}

impl NotificationQueues {
    fn rings(&self) -> MutexGuard<'_, BTreeMap<Key, ChunkRef>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a queue, all zeros on the host: what it has if that is as asked for, else
    /// new, and the old one goes once nobody has it mapped.
    ///
    /// # Errors
    /// EINVAL for a size that is no power of two, or an HBM; ENOMEM, and the queue keeps
    /// what it has.
    pub(crate) fn ring(&self, pools: &Pools, key: Key, ring: Ring) -> Result<ChunkRef, Errno> {
        if !ring.bytes.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        let bytes = u64::from(ring.bytes);
        let request = Request {
            size: bytes,
            align: if ring.hbm.is_some() { bytes } else { 0 },
            location: if ring.hbm.is_some() { MemLocation::Device } else { MemLocation::Host },
            channel: ring.hbm.unwrap_or(0),
            core: key.core(),
            category: match ring.hbm {
                Some(_) => Category::NotificationDevice,
                None => Category::NotificationHost,
            } as u32,
            lifespan: Lifespan::Device,
            pid: 0,
            usage: None,
        };
        let mut rings = self.rings();
        let fits = |old: &&ChunkRef| {
            let page = neuron_abi::arch::PAGE_SIZE;
            old.location() == request.location
                && old.size() == bytes.next_multiple_of(page)
                && (!old.is_device() || old.channel() == request.channel)
        };
        if let Some(old) = rings.get(&key).filter(fits).filter(|_| !ring.anew) {
            return Ok(old.clone());
        }
        let new = pools.allocate(request)?;
        if let Some(memory) = new.host_memory() {
            memory.fill(0);
        }
        let old = rings.insert(key, new.clone());
        drop(rings);
        if let Some(old) = old {
            pools.discard(&old);
        }
        Ok(new)
    }

    /// Lets the queues of these cores go, and with all cores those of the TopSPs.
    pub(crate) fn free(&self, pools: &Pools, geometry: &Geometry, map: u32) {
        let all = map & geometry.device_nc_map == geometry.device_nc_map;
        let mut rings = self.rings();
        let goes = |key: &Key| if key.on_topsp { all } else { map >> key.id & 1 == 1 };
        let keys: Vec<_> = rings.keys().filter(|key| goes(key)).copied().collect();
        let gone: Vec<_> = keys.iter().filter_map(|key| rings.remove(key)).collect();
        drop(rings);
        gone.iter().for_each(|chunk| pools.discard(chunk));
    }
}
