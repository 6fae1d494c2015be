//! Copies: descriptors, doorbells, cursors and bytes.
//!
//! | module | modes |
//! |---|---|
//! | [`copies`] | `sync`, `memset` |
//! | [`wrap`] | `wrap` |
//! | [`asynchronous`] | `async` |
//! | [`zerocopy`] | `zerocopy` |
//! | [`timeout`] | `timeout`, `timeout_then_retry_in_reset_window` |
//! | [`slots`] | `prepare`, `fill`, `start`: one queue, below the driver |
//! | [`rig`] | the driver and a process on a fresh device, for one case |
//! | [`batch`] | recorded batches, rings and cursors |
//!
//! The copies go through the driver's ioctls on a device whose engines move bytes.

pub mod asynchronous;
pub mod batch;
pub mod copies;
pub mod rig;
pub mod slots;
pub mod timeout;
pub mod wrap;
pub mod zerocopy;

use neuron_abi::arch::Generation;

use crate::kinds::bench::Bench;
use crate::vectors::{Mismatch, Object, Outcome};

/// Modes that are run together: they take about as long as the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `sync` and `memset`.
    Copies,
    /// `async`.
    Asynchronous,
    /// `wrap`.
    Wrap,
    /// All the rest, unknown modes included.
    Rest,
}

impl Group {
    /// The kind of a case of this group: its mode.
    pub fn kind(self, case: &Object<'_>) -> Option<String> {
        let mode = case.text("mode").unwrap_or("(no mode)");
        let group = match mode {
            "sync" | "memset" => Self::Copies,
            "async" => Self::Asynchronous,
            "wrap" => Self::Wrap,
            _ => Self::Rest,
        };
        (group == self).then(|| mode.to_owned())
    }
}

/// Compares cases of one generation.
pub struct Checker {
    bench: Bench,
}

impl Checker {
    /// A checker with host memory for its machines.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(generation: Generation) -> Result<Self, Mismatch> {
        Ok(Self { bench: Bench::new(generation)? })
    }

    /// Compares one case.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        let outcome = match case.text("mode")? {
            "sync" => copies::sync(&self.bench, case),
            "memset" => copies::memset(&self.bench, case),
            "async" => asynchronous::check(&self.bench, case),
            "wrap" => wrap::check(&self.bench, case),
            "timeout" => timeout::check(&self.bench, case),
            "timeout_then_retry_in_reset_window" => timeout::retry(&self.bench, case),
            "prepare" => slots::prepare(self.bench.generation(), case),
            "fill" => slots::fill(self.bench.generation(), case),
            "start" => slots::start(self.bench.generation(), case),
            "zerocopy" => zerocopy::check(&self.bench, case),
            mode => Err(Mismatch::new(format!("unknown mode {mode}"))),
        }?;
        // Every machine of the case is gone; so must be what it allocated.
        self.bench.check_host_memory()?;
        Ok(outcome)
    }
}
