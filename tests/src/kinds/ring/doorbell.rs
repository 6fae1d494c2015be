//! Doorbells of a ring that a process bound, and its descriptors given back.

use neuron_driver::queues::Binding;

use super::place::Places;
use super::ret;
use crate::kinds::bench::Bench;
use crate::kinds::cursors::cursors;
use crate::machine::board::Cores;
use crate::machine::{Board, equal_accesses};
use crate::vectors::difference::{ACKNOWLEDGE_ASSERTS, START_OF_NOTHING, START_REFUSED};
use crate::vectors::{Mismatch, Object, Outcome, equal};

/// Where the recorder had bound a ring of this many descriptors for `copy_start`.
const START_RING: (u32, u32, u32) = (3, 5, 64);
const EPERM: i64 = -1;
const EINVAL: i64 = -22;
/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;

/// Binds rings of `count` descriptors to a queue, in memory of their own.
fn bind(board: &Board, engine: u32, qid: u32, count: u32) -> Result<(), Mismatch> {
    let mut places = Places::default();
    let device = board.device();
    let bytes = u64::from(count) * DESCRIPTOR;
    let mut ring = || places.on_memory_of(device, device.geometry().host_base, bytes);
    let binding = Binding {
        tx_count: count,
        rx_count: count,
        tx: Some(ring()?),
        rx: Some(ring()?),
        ..Binding::default()
    };
    equal("queue init", ret(&device.queue_init(engine, qid, binding, 1)), 0)
}

/// Compares a copy start.
///
/// # Errors
/// What differs.
pub fn start(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Up)?;
    let (engine, qid, count) = START_RING;
    bind(&board, engine, qid, count)?;
    board.take();

    let (tx, rx) = (case.word("tx")?, case.word("rx")?);
    let ours = ret(&board.device().queue_copy_start(case.word("eng")?, case.word("qid")?, tx, rx));

    let accesses = board.take().accesses;
    if case.has("driver_asserts") {
        equal("driver_asserts", case.flag("driver_asserts")?, true)?;
        case.skip("mmio");
        equal("ret", ours, EPERM)?;
        equal_accesses("mmio", &accesses, &[])?;
        return Ok(Outcome::Differs(vec![START_OF_NOTHING]));
    }
    equal_accesses("mmio", &accesses, &case.accesses("mmio")?)?;
    let recorded = case.signed("ret")?;
    let row = (recorded == EPERM).then_some(START_REFUSED);
    equal("ret", ours, if row.is_some() { EINVAL } else { recorded })?;
    Ok(Outcome::from_row(row))
}

/// Compares an acknowledge.
///
/// # Errors
/// What differs.
pub fn acknowledge(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Up)?;
    let device = board.device();
    let (engine, qid, count) = (case.word("eng")?, case.word("qid")?, case.word("ring_desc")?);
    let exists = device.engines().lock(engine).is_ok_and(|mut engine| engine.queue(qid).is_ok());
    if exists && count > 0 {
        bind(&board, engine, qid, count)?;
    }
    board.take();

    let ours = ret(&device.queue_acknowledge(engine, qid, case.word("count")?));

    equal_accesses("accesses", &board.take().accesses, &[])?;
    let asserts = case.has("driver_asserts");
    if asserts {
        equal("driver_asserts", case.flag("driver_asserts")?, true)?;
    }
    equal("ret", ours, if asserts { EINVAL } else { case.signed("ret")? })?;
    if exists {
        let [tx, rx] = cursors(device, engine, qid)?.map(|cursors| u64::from(cursors.completed));
        for (field, ours) in [("tx_next_cdesc", tx), ("rx_next_cdesc", rx)] {
            // Nothing is shown of a ring that was never programmed: it stays at 0.
            let recorded = if case.has(field) { case.number(field)? } else { 0 };
            equal(field, ours, recorded)?;
        }
    }
    Ok(Outcome::from_row(asserts.then_some(ACKNOWLEDGE_ASSERTS)))
}
