//! The exit of two processes that bound rings all over the device.

use std::sync::Arc;

use neuron_driver::queues::Binding;
use neuron_udma::RingBase;
use serde_json::Value;

use super::place::Places;
use super::ret;
use super::table::{self, Row, equal_rows};
use crate::kinds::bench::Bench;
use crate::machine::board::Cores;
use crate::machine::{Access, Board, equal_accesses, programming};
use crate::vectors::difference::{DEAD_OWNER, H2T_ENGINE_AT_EXIT};
use crate::vectors::object::number;
use crate::vectors::{Difference, Mismatch, Object, Outcome, equal, equal_hex};

/// Descriptors of the ring that a reset queue gets.
const DUMMY_DESCRIPTORS: u32 = 64;
/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;
const EINVAL: i64 = -22;

/// A queue init, `[pid, engine, queue, count, tx, rx, ret]`.
struct Init {
    pid: i32,
    engine: u32,
    qid: u32,
    count: u32,
    tx: u64,
    rx: u64,
    ret: i64,
}

impl Init {
    fn read(value: &Value) -> Option<Self> {
        let [pid, engine, qid, count, tx, rx, ret] = value.as_array()?.as_slice() else { return None };
        let word = |value| u32::try_from(number(value)?).ok();
        Some(Self {
            pid: i32::try_from(number(pid)?).ok()?,
            engine: word(engine)?,
            qid: word(qid)?,
            count: word(count)?,
            tx: number(tx)?,
            rx: number(rx)?,
            ret: ret.as_i64()?,
        })
    }

    fn run(&self, board: &Board, places: &mut Places) -> Result<(), Mismatch> {
        let bytes = u64::from(self.count) * DESCRIPTOR;
        let tx = places.chunk(board.device(), self.tx, bytes)?;
        let rx = places.chunk(board.device(), self.rx, bytes)?;
        let binding = Binding {
            tx_count: self.count,
            rx_count: self.count,
            tx: Some(tx),
            rx: Some(rx),
            ..Binding::default()
        };
        let result = board.device().queue_init(self.engine, self.qid, binding, self.pid);
        equal("ret", ret(&result), self.ret)
    }
}

/// Compares one case.
///
/// # Errors
/// What differs.
pub fn check(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Up)?;
    case.skip("seed");
    equal_hex("dummy_ring", board.device().dummy_ring_address(), case.number("dummy_ring")?)?;
    let mut places = Places::default();
    let mut bound = Vec::new();
    for value in case.list("inits")? {
        let init = Init::read(value).ok_or_else(|| Mismatch::new(format!("no queue init: {value}")))?;
        init.run(&board, &mut places).map_err(|error| error.at(format!("init {value}")))?;
        if init.ret == 0 {
            bound.push((init.engine, init.qid));
        }
    }
    board.take();
    let mut exits = Exits { board: &board, dead: Vec::new(), rows: Vec::new() };
    exits.compare_table(&case.object("before")?).map_err(|error| error.at("before"))?;
    for (pid, field) in [(1001, "exit_1001"), (1002, "exit_1002")] {
        exits.exit(pid, &case.object(field)?).map_err(|error| error.at(field))?;
    }
    // Nothing holds the memory of the dead but these places.
    let held: Vec<_> = places.chunks().iter().map(Arc::strong_count).collect();
    equal("holders of the rings after both exits", held, vec![1; places.chunks().len()])?;
    // So no doorbell may reach it through a queue that still shows it.
    for (engine, qid) in bound {
        let start = board.device().queue_copy_start(engine, qid, 1, 1);
        equal(format!("start of queue {qid} of engine {engine}"), ret(&start), EINVAL)?;
    }
    equal_accesses("doorbells of the dead", &board.take().accesses, &[])?;
    Ok(if exits.rows.is_empty() { Outcome::Compared } else { Outcome::Differs(exits.rows) })
}

struct Exits<'a> {
    board: &'a Board,
    /// Processes that have exited.
    dead: Vec<i32>,
    rows: Vec<Difference>,
}

impl Exits<'_> {
    fn exit(&mut self, pid: i32, recorded: &Object<'_>) -> Result<(), Mismatch> {
        let device = self.board.device();
        self.dead.push(pid);
        device.release_process_queues(pid);
        let table = recorded.object("table")?;
        let mut wanted = recorded.accesses("mmio")?;
        // The recorder left H2T engines alone. There the queues of the process come after
        // all others, with what any queue gets that is reset.
        for (engine, row) in queues(&table)? {
            if self.skipped(engine) && row.owner == pid && !device.arch().is_nx_queue(engine, row.qid) {
                wanted.extend(self.reset(engine, row.qid));
            }
        }
        equal_accesses("mmio", &self.board.take().accesses, &wanted)?;
        self.compare_table(&table).map_err(|error| error.at("table"))?;
        recorded.finish()
    }

    /// Whether the recorder's exits do not reach an engine.
    fn skipped(&self, engine: u32) -> bool {
        engine >= self.board.device().arch().core_engines()
    }

    /// The writes that point a queue at the dummy ring.
    fn reset(&self, engine: u32, qid: u32) -> [Access; 15] {
        let base = self.board.device().arch().engine_base(engine).unwrap_or_default();
        let dummy = RingBase::new(self.board.device().dummy_ring_address(), DUMMY_DESCRIPTORS);
        programming(base, qid, dummy, dummy)
    }

    /// Compares all rings of the device; those of dead processes as the rows say.
    fn compare_table(&mut self, recorded: &Object<'_>) -> Result<(), Mismatch> {
        let device = self.board.device();
        let arch = device.arch();
        let used = (0..arch.engines()).filter(|engine| device.engines().used_for_h2t(*engine));
        equal("h2t_engines", used.map(u64::from).collect(), recorded.numbers("h2t_engines")?)?;
        let dummy = device.dummy_ring_address();
        let mut wanted: Vec<(u32, Row)> = queues(recorded)?;
        for (engine, row) in &mut wanted {
            if !self.dead.contains(&row.owner) {
                continue;
            }
            row.owner = 0;
            let skipped = *engine >= arch.core_engines();
            if skipped && !arch.is_nx_queue(*engine, row.qid) {
                (row.tx, row.rx) = (dummy, dummy);
            }
            self.rows.push(if skipped { H2T_ENGINE_AT_EXIT } else { DEAD_OWNER });
        }
        for engine in 0..arch.engines() {
            let wanted: Vec<_> = wanted.iter().filter(|(of, _)| *of == engine).map(|(_, row)| *row).collect();
            let ours: Vec<_> = table::ours(device, engine)?.into_iter().map(without_core).collect();
            equal_rows(&format!("engine {engine}"), &ours, &wanted)?;
        }
        recorded.finish()
    }
}

/// These tables do not show cores.
fn without_core(row: Row) -> Row {
    Row { core: None, ..row }
}

/// The rings that `recorded` shows, by engine.
fn queues(recorded: &Object<'_>) -> Result<Vec<(u32, Row)>, Mismatch> {
    let one = |queue: &Object<'_>| {
        let (engine, h2t) = (queue.word("eng")?, queue.number("marker")? != 0);
        let row = Row {
            qid: queue.word("qid")?,
            h2t,
            owner: queue.word("owner")?.cast_signed(),
            tx: queue.number("tx")?,
            rx: queue.number("rx")?,
            marker: queue.number("marker")?,
            ..Row::default()
        };
        equal("size", row.size(), queue.number("size")?)?;
        queue.finish().map(|()| (engine, row))
    };
    recorded.objects("queues")?.iter().map(one).collect()
}
