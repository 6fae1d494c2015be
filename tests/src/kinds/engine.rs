//! Bring-up of one engine: the register accesses, and what software keeps afterwards.

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_driver::hw::Bar0;
use neuron_udma::Udma;
use neuron_udma::regs::Direction;

use super::{engine_params, udma_ret};
use crate::machine::{Recorder, Registers, equal_accesses};
use crate::vectors::{Mismatch, Object, Outcome, equal, equal_hex};

/// Compares one case.
///
/// # Errors
/// What differs.
pub fn check(generation: Generation, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let registers = Registers::new(generation, None);
    for (offset, value) in case.registers("preload")? {
        registers.preload(offset, value);
    }
    let recorder = Recorder::new(generation, Arc::new(registers));
    let mut udma = Udma::new();
    let params = engine_params(generation, case.word("eng")?)?;
    equal("ret", udma_ret(udma.init(&Bar0(&recorder), &params)), case.signed("ret")?)?;
    equal_accesses("mmio", &recorder.take().accesses, &case.accesses("mmio")?)?;
    equal("queues", udma.num_queues().into(), case.number("num_queues")?)?;
    for (direction, field) in [(Direction::Tx, "queue_cfg_tx"), (Direction::Rx, "queue_cfg_rx")] {
        for qid in 0..udma.num_queues() {
            let queue = udma.queue(direction, qid).map_err(|error| Mismatch::new(error.to_string()))?;
            equal_hex(format!("{field} of queue {qid}"), queue.cfg().into(), case.number(field)?)?;
        }
    }
    Ok(Outcome::Compared)
}
