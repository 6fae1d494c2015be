//! What processes left behind: memory that they had not freed when their last file of a device
//! was closed, or they died.

use std::sync::{Mutex, PoisonError};

pub use neuron_driver::Held;
pub use neuron_driver::held::{HeldLock, HeldMemory, HeldQueue};
pub use neuron_driver::pool::Lifespan;

/// What one process left on one device.
#[derive(Clone, Debug)]
pub struct Left {
    /// The process.
    pub pid: i32,
    /// Its name, as the system had it.
    pub name: String,
    /// Number of the device.
    pub device: u8,
    /// What it held.
    pub held: Vec<Held>,
}

/// Keeps what was left.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    left: Mutex<Vec<Left>>,
}

impl Ledger {
    pub(crate) fn add(&self, left: Left) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(left);
    }

    pub(crate) fn all(&self) -> Vec<Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
