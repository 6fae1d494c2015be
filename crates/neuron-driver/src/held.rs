//! What a process holds of a device and would give back by ending: for a report on what a
//! program left.
//!
//! Ours, and outside the ABI. Left out: data stores, bring-ups and scrubs that it started, and
//! outcomes of resets, which end with it and cost nobody anything; claims of cores, which are
//! files' and not processes'; memory that it freed and a ring or a mapping still holds.

use neuron_abi::memory::{Category, MemLocation};

use crate::device::Device;
use crate::introspect::FlavourView;
use crate::pool::{Chunk, Lifespan};

/// One thing that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Memory.
    Memory(HeldMemory),
    /// A queue of an engine.
    Queue(HeldQueue),
    /// The lock of a core's model.
    CoreLock(HeldLock),
}

/// One block of memory that was allocated and not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldMemory {
    /// Host or device.
    pub location: MemLocation,
    /// Core that it is accounted to, 0..=7.
    pub core: u32,
    /// HBM it is in; `None` for host memory.
    pub hbm: Option<u32>,
    /// Category by its number, as the process gave it.
    pub category: u32,
    /// Bytes, page-rounded.
    pub size: u64,
    /// Physical address: device memory plain, host memory with the host tag.
    pub address: u64,
    /// Until when it lives.
    pub lifespan: Lifespan,
}

impl HeldMemory {
    fn of(chunk: &Chunk) -> Self {
        Self {
            location: chunk.location(),
            core: chunk.core_id(),
            hbm: chunk.is_device().then(|| chunk.channel()),
            category: chunk.category(),
            size: chunk.size(),
            address: chunk.pa(),
            lifespan: chunk.lifespan(),
        }
    }

    /// The category, if the number is one's.
    pub const fn known_category(&self) -> Option<Category> {
        Category::from_raw(self.category)
    }
}

/// One queue that its process's exit resets or frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldQueue {
    /// Engine.
    pub engine: u32,
    /// Queue of the engine.
    pub queue: u32,
    /// What is on it: a requested H2T ring, a service ring, or a ring that the process bound.
    pub flavour: FlavourView,
    /// Core it was asked for; `None` for a ring that was bound without asking.
    pub core: Option<u32>,
}

/// The lock of one core's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// Core.
    pub core: u32,
    /// Whether the process has it alone, as the model's writer.
    pub alone: bool,
}

impl Device {
    /// What a process holds now: its memory, device memory first, by core, HBM and address;
    /// then its queues by engine and number; then its core locks. Memory that outlives it
    /// because it was allocated for all processes is listed too.
    ///
    /// May be called from any thread while the process lives. The kinds are looked at one
    /// after the other, and one engine after the other: nothing waits for a copy.
    pub fn held_by(&self, pid: i32) -> Vec<Held> {
        let mut memory = self.pools().map_of_process(pid, HeldMemory::of);
        memory.sort_by_key(|block| (block.hbm.is_none(), block.core, block.hbm, block.address));
        let memory = memory.into_iter().map(Held::Memory);
        let queues = self.held_queues(pid).into_iter().map(Held::Queue);
        memory.chain(queues).chain(self.held_locks(pid)).collect()
    }

    fn held_queues(&self, pid: i32) -> Vec<HeldQueue> {
        let mut held = Vec::new();
        for id in 0..self.arch().engines() {
            let Ok(engine) = self.engines().lock(id) else { continue };
            let own = (0..).zip(&engine.queues).filter(|(_, queue)| queue.holder() == Some(pid));
            held.extend(own.map(|(qid, queue)| HeldQueue {
                engine: id,
                queue: qid,
                flavour: FlavourView::of(&queue.flavour),
                core: queue.core(),
            }));
        }
        held
    }

    fn held_locks(&self, pid: i32) -> impl Iterator<Item = Held> + '_ {
        let (map, _models) = self.core_locks().of(pid);
        (0..u8::BITS).filter(move |core| map >> core & 1 == 1).map(move |core| {
            let alone = self.core_locks().holders(core).writer == Some(pid);
            Held::CoreLock(HeldLock { core, alone })
        })
    }
}
