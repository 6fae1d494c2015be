//! A machine in a server, used by processes: this one, and children of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;
mod use_of;
