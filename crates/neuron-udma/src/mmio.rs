//! The two doors out of this crate: registers and ring memory.

/// A register access that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmioError {
    /// Offset from the start of BAR0, bytes.
    pub offset: u64,
}

impl core::fmt::Display for MmioError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "register access at BAR0 offset {:#x} failed", self.offset)
    }
}

impl core::error::Error for MmioError {}

/// 32-bit little-endian registers, by offset from the start of BAR0.
pub trait Mmio {
    /// Reads the register at `offset` bytes.
    fn read32(&self, offset: u64) -> Result<u32, MmioError>;
    /// Writes the register at `offset` bytes.
    fn write32(&self, offset: u64, value: u32) -> Result<(), MmioError>;
}

/// The memory of one descriptor ring. Hardware reads it, so an implementation
/// stores volatile or atomic, never through a `&mut`.
pub trait RingMemory {
    /// Stores the 16 bytes of slot `index` as a whole; false if the slot is outside.
    fn store(&self, index: u32, descriptor: [u8; 16]) -> bool;
}
