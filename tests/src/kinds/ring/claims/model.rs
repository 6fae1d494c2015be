//! A naive model of who has which queue: what the sheets and the table of differences
//! promise, without the driver's locks, references and variants. It answers every step
//! of every case, so where the recorder and we agree it is checked against both, and
//! where we part from the recorder on purpose it says what to expect of us.

use std::collections::{BTreeMap, BTreeSet};

use neuron_driver::Device;
use neuron_driver::arch::{Arch, ENGINE_SLOTS, QUEUES};
use neuron_udma::RingBase;

use super::super::table::Row;
use super::memory::{Pages, START};
use super::operation::Operation;
use crate::machine::{Access, programming};

const EPERM: i64 = -1;
const ENXIO: i64 = -6;
const EBUSY: i64 = -16;
const EINVAL: i64 = -22;
const EALREADY: i64 = -114;

/// Descriptors of each ring of an H2T ring, its bytes, and those of its marker.
const H2T_DESCRIPTORS: u32 = 8192;
const H2T_BYTES: u64 = 131_072;
const MARKER_BYTES: u64 = 24;
/// Descriptors of the dummy ring.
const DUMMY_DESCRIPTORS: u32 = 64;
/// Bytes of the chunks that processes bind, and of a descriptor.
const CHUNK_BYTES: u32 = 4096;
const DESCRIPTOR_BYTES: u32 = 16;

/// One queue.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// What a table shows of it; its `qid` is not used.
    row: Row,
    /// Process that asked for an H2T ring; 0 for none.
    asked_by: i32,
    /// Addresses of the chunks that it keeps from being freed.
    held: [Option<u64>; 2],
}

/// What a step should answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// 0 or a negative errno.
    pub ret: i64,
    /// Queue that a request got.
    pub qid: Option<u32>,
    /// Register accesses; `None` if the model does not say which (bring-up).
    pub accesses: Option<Vec<Access>>,
}

impl Answer {
    fn done(accesses: Vec<Access>) -> Self {
        Self { ret: 0, qid: None, accesses: Some(accesses) }
    }

    fn refused(ret: i64) -> Self {
        Self { ret, qid: None, accesses: Some(Vec::new()) }
    }
}

/// All queues of a device, and the host memory behind its H2T rings.
#[derive(Clone, Debug)]
pub struct Model {
    arch: &'static Arch,
    dummy: u64,
    slots: BTreeMap<(u32, u32), Slot>,
    memory: Pages,
    up: BTreeSet<u32>,
    initialised: BTreeSet<u32>,
    /// Engines that ever had an H2T ring: their first queues are kept for cores.
    used_for_h2t: BTreeSet<u32>,
}

impl Model {
    /// The model of a device that just came up, of whose host memory `in_use` bytes are
    /// taken, without a hole.
    pub fn new(device: &Device, in_use: u64) -> Self {
        let mut model = Self {
            arch: device.arch(),
            dummy: device.dummy_ring_address(),
            slots: BTreeMap::new(),
            memory: Pages::default(),
            up: BTreeSet::new(),
            initialised: BTreeSet::new(),
            used_for_h2t: BTreeSet::new(),
        };
        let mut blocks = Vec::new();
        for core in 0..device.geometry().cores {
            let Ok(ring) = device.engines().default_ring(core) else { continue };
            let (addresses, marker) = (ring.addresses(), ring.marker_address());
            blocks.extend([
                (model.bare(addresses.rx), H2T_BYTES),
                (model.bare(addresses.tx), H2T_BYTES),
                (model.bare(marker), MARKER_BYTES.next_multiple_of(4096)),
            ]);
            model.put_ring(core, model.arch.default_queue(core), addresses.tx, addresses.rx, marker);
            model.initialised.extend(model.arch.engines_of_core(core));
            model.initialised.insert(model.arch.h2t_engine(core));
            model.up.insert(core);
        }
        model.memory = Pages::taken_below(START + in_use, blocks);
        model
    }

    /// A bus address without the host tag.
    fn bare(&self, address: u64) -> u64 {
        address & !self.arch.geometry().host_base
    }

    /// The rows that the table of an engine should show.
    pub fn rows(&self, engine: u32) -> Vec<Row> {
        let slots = self.slots.range((engine, 0)..(engine, QUEUES));
        slots.map(|((_, qid), slot)| Row { qid: *qid, ..slot.row }).filter(|row| !row.is_blank()).collect()
    }

    /// Engines of which there may be something to say.
    pub fn engines(&self) -> BTreeSet<u32> {
        let h2t = self.arch.core_engines()..self.arch.engines();
        self.slots.keys().map(|(engine, _)| *engine).chain(h2t).collect()
    }

    /// How many rings keep the chunk at an address.
    pub fn holders(&self, address: u64) -> usize {
        self.slots.values().flat_map(|slot| slot.held).filter(|held| *held == Some(address)).count()
    }

    /// Bytes of host memory that should be taken.
    pub fn host_bytes(&self) -> u64 {
        self.memory.in_use()
    }

    /// Whether a process has anything on a queue.
    pub fn has_queues(&self, pid: i32) -> bool {
        self.slots.values().any(|slot| slot.row.owner == pid || slot.asked_by == pid)
    }

    /// What is on a queue.
    pub fn row(&self, engine: u32, qid: u32) -> Row {
        self.slots.get(&(engine, qid)).map(|slot| slot.row).unwrap_or_default()
    }

    /// The lowest queue of a core's H2T engine that is neither kept nor claimed, and
    /// whether a process has bound it nevertheless.
    pub fn lowest_unclaimed(&self, core: u32) -> Option<(u32, bool)> {
        let engine = self.arch.h2t_engine(core);
        let unclaimed = |qid: &u32| !self.is_kept(engine, *qid) && !self.row(engine, *qid).claimed;
        let qid = (0..QUEUES).find(unclaimed)?;
        Some((qid, self.row(engine, qid).owner != 0))
    }

    /// Whether a queue is kept for a core.
    fn is_kept(&self, engine: u32, qid: u32) -> bool {
        self.used_for_h2t.contains(&engine) && qid < self.arch.geometry().cores_per_h2t_engine
    }

    /// Performs a step.
    pub fn apply(&mut self, operation: Operation) -> Answer {
        match operation {
            Operation::Request { core, h2t, pid } => self.request(core, h2t, pid),
            Operation::Release { core, qid } => self.release(core, qid),
            Operation::Bind { engine, qid, count, tx, rx, pid } => {
                self.bind(engine, qid, count, [tx, rx], pid)
            }
            Operation::Exit { pid } => Answer::done(self.exit(pid)),
            Operation::Init { map } => self.init(map & self.arch.geometry().device_nc_map),
            Operation::Close { map } => {
                self.close(map);
                Answer::done(Vec::new())
            }
        }
    }

    fn request(&mut self, core: u32, h2t: bool, pid: i32) -> Answer {
        let engine = self.arch.h2t_engine(core);
        let free = |qid: &u32| {
            let row = self.row(engine, *qid);
            !self.is_kept(engine, *qid) && !row.claimed && row.owner == 0
        };
        let Some(qid) = (0..QUEUES).find(free) else { return Answer::refused(EPERM) };
        if h2t && !self.initialised.contains(&engine) {
            return Answer::refused(EINVAL);
        }
        let accesses = if h2t {
            let accesses = self.make_ring(core, qid);
            let slot = self.slots.entry((engine, qid)).or_default();
            (slot.row.claimed, slot.asked_by) = (true, pid);
            accesses
        } else {
            let row = &mut self.slots.entry((engine, qid)).or_default().row;
            (row.claimed, row.core, row.owner) = (true, Some(core), pid);
            Vec::new()
        };
        Answer { qid: Some(qid), ..Answer::done(accesses) }
    }

    /// Allocates RX, TX and marker, and programs the queue.
    fn make_ring(&mut self, core: u32, qid: u32) -> Vec<Access> {
        let [rx, tx, marker] = [H2T_BYTES, H2T_BYTES, MARKER_BYTES]
            .map(|bytes| self.memory.take(bytes) | self.arch.geometry().host_base);
        self.put_ring(core, qid, tx, rx, marker);
        self.program(self.arch.h2t_engine(core), qid, tx, rx, H2T_DESCRIPTORS)
    }

    fn put_ring(&mut self, core: u32, qid: u32, tx: u64, rx: u64, marker: u64) {
        let engine = self.arch.h2t_engine(core);
        let row = Row { h2t: true, core: Some(core), tx, rx, marker, ..Row::default() };
        self.slots.insert((engine, qid), Slot { row, ..Slot::default() });
        self.used_for_h2t.insert(engine);
    }

    fn program(&self, engine: u32, qid: u32, tx: u64, rx: u64, count: u32) -> Vec<Access> {
        let base = self.arch.engine_base(engine).unwrap_or_default();
        programming(base, qid, RingBase::new(tx, count), RingBase::new(rx, count)).to_vec()
    }

    fn release(&mut self, core: u32, qid: u32) -> Answer {
        let engine = self.arch.h2t_engine(core);
        if qid >= QUEUES {
            return Answer::refused(EINVAL);
        }
        if self.is_kept(engine, qid) {
            return Answer::done(Vec::new());
        }
        let row = self.row(engine, qid);
        if !row.claimed || row.core != Some(core) {
            return Answer::refused(ENXIO);
        }
        if row.h2t {
            self.free_ring(engine, qid);
        } else {
            // The registers keep showing what was bound.
            let Row { tx, rx, .. } = row;
            let left = Slot { row: Row { tx, rx, ..Row::default() }, ..Slot::default() };
            self.slots.insert((engine, qid), left);
        }
        Answer::done(Vec::new())
    }

    fn free_ring(&mut self, engine: u32, qid: u32) {
        if let Some(Slot { row, .. }) = self.slots.remove(&(engine, qid)) {
            for address in [row.rx, row.tx, row.marker] {
                self.memory.give(self.bare(address));
            }
        }
    }

    fn bind(&mut self, engine: u32, qid: u32, count: u32, [tx, rx]: [u64; 2], pid: i32) -> Answer {
        let row = self.row(engine, qid);
        let refusal = if engine >= ENGINE_SLOTS || qid >= QUEUES || count > CHUNK_BYTES / DESCRIPTOR_BYTES {
            EINVAL
        } else if row.h2t {
            EALREADY
        } else if row.claimed && row.owner != pid {
            EBUSY
        } else if !count.is_multiple_of(16) {
            EPERM
        } else if count < 32 || !self.initialised.contains(&engine) {
            EINVAL
        } else {
            0
        };
        if refusal != 0 {
            return Answer::refused(refusal);
        }
        let slot = self.slots.entry((engine, qid)).or_default();
        (slot.row.owner, slot.row.tx, slot.row.rx) = (pid, tx, rx);
        slot.held = [Some(tx), Some(rx)];
        Answer::done(self.program(engine, qid, tx, rx, count))
    }

    fn exit(&mut self, pid: i32) -> Vec<Access> {
        let mut accesses = Vec::new();
        for ((engine, qid), slot) in self.slots.clone() {
            if slot.asked_by == pid {
                self.free_ring(engine, qid);
            } else if slot.row.owner == pid {
                let Row { mut tx, mut rx, .. } = slot.row;
                if self.initialised.contains(&engine) && !self.arch.is_nx_queue(engine, qid) {
                    (tx, rx) = (self.dummy, self.dummy);
                    accesses.extend(self.program(engine, qid, tx, rx, DUMMY_DESCRIPTORS));
                }
                let left = Slot { row: Row { tx, rx, ..Row::default() }, ..Slot::default() };
                self.slots.insert((engine, qid), left);
            }
        }
        accesses
    }

    fn init(&mut self, map: u32) -> Answer {
        let cores = 0..self.arch.geometry().cores;
        let cores: Vec<_> = cores.filter(|core| map >> core & 1 == 1 && !self.up.contains(core)).collect();
        if cores.is_empty() {
            return Answer::done(Vec::new());
        }
        for core in cores {
            self.initialised.extend(self.arch.engines_of_core(core));
            if self.arch.inits_h2t_engine(core, map) {
                self.initialised.insert(self.arch.h2t_engine(core));
            }
            if !self.initialised.contains(&self.arch.h2t_engine(core)) {
                return Answer { ret: EINVAL, ..Answer::default() };
            }
            self.make_ring(core, self.arch.default_queue(core));
            self.up.insert(core);
        }
        Answer::default()
    }

    fn close(&mut self, map: u32) {
        for core in (0..self.arch.geometry().cores).filter(|core| map >> core & 1 == 1) {
            let engine = self.arch.h2t_engine(core);
            for qid in 0..QUEUES {
                let row = self.row(engine, qid);
                if row.core != Some(core) {
                    continue;
                }
                if row.h2t {
                    self.free_ring(engine, qid);
                } else if let Some(slot) = self.slots.get_mut(&(engine, qid)) {
                    // Its process still has it, as if it had bound it without a claim.
                    (slot.row.claimed, slot.row.core) = (false, None);
                }
            }
            self.up.remove(&core);
        }
    }
}
