//! Recorded batches and rings, and the same of ours.

use std::sync::Arc;

use neuron_driver::ring::H2tRing;
use serde_json::Value;

use crate::kinds::cursors::{cursors, recorded_cursors};
use crate::machine::recorder::Recording;
use crate::machine::{Batch, Board, Pair, equal_accesses};
use crate::vectors::object::{bytes, number};
use crate::vectors::{Mismatch, Object, equal, equal_hex};

/// Data descriptors shown from each end of a batch.
const SHOWN: usize = 3;

/// Compares our cursors of a ring with recorded ones.
///
/// # Errors
/// If they differ.
pub fn equal_cursors(board: &Board, ring: &H2tRing, case: &Object<'_>, field: &str) -> Result<(), Mismatch> {
    let ours = cursors(board.device(), ring.engine(), ring.qid())?;
    equal(format!("cursors {field}"), ours, recorded_cursors(case, field)?)
}

/// The default ring of our driver that a case is about, which is where it was recorded.
///
/// # Errors
/// If ours is not the same.
pub fn ring(board: &Board, case: &Object<'_>) -> Result<Arc<H2tRing>, Mismatch> {
    let recorded = case.object("ring")?;
    let (engine, qid) = (recorded.word("engine")?, recorded.word("qid")?);
    let rings = board.device().engines().h2t_rings();
    let ring = rings
        .into_iter()
        .find(|ring| (ring.engine(), ring.qid()) == (engine, qid))
        .ok_or_else(|| Mismatch::new(format!("we have no ring on queue {qid} of engine {engine}")))?;
    let (tx, rx) = ring.bases();
    equal_hex("tx_base", tx.base.unwrap_or(0), recorded.number("tx_base")?)?;
    equal_hex("rx_base", rx.base.unwrap_or(0), recorded.number("rx_base")?)?;
    equal("desc", (tx.size.into(), rx.size.into()), (recorded.number("desc")?, recorded.number("desc")?))?;
    let marker = ring.marker(0).map_err(|errno| Mismatch::new(errno.to_string()))?;
    equal_hex("marker_base", marker.copy().source, recorded.number("marker_base")?)?;
    recorded.finish().map_err(|error| error.at("ring"))?;
    Ok(ring)
}

/// Whether all accesses belong to batches on this ring, whose memory is where the
/// registers say.
///
/// # Errors
/// If not.
pub fn all_on(recording: &Recording, ring: &H2tRing) -> Result<(), Mismatch> {
    let (tx, rx) = ring.bases();
    for batch in &recording.batches {
        equal("engine and queue", (batch.engine, batch.qid), (ring.engine(), ring.qid()))?;
        equal("rings in the registers", (Some(batch.bases.0), Some(batch.bases.1)), (tx.base, rx.base))?;
    }
    no_access_outside(recording)
}

/// Whether all accesses belong to batches.
///
/// # Errors
/// If not.
pub fn no_access_outside(recording: &Recording) -> Result<(), Mismatch> {
    let in_batches = recording.batches.iter().map(|batch| batch.accesses.len()).sum();
    equal("accesses in all, and in batches", recording.accesses.len(), in_batches)
}

/// Compares our batches with the recorded ones.
///
/// # Errors
/// The first that differs.
pub fn equal_batches(ours: &[Batch], recorded: &[Object<'_>]) -> Result<(), Mismatch> {
    equal("batches", ours.len(), recorded.len())?;
    for (number, (ours, recorded)) in ours.iter().zip(recorded).enumerate() {
        equal_batch(ours, recorded)
            .and_then(|()| recorded.finish())
            .map_err(|error| error.at(format!("batch {number}")))?;
    }
    Ok(())
}

fn equal_batch(ours: &Batch, recorded: &Object<'_>) -> Result<(), Mismatch> {
    let desc = recorded.word("desc")?;
    equal("descriptors rung (TX, RX)", ours.counts, (desc, desc))?;
    equal("start indices (TX, RX)", ours.starts, (recorded.word("tx_start")?, recorded.word("rx_start")?))?;
    equal_accesses("mmio", &ours.accesses, &recorded.accesses("mmio")?)?;
    equal("descriptors found", ours.pairs.len() as u64, desc.into())?;
    let (marker, data) = ours.pairs.split_last().ok_or_else(|| Mismatch::new("no descriptor"))?;
    equal("data_desc", data.len() as u64, recorded.number("data_desc")?)?;
    let shown = SHOWN.min(data.len());
    equal_pairs("first", data.get(..shown), recorded.list("first")?)?;
    equal_pairs("last", data.get(data.len() - shown..), recorded.list("last")?)?;
    let wanted = Value::Array(recorded.list("marker")?.to_vec());
    equal_pairs("marker", Some(std::slice::from_ref(marker)), &[wanted])?;
    equal("each descriptor carries the phase of its lap", ours.phases_right, true)
}

fn equal_pairs(what: &str, ours: Option<&[Pair]>, recorded: &[Value]) -> Result<(), Mismatch> {
    let ours = ours.unwrap_or_default();
    equal(format!("{what} descriptors shown"), ours.len(), recorded.len())?;
    for (ours, recorded) in ours.iter().zip(recorded) {
        let wanted =
            pair(recorded).ok_or_else(|| Mismatch::new(format!("no descriptor pair: {recorded}")))?;
        equal_pair(what, ours, &wanted)?;
    }
    Ok(())
}

/// `[ring index, tx bytes, rx bytes]`.
fn pair(value: &Value) -> Option<Pair> {
    let [index, tx, rx] = value.as_array()?.as_slice() else { return None };
    Some(Pair {
        index: u32::try_from(number(index)?).ok()?,
        tx: bytes(tx)?.try_into().ok()?,
        rx: bytes(rx)?.try_into().ok()?,
    })
}

/// Compares a pair byte for byte.
///
/// # Errors
/// If they differ, in hex.
pub fn equal_pair(what: &str, ours: &Pair, recorded: &Pair) -> Result<(), Mismatch> {
    if ours == recorded {
        return Ok(());
    }
    let show = |pair: &Pair| {
        let Pair { index, tx, rx } = pair;
        format!("[{index}] tx {:032x} rx {:032x}", u128::from_be_bytes(*tx), u128::from_be_bytes(*rx))
    };
    Err(Mismatch::new(format!("{what}: ours {}, recorded {}", show(ours), show(recorded))))
}
