//! Cores brought up and closed by map.

use std::collections::BTreeSet;

use neuron_driver::Device;
use neuron_driver::arch::QUEUES;
use neuron_udma::regs::{self, Direction, queue};

use super::ret;
use super::table::{self, Row};
use crate::kinds::bench::Bench;
use crate::kinds::equal_recorded;
use crate::machine::board::Cores;
use crate::machine::{Access, Board, Op, equal_accesses};
use crate::vectors::difference::{FAILED_BRING_UP, REMADE_RING};
use crate::vectors::{Difference, Mismatch, Object, Outcome, equal, equal_hex};

/// Bytes of an H2T ring: RX, TX and a page for the marker.
const RING_BYTES: u64 = 2 * 131_072 + 4096;

/// Engine and queue of a ring.
type Place = (u32, u32);

/// What the steps of a case did to the default rings.
struct Course<'a> {
    board: &'a Board,
    bench: &'a Bench,
    /// Bytes of host memory that are taken while no ring is there.
    idle: u64,
    /// Rings that are there.
    living: BTreeSet<Place>,
    /// Rings that ever were.
    made: BTreeSet<Place>,
    /// Rings that were made when the recorder's memory was no longer as ours: something
    /// had been given back only here.
    moved: BTreeSet<Place>,
    /// Rings that could not be programmed.
    failed: BTreeSet<Place>,
    rows: Vec<Difference>,
}

/// Compares one case.
///
/// # Errors
/// What differs.
pub fn check(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Down)?;
    let mut course = Course {
        board: &board,
        bench,
        idle: bench.host().in_use(),
        living: BTreeSet::new(),
        made: BTreeSet::new(),
        moved: BTreeSet::new(),
        failed: BTreeSet::new(),
        rows: Vec::new(),
    };
    for (number, step) in case.objects("steps")?.iter().enumerate() {
        course.step(step).and_then(|()| step.finish()).map_err(|error| error.at(format!("step {number}")))?;
    }
    course.table(&case.object("table")?).map_err(|error| error.at("table"))?;
    Ok(if course.rows.is_empty() { Outcome::Compared } else { Outcome::Differs(course.rows) })
}

impl Course<'_> {
    fn device(&self) -> &Device {
        self.board.device()
    }

    /// Places of the default rings of cores that are up.
    fn up(&self) -> Vec<Place> {
        let cores = 0..self.device().geometry().cores;
        cores.filter(|core| self.is_up(*core)).map(|core| self.device().geometry().h2t_ring(core)).collect()
    }

    fn is_up(&self, core: u32) -> bool {
        self.device().engines().default_ring(core).is_ok()
    }

    fn step(&mut self, step: &Object<'_>) -> Result<(), Mismatch> {
        let map = step.word("nc_map")?;
        let before = self.up();
        let next =
            (0..self.device().geometry().cores).find(|core| map >> core & 1 == 1 && !self.is_up(*core));
        let ours = match step.text("op")? {
            "init" => ret(&self.device().init_cores(map)),
            "close" => {
                self.device().close_cores(map);
                0
            }
            op => return Err(Mismatch::new(format!("unknown step {op}"))),
        };
        equal("ret", ours, step.signed("ret")?)?;
        let after = self.up();
        let same_memory = self.failed.is_empty() && self.rows.is_empty();
        for place in &after {
            if !before.contains(place) && !same_memory {
                self.moved.insert(*place);
            }
        }
        self.compare_accesses(self.board.take().accesses, step)?;
        let cores = 0..self.device().geometry().cores;
        let done: Vec<u64> = cores.map(|core| self.is_up(core).into()).collect();
        equal("init_done", done, step.numbers("init_done")?)?;

        if before.iter().any(|place| !after.contains(place)) {
            self.rows.push(REMADE_RING);
        }
        if let (-22, Some(core)) = (ours, next) {
            self.failed.insert(self.device().geometry().h2t_ring(core));
            self.rows.push(FAILED_BRING_UP);
        }
        self.living = after.into_iter().collect();
        self.made.extend(&self.living);
        let rings = self.idle + self.living.len() as u64 * RING_BYTES;
        equal("host memory in use", self.bench.host().in_use(), rings)
    }

    /// Compares the accesses of a step. Where ring memory moved, ours name our rings and
    /// are else as recorded.
    fn compare_accesses(&self, mut ours: Vec<Access>, step: &Object<'_>) -> Result<(), Mismatch> {
        equal("engine_init_order", self.engines_initialised(&ours), step.numbers("engine_init_order")?)?;
        let recorded = step.accesses("h2t_engine_queue_block_writes")?;
        let of_rings = ours.iter_mut().filter(|access| self.h2t_queue(access).is_some());
        for (ours, recorded) in of_rings.zip(&recorded) {
            let base = self.ring_base(ours)?;
            if let (Some((place, half)), true) = (base, ours.offset == recorded.offset)
                && self.moved.contains(&place)
            {
                equal_hex(format!("ring in the registers of {place:?}"), ours.value, half)?;
                ours.value = recorded.value;
            }
        }
        let of_rings: Vec<_> =
            ours.iter().copied().filter(|access| self.h2t_queue(access).is_some()).collect();
        equal_accesses("h2t_engine_queue_block_writes", &of_rings, &recorded)?;
        equal_recorded(&ours, step)
    }

    /// Engines in the order of their initialisation, which writes one register once.
    fn engines_initialised(&self, accesses: &[Access]) -> Vec<u64> {
        let arch = self.device().arch();
        let engine = |access: &Access| {
            let base = access.offset.checked_sub(regs::M2S_DATA_FIFO)?;
            (0..arch.engines()).find(|engine| arch.engine_base(*engine) == Some(base))
        };
        accesses.iter().filter(|access| access.op == Op::Write).filter_map(engine).map(u64::from).collect()
    }

    /// Queue of an H2T engine, its direction and the register, of a write to it.
    fn h2t_queue(&self, access: &Access) -> Option<(Place, Direction, u64)> {
        let arch = self.device().arch();
        if access.op != Op::Write {
            return None;
        }
        (arch.core_engines()..arch.engines()).find_map(|engine| {
            let within = access.offset.checked_sub(arch.engine_base(engine)?)?;
            [Direction::Tx, Direction::Rx].into_iter().find_map(|direction| {
                let register = within.checked_sub(direction.queue_block(0))?;
                let size = direction.queue_block(1) - direction.queue_block(0);
                let qid = u32::try_from(register / size).ok().filter(|qid| *qid < QUEUES)?;
                Some(((engine, qid), direction, register % size))
            })
        })
    }

    /// For a write of half a ring's address: whose ring, and that half of its address.
    fn ring_base(&self, access: &Access) -> Result<Option<(Place, u32)>, Mismatch> {
        let Some((place, direction, register)) = self.h2t_queue(access) else { return Ok(None) };
        let shift = match register {
            queue::DRBP_LOW => 0,
            queue::DRBP_HIGH => 32,
            _ => return Ok(None),
        };
        let rows = table::ours(self.device(), place.0)?;
        let Some(row) = rows.iter().find(|row| row.qid == place.1) else { return Ok(None) };
        let address = if direction == Direction::Tx { row.tx } else { row.rx };
        Ok(Some((place, (address >> shift) as u32)))
    }

    /// Compares what is left at the end.
    fn table(&self, recorded: &Object<'_>) -> Result<(), Mismatch> {
        let engines = |places: &BTreeSet<Place>| -> BTreeSet<u64> {
            places.iter().map(|(engine, _)| u64::from(*engine)).collect()
        };
        let arch = self.device().arch();
        let used: BTreeSet<u64> = (0..arch.engines())
            .filter(|engine| self.device().engines().used_for_h2t(*engine))
            .map(u64::from)
            .collect();
        equal("engines that had rings", &used, &engines(&self.made))?;
        let marked: BTreeSet<u64> = recorded.numbers("h2t_engines")?.into_iter().collect();
        let tried = self.made.union(&self.failed).copied().collect();
        equal("h2t_engines, and those where it failed", engines(&tried), marked)?;

        let mut ours = Vec::new();
        for engine in 0..arch.engines() {
            ours.extend(table::ours(self.device(), engine)?.into_iter().map(|row| (engine, row)));
        }
        equal("rings", ours.iter().map(|(engine, row)| (*engine, row.qid)).collect(), self.living.clone())?;
        let mut shown = BTreeSet::new();
        for queue in recorded.objects("queues")? {
            let place = (queue.word("eng")?, queue.word("qid")?);
            shown.insert(place);
            match ours.iter().find(|(engine, row)| (*engine, row.qid) == place) {
                Some((_, row)) => compare_row(row, &queue, !self.moved.contains(&place)),
                None => {
                    queue.skip_all();
                    Ok(())
                }
            }
            .and_then(|()| queue.finish())
            .map_err(|error| error.at(format!("queue {} of engine {}", place.1, place.0)))?;
        }
        // The recorder kept what failed, and what a closed core left behind.
        let kept = if self.rows.contains(&REMADE_RING) { &shown } else { &self.failed };
        let wanted: BTreeSet<Place> = self.living.iter().chain(kept).copied().collect();
        equal("queues shown", shown.clone(), wanted)?;
        recorded.finish()
    }
}

fn compare_row(ours: &Row, recorded: &Object<'_>, addresses: bool) -> Result<(), Mismatch> {
    equal("owner", i64::from(ours.owner), recorded.signed("owner")?)?;
    equal("size", ours.size(), recorded.number("size")?)?;
    for (field, ours) in [("tx", ours.tx), ("rx", ours.rx), ("marker", ours.marker)] {
        let recorded = recorded.number(field)?;
        if addresses {
            equal_hex(field, ours, recorded)?;
        }
    }
    Ok(())
}
