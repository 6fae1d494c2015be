//! Copies over a ring of the driver: on one that was requested, pair by pair, and on the
//! default one, as a blocking copy of a process.

use std::sync::Arc;

use neuron_abi::{arg, cmd};
use neuron_driver::hw::RingSlice;
use neuron_driver::pool::ChunkRef;
use neuron_udma::{Barrier, Copy};
use vm_memory::{Bytes, VolatileSlice};

use super::super::ret;
use crate::client::Client;
use crate::kinds::cursors::{cursors, recorded_cursors};
use crate::machine::{Board, equal_accesses};
use crate::vectors::{Mismatch, Object, equal, equal_hex, fnv};

/// Compares a copy of prepared descriptors on a requested ring.
///
/// # Errors
/// What differs.
pub fn prepared(board: &Board, step: &Object<'_>) -> Result<(), Mismatch> {
    let (engine, qid) = (step.word("eng")?, step.word("qid")?);
    equal("engine", board.device().arch().h2t_engine(step.word("nc")?), engine)?;
    let (pairs, size) = (step.word("pairs")?, step.word("size")?);
    let (source, destination) = (step.number("src")?, step.number("dst")?);
    let barrier = step.word("last_barrier")?;
    let barrier =
        Barrier::from_raw(barrier).ok_or_else(|| Mismatch::new(format!("unknown barrier {barrier}")))?;
    let bytes = u64::from(pairs) * u64::from(size);
    let ends = Ends::fill(board, source, destination, bytes, step)?;
    let copies = (0..pairs).map(|pair| {
        let offset = u64::from(pair) * u64::from(size);
        Copy {
            source: source + offset,
            destination: destination + offset,
            bytes: size,
            barrier: if pair + 1 == pairs { barrier } else { Barrier::None },
            interrupt: false,
        }
    });
    prepare(board, engine, qid, copies)?;
    let device = board.device();
    let recorded = step.signed("ret")?;
    equal("ret of the start", ret(&device.queue_copy_start(engine, qid, pairs, pairs)), recorded)?;
    equal("ret of the acknowledge", ret(&device.queue_acknowledge(engine, qid, pairs)), recorded)?;
    ends.compare(board, step)
}

/// Puts descriptors into the ring of a queue, as the driver's copies do.
fn prepare(board: &Board, engine: u32, qid: u32, copies: impl Iterator<Item = Copy>) -> Result<(), Mismatch> {
    let mut engine =
        board.device().engines().lock(engine).map_err(|errno| Mismatch::new(errno.to_string()))?;
    let ring = engine.queue(qid).ok().and_then(|queue| queue.h2t().map(Arc::clone));
    let ring = ring.ok_or_else(|| Mismatch::new(format!("we have no ring on queue {qid}")))?;
    let (tx, rx) = ring.memory().map_err(|errno| Mismatch::new(errno.to_string()))?;
    let mut pair = engine.udma.pair(qid).map_err(|error| Mismatch::new(error.to_string()))?;
    for copy in copies {
        pair.prepare(&RingSlice(tx.slice()), &RingSlice(rx.slice()), &copy)
            .map_err(|error| Mismatch::new(error.to_string()))?;
    }
    Ok(())
}

/// Compares a blocking copy between two of `chunks`.
///
/// # Errors
/// What differs.
pub fn blocking(
    board: &Board,
    client: &Client,
    chunks: &[ChunkRef],
    step: &Object<'_>,
) -> Result<(), Mismatch> {
    let core = step.word("nc")?;
    let place = (board.device().arch().h2t_engine(core), board.device().arch().default_queue(core));
    equal("engine and queue", place, (step.word("eng")?, step.word("qid")?))?;
    let (size, source, destination) = (step.number("size")?, step.number("src")?, step.number("dst")?);
    let ends = Ends::fill(board, source, destination, size, step)?;
    let handle = |address: u64| {
        let chunk = chunks.iter().find(|chunk| (chunk.pa()..chunk.pa() + chunk.size()).contains(&address));
        let chunk = chunk.ok_or_else(|| Mismatch::new(format!("no chunk at {address:#x}")))?;
        Ok((chunk.handle(), address - chunk.pa()))
    };
    let ((src_mem_handle, src_offset), (dst_mem_handle, dst_offset)) =
        (handle(source)?, handle(destination)?);
    let mut argument = arg::MemCopy64 { src_mem_handle, dst_mem_handle, size, src_offset, dst_offset };
    equal("ret", client.call(&cmd::MEM_COPY64, &mut argument), step.signed("ret")?)?;
    ends.compare(board, step)
}

/// What a copy moves.
struct Ends {
    bytes: u64,
    destination: u64,
}

impl Ends {
    /// Fills the source with the pattern of the step and the destination with zeros.
    fn fill(
        board: &Board,
        source: u64,
        destination: u64,
        bytes: u64,
        step: &Object<'_>,
    ) -> Result<Self, Mismatch> {
        let start = step.number("src_fill")?;
        let pattern: Vec<u8> = (0..bytes).map(|byte| (start + 31 * byte + byte / 256) as u8).collect();
        write(board.memory(source, bytes)?.slice()?, &pattern)?;
        write(board.memory(destination, bytes)?.slice()?, &vec![0; pattern.len()])?;
        board.take();
        Ok(Self { bytes, destination })
    }

    /// Compares accesses, cursors and bytes.
    fn compare(&self, board: &Board, step: &Object<'_>) -> Result<(), Mismatch> {
        equal_accesses("mmio", &board.take().accesses, &step.accesses("mmio")?)?;
        let ours = cursors(board.device(), step.word("eng")?, step.word("qid")?)?;
        equal("cursors after", ours, recorded_cursors(step, "after")?)?;
        let window = board.memory(self.destination, self.bytes)?;
        let memory = window.slice()?;
        let mut found = vec![0; memory.len()];
        memory.read_slice(&mut found, 0).map_err(|error| Mismatch::new(error.to_string()))?;
        equal_hex("dst_fnv", fnv::of_bytes(&found), step.number("dst_fnv")?)
    }
}

fn write(memory: VolatileSlice<'_>, bytes: &[u8]) -> Result<(), Mismatch> {
    memory.write_slice(bytes, 0).map_err(|error| Mismatch::new(error.to_string()))
}
