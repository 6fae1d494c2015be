//! The driver and a machine without hardware as a process that other processes use: what a
//! kernel does for `/dev/neuronN`, over a socket. What is said there is `neuron_wire`'s; who
//! calls is `neuron_ndl::remote`, or a program that knows nothing of it, under the library of
//! `neuron-preload`.
//!
//! | module | what lives there |
//! |---|---|
//! | [`server`] | starting, stopping, what a machine is served with |
//! | `listen` | the socket's place: one server for each, none left over |
//! | `admit` | who is served |
//! | `connection` | from an accepted connection to what it is |
//! | `process`, `clients` | clients as processes: their memory, mappings and death |
//! | `files` | open device files |
//! | `lane` | calls |
//! | `memory` | a client's bytes over its socket |
//! | `attributes`, `writers` | files under `/sys`, read and written |
//! | `sockets`, `state` | connections; what all threads share |
//! | `picture` | `/dev` and `/sys` as a directory |
//! | `settle` | what has ended is over before others look |
//! | [`leaks`] | what processes left behind |
//! | [`faults`] | what goes wrong, on demand |
//! | [`log`] | what the server tells |
//!
//! # Clients are processes
//!
//! The driver knows a client by its process id, which the system tells. A client's death in any
//! form is a process's exit: its calls end, then what it held of the device is given back, in the
//! driver's order. A forked child that inherited a descriptor keeps the file open, but is another
//! process, without a slot.
//!
//! # What is not promised
//!
//! Clients of one server belong to one user, and are not protected from each other's malice: a
//! mapping's descriptor is of a whole memory. They are protected from each other's mistakes.
//!
//! This crate has no `unsafe` code.

#![forbid(unsafe_code)]

mod admit;
mod attributes;
mod clients;
mod connection;
pub mod faults;
mod files;
mod lane;
pub mod leaks;
mod listen;
pub mod log;
mod memory;
mod picture;
mod process;
pub mod server;
mod settle;
mod sockets;
mod state;
mod writers;

pub use admit::Admit;
pub use server::{Options, ServeError, Server};
