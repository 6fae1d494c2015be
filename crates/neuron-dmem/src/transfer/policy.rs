//! Which plan a staged copy follows, and the device's state behind the choice.

use std::sync::Arc;

use neuron_abi::limits::MAX_CORES;

use super::chunks::{ChunkPlan, SINGLE_PASS_MAX};
use super::learner::{Choice, Learner, Way};
use crate::error::TransferDirection;
use crate::trace::{Clock, monotonic};

/// How staged copies are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkPolicy {
    /// By the runtime's table: the same requests, byte for byte.
    #[default]
    Exact,
    /// By whichever of the two others has been faster on this core for such sizes (our
    /// addition).
    Adaptive,
    /// One chunk after the other, each waited for (our addition).
    Serial,
}

/// A device's policy and what it has learned of each core.
pub(crate) struct Chunking {
    policy: ChunkPolicy,
    clock: Clock,
    cores: [[Learner; 2]; MAX_CORES as usize],
}

impl std::fmt::Debug for Chunking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunking").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// A copy that is being timed.
pub(super) struct Trial<'a> {
    clock: &'a Clock,
    learner: &'a Learner,
    size: u64,
    way: Way,
    /// Nanoseconds.
    start: u64,
}

impl Chunking {
    /// `clock` is for tests.
    pub(crate) fn new(policy: ChunkPolicy, clock: Option<Clock>) -> Self {
        let clock = clock.unwrap_or_else(|| Arc::new(monotonic));
        Self { policy, clock, cores: Default::default() }
    }

    pub(crate) const fn policy(&self) -> ChunkPolicy {
        self.policy
    }

    /// The plan of a copy that begins now. Called with the core's bounce buffer held, so that
    /// no wait for that is timed.
    pub(super) fn begin(
        &self,
        core: u32,
        direction: TransferDirection,
        size: u64,
    ) -> (ChunkPlan, Option<Trial<'_>>) {
        match self.policy {
            ChunkPolicy::Exact => (ChunkPlan::exact(size), None),
            ChunkPolicy::Serial => (ChunkPlan::serial(), None),
            // One pass either way.
            ChunkPolicy::Adaptive if size <= SINGLE_PASS_MAX => (ChunkPlan::exact(size), None),
            ChunkPolicy::Adaptive => self.adapt(core, direction, size),
        }
    }

    fn adapt(&self, core: u32, direction: TransferDirection, size: u64) -> (ChunkPlan, Option<Trial<'_>>) {
        let Some([way_in, way_out]) = self.cores.get(core as usize) else {
            return (ChunkPlan::exact(size), None);
        };
        let learner = match direction {
            TransferDirection::In => way_in,
            TransferDirection::Out => way_out,
        };
        let Choice { way, timed } = learner.choose(size);
        let plan = match way {
            Way::Exact => ChunkPlan::exact(size),
            Way::Serial => ChunkPlan::serial(),
        };
        let clock = &self.clock;
        (plan, timed.then(|| Trial { clock, learner, size, way, start: clock() }))
    }
}

impl Trial<'_> {
    /// The copy arrived. One that failed is dropped and teaches nothing.
    pub(super) fn end(self) {
        let took = (self.clock)().saturating_sub(self.start);
        self.learner.took(self.size, self.way, took);
    }
}
