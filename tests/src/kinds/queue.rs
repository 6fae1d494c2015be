//! Programming one queue directly below the ring layer.

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_driver::hw::Bar0;
use neuron_udma::regs::Direction;
use neuron_udma::{Queue, QueueStatus, RingBase, Udma};

use super::{engine_params, udma_ret};
use crate::machine::{Recorder, Registers, equal_accesses};
use crate::vectors::difference::HALF_PROGRAMMED;
use crate::vectors::{Mismatch, Object, Outcome, equal, equal_hex};

/// Compares one case. The engine was initialised before.
///
/// # Errors
/// What differs.
pub fn check(generation: Generation, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let recorder = Recorder::new(generation, Arc::new(Registers::new(generation, None)));
    let bar0 = Bar0(&recorder);
    let mut udma = Udma::new();
    equal("engine init", udma_ret(udma.init(&bar0, &engine_params(generation, case.word("eng")?)?)), 0)?;
    recorder.take();

    let qid = case.word("qid")?;
    let ring = |base: &str, size: &str| Ok(RingBase { base: case.nullable(base)?, size: case.word(size)? });
    let (tx, rx) = (ring("tx_ring", "tx_size")?, ring("rx_ring", "rx_size")?);
    let (completion, allocatable) = (case.flag("rx_completion_ring")?, case.flag("allocatable")?);
    let ours = udma_ret(udma.init_queue(&bar0, qid, tx, rx, completion, allocatable));

    let (ret, recorded) = (case.signed("ret")?, case.accesses("mmio")?);
    equal("ret", ours, ret)?;
    let half_programmed = ret < 0 && !recorded.is_empty();
    let expected = if half_programmed { [].as_slice() } else { &recorded };
    equal_accesses("mmio", &recorder.take().accesses, expected)?;
    for (direction, field) in [(Direction::Tx, "tx"), (Direction::Rx, "rx")] {
        let Ok(queue) = udma.queue(direction, qid) else {
            equal(format!("{field} shown"), false, case.has(field))?;
            continue;
        };
        if case.has(field) && !half_programmed {
            let shown = case.object(field)?;
            programmed(queue, &shown).and_then(|()| shown.finish()).map_err(|error| error.at(field))?;
        } else {
            untouched(queue).map_err(|error| error.at(field))?;
            case.skip(field);
        }
    }
    Ok(Outcome::from_row(half_programmed.then_some(HALF_PROGRAMMED)))
}

/// A queue that was programmed shows what was recorded.
fn programmed(queue: &Queue, shown: &Object<'_>) -> Result<(), Mismatch> {
    let cursor = queue.cursor();
    equal("size", cursor.size().into(), shown.number("size")?)?;
    equal_hex("size_mask", cursor.size().wrapping_sub(1).into(), shown.number("size_mask")?)?;
    equal("allocatable", queue.allocatable(), shown.flag("allocatable")?)?;
    equal("next_desc", cursor.next().into(), shown.number("next_desc")?)?;
    equal("next_cdesc", cursor.completed().into(), shown.number("next_cdesc")?)?;
    equal("ring_id", cursor.ring_id().into(), shown.number("ring_id")?)?;
    equal("status", queue.status() as u64, shown.number("status")?)?;
    equal_hex("cfg", queue.cfg().into(), shown.number("cfg")?)?;
    equal_hex("base", queue.base(), shown.number("base")?)
}

/// A queue that was not programmed is as engine init left it: enabled, with no ring.
fn untouched(queue: &Queue) -> Result<(), Mismatch> {
    equal("size after a refusal", queue.cursor().size(), 0)?;
    equal("base after a refusal", queue.base(), 0)?;
    equal("allocatable after a refusal", queue.allocatable(), false)?;
    equal_hex("cfg after a refusal", queue.cfg(), 0x0300_0000)?;
    equal("status after a refusal", queue.status(), QueueStatus::Enabled)
}
