//! The driver and one process on a fresh device, for one case.

use neuron_abi::arch::PAGE_SIZE;

use crate::client::{Chunk, Client};
use crate::kinds::bench::Bench;
use crate::machine::board::Cores;
use crate::machine::{Board, Pattern, Window};
use crate::vectors::{Mismatch, equal_hex};

/// A value that no pattern test relies on, around what a copy may write.
const GUARD: u8 = 0xa5;

/// A driver and a process that has its device open. The process exits before the device
/// goes.
pub struct Rig {
    /// The process.
    pub client: Client,
    /// The machine.
    pub board: Board,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The memory.
    pub chunk: Chunk,
    /// Offset of the copy in it.
    pub offset: u64,
}

impl Rig {
    /// A device whose engines run, all cores up.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn running(bench: &Bench) -> Result<Self, Mismatch> {
        Self::on(bench.running(Cores::Up)?)
    }

    /// A device whose engines do nothing, all cores up.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn still(bench: &Bench) -> Result<Self, Mismatch> {
        Self::on(bench.still(Cores::Up)?)
    }

    /// A device whose engines run, all cores up, with zero-copy whatever the generation.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn zero_copy(bench: &Bench) -> Result<Self, Mismatch> {
        Self::on(bench.zero_copy()?)
    }

    fn on(board: Board) -> Result<Self, Mismatch> {
        Ok(Self { client: Client::open(board.device())?, board })
    }

    /// The HBM that a recorded address is on, `None` for host memory.
    ///
    /// # Errors
    /// If it is on neither.
    pub fn hbm_of(&self, address: u64) -> Result<Option<u32>, Mismatch> {
        let geometry = self.board.device().geometry();
        if geometry.is_host_address(address) {
            return Ok(None);
        }
        let hbm = geometry.hbm_holding(address, 1);
        hbm.map(Some).ok_or_else(|| Mismatch::new(format!("{address:#x} is on no HBM")))
    }

    /// Allocates a chunk on the memory where it was recorded.
    ///
    /// # Errors
    /// If it is placed elsewhere.
    pub fn chunk(&self, what: &str, address: u64, size: u64, core: u32) -> Result<Chunk, Mismatch> {
        let chunk = self.client.allocate(self.hbm_of(address)?, size, core)?;
        equal_hex(format!("address of {what}"), chunk.pa, address)?;
        Ok(chunk)
    }

    /// Allocates one end of a copy of `size` bytes whose first byte was recorded at
    /// `address`: chunks start on a page, copies less than a page behind that, and the
    /// recorder left at least one byte at the end.
    ///
    /// # Errors
    /// If the chunk is placed elsewhere.
    pub fn end(&self, what: &str, address: u64, size: u64, core: u32) -> Result<End, Mismatch> {
        let offset = address % PAGE_SIZE;
        let chunk = self.chunk(what, address - offset, offset + size + 1, core)?;
        Ok(End { chunk, offset })
    }

    /// The bytes of a copy's end.
    ///
    /// # Errors
    /// If there is no such memory.
    pub fn window(&self, end: End, size: u64) -> Result<Window, Mismatch> {
        self.board.memory(end.chunk.pa + end.offset, size)
    }

    /// The bytes next to a copy's destination: the one before, if any, and the one after.
    fn guards(&self, end: End, size: u64) -> Result<Vec<Window>, Mismatch> {
        let before = end.offset.checked_sub(1);
        let after = end.offset + size;
        before.into_iter().chain([after]).map(|offset| self.board.memory(end.chunk.pa + offset, 1)).collect()
    }

    /// Puts guards around a destination.
    ///
    /// # Errors
    /// If it has no memory.
    pub fn guard(&self, end: End, size: u64) -> Result<(), Mismatch> {
        let guards = self.guards(end, size)?;
        guards.iter().try_for_each(|window| Pattern::constant(GUARD).fill(window.slice()?))
    }

    /// Whether the guards around a destination still stand.
    ///
    /// # Errors
    /// If one was written over.
    pub fn check_guard(&self, end: End, size: u64) -> Result<(), Mismatch> {
        let guards = self.guards(end, size)?;
        guards
            .iter()
            .try_for_each(|window| Pattern::constant(GUARD).compare("next to the copy", window.slice()?))
    }
}
