//! The library from C: the header says what the library has, and a program that is written after it
//! compiles, links and runs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod compiler;
mod example;
mod fork;
mod header;
