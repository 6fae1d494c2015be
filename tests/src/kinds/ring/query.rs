//! What the driver tells of a queue from its registers.

use neuron_driver::Device;
use neuron_driver::queues::Binding;
use neuron_udma::QueueSnapshot;

use super::place::Places;
use super::ret;
use crate::kinds::bench::Bench;
use crate::machine::board::Cores;
use crate::machine::{Access, Board, equal_accesses};
use crate::vectors::difference::LOCK_HELD;
use crate::vectors::{Mismatch, Object, Outcome, equal, equal_hex};

/// Descriptors of the rings that `descriptor_info` was recorded on.
const RINGS: [u32; 2] = [2048, 1024];
/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;
/// Reads of one direction in `descriptor_info`: high word, low word, length.
const READS: usize = 3;

/// Makes the read that a case names fail.
fn fail_read(board: &Board, case: &Object<'_>) -> Result<(), Mismatch> {
    // -1: none.
    if let Ok(reads) = u64::try_from(case.signed("fail_read_index")?) {
        board.recorder().fail_read(reads);
    }
    Ok(())
}

/// Compares which rings a queue shows.
///
/// # Errors
/// What differs.
pub fn descriptor_info(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Up)?;
    let device = board.device();
    let (engine, qid) = (case.word("eng")?, case.word("qid")?);
    let recorded = case.accesses("mmio")?;
    let mut places = Places::default();
    if device.engines().lock(engine).is_ok_and(|mut engine| engine.queue(qid).is_ok()) {
        let binding = binding(device, &mut places, &recorded)?;
        equal("queue init", ret(&device.queue_init(engine, qid, binding, 1)), 0)?;
    }
    board.take();
    fail_read(&board, case)?;

    let info = device.queue_ring_registers(engine, qid);

    equal("ret", ret(&info), case.signed("ret")?)?;
    equal_accesses("mmio", &board.take().accesses, &recorded)?;
    if let Ok((tx, rx)) = info {
        for (ring, [pa, size, found]) in
            [(tx, ["tx_pa", "tx_size", "tx_found"]), (rx, ["rx_pa", "rx_size", "rx_found"])]
        {
            equal_hex(pa, ring.base, case.number(pa)?)?;
            equal(size, u64::from(ring.length), case.number(size)?)?;
            let chunk = device.pools().at_address(ring.base);
            equal(found, chunk.is_some_and(|chunk| chunk.pa() == ring.base), case.flag(found)?)?;
        }
    }
    if !case.has("engine_lock_left_held") || !case.flag("engine_lock_left_held")? {
        return Ok(Outcome::Compared);
    }
    // Answers only if nobody holds the engine.
    equal("asked again", ret(&device.queue_ring_registers(engine, qid)), 0)?;
    Ok(Outcome::Differs(vec![LOCK_HELD]))
}

/// Rings at the addresses that the recorded reads show, so far as they got; else in host
/// memory.
fn binding(device: &Device, places: &mut Places, reads: &[Access]) -> Result<Binding, Mismatch> {
    let address = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let mut rings = Vec::new();
    for (index, count) in RINGS.into_iter().enumerate() {
        let bytes = u64::from(count) * DESCRIPTOR;
        rings.push(match reads.get(index * READS..) {
            Some([high, low, ..]) => places.chunk(device, address(high.value, low.value), bytes)?,
            Some([high]) => places.on_memory_of(device, address(high.value, 0), bytes)?,
            _ => places.on_memory_of(device, device.geometry().host_base, bytes)?,
        });
    }
    let [tx_count, rx_count] = RINGS;
    let mut rings = rings.into_iter();
    Ok(Binding { tx_count, rx_count, tx: rings.next(), rx: rings.next(), ..Binding::default() })
}

/// Compares the state of a queue.
///
/// # Errors
/// What differs.
pub fn queue_state(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let board = bench.still(Cores::Up)?;
    for (offset, value) in case.registers("preload")? {
        board.preload(offset, value)?;
    }
    fail_read(&board, case)?;

    let state = board.device().queue_state(case.word("eng")?, case.word("qid")?);

    equal("ret", ret(&state), case.signed("ret")?)?;
    equal_accesses("mmio", &board.take().accesses, &case.accesses("mmio")?)?;
    if let Ok((tx, rx)) = state {
        for (ours, field) in [(tx, "tx"), (rx, "rx")] {
            let recorded = case.object(field)?;
            snapshot(&ours, &recorded).and_then(|()| recorded.finish()).map_err(|error| error.at(field))?;
        }
    }
    Ok(Outcome::Compared)
}

fn snapshot(ours: &QueueSnapshot, recorded: &Object<'_>) -> Result<(), Mismatch> {
    for (field, ours) in [
        ("hw_status", ours.hw_status.into()),
        ("sw_status", ours.sw_status as u64),
        ("base", ours.ring.base),
        ("length", ours.ring.length.into()),
        ("head", ours.head.into()),
        ("tail", ours.tail.into()),
        ("completion_base", ours.completion_base),
        ("completion_head", ours.completion_head.into()),
    ] {
        equal_hex(field, ours, recorded.number(field)?)?;
    }
    Ok(())
}
