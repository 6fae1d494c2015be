//! What processes left behind: memory that they had not freed when their last file of a device
//! was closed, or they died, and H2T rings, service rings and locks of cores that they had not
//! given back. A queue that a process bound is not among them: no command lets go of one, so every
//! process leaves it to its exit (`spec/driver.md` 10, item 17).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use neuron_driver::Held;
pub use neuron_driver::held::{HeldLock, HeldMemory, HeldQueue};
use neuron_driver::introspect::FlavourView;
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
    ends: AtomicU64,
}

impl Ledger {
    /// Writes down what a process held of a device.
    pub(crate) fn add(&self, pid: i32, name: &str, device: u8, mut held: Vec<Held>) {
        held.retain(|held| !matches!(held, Held::Queue(queue) if queue.flavour == FlavourView::Model));
        if !held.is_empty() {
            let left = Left { pid, name: name.to_owned(), device, held };
            self.left.lock().unwrap_or_else(PoisonError::into_inner).push(left);
        }
    }

    /// A file was closed, or a process has ended.
    pub(crate) fn one_ended(&self) {
        self.ends.fetch_add(1, Ordering::AcqRel);
    }

    /// How many have ended.
    pub(crate) fn ends(&self) -> u64 {
        self.ends.load(Ordering::Acquire)
    }

    pub(crate) fn all(&self) -> Vec<Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
