//! The state of an engine, asked for and looked at.

use neuron_driver::Device;
use neuron_driver::arch::QUEUES;
use neuron_driver::queues::Binding;
use neuron_udma::EngineState;

use super::ret;
use crate::kinds::bench::Bench;
use crate::machine::board::Cores;
use crate::machine::equal_accesses;
use crate::vectors::difference::BAD_STATE;
use crate::vectors::{Mismatch, Object, Outcome, equal};

/// States that can be asked for: stopped, running, aborted.
const SETTABLE: [u32; 3] = [0, 2, 3];
const EINVAL: i64 = -22;

/// Compares a state that is asked for, and what the engine tells then.
///
/// # Errors
/// What differs.
pub fn set(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Up)?;
    let (engine, state) = (case.word("eng")?, case.word("state")?);

    let ours = ret(&board.device().engine_set_state(engine, state));

    let recorded = case.signed("ret")?;
    let row = (recorded == 0 && !SETTABLE.contains(&state)).then_some(BAD_STATE);
    equal("ret", ours, if row.is_some() { EINVAL } else { recorded })?;
    equal_accesses("mmio", &board.take().accesses, &case.accesses("mmio")?)?;
    if case.has("then") {
        let then = case.object("then")?;
        equal_state(board.device(), engine, board.device().engine_state(engine).ok(), &then)
            .and_then(|()| then.finish())
            .map_err(|error| error.at("then"))?;
    }
    Ok(Outcome::from_row(row))
}

/// Compares what an engine tells.
///
/// # Errors
/// What differs.
pub fn get(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Up)?;
    for (offset, value) in case.registers("preload")? {
        board.preload(offset, value)?;
    }
    let engine = case.word("eng")?;

    let state = board.device().engine_state(engine);

    equal("ret", ret(&state), case.signed("ret")?)?;
    equal_accesses("mmio", &board.take().accesses, &case.accesses("mmio")?)?;
    if state.is_ok() {
        equal_state(board.device(), engine, state.ok(), case)?;
    }
    Ok(Outcome::Compared)
}

fn equal_state(
    device: &Device,
    engine: u32,
    state: Option<(EngineState, EngineState)>,
    recorded: &Object<'_>,
) -> Result<(), Mismatch> {
    let engine = device.engines().lock(engine).map_err(|errno| Mismatch::new(errno.to_string()))?;
    let (tx, rx) = state.ok_or_else(|| Mismatch::new("the engine tells no state"))?;
    for (field, ours) in [
        ("tx_state", tx as u32),
        ("rx_state", rx as u32),
        ("max_queues", QUEUES),
        ("num_queues", engine.udma.num_queues()),
        ("revision", neuron_udma::REVISION),
    ] {
        equal(field, ours, recorded.word(field)?)?;
    }
    Ok(())
}

/// Compares calls for an engine that no device has.
///
/// # Errors
/// What differs.
pub fn bad_engine(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Up)?;
    let (device, engine) = (board.device(), case.word("eng")?);
    equal("get_ret", ret(&device.engine_state(engine)), case.signed("get_ret")?)?;
    equal("set_ret", ret(&device.engine_set_state(engine, SETTABLE[0])), case.signed("set_ret")?)?;
    // The recorder initialised the engine; ours are initialised with their cores only, for
    // which this one would need parameters. A queue of it cannot be bound either.
    equal("engine without parameters", device.arch().engine_params(engine).is_none(), true)?;
    let init = device.queue_init(engine, 0, Binding::default(), 1);
    equal("init_ret", ret(&init), case.signed("init_ret")?)?;
    equal_accesses("accesses", &board.take().accesses, &[])?;
    Ok(Outcome::Compared)
}
