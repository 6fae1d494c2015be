//! Who has which queue, what is bound to it, and which asynchronous copies run on the rings
//! that the driver copies with.

use std::collections::BTreeMap;

use neuron_driver::arch::{Arch, ENGINE_SLOTS, QUEUES};

const EPERM: i64 = -1;
const ENXIO: i64 = -6;
const EBUSY: i64 = -16;
const EINVAL: i64 = -22;
const EALREADY: i64 = -114;

/// Descriptors of a ring the driver copies with, and of the dummy.
const H2T_DESCRIPTORS: u32 = 8192;
const DUMMY_DESCRIPTORS: u32 = 64;
/// Host memory behind the former: both rings, and a page for the markers.
pub(crate) const H2T_BYTES: u64 = 2 * 16 * H2T_DESCRIPTORS as u64 + 4096;

/// Host memory that a ring takes with its first zero-copy.
pub(crate) const ZERO_COPY_BYTES: u64 = 8192;

/// Chunks that a process bound, by id.
pub(crate) type Bound = [Option<u64>; 2];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flavour {
    #[default]
    Unused,
    /// The driver copies with it. `asked_by` is nobody for a core's default ring.
    H2t {
        core: u32,
        asked_by: Option<i32>,
        /// Its zero-copy markers have memory.
        zero_copied: bool,
    },
    Service {
        core: u32,
        owner: i32,
        bound: Bound,
    },
    Model {
        owner: i32,
        bound: Bound,
    },
}

/// One queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) flavour: Flavour,
    /// Descriptors of (TX, RX) as last programmed.
    pub(crate) sizes: [u32; 2],
    /// Next slot and lap of both rings, while the engine is known to run them.
    pub(crate) next: Option<(u32, u8)>,
}

impl Slot {
    pub(crate) fn bound(&self) -> Bound {
        match self.flavour {
            Flavour::Service { bound, .. } | Flavour::Model { bound, .. } => bound,
            Flavour::Unused | Flavour::H2t { .. } => [None; 2],
        }
    }

    fn holder(&self) -> Option<i32> {
        match self.flavour {
            Flavour::Unused => None,
            Flavour::H2t { asked_by, .. } => asked_by,
            Flavour::Service { owner, .. } | Flavour::Model { owner, .. } => Some(owner),
        }
    }
}

/// An asynchronous copy that nobody has waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) pid: i32,
    /// Chunks that it keeps.
    pub(crate) chunks: [u64; 2],
    pub(crate) source: u64,
    pub(crate) destination: u64,
    pub(crate) bytes: u64,
    /// Its ring was reset under it.
    pub(crate) lost: bool,
}

/// What a process binds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) engine: u32,
    pub(crate) qid: u32,
    pub(crate) counts: [u32; 2],
    /// (id, bytes) of TX and RX.
    pub(crate) chunks: [Option<(u64, u64)>; 2],
    pub(crate) completion: Option<u64>,
}

pub(crate) struct Queues {
    arch: &'static Arch,
    slots: BTreeMap<(u32, u32), Slot>,
    /// Contexts 1 and 2 of each ring.
    running: BTreeMap<(u32, u32), [Option<Running>; 2]>,
    /// Cores whose default ring is there.
    pub(crate) up: u32,
}

impl Queues {
    /// All cores up.
    pub(crate) fn new(arch: &'static Arch) -> Self {
        let mut queues = Self { arch, slots: BTreeMap::new(), running: BTreeMap::new(), up: 0 };
        queues.bring_up(u32::MAX);
        queues
    }

    pub(crate) fn slot(&self, engine: u32, qid: u32) -> Slot {
        self.slots.get(&(engine, qid)).copied().unwrap_or_default()
    }

    pub(crate) fn slot_mut(&mut self, engine: u32, qid: u32) -> &mut Slot {
        self.slots.entry((engine, qid)).or_default()
    }

    /// Queues of which there may be something to say.
    pub(crate) fn slots(&self) -> impl Iterator<Item = ((u32, u32), &Slot)> {
        self.slots.iter().map(|(at, slot)| (*at, slot))
    }

    /// Queues that a process could have something on.
    pub(crate) fn bound(&self) -> Vec<(u32, u32)> {
        let bound = self.slots().filter(|(_, slot)| slot.bound() != [None; 2]);
        bound.map(|(at, _)| at).collect()
    }

    /// H2T rings that a process asked for, for a core.
    pub(crate) fn requested(&self, of: u32) -> u64 {
        let asked =
            |slot: &Slot| matches!(slot.flavour, Flavour::H2t { core, asked_by: Some(_), .. } if core == of);
        self.slots.values().filter(|slot| asked(slot)).count() as u64
    }

    fn cores(&self) -> u32 {
        self.arch.geometry().cores
    }

    /// Engine and queue of a core's default ring; cores that the device lacks use the last
    /// engine.
    pub(crate) fn ring(&self, core: u32) -> (u32, u32) {
        self.arch.geometry().h2t_ring(core)
    }

    /// The ring of a core, if it is there.
    pub(crate) fn copy_ring(&self, core: u32) -> Result<(u32, u32), i64> {
        const ENOENT: i64 = -2;
        let (engine, qid) = self.ring(core);
        match self.slot(engine, qid).flavour {
            Flavour::H2t { .. } => Ok((engine, qid)),
            _ => Err(ENOENT),
        }
    }

    /// A zero-copy of a core goes over a queue, or its default one.
    pub(crate) fn zero_copy(&mut self, of: u32, queue: Option<u32>) -> Result<(), i64> {
        const ENOENT: i64 = -2;
        let (engine, default) = self.ring(of);
        let qid = queue.unwrap_or(default);
        if qid >= QUEUES {
            return Err(ENOENT);
        }
        if self.arch.retries_in_reset_window {
            return Err(EINVAL);
        }
        match &mut self.slot_mut(engine, qid).flavour {
            Flavour::H2t { core, zero_copied, .. } if *core == of => *zero_copied = true,
            _ => return Err(ENOENT),
        }
        Ok(())
    }

    /// Rings of a core that have been used for zero-copy.
    pub(crate) fn zero_copied(&self, of: u32) -> u64 {
        let used =
            |slot: &Slot| matches!(slot.flavour, Flavour::H2t { core, zero_copied: true, .. } if core == of);
        self.slots.values().filter(|slot| used(slot)).count() as u64
    }

    fn is_default(&self, engine: u32, qid: u32) -> bool {
        let geometry = self.arch.geometry();
        geometry.h2t_engines.contains(&engine) && qid < geometry.cores_per_h2t_engine
    }

    /// Brings up the cores of a map. Their queues are theirs again, also if a process bound
    /// one while its core was down. Returns the chunks that were let go.
    pub(crate) fn bring_up(&mut self, map: u32) -> Vec<u64> {
        let mut freed = Vec::new();
        for core in (0..self.cores()).filter(|core| map >> core & 1 == 1) {
            let ring = self.ring(core);
            let flavour = Flavour::H2t { core, asked_by: None, zero_copied: false };
            let slot = Slot { flavour, sizes: [H2T_DESCRIPTORS; 2], next: None };
            freed.extend(self.slots.insert(ring, slot).iter().flat_map(Slot::bound).flatten());
            self.up |= 1 << core;
        }
        freed
    }

    /// Closes the cores of a map. What is bound on their engines runs no longer, or nobody
    /// says so. Returns the chunks that were let go.
    pub(crate) fn close(&mut self, map: u32) -> Vec<u64> {
        let mut freed = Vec::new();
        for core in (0..self.cores()).filter(|core| map >> core & 1 == 1) {
            let (h2t, _) = self.ring(core);
            let own = self.arch.engines_of_core(core);
            for ((engine, qid), slot) in &mut self.slots {
                match slot.flavour {
                    Flavour::H2t { core: of, .. } if of == core => {
                        slot.flavour = Flavour::Unused;
                        let running = self.running.remove(&(*engine, *qid)).unwrap_or_default();
                        freed.extend(running.into_iter().flatten().flat_map(|running| running.chunks));
                    }
                    Flavour::Service { core: of, owner, bound } if of == core => {
                        slot.flavour = Flavour::Model { owner, bound };
                    }
                    _ => {}
                }
                if *engine == h2t || own.contains(engine) {
                    slot.next = None;
                }
            }
            self.up &= !(1 << core);
        }
        freed
    }

    /// The lowest queues that nobody has, first `copies` H2T rings and then `services`.
    pub(crate) fn request(
        &mut self,
        core: u32,
        copies: u32,
        services: u32,
        pid: i32,
    ) -> Result<[u32; 2], i64> {
        let (engine, _) = self.ring(core);
        let free = (0..QUEUES)
            .filter(|qid| !self.is_default(engine, *qid))
            .filter(|qid| self.slot(engine, *qid).flavour == Flavour::Unused);
        let free: Vec<u32> = free.take((copies + services) as usize).collect();
        let enough = free.len() == (copies + services) as usize;
        let mut maps = [0; 2];
        for (index, qid) in (0..copies + services).zip(free) {
            let slot = self.slot_mut(engine, qid);
            if index < copies {
                (slot.sizes, slot.next) = ([H2T_DESCRIPTORS; 2], None);
            }
            if enough {
                let bound = [None; 2];
                (slot.flavour, maps[usize::from(index >= copies)]) = match index < copies {
                    true => {
                        (Flavour::H2t { core, asked_by: Some(pid), zero_copied: false }, maps[0] | 1 << qid)
                    }
                    false => (Flavour::Service { core, owner: pid, bound }, maps[1] | 1 << qid),
                };
            }
        }
        if enough { Ok(maps) } else { Err(EPERM) }
    }

    /// Lets the queues of a map go; returns the chunks they held, and the last error.
    pub(crate) fn release(&mut self, core: u32, map: u32) -> (Vec<u64>, i64) {
        let (engine, _) = self.ring(core);
        let (mut freed, mut last) = (Vec::new(), 0);
        for qid in (0..QUEUES).filter(|qid| map >> qid & 1 == 1) {
            if self.is_default(engine, qid) {
                continue;
            }
            let slot = self.slot_mut(engine, qid);
            match slot.flavour {
                Flavour::H2t { core: of, .. } | Flavour::Service { core: of, .. } if of == core => {
                    freed.extend(slot.bound().into_iter().flatten());
                    slot.flavour = Flavour::Unused;
                }
                _ => last = ENXIO,
            }
        }
        (freed, last)
    }

    /// Binds rings; returns the chunks that were bound before.
    pub(crate) fn bind(&mut self, binding: &Binding, pid: i32) -> Result<Bound, i64> {
        let Binding { engine, qid, counts, chunks, completion } = *binding;
        if engine >= ENGINE_SLOTS || qid >= QUEUES {
            return Err(EINVAL);
        }
        let halves = counts.into_iter().zip(chunks);
        let mut all = halves.map(|(count, chunk)| (count, chunk.map(|(_, bytes)| bytes)));
        let too_long =
            |(count, bytes): (u32, Option<u64>)| bytes.is_some_and(|bytes| u64::from(count) * 16 > bytes);
        if all.any(too_long) || too_long((counts[1], completion)) {
            return Err(EINVAL);
        }
        match self.slot(engine, qid).flavour {
            Flavour::H2t { .. } => return Err(EALREADY),
            Flavour::Service { owner, .. } if owner != pid => return Err(EBUSY),
            _ => {}
        }
        if counts.iter().any(|count| !count.is_multiple_of(16)) || completion.is_some() {
            return Err(EPERM);
        }
        if engine >= self.arch.engines() || counts.iter().any(|count| !(32..=16_777_200).contains(count)) {
            return Err(EINVAL);
        }
        let bound = chunks.map(|chunk| chunk.map(|(id, _)| id));
        let slot = self.slot_mut(engine, qid);
        let old = slot.bound();
        slot.flavour = match slot.flavour {
            Flavour::Service { core, owner, .. } => Flavour::Service { core, owner, bound },
            _ => Flavour::Model { owner: pid, bound },
        };
        let distinct = bound.iter().all(Option::is_some) && bound[0] != bound[1] && counts[0] == counts[1];
        (slot.sizes, slot.next) = (counts, distinct.then_some((0, 1)));
        Ok(old)
    }

    /// What a doorbell should answer.
    pub(crate) fn start(&self, engine: u32, qid: u32, counts: [u32; 2]) -> i64 {
        if engine >= ENGINE_SLOTS || qid >= QUEUES {
            return EINVAL;
        }
        let slot = self.slot(engine, qid);
        if matches!(slot.flavour, Flavour::H2t { .. }) {
            return EALREADY;
        }
        if counts[1] > 0 && slot.bound()[1].is_none() || engine >= self.arch.engines() {
            return EINVAL;
        }
        match counts.iter().zip(slot.sizes).any(|(count, size)| *count > size) {
            true => EINVAL,
            false if counts[1] == 0 => EPERM,
            false => 0,
        }
    }

    /// What an acknowledge should answer.
    pub(crate) fn acknowledge(&self, engine: u32, qid: u32) -> i64 {
        if engine >= ENGINE_SLOTS || qid >= QUEUES {
            return EINVAL;
        }
        let slot = self.slot(engine, qid);
        match slot.flavour {
            Flavour::H2t { .. } => EALREADY,
            _ if engine >= self.arch.engines() => EINVAL,
            _ if slot.sizes.iter().all(|size| *size == 0 || size.is_power_of_two()) => 0,
            _ => EINVAL,
        }
    }

    /// The process ends: its queues are nobody's. Returns the chunks they held.
    pub(crate) fn exit(&mut self, pid: i32) -> Vec<u64> {
        let mut freed = Vec::new();
        for running in self.running.values_mut() {
            for running in
                running.iter_mut().filter(|running| running.is_some_and(|running| running.pid == pid))
            {
                freed.extend(running.take().into_iter().flat_map(|running| running.chunks));
            }
        }
        for ((engine, qid), slot) in &mut self.slots {
            if slot.holder() != Some(pid) {
                continue;
            }
            freed.extend(slot.bound().into_iter().flatten());
            if !matches!(slot.flavour, Flavour::H2t { .. }) && !self.arch.is_nx_queue(*engine, *qid) {
                slot.sizes = [DUMMY_DESCRIPTORS; 2];
            }
            (slot.flavour, slot.next) = (Flavour::Unused, None);
        }
        freed
    }

    /// Both contexts of a ring.
    pub(crate) fn running(&self, engine: u32, qid: u32) -> [Option<Running>; 2] {
        self.running.get(&(engine, qid)).copied().unwrap_or_default()
    }

    /// The same, to change them.
    pub(crate) fn running_mut(&mut self, ring: (u32, u32)) -> &mut [Option<Running>; 2] {
        self.running.entry(ring).or_default()
    }
}
