//! The client's side of a server's socket.
//!
//! | module | what lives there |
//! |---|---|
//! | [`open`] | connections, and the open device that one is |
//! | [`calls`] | calls, on as many lanes as there are threads in one |
//! | `lanes` | lanes that no thread uses |
//! | `memory` | this process's bytes for a server that may not reach them |
//!
//! A client belongs to the process that uses it: after a fork the child makes lanes of its own
//! with its first call.

pub mod calls;
mod lanes;
mod memory;
pub mod open;

pub use calls::{Answer, CallError, Calls};
pub use open::{OpenError, OpenedFile};
