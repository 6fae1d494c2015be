//! A process binds rings to a queue.

use neuron_driver::pool::ChunkRef;
use neuron_driver::queues::Binding;
use neuron_udma::regs::Direction;

use super::place::Places;
use super::{ret, table};
use crate::kinds::bench::Bench;
use crate::machine::board::Cores;
use crate::machine::{Board, equal_accesses};
use crate::vectors::difference::{OVERSIZED_RING, REFUSED_OWNER};
use crate::vectors::{Mismatch, Object, Outcome, equal};

/// Process that the calls were recorded for.
const PID: i32 = 1234;
const EINVAL: i64 = -22;
/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;

/// Compares one case.
///
/// # Errors
/// What differs.
pub fn check(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Up)?;
    case.text("note")?;
    let (engine, qid) = (case.word("eng")?, case.word("qid")?);
    let mut chunks = chunks(&board, case)?;
    let [tx, rx, completion] = &mut chunks;
    let (tx_count, rx_count) = (case.word("tx_count")?, case.word("rx_count")?);
    let too_long = |count: u32, chunk: &Option<ChunkRef>| {
        chunk.as_ref().is_some_and(|chunk| u64::from(count) * DESCRIPTOR > chunk.size())
    };
    let oversized = too_long(tx_count, tx) || too_long(rx_count, rx);
    let binding = Binding {
        tx_count,
        rx_count,
        tx: tx.take(),
        rx: rx.take(),
        completion: completion.take(),
        port: case.word("port")?,
    };
    let owner = owner(&board, engine, qid);
    board.take();

    let ours = ret(&board.device().queue_init(engine, qid, binding, PID));

    let (recorded, accesses) = (case.signed("ret")?, case.accesses("mmio")?);
    let mut rows = Vec::new();
    if oversized && recorded == 0 {
        rows.push(OVERSIZED_RING);
        equal("ret", ours, EINVAL)?;
        equal_accesses("mmio", &board.take().accesses, &[])?;
    } else {
        equal("ret", ours, recorded)?;
        equal_accesses("mmio", &board.take().accesses, &accesses)?;
    }
    // Only the driver's own rings take descriptors from it; the recorder could ask for
    // more than a process can.
    case.skip("allocatable");
    if ours == 0 {
        let lock = board.device().engines().lock(engine).map_err(|errno| Mismatch::new(errno.to_string()))?;
        for direction in [Direction::Tx, Direction::Rx] {
            let queue = lock.udma.queue(direction, qid).map_err(|error| Mismatch::new(error.to_string()))?;
            equal("the driver puts no descriptors in", queue.allocatable(), false)?;
        }
    }
    if case.has("owner") {
        let recorded = case.signed("owner")?;
        let shown = self::owner(&board, engine, qid).map(i64::from);
        if ours == 0 {
            equal("owner", shown, Some(recorded))?;
        } else {
            equal("owner as before", shown, owner.map(i64::from))?;
            if shown != Some(recorded) {
                equal("recorded owner", recorded, PID.into())?;
                rows.push(REFUSED_OWNER);
            }
        }
    }
    Ok(if rows.is_empty() { Outcome::Compared } else { Outcome::Differs(rows) })
}

/// The chunks of tx, rx and completion ring, where they were recorded. The recorder
/// allocated them by rising address, and used some twice.
fn chunks(board: &Board, case: &Object<'_>) -> Result<[Option<ChunkRef>; 3], Mismatch> {
    let mut wanted = [None; 3];
    for (wanted, field) in wanted.iter_mut().zip(["tx", "rx", "rxc"]) {
        if case.is_null(field) {
            continue;
        }
        let chunk = case.object(field)?;
        let (address, size) = (chunk.number("pa")?, chunk.number("size")?);
        let host = board.device().geometry().is_host_address(address);
        equal("host", host, chunk.flag("host")?)?;
        chunk.finish().map_err(|error| error.at(field))?;
        *wanted = Some((address, size));
    }
    let mut order: Vec<_> = wanted.iter().flatten().copied().collect();
    order.sort_unstable();
    order.dedup();
    let mut places = Places::default();
    let mut placed = Vec::new();
    for (address, size) in order {
        placed.push(places.chunk(board.device(), address, size)?);
    }
    Ok(wanted.map(|wanted| {
        let (address, _) = wanted?;
        placed.iter().find(|chunk| chunk.pa() == address).map(ChunkRef::clone)
    }))
}

/// Owner that a queue shows, if it exists.
fn owner(board: &Board, engine: u32, qid: u32) -> Option<i32> {
    let rows = table::ours(board.device(), engine).ok()?;
    Some(rows.iter().find(|row| row.qid == qid).map_or(0, |row| row.owner))
}
