//! What can go wrong below the ring layer, with the class of errno it stands for.

use crate::mmio::MmioError;

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The queue number is not below the engine's number of queues.
    QueueNumber,
    /// The ring size is outside 32..=16777200 descriptors.
    RingSize,
    /// The ring does not start or end on 256 bytes.
    RingAlignment,
    /// A completion ring was given; production queues carry none.
    CompletionRing,
    /// More bytes than one descriptor moves.
    DescriptorBytes,
    /// More descriptors than the ring holds.
    StartCount,
    /// A doorbell of zero.
    EmptyDoorbell,
    /// The ring's size is not a power of two, which the cursors need.
    NotPowerOfTwo,
    /// The ring has no memory or does not take descriptors.
    NotAllocatable,
    /// The slot lies outside the ring memory handed in.
    RingMemory,
    /// Descriptors per packet outside 8..=128.
    PacketLimit,
    /// More than 16 queues asked for.
    QueueCount,
    /// The state is one that software cannot ask for.
    State,
}

/// An error of the UDMA layer. The errno a caller sees is in the variant's doc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdmaError {
    /// EINVAL.
    Invalid(Reason),
    /// The C code's plain -1, which users see as EPERM.
    Refused(Reason),
    /// ENOMEM: the ring has no free slot.
    NoSlot,
    /// EIO: a register access failed.
    Register(MmioError),
}

impl From<MmioError> for UdmaError {
    fn from(error: MmioError) -> Self {
        Self::Register(error)
    }
}

impl core::fmt::Display for UdmaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Invalid(reason) | Self::Refused(reason) => write!(f, "refused: {reason:?}"),
            Self::NoSlot => f.write_str("no free descriptor slot"),
            Self::Register(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for UdmaError {}
