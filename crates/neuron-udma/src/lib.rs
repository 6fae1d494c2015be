#![no_std]
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod cursor;
pub mod descriptor;
pub mod engine;
mod error;
pub mod init;
pub mod mmio;
pub mod queue;
pub mod regs;
pub mod state;

pub use cursor::{Cursor, Slot};
pub use descriptor::{Barrier, Copy, DecodedRx, DecodedTx, Descriptor};
pub use engine::{QueuePair, Udma};
pub use error::{Reason, UdmaError};
pub use init::EngineParams;
pub use mmio::{Mmio, MmioError, RingMemory};
pub use queue::{Queue, QueueStatus, RingBase};
pub use regs::Direction;
pub use state::{EngineState, QueueSnapshot, RingRegisters, SettableState};

/// Queues of one engine, in each direction (`spec/udma.md` 1).
pub const QUEUES: usize = 16;
/// Bytes of one descriptor (`spec/udma.md` 1).
pub const DESCRIPTOR_SIZE: usize = 16;
/// Descriptors kept free between producer and consumer (`spec/udma.md` 7).
pub const GUARD_GAP: u32 = 16;
/// Fewest descriptors a queue can be programmed with (`spec/udma.md` 1).
pub const MIN_RING: u32 = 32;
/// Most descriptors a queue can be programmed with: 2^24 - 16 (`spec/udma.md` 1).
pub const MAX_RING: u32 = (1 << 24) - 16;
/// Most bytes one descriptor moves; encoded as length 0 (`spec/udma.md` 1).
pub const MAX_DESCRIPTOR_BYTES: u32 = 65536;
/// Ring base and end alignment, bytes (`spec/udma.md` 1).
pub const RING_ALIGN: u64 = 256;
/// Revision id of this engine (`spec/udma.md` 1).
pub const REVISION: u32 = 4;
