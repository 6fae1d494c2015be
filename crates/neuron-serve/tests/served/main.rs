//! A machine in a server, used by processes: this one, and children of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod child;
mod common;
mod descriptors;
mod host;
mod hostile;
mod kills;
mod leaks;
mod life;
mod made_up;
mod order;
mod raw;
mod stops;
mod use_of;
mod users;
mod work;
