//! A copy on engines that do nothing.

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_driver::arch::Arch;
use neuron_driver::ring::H2tRing;
use neuron_udma::regs::Direction;

use super::batch::{Cursors, cursors, equal_batches, recorded_cursors, ring};
use super::copies::copy_argument;
use super::rig::Bench;
use crate::machine::{Access, equal_accesses};
use crate::vectors::difference::TIMEOUT;
use crate::vectors::{Mismatch, Object, Outcome, equal};

/// Compares a copy that times out: recorded with its slots left taken, ours with the ring
/// programmed anew behind it.
///
/// # Errors
/// What differs.
pub fn check(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let rig = bench.still()?;
    let (size, core) = (case.number("size")?, case.word("nc")?);
    let source = rig.end("source", case.number("src")?, size, core)?;
    let destination = rig.end("destination", case.number("dst")?, size, core)?;
    let ring = ring(&rig.board, case)?;

    let ret = rig.client.call(&cmd::MEM_COPY64, &mut copy_argument(source, destination, size));

    equal("recorded ret", case.signed("ret")?, -1)?;
    equal("ret", ret, Errno::ETIMEDOUT.negated().into())?;
    let recording = rig.board.take();
    let base = Arch::of(bench.generation()).engine_base(ring.engine()).unwrap_or_default();
    let expected = [case.accesses("mmio_all")?, programming(base, &ring)].concat();
    equal_accesses("mmio_all", &recording.accesses, &expected)?;
    equal_batches(&recording.batches, &case.objects("batches")?)?;
    recorded_cursors(case, "after")?;
    equal("cursors after", cursors(&rig.board, &ring)?, [Cursors::FRESH; 2])?;
    Ok(Outcome::Differs(vec![TIMEOUT]))
}

/// Compares a copy that times out while a reset runs. Generations that do not try again
/// show the same as without a reset.
///
/// # Errors
/// What differs.
pub fn retry(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    if Arch::of(bench.generation()).retries_in_reset_window {
        return Ok(Outcome::Later("a copy tried again in a reset window"));
    }
    check(bench, case)
}

/// The 15 writes that program a ring (`spec/udma.md` 4), of an engine at `base`.
fn programming(base: u64, ring: &H2tRing) -> Vec<Access> {
    let (tx, rx) = ring.bases();
    let one = |direction: Direction, address: u64, size: u32| {
        let (reset, completion) = match direction {
            Direction::Tx => (0xb0, 0xa0),
            Direction::Rx => (0x64, 0x54),
        };
        let writes = [
            (0x74, 3),
            (0x20, 0x0300_0000),
            (reset, 0x100),
            (0x28, address as u32),
            (0x2c, (address >> 32) as u32),
            (0x30, size),
            (completion, 0),
            (0x20, 0x0303_0000),
        ];
        // The rate-limit mask exists in TX only.
        let skipped = if direction == Direction::Tx { 0 } else { 1 };
        let block = base + direction.queue_block(ring.qid());
        writes.into_iter().skip(skipped).map(move |(register, value)| Access::write(block + register, value))
    };
    one(Direction::Tx, tx.base.unwrap_or(0), tx.size)
        .chain(one(Direction::Rx, rx.base.unwrap_or(0), rx.size))
        .collect()
}
