//! Engine slots, one mutex each (`ndma_eng`, `ndma_queue`).
//!
//! The mutex owns everything that only makes sense together: the UDMA handle, the
//! queues and what is bound to them. Lock order: a ring's copy lock first, then its
//! engine (`spec/driver.md` 8); nothing sleeps or waits for a copy under an engine.

use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_udma::Udma;

use super::{H2tRing, Queue};
use crate::arch::{Arch, ENGINE_SLOTS, QUEUES};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// All engine slots of a device.
pub struct Engines {
    arch: &'static Arch,
    slots: Vec<Slot>,
}

struct Slot {
    /// Set when the engine first hosts an H2T ring, never cleared: scans read it unlocked.
    used_for_h2t: AtomicBool,
    engine: Mutex<Engine>,
}

/// What one engine's lock guards.
pub struct Engine {
    /// Index of the engine.
    pub id: u32,
    /// Registers and cursors.
    pub udma: Udma,
    /// Queues by number.
    pub queues: [Queue; QUEUES as usize],
}

impl Engine {
    /// A queue by number.
    ///
    /// # Errors
    /// EINVAL from 16 on.
    pub fn queue(&mut self, qid: u32) -> Result<&mut Queue, Errno> {
        self.queues.get_mut(qid as usize).ok_or(Errno::EINVAL)
    }

    /// Whether `ring` is what is bound to its queue: false once it was taken off.
    pub fn holds(&self, ring: &Arc<H2tRing>) -> bool {
        self.queues
            .get(ring.qid() as usize)
            .and_then(Queue::h2t)
            .is_some_and(|bound| Arc::ptr_eq(bound, ring))
    }
}

impl Engines {
    /// 132 slots, none initialised (`ndmar_preinit`).
    pub fn new(arch: &'static Arch) -> Self {
        let slot = |id| Slot {
            used_for_h2t: AtomicBool::new(false),
            engine: Mutex::new(Engine { id, udma: Udma::new(), queues: Default::default() }),
        };
        Self { arch, slots: (0..ENGINE_SLOTS).map(slot).collect() }
    }

    /// Locks an engine (`ndmar_acquire_engine`).
    ///
    /// # Errors
    /// EINVAL from 132 on.
    pub fn lock(&self, engine: u32) -> Result<MutexGuard<'_, Engine>, Errno> {
        let slot = self.slots.get(engine as usize).ok_or(Errno::EINVAL)?;
        Ok(slot.engine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn mark_used_for_h2t(&self, engine: u32) {
        if let Some(slot) = self.slots.get(engine as usize) {
            slot.used_for_h2t.store(true, Ordering::Release);
        }
    }

    /// Whether the engine has hosted an H2T ring.
    pub fn used_for_h2t(&self, engine: u32) -> bool {
        self.slots.get(engine as usize).is_some_and(|slot| slot.used_for_h2t.load(Ordering::Acquire))
    }

    /// Whether the queue is kept for the driver's own copies.
    pub fn is_default_queue(&self, engine: u32, qid: u32) -> bool {
        self.arch.is_default_queue(self.used_for_h2t(engine), qid)
    }

    /// The default H2T ring of a core.
    ///
    /// # Errors
    /// ENOENT if the core was not brought up.
    pub fn default_ring(&self, core: u32) -> Result<Arc<H2tRing>, Errno> {
        let mut engine = self.lock(self.arch.h2t_engine(core))?;
        engine.queue(self.arch.default_queue(core))?.h2t().cloned().ok_or(Errno::ENOENT)
    }

    /// All H2T rings, engines and queues ascending.
    pub fn h2t_rings(&self) -> Vec<Arc<H2tRing>> {
        let of_engine = |id| {
            let rings: Vec<_> = match self.lock(id) {
                Ok(engine) => engine.queues.iter().filter_map(|queue| queue.h2t().cloned()).collect(),
                Err(_) => Vec::new(),
            };
            rings
        };
        (self.arch.core_engines()..self.arch.engines()).flat_map(of_engine).collect()
    }
}
