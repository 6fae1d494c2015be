//! Sessions: a process opens the device, calls ioctls with bytes and addresses of its own,
//! and exits.
//!
//! | module | what lives there |
//! |---|---|
//! | [`session`] | a session on a machine: steps done and compared |
//! | [`step`] | one recorded ioctl |
//! | [`memory`] | the process's memory |
//! | [`promise`] | what we promise for a step |
//! | [`ledger`] | what a session did so far, and where the recorder's driver did otherwise |
//! | [`close`] | the exit |
//! | [`rows`] | rows of the table that only sessions meet |
//!
//! Up to the first step of a starred row all is compared with the recording. From there on
//! so is whatever does not depend on that row, by the queue, ring or bytes that it is about;
//! the rest is compared with what the ledger works out.

pub mod close;
pub mod ledger;
pub mod memory;
pub mod promise;
pub mod rows;
pub mod session;
pub mod step;

use neuron_abi::arch::Generation;

use crate::machine::Placement;
use crate::vectors::{Difference, Mismatch, Object, Outcome};

/// Compares sessions of one generation.
#[derive(Clone, Copy, Debug)]
pub struct Checker {
    generation: Generation,
    placement: Placement,
    /// Rows of the table that name the sessions' file, if not all of this module's do.
    rows: Option<&'static [Difference]>,
}

impl Checker {
    /// Compares `ioctl.jsonl`.
    pub const fn sessions(generation: Generation) -> Self {
        Self { generation, placement: Placement::LowestOrTop, rows: None }
    }

    /// Compares `ioctl_clean.jsonl`: long sessions that no row is about.
    pub const fn clean(generation: Generation) -> Self {
        Self { generation, placement: Placement::Lowest, rows: Some(&[]) }
    }

    /// Compares `ioctl_h2t.jsonl`: rings claimed and released.
    pub const fn h2t(generation: Generation) -> Self {
        const ROWS: &[Difference] = &[rows::RESIDUAL, rows::RINGS_LEFT, rows::SERVICE_RINGS_LEFT];
        Self { generation, placement: Placement::LowestOrTop, rows: Some(ROWS) }
    }

    /// The kind of a session: its case's name.
    pub fn kind(case: &Object<'_>) -> Option<String> {
        case.text("case").ok().map(str::to_owned)
    }

    /// Compares one session.
    ///
    /// # Errors
    /// What differs.
    pub fn check(self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        // It names the case for people.
        case.skip("seed");
        let outcome = session::check(self.generation, self.placement, case)?;
        match (&outcome, self.rows) {
            (Outcome::Differs(met), Some(rows)) => match met.iter().find(|row| !rows.contains(row)) {
                Some(row) => Err(Mismatch::new(format!("no row of this file: {}", row.recorded))),
                None => Ok(outcome),
            },
            _ => Ok(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::{Fields, cases, every_change_is_noticed, is};
    use serde_json::Value;

    fn session(name: &str) -> Fields {
        cases("v2/ioctl.jsonl").into_iter().find(|case| is(case, "case", name)).unwrap()
    }

    #[test]
    fn a_session_with_one_wrong_value_fails() {
        let changes = [
            ("/device/dummy_ring", Value::from("0x100018401000")),
            ("/steps/0/mem_out/0/1", Value::from("0200000000000000")),
            ("/steps/5/ret", Value::from(-22)),
            ("/steps/5/mmio/0/3", Value::from("0x3")),
            ("/steps/6/mem_out/0/1/fnv", Value::from("0x1")),
            ("/steps/14/ret", Value::from(0)),
            ("/close/host_mem_before", Value::from(4_796_416)),
            ("/close/dev_mem_after", Value::from(0)),
        ];
        let checker = Checker::sessions(Generation::V2);
        every_change_is_noticed(&session("copies"), &changes, |case| checker.check(case));
    }

    #[test]
    fn a_wrong_value_behind_a_starred_row_is_noticed() {
        let case = session("queue_ioctls");
        let inits = case["steps"].as_array().unwrap().iter().enumerate();
        let starred = inits
            .filter(|(_, step)| step["ioctl"] == "DMA_QUEUE_INIT" && step["ret"] == 0)
            .map(|(number, _)| number)
            .max()
            .unwrap();
        let last = case["steps"].as_array().unwrap().len() - 1;
        assert!(starred < last, "the last init has a count above its chunk");
        let output = format!("/steps/{last}/mem_out/0/1");
        let zeros = "0".repeat(2 * 96);
        let changes = [
            (format!("/steps/{starred}/ret"), Value::from(-22)),
            (format!("/steps/{}/ret", last - 1), Value::from(-22)),
            (output, Value::from(zeros)),
            ("/close/mmio/17/3".to_owned(), Value::from("0x7")),
            ("/close/mmio/59/3".to_owned(), Value::from("0x7")),
        ];
        let changes: Vec<_> = changes.iter().map(|(place, value)| (place.as_str(), value.clone())).collect();
        let checker = Checker::sessions(Generation::V2);
        every_change_is_noticed(&case, &changes, |case| checker.check(case));
    }

    #[test]
    fn a_row_of_another_file_is_no_excuse() {
        let case = session("range_check_wraps");
        let check = |checker: Checker| checker.check(&Object::new(&case));
        assert!(matches!(check(Checker::sessions(Generation::V2)), Ok(Outcome::Differs(_))));
        assert!(check(Checker::clean(Generation::V2)).is_err());
        assert!(check(Checker::h2t(Generation::V2)).is_err());
    }
}
