//! A fault at call k, for every k: register reads, register writes, host memory,
//! allocations, doorbells. A driver's scripted life runs once to count its calls, then once
//! for each of them with that one failing. The step that is struck answers the documented
//! errno, the process gives up and exits, nothing of it stays, and the next process on the
//! same device does its copies right.
//!
//! | module | what is struck |
//! |---|---|
//! | `bring_up` | a probe: it fails, gives everything back, and the next one succeeds |
//! | `life` | the script of a process |
//! | `process` | that process |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod bring_up;
mod life;
mod process;
mod rig;
