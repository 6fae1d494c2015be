#![forbid(unsafe_code)]
//! The Neuron driver: memory pools, DMA engines, queues and rings, copies, and the
//! ioctls through which a runtime asks for them (seed 003, version 2.27.4).
//!
//! It runs on anything that is [`Hardware`](hw::Hardware): the software machine, or a
//! recorder in tests. It never knows which.
//!
//! | you look for | go to |
//! |---|---|
//! | a device coming up | [`Device::probe`] |
//! | a process and its ioctls | [`process::OpenFile`], [`ioctl`] |
//! | where memory goes | [`pool`] |
//! | engines, queues, rings | [`ring`] |
//! | one copy, from descriptors to marker | [`dma`] |
//! | what differs between generations | [`arch`] |
//! | what it shows under `/sys` | [`sysfs`] |
//! | what it shows of queues to people | [`introspect`] |
//! | what a process holds, for a report on leaks | [`held`] |
//! | the other devices of the machine | [`system`] |
//! | mapped memory, and handing it on | [`ioctl::mmap`], [`dmabuf`] |
//!
//! Locks, outermost first: the node, process slots, memset pattern, a ring's copy lock, an
//! engine, then the memory set's (handles, lists, state).

pub mod arch;
mod bringup;
mod cinit;
mod completer;
mod core_locks;
mod core_resets;
mod datastore;
pub mod device;
pub mod dma;
pub mod dmabuf;
mod error;
mod firmware;
pub mod held;
pub mod hw;
pub mod introspect;
pub mod ioctl;
mod mailbox;
mod mapping;
mod marks;
mod notifications;
pub mod pool;
mod probe;
pub mod process;
pub mod queues;
pub mod requests;
pub mod reset;
mod resets;
pub mod ring;
mod scrub;
mod scrubs;
mod slots;
mod sync;
pub mod sysfs;
pub mod system;
pub mod topology;
pub mod user;

pub use device::{Device, Params, System};
pub use error::COPY_TIMEOUT;
pub use held::Held;
pub use probe::ProbeError;
pub use process::{OpenFile, OpenMode};
pub use user::UserMemory;
