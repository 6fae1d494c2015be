//! What the cases of a generation share: host memory, all of it free between two cases.

use std::cell::Cell;
use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_driver::Params;
use neuron_ndl::software::HostMemory;

use crate::machine::board::Cores;
use crate::machine::{Board, Pattern};
use crate::vectors::{Mismatch, equal};

/// A place to put machines on, one after the other.
pub struct Bench {
    generation: Generation,
    host: Arc<HostMemory>,
    seed: Cell<u64>,
}

impl Bench {
    /// A bench with host memory.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(generation: Generation) -> Result<Self, Mismatch> {
        let host = HostMemory::new().map_err(|error| Mismatch::new(format!("host memory: {error}")))?;
        Ok(Self { generation, host: Arc::new(host), seed: Cell::new(0) })
    }

    /// The generation.
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// The machines' memory.
    pub fn host(&self) -> &HostMemory {
        &self.host
    }

    /// A device with engines that run.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn running(&self, cores: Cores) -> Result<Board, Mismatch> {
        Board::running(self.generation, &self.host, cores)
    }

    /// A device with engines that run, and zero-copy whatever the generation.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn zero_copy(&self) -> Result<Board, Mismatch> {
        let params = Params { zerocopy_trn1_override: true, ..Params::default() };
        Board::running_with(self.generation, &self.host, Cores::Up, params)
    }

    /// A device whose engines do nothing.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn still(&self, cores: Cores) -> Result<Board, Mismatch> {
        Board::still(self.generation, &self.host, cores)
    }

    /// A pattern that no earlier case used: host memory still holds theirs.
    pub fn pattern(&self) -> Pattern {
        let seed = self.seed.get() + 1;
        self.seed.set(seed);
        Pattern::random(seed)
    }

    /// Whether devices that are gone gave all host memory back.
    ///
    /// # Errors
    /// If they did not.
    pub fn check_host_memory(&self) -> Result<(), Mismatch> {
        equal("host memory that a removed device kept", self.host.in_use(), 0)
    }
}
