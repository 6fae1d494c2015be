//! Many copies of one size around a ring: indices and phases at each wrap.

use neuron_abi::cmd;
use serde_json::Value;

use super::batch::{all_on, equal_cursors, equal_pair, ring};
use super::copies::{copy_argument, ends};
use super::rig::Rig;
use crate::kinds::bench::Bench;
use crate::machine::Pair;
use crate::vectors::object::{bytes, number};
use crate::vectors::{Mismatch, Object, Outcome, equal};

/// A descriptor pair beside a wrap.
struct Shown {
    /// Counted over all copies, from 0.
    absolute: usize,
    /// Ring ids of (TX, RX).
    phases: (u8, u8),
    pair: Pair,
}

/// Compares one case.
///
/// # Errors
/// What differs.
pub fn check(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let rig = Rig::running(bench)?;
    let (size, core) = (case.number("size")?, case.word("nc")?);
    let (source, destination) = ends(&rig, case, (core, core))?;
    let ring = ring(&rig.board, case)?;
    let pattern = bench.pattern();
    pattern.fill(rig.window(source, size)?.slice()?)?;
    rig.guard(destination, size)?;

    let (mut batches, mut pairs, mut phases_right) = (0, Vec::new(), true);
    for copy in 0..case.number("copies")? {
        let ret = rig.client.call(&cmd::MEM_COPY64, &mut copy_argument(source, destination, size));
        equal(format!("ret of copy {copy}"), ret, case.signed("ret")?)?;
        let recording = rig.board.take();
        all_on(&recording, &ring)?;
        for batch in recording.batches {
            batches += 1;
            phases_right &= batch.phases_right;
            pairs.extend(batch.pairs);
        }
    }

    equal("batches", batches, case.number("batches")?)?;
    equal("total_desc", pairs.len() as u64, case.number("total_desc")?)?;
    let right = phases_right && rig.board.engines_found_no_error();
    equal("phase_ok", right, case.flag("phase_ok")?)?;
    equal_cursors(&rig.board, &ring, case, "after")?;
    for value in case.list("windows")? {
        let shown = shown(value).ok_or_else(|| Mismatch::new(format!("no window entry: {value}")))?;
        let none = || Mismatch::new(format!("we have no descriptor {}", shown.absolute));
        let ours = pairs.get(shown.absolute).ok_or_else(none)?;
        let what = format!("descriptor {}", shown.absolute);
        equal_pair(&what, ours, &shown.pair)?;
        equal(format!("phases of {what}"), ours.phases(), shown.phases)?;
    }
    pattern.compare("destination", rig.window(destination, size)?.slice()?)?;
    rig.check_guard(destination, size)?;
    Ok(Outcome::Compared)
}

/// `[absolute number, ring index, tx phase, rx phase, tx bytes, rx bytes]`.
fn shown(value: &Value) -> Option<Shown> {
    let [absolute, index, tx_phase, rx_phase, tx, rx] = value.as_array()?.as_slice() else { return None };
    let phase = |value| u8::try_from(number(value)?).ok();
    Some(Shown {
        absolute: usize::try_from(number(absolute)?).ok()?,
        phases: (phase(tx_phase)?, phase(rx_phase)?),
        pair: Pair {
            index: u32::try_from(number(index)?).ok()?,
            tx: bytes(tx)?.try_into().ok()?,
            rx: bytes(rx)?.try_into().ok()?,
        },
    })
}
