//! The ring layer: engines and queues brought up, bound, asked, claimed and let go.
//!
//! | module | cases |
//! |---|---|
//! | [`bring_up`] | `init_ncs` |
//! | [`exit`] | `process_exit` |
//! | [`bind`] | `queue_init` |
//! | [`query`] | `descriptor_info`, `queue_get_state` |
//! | [`state`] | `engine_set_state`, `engine_get_state`, `engine_state_bad_engine` |
//! | [`doorbell`] | `copy_start`, `ack_completed` |
//! | [`claims`] | those of `ring_dynamic.jsonl` and `ring_clean.jsonl` |
//! | [`table`], [`place`] | ring tables, and memory at recorded addresses, for all of them |
//!
//! The driver's own methods are called, below its ioctls: process ids are arguments.

pub mod bind;
pub mod bring_up;
pub mod claims;
pub mod doorbell;
pub mod exit;
pub mod place;
pub mod query;
pub mod state;
pub mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;

use super::bench::Bench;
use crate::vectors::difference::{QUIESCE, SUPERSEDED};
use crate::vectors::{Folder, Mismatch, Object, Outcome};

/// Compares cases of `ring.jsonl`.
pub struct Checker {
    bench: Bench,
    /// Cases that a line of a later version has too.
    superseded: BTreeSet<String>,
}

impl Checker {
    /// A checker for the cases of `file`.
    ///
    /// # Errors
    /// If the file cannot be read, or there is no host memory.
    pub fn new(generation: Generation, file: &str) -> Result<Self, Mismatch> {
        let cases = Folder::from_environment()?.read(file)?.unwrap_or_default();
        let later = cases.iter().map(|case| Object::new(&case.fields)).filter(|case| case.has("version"));
        let identities: Vec<_> = later.map(|case| identity(&case)).collect::<Result<_, _>>()?;
        let superseded = identities.into_iter().flatten().collect();
        Ok(Self { bench: Bench::new(generation)?, superseded })
    }

    /// Compares one case.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        if case.has("version") {
            case.skip("version");
        } else if identity(case)?.is_some_and(|identity| self.superseded.contains(&identity)) {
            case.skip_all();
            return Ok(Outcome::Differs(vec![SUPERSEDED]));
        }
        let outcome = match case.text("case")? {
            "init_ncs" => bring_up::check(&self.bench, case),
            "process_exit" => exit::check(&self.bench, case),
            "queue_init" => bind::check(&self.bench, case),
            "descriptor_info" => query::descriptor_info(&self.bench, case),
            "queue_get_state" => query::queue_state(&self.bench, case),
            "engine_set_state" => state::set(&self.bench, case),
            "engine_get_state" => state::get(&self.bench, case),
            "engine_state_bad_engine" => state::bad_engine(&self.bench, case),
            "copy_start" => doorbell::start(&self.bench, case),
            "ack_completed" => doorbell::acknowledge(&self.bench, case),
            "quiesce" => {
                // The writes of a function that later drivers do not have.
                case.skip_all();
                return Ok(Outcome::Differs(vec![QUIESCE]));
            }
            case => Err(Mismatch::new(format!("unknown case {case}"))),
        }?;
        self.bench.check_host_memory()?;
        Ok(outcome)
    }
}

/// What two lines of the same case have in common: seed, note or steps. Cases of other
/// names were recorded once.
fn identity(case: &Object<'_>) -> Result<Option<String>, Mismatch> {
    let name = case.text("case")?;
    Ok(Some(match name {
        "init_ncs" => {
            let steps = case.objects("steps")?;
            let one = |step: &Object<'_>| Ok(format!("{} {:#x}", step.text("op")?, step.number("nc_map")?));
            let steps: Vec<String> = steps.iter().map(one).collect::<Result<_, Mismatch>>()?;
            format!("{name}: {}", steps.join(", "))
        }
        "process_exit" => format!("{name} {}", case.number("seed")?),
        "queue_init" => format!("{name} {}", case.text("note")?),
        _ => return Ok(None),
    }))
}

/// What a caller sees of a driver method.
fn ret<T>(result: &Result<T, Errno>) -> i64 {
    match result {
        Ok(_) => 0,
        Err(errno) => errno.negated().into(),
    }
}
