//! The locks, condition variables, atomics and threads of this crate: the standard library's,
//! or a model checker's that decides who goes on at each of them (`scripts/models.sh`).
//!
//! Whatever a race could be about comes from here. `Arc`, `Weak` and `OnceLock` are always the
//! standard library's: the checker has no other, and where one of them is set or dropped a lock
//! or an atomic of this module is near.

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic},
    thread,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic},
    thread,
};
