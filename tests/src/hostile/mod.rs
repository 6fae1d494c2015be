//! Hostile processes: calls that are nearly right, half right, or noise, on a device that
//! somebody else uses too. `tests/hostile` makes a million of them from seeds, the fuzz
//! targets as many as a fuzzer likes from its bytes, both by this code.
//!
//! | module | what lives there |
//! |---|---|
//! | [`choices`] | the numbers that decide: a seed's, or a fuzzer's |
//! | [`fields`] | what each command's argument means |
//! | [`generator`] | calls made of the two |
//! | [`watched`] | the caller's memory, with a witness |
//! | [`victim`] | the process that must not notice |
//! | [`session`] | all of it on one device, and what must hold |
//!
//! What must hold, whatever is called:
//! - No panic.
//! - A call reads and writes its caller's memory only where its argument says.
//! - The victim's chunks and rings keep their bytes and their places. A process that is not
//!   attached can change nothing; an attached one may name any handle, as the ABI has it, so
//!   what it names is no longer looked at.
//! - Counters equal the sums of what lives, and stay within what there is.
//! - In the end the device works after a reset, and nothing is left.

pub mod choices;
pub mod fields;
pub mod generator;
pub mod session;
pub mod victim;
pub mod watched;

pub use choices::Choices;
pub use generator::Generator;
pub use session::{Attachment, Session};
