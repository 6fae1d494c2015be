//! The out-of-memory report, written and read back.
//!
//! | module | what it shows |
//! |---|---|
//! | `cases` | tables and lines of real logs are read, and written again to the byte |
//! | `round_trip` | reports of random states are read back within their printed precision |
//! | `golden` | every form of one report, as text |
//! | `stack` | reports of real refusals on the software device, and their files |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod cases;
mod golden;
mod round_trip;
mod stack;
