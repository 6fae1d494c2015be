//! A machine that writes down what the driver does to it.
//!
//! | module | what lives there |
//! |---|---|
//! | [`access`] | one register access, and how lists of them differ |
//! | [`registers`] | registers with nothing behind them: they keep what is written |
//! | [`recorder`] | hardware in front of other hardware, which records and disturbs |
//! | [`failing`] | hardware in front of a device, whose n-th call of a kind fails |
//! | [`mirror`] | registers that keep what is written, in front of a device |
//! | [`queues`] | what the engines' side sees of queues: rings, tails, batches |
//! | [`programming`](mod@programming) | the writes that program a queue |
//! | [`board`] | a driver on a recorded machine, and the bytes at any bus address |
//! | [`user_pages`] | a process's pages that a device can be given |
//! | [`pattern`] | bytes that tell where they came from |

pub mod access;
pub mod board;
pub mod failing;
pub mod mirror;
pub mod pattern;
pub mod programming;
pub mod queues;
pub mod recorder;
pub mod registers;
pub mod user_pages;

pub use access::{Access, Op, equal_accesses};
pub use board::{Board, Window};
pub use failing::{Call, Failing};
pub use mirror::Placement;
pub use pattern::Pattern;
pub use programming::programming;
pub use queues::{Batch, Pair};
pub use recorder::Recorder;
pub use registers::Registers;
pub use user_pages::UserPages;
