//! Zero-copy through its ioctls: what the recorded cases do not show.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod asynchronous;
mod batches;
mod blocking;
mod defects;
mod direct;
mod rig;
