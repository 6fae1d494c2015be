//! What is compared for each kind of case. The kinds' fields are described in the cases'
//! README; a kind's module says how we are asked for the same.
//!
//! | module | file |
//! |---|---|
//! | [`descriptor_count`] | `desc_count.jsonl` |
//! | [`arch`] | `arch.jsonl` |
//! | [`numbers`] | `ioctl_numbers.jsonl` |
//! | [`engine`] | `engine_init.jsonl` |
//! | [`queue`] | `queue_init.jsonl` |
//! | [`memcpy`] | `memcpy.jsonl` |
//! | [`ioctl`] | `ioctl.jsonl`, `ioctl_clean.jsonl`, `ioctl_h2t.jsonl` |
//! | [`mempool`] | `mempool.jsonl.gz` |
//! | [`ring`] | `ring.jsonl`, `ring_dynamic.jsonl`, `ring_clean.jsonl` |

pub mod arch;
pub mod bench;
pub mod cursors;
pub mod descriptor_count;
pub mod engine;
pub mod ioctl;
pub mod memcpy;
pub mod mempool;
pub mod numbers;
pub mod queue;
pub mod ring;

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;
use neuron_driver::arch::Arch;
use neuron_udma::{EngineParams, UdmaError};

use crate::machine::{Access, equal_accesses};
use crate::vectors::{Mismatch, Object, equal, equal_hex, fnv};

/// What a caller of the UDMA layer sees, by the errors' documentation.
fn udma_ret(result: Result<(), UdmaError>) -> i64 {
    let errno = match result {
        Ok(()) => return 0,
        Err(UdmaError::Invalid(_)) => Errno::EINVAL,
        Err(UdmaError::Refused(_)) => Errno::EPERM,
        Err(UdmaError::NoSlot) => Errno::ENOMEM,
        Err(UdmaError::Register(_)) => Errno::EIO,
    };
    errno.negated().into()
}

/// Compares accesses with those of a step: given as `mmio`, as `mmio_count` and `mmio_fnv`,
/// or not at all, when none was made.
fn equal_recorded(ours: &[Access], step: &Object<'_>) -> Result<(), Mismatch> {
    if step.has("mmio_count") {
        equal("mmio_count", ours.len() as u64, step.number("mmio_count")?)?;
        equal_hex("mmio_fnv", fnv::of_accesses(ours), step.number("mmio_fnv")?)?;
    }
    if step.has("mmio") || !step.has("mmio_count") {
        let recorded = if step.has("mmio") { step.accesses("mmio")? } else { Vec::new() };
        equal_accesses("mmio", ours, &recorded)?;
    }
    Ok(())
}

/// How the driver initialises an engine of this generation.
fn engine_params(generation: Generation, engine: u32) -> Result<EngineParams, Mismatch> {
    Arch::of(generation)
        .engine_params(engine)
        .ok_or_else(|| Mismatch::new(format!("we know no engine {engine}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{Folder, Outcome};
    use serde_json::{Map, Value};
    use std::path::Path;

    pub(super) type Fields = Map<String, Value>;

    pub(super) fn cases(file: &str) -> Vec<Fields> {
        let folder = Folder::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("golden"));
        folder.read(file).unwrap().unwrap().into_iter().map(|case| case.fields).collect()
    }

    pub(super) fn is(fields: &Fields, field: &str, value: impl Into<Value>) -> bool {
        fields.get(field) == Some(&value.into())
    }

    /// The case passes as it is, and no longer with any one of these values replaced.
    pub(super) fn every_change_is_noticed(
        fields: &Fields,
        changes: &[(&str, Value)],
        check: impl Fn(&Object<'_>) -> Result<Outcome, Mismatch>,
    ) {
        let passed = check(&Object::new(fields));
        assert!(matches!(passed, Ok(Outcome::Compared | Outcome::Differs(_))), "{passed:?}");
        for (pointer, value) in changes {
            let mut changed = Value::Object(fields.clone());
            let place = changed.pointer_mut(pointer).unwrap();
            assert_ne!(place, value, "{pointer} is no change");
            *place = value.clone();
            assert!(check(&Object::new(changed.as_object().unwrap())).is_err(), "{pointer}");
        }
    }

    #[test]
    fn a_queue_case_with_one_wrong_value_fails() {
        let cases = cases("v2/queue_init.jsonl");
        let case = cases.iter().find(|case| is(case, "ret", 0)).unwrap();
        let changes = [
            ("/ret", Value::from(-1)),
            ("/mmio/3/3", Value::from(77)),
            ("/mmio/0/0", Value::from("r")),
            ("/rx/cfg", Value::from(0)),
            ("/tx/ring_id", Value::from(2)),
        ];
        every_change_is_noticed(case, &changes, |case| queue::check(Generation::V2, case));
    }

    #[test]
    fn a_copy_case_with_one_wrong_value_fails() {
        let cases = cases("v3/memcpy.jsonl");
        let case = cases.iter().find(|case| is(case, "mode", "sync") && is(case, "dir", "d2h")).unwrap();
        let zeros = "0".repeat(32);
        let changes = [
            ("/ret", Value::from(-1)),
            ("/src", Value::from("0x1000000")),
            ("/ring/marker_base", Value::from("0x400018451000")),
            ("/batches/0/mmio/1/3", Value::from(3)),
            ("/batches/0/marker/1", Value::from(zeros.as_str())),
            ("/batches/0/first/0/2", Value::from(zeros.as_str())),
            ("/before/tx/next_desc", Value::from(1)),
            ("/after/rx/next_cdesc", Value::from(0)),
        ];
        let checker = memcpy::Checker::new(Generation::V3).unwrap();
        every_change_is_noticed(case, &changes, |case| checker.check(case));
    }
}
