//! Recorded cases: where they are, how they are read, and what became of each.
//!
//! | module | what lives there |
//! |---|---|
//! | [`files`] | the folder, its files, one case a line |
//! | [`object`] | a case's fields, each of which has to be looked at |
//! | [`mismatch`] | how a difference is told |
//! | [`difference`] | the differences that are meant |
//! | [`tally`] | running all cases of a file and counting them |
//! | [`fnv`] | the hash that stands for long lists and large buffers |
//!
//! What is compared is in [`kinds`](crate::kinds).

pub mod difference;
pub mod files;
pub mod fnv;
pub mod mismatch;
pub mod object;
pub mod tally;

pub use difference::Difference;
pub use files::Folder;
pub use mismatch::{Mismatch, equal, equal_hex};
pub use object::Object;
pub use tally::{Failures, Outcome, run};
