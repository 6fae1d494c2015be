//! The client's side of a server's socket.
//!
//! | module | what lives there |
//! |---|---|
//! | [`open`] | connections, and the open device that one is |
//! | [`held`] | what a descriptor of a connection is, without asking the server |
//! | [`calls`] | calls, on as many lanes as there are threads in one |
//! | `lanes` | lanes that no thread uses |
//! | `memory` | this process's bytes for a server that may not reach them |
//! | [`bounce`] | bytes at addresses that may be none |
//!
//! A client belongs to the process that uses it: after a fork the child makes lanes of its own
//! with its first call.

pub mod bounce;
pub mod calls;
pub mod held;
mod lanes;
mod memory;
pub mod open;

pub use calls::{Answer, CallError, Calls};
pub use open::{OpenError, OpenedFile};
