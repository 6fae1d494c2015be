#![forbid(unsafe_code)]
//! The harness of the whole-stack tests: recorded cases in, a driver on a machine that
//! writes everything down, and a table of what was compared.
//!
//! | you look for | go to |
//! |---|---|
//! | reading cases, counting them, telling what differs | [`vectors`] |
//! | hardware that records, registers without a device, a driver on top | [`machine`] |
//! | a process that calls ioctls from memory of its own | [`client`] |
//! | devices of one machine, with engines that move bytes | [`rig`] |
//! | what is compared for each kind of case | [`kinds`] |
//! | processes that call anything at all | [`hostile`] |
//!
//! The cases are in `golden/`; its README says what each field means. Nothing here
//! panics on a case: whatever is wrong with one is reported with its file and line.

pub mod client;
pub mod hostile;
pub mod kinds;
pub mod machine;
pub mod rig;
pub mod vectors;
