//! What stands between a program and a device, over made-up `/dev`, `/sys` and `/proc` trees and backends that
//! answer as told. Where a device opens, the real driver answers behind it.
//!
//! | module | what lives there |
//! |---|---|
//! | `tree` | trees, piece by piece |
//! | `answers` | backends that answer as told |
//! | `matrix` | tree by tree: which checks say what |
//! | `opening` | every errno of opening, explained |
//! | `hostile` | trees with anything in them |

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod answers;
mod hostile;
mod matrix;
mod opening;
mod tree;
