//! The functions that the library exports, called as C calls them (`spec/nrt-abi.md` 4, 7).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "what C would do, call after call")]

#[path = "../common/mod.rs"]
mod common;

mod batches;
mod info;
mod life;
mod memory;
mod model;
mod sets;
mod tensors;
mod threads;
mod transfers;
