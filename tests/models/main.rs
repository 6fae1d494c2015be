//! Models of the driver's races: a few processes, an engine that really moves bytes, and a
//! scheduler that decides at every lock, atomic and poll who goes on (`scripts/models.sh`).
//!
//! | module | race |
//! |---|---|
//! | [`copies`] | acknowledging against looking for free slots |
//! | [`claims`] | several claims of one engine's queues |
//! | [`exits`] | binding and starting queues against the exit of a process |
//! | [`references`] | who lets a chunk go last |
//! | [`markers`] | a batch that ends while its wait gives up |
//! | [`zero_copy`] | asynchronous zero-copy against its reader, an exit, the device's end |
//! | [`resets`] | core resets against copies, and against each other |
//! | [`handles`] | the allocator's handles: last references against lists, maps, teardown |
//! | [`machine`], [`engine`], [`memory`], [`rig`] | what the driver runs on here |
//!
//! What is explored are interleavings, as if memory were sequentially consistent: which
//! ordering an atomic needs is for `scripts/sanitizers.sh`. Without `--cfg shuttle` this test
//! is empty.
#![cfg(shuttle)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a model stops at the first surprise"
)]

mod claims;
mod copies;
mod engine;
mod exits;
mod handles;
mod machine;
mod markers;
mod memory;
mod references;
mod resets;
mod rig;
mod zero_copy;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler, UrwRandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Where the schedules start: the same ones in every run. `SHUTTLE_RANDOM_SEED` is another
/// start, and `MODELS_SCALE` multiplies how many there are.
const SEED: u64 = 0x6e65_7572_6f6e;
/// Preemptions that a schedule of the PCT scheduler has, and one.
const PCT_DEPTH: usize = 4;
/// A schedule that is longer is one in which somebody waits for ever.
const STEPS: usize = 200_000;

/// Runs a model under `schedules` schedules of each kind: at random, and with few preemptions,
/// which finds what needs one thread to rest for long.
fn explore(schedules: usize, model: fn()) {
    run(RandomScheduler::new_from_seed(SEED, scaled(schedules)), model);
    run(PctScheduler::new_from_seed(SEED, PCT_DEPTH, scaled(schedules)), model);
}

/// The same, and evenly over all interleavings, which finds what a short thread does at the
/// end of a long one. For models in which nobody polls: whoever does would starve the others.
fn explore_evenly(schedules: usize, model: fn()) {
    explore(schedules, model);
    run(UrwRandomScheduler::new_from_seed(SEED, scaled(schedules)), model);
}

fn scaled(schedules: usize) -> usize {
    schedules * std::env::var("MODELS_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

fn run(scheduler: impl Scheduler + 'static, model: fn()) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(model);
}
