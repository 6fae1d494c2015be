//! A copy on engines that do nothing.

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::limits::DEVICE_MAP;
use neuron_driver::arch::Arch;
use neuron_softdev::fault::{Fault, Place, When};

use super::batch::{equal_batches, equal_cursors, ring};
use super::copies::copy_argument;
use super::rig::Rig;
use crate::client::PID;
use crate::kinds::bench::Bench;
use crate::kinds::cursors::{Cursors, cursors, recorded_cursors};
use crate::machine::{equal_accesses, programming};
use crate::vectors::difference::{RETRY_READ_LATE, TIMEOUT};
use crate::vectors::{Mismatch, Object, Outcome, equal};

/// Compares a copy that times out: recorded with its slots left taken, ours with the ring
/// programmed anew behind it.
///
/// # Errors
/// What differs.
pub fn check(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let rig = Rig::still(bench)?;
    let (size, core) = (case.number("size")?, case.word("nc")?);
    let source = rig.end("source", case.number("src")?, size, core)?;
    let destination = rig.end("destination", case.number("dst")?, size, core)?;
    let ring = ring(&rig.board, case)?;

    let ret = rig.client.call(&cmd::MEM_COPY64, &mut copy_argument(source, destination, size));

    equal("recorded ret", case.signed("ret")?, -1)?;
    equal("ret", ret, Errno::ETIMEDOUT.negated().into())?;
    let recording = rig.board.take();
    let base = Arch::of(bench.generation()).engine_base(ring.engine()).unwrap_or_default();
    let (tx, rx) = ring.bases();
    let expected = [case.accesses("mmio_all")?, programming(base, ring.qid(), tx, rx).to_vec()].concat();
    equal_accesses("mmio_all", &recording.accesses, &expected)?;
    equal_batches(&recording.batches, &case.objects("batches")?)?;
    recorded_cursors(case, "after")?;
    equal("cursors after", cursors(rig.board.device(), ring.engine(), ring.qid())?, [Cursors::FRESH; 2])?;
    Ok(Outcome::Differs(vec![TIMEOUT]))
}

/// Compares a copy that times out in a reset's window. Generations that do not try again
/// show the same as without a reset.
///
/// Here the reset has just ended when the copy starts, at the same moment of virtual time,
/// and the engine misses the first doorbell: it works again once the driver has programmed
/// the ring anew.
///
/// # Errors
/// What differs.
pub fn retry(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    if !Arch::of(bench.generation()).retries_in_reset_window {
        return check(bench, case);
    }
    let rig = Rig::running(bench)?;
    let device = rig.board.device();
    device.request_reset(PID, DEVICE_MAP).map_err(|errno| Mismatch::new(format!("reset: {errno}")))?;
    equal("reset succeeded", device.collect_reset(PID), Some(true))?;
    rig.board.take();
    let (size, core) = (case.number("size")?, case.word("nc")?);
    let source = rig.end("source", case.number("src")?, size, core)?;
    let destination = rig.end("destination", case.number("dst")?, size, core)?;
    let ring = ring(&rig.board, case)?;
    let faults = rig.board.engines().ok_or_else(|| Mismatch::new("no engines"))?.faults();
    let place = Place { engine: u16::try_from(ring.engine()).ok(), queue: u8::try_from(ring.qid()).ok() };
    faults.add(Fault::DroppedKick { when: When::nth(1), place });
    let pattern = bench.pattern();
    pattern.fill(rig.window(source, size)?.slice()?)?;
    rig.guard(destination, size)?;

    let ret = rig.client.call(&cmd::MEM_COPY64, &mut copy_argument(source, destination, size));

    equal("ret", ret, case.signed("ret")?)?;
    equal("doorbells missed", faults.fired(), 1)?;
    let recording = rig.board.take();
    equal_accesses("mmio_all", &recording.accesses, &case.accesses("mmio_all")?)?;
    let recorded = case.objects("batches")?;
    let ([first, second], [recorded, again]) = (recording.batches.as_slice(), recorded.as_slice()) else {
        let what = format!("{} batches, {} recorded, should be 2", recording.batches.len(), recorded.len());
        return Err(Mismatch::new(what));
    };
    equal_batches(std::slice::from_ref(first), std::slice::from_ref(recorded))?;
    // The recorder looked at the second where the first had been.
    again.skip_all();
    equal("start of the second batch", (second.starts, second.counts), (first.starts, first.counts))?;
    equal("its descriptors", &second.pairs, &first.pairs)?;
    equal("each descriptor carries the phase of its lap", second.phases_right, true)?;
    equal("no error of an engine", rig.board.engines_found_no_error(), true)?;
    equal_cursors(&rig.board, &ring, case, "after")?;
    pattern.compare("destination", rig.window(destination, size)?.slice()?)?;
    rig.check_guard(destination, size)?;
    Ok(Outcome::Differs(vec![RETRY_READ_LATE]))
}
