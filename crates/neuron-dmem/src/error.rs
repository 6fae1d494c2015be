//! Errors of this layer. Each has the status that the C runtime returns for it
//! (`spec/dmem.md` 3).

use neuron_abi::memory::{MemLocation, UsageType};
use neuron_abi::status::NrtStatus;
use neuron_ndl::NdlError;

use crate::room::Room;

/// Which way a transfer went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferDirection {
    /// Host to device.
    In,
    /// Device to host.
    Out,
}

impl std::fmt::Display for TransferDirection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::In => "copy to the device",
            Self::Out => "copy from the device",
        })
    }
}

/// What went wrong, on which device and core, with which sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DmemError {
    /// The device has no such core.
    #[error("neuron{device} has no core {core}; it has cores 0 to {last}", last = cores - 1)]
    NoCore {
        /// Device.
        device: u8,
        /// Core asked for.
        core: u32,
        /// Cores it has.
        cores: u32,
    },
    /// The usage type exists only on the device.
    #[error("memory of usage {} cannot be on the host; allocate it on the device", usage.name())]
    UsageLocation {
        /// Usage asked for.
        usage: UsageType,
    },
    /// 0 bytes were asked for. The driver would answer ENOMEM, which would read as a full
    /// device (`spec/dmem.md` 9.13, our choice).
    #[error("an allocation needs at least one byte")]
    ZeroSize,
    /// The device has no room.
    #[error(
        "neuron{device} HBM {hbm} has no room for {size} bytes{}: {room}",
        align_words(*align)
    )]
    OutOfDeviceMemory {
        /// Device.
        device: u8,
        /// HBM.
        hbm: u32,
        /// Core that asked.
        core: u32,
        /// Bytes asked for.
        size: u64,
        /// Alignment asked for; 0 for none.
        align: u64,
        /// What it was for.
        usage: UsageType,
        /// What is there.
        room: Box<Room>,
    },
    /// The host has no block of this size for DMA.
    #[error(
        "no block of {size} bytes of host memory that neuron{device} can reach is free; host blocks are contiguous, so ask for smaller ones"
    )]
    OutOfHostMemory {
        /// Device.
        device: u8,
        /// Bytes asked for.
        size: u64,
    },
    /// The range is not inside the allocation.
    #[error("bytes {offset}..{end} are outside an allocation of {size} bytes", end = u128::from(*offset) + u128::from(*bytes))]
    OutOfBounds {
        /// Offset asked for.
        offset: u64,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes there are.
        size: u64,
    },
    /// A copy failed. Bytes before `done` arrived.
    #[error("{direction} failed after {done} of {bytes} bytes ({hint})")]
    Transfer {
        /// Which way.
        direction: TransferDirection,
        /// Hint of the allocation.
        hint: String,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that are known to have arrived.
        done: u64,
        /// Why.
        #[source]
        source: NdlError,
    },
    /// Another driver call failed.
    #[error(transparent)]
    Driver(#[from] NdlError),
}

fn align_words(align: u64) -> String {
    if align == 0 { String::new() } else { format!(" aligned to {align}") }
}

impl DmemError {
    /// The status that callers of the C runtime see.
    pub const fn status(&self) -> NrtStatus {
        match self {
            Self::NoCore { .. } | Self::UsageLocation { .. } | Self::ZeroSize | Self::OutOfBounds { .. } => {
                NrtStatus::Invalid
            }
            Self::OutOfDeviceMemory { .. } => NrtStatus::Resource,
            Self::OutOfHostMemory { .. } => NrtStatus::FailHostMemAlloc,
            Self::Transfer { .. } | Self::Driver(_) => NrtStatus::Failure,
        }
    }

    /// Where the failing allocation was to be.
    pub const fn location(&self) -> MemLocation {
        match self {
            Self::OutOfHostMemory { .. } | Self::UsageLocation { .. } => MemLocation::Host,
            Self::OutOfDeviceMemory { .. } => MemLocation::Device,
            _ => MemLocation::Invalid,
        }
    }
}
