//! The defects of the shipped driver (`spec/driver.md` 10), by number: each test shows
//! what a correct driver does, and would fail with the defect in it. Which defects have
//! no test, and why, is in `docs/defects.md`.
//!
//! Modules are named so that `cargo test defects` runs all of them, and nothing else.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod copy_defects;
mod memory_defects;
mod process_defects;
mod rig;
mod ring_defects;
