//! Errors of this layer. Each has the status that the C runtime returns for it
//! (`spec/dmem.md` 3).

use neuron_abi::memory::{MemLocation, UsageType};
use neuron_abi::status::NrtStatus;
use neuron_ndl::NdlError;

use crate::budget::BudgetRefusal;
use crate::report::figures::retried;
use crate::report::{Asked, OomReport};

/// Which way a transfer went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferDirection {
    /// Host to device.
    In,
    /// Device to host.
    Out,
}

impl TransferDirection {
    /// What the runtime calls it in messages about batches.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "copyin",
            Self::Out => "copyout",
        }
    }

    /// What the runtime says of a copy that failed (`spec/dmem.md` 6.1).
    pub const fn failure(self) -> &'static str {
        match self {
            Self::In => "Copy from buffer to memory failed",
            // The runtime's two spaces.
            Self::Out => "Copy from memory  to buffer failed",
        }
    }
}

/// Why a batch is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchProblem {
    /// It copies nothing.
    #[error("it has no operations")]
    NoOperations,
    /// An operation copies nothing.
    #[error("operation {operation} has no bytes; leave it out")]
    NoBytes {
        /// Position in the batch.
        operation: usize,
    },
    /// An operation is not inside the dmem.
    #[error(
        "operation {operation}, {bytes} bytes at {offset} of the batch's {base}, is outside an allocation of {size} bytes"
    )]
    OutOfBounds {
        /// Position in the batch.
        operation: usize,
        /// The operation's offset.
        offset: u64,
        /// The batch's offset, which is added.
        base: u64,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes there are.
        size: u64,
    },
    /// Its dmem is not where the first batch's is.
    #[error(
        "its memory is on neuron{device}, the first batch's on neuron{first}; copy them in a call each, also if one device was opened twice"
    )]
    OtherDevice {
        /// Device of this batch's dmem.
        device: u8,
        /// Device of the first batch's.
        first: u8,
    },
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
    #[error(
        "Invalid mem_usage_type {} for host: {} memory cannot be on the host; allocate it on the device",
        usage.raw(), usage.name()
    )]
    UsageLocation {
        /// Usage asked for.
        usage: UsageType,
    },
    /// 0 bytes were asked for. The driver would answer ENOMEM, which would read as a full
    /// device (`spec/dmem.md` 9.13, our choice).
    #[error("an allocation needs at least one byte")]
    ZeroSize,
    /// The alignment is no power of two (our choice; the fallback of `spec/dmem.md` 5.1 could
    /// not make it).
    #[error("an alignment of {align} bytes is no power of two; ask for {} or 0", align.checked_next_power_of_two().unwrap_or(1 << 63))]
    Alignment {
        /// Alignment asked for.
        align: u64,
    },
    /// Size and alignment together are beyond all addresses.
    #[error("{size} bytes aligned to {align} do not fit into 64 bits; ask for less")]
    AlignedSize {
        /// Bytes asked for.
        size: u64,
        /// Alignment asked for.
        align: u64,
    },
    /// The driver allocated memory and told no physical address. It was freed again.
    #[error("Failed to get the phys address; the memory was freed again")]
    NoPhysicalAddress(#[source] NdlError),
    /// The core has no bounce buffer. The memory was freed again.
    #[error("Failed to get copy buffer for nc {core} of neuron{device}; open the device anew")]
    NoCopyBuffer {
        /// Device.
        device: u8,
        /// Core.
        core: u32,
    },
    /// A model asked for pages of the shared scratchpad, which would go with the model while
    /// the core still refers to them (seed 000 §2, quirk).
    #[error(
        "scratchpad pages belong to core {core}, not to a model that may be unloaded before it lets go of them; use the core's GLOBAL allocator"
    )]
    ScratchpadOwner {
        /// The allocator's core.
        core: u32,
    },
    /// No scratchpad can have such pages (`spec/ndl.md` 7).
    #[error("{bytes} bytes are no scratchpad page size; it is a multiple of 512 MiB up to 3584")]
    ScratchpadPageSize {
        /// What was asked for.
        bytes: u64,
    },
    /// A scratchpad of more pages than there can be.
    #[error(
        "{bytes} bytes of scratchpad are {pages} pages of {page} bytes, more than {most}; take larger pages or less scratchpad"
    )]
    ScratchpadSize {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of a page.
        page: u64,
        /// Pages that would be.
        pages: u64,
        /// Most there can be.
        most: u64,
    },
    /// The place of the next contiguous page is taken.
    #[error(
        "neuron{device} HBM {hbm} has no room for page {number} of a contiguous scratchpad, {page} bytes under the last one; free what is there, or use a paged scratchpad"
    )]
    NoScratchpadRoom {
        /// Device.
        device: u8,
        /// HBM.
        hbm: u32,
        /// The page's number, from 0.
        number: u64,
        /// Its bytes.
        page: u64,
    },
    /// The driver placed a scratchpad page where it cannot be used.
    #[error(
        "the scratchpad page at {pa:#x} is not aligned to {align} bytes; the driver ignored the alignment"
    )]
    ScratchpadUnaligned {
        /// Physical address.
        pa: u64,
        /// Alignment it must have.
        align: u64,
    },
    /// The device has no room.
    #[error("{}", no_room(.0))]
    OutOfDeviceMemory(Box<OomReport>),
    /// The host has no block of this size for DMA.
    #[error(
        "no block of {} bytes of host memory that neuron{} can reach is free{}; host blocks are contiguous, so ask for smaller ones",
        .0.request.size, .0.device, retried(.0.retries)
    )]
    OutOfHostMemory(Box<OomReport>),
    /// A [budget](crate::budget) does not allow it. The device was not asked.
    #[error("{}{}", .0, retried(.0.retries))]
    OverBudget(Box<BudgetRefusal>),
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
    /// A copy from one device to another.
    #[error(
        "memory of neuron{from} cannot be copied to memory of neuron{to} by a device, also if one device was opened twice; copy it through host memory"
    )]
    OtherDevice {
        /// Device of the source.
        from: u8,
        /// Device of the destination.
        to: u8,
    },
    /// A copy failed. Bytes before `done` arrived.
    #[error("{} after {done} of {bytes} bytes ({hint})", direction.failure())]
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
    /// No batches were given (`spec/dmem.md` 6.4).
    #[error("Invalid arguments: tensor_batches is NULL or num_batches is 0")]
    NoBatches,
    /// A batch is not valid. Nothing was copied, of no batch.
    #[error("Invalid arguments: batch {batch} of {batches}: {problem}")]
    InvalidBatch {
        /// Position of the batch.
        batch: usize,
        /// Batches given.
        batches: usize,
        /// What is wrong with it.
        problem: BatchProblem,
    },
    /// The driver's batch copy failed. It works batch by batch and tells no more: each batch
    /// may have been copied, in part too.
    #[error("NDL batch copy ({}) failed: {} ({batches} batches, {bytes} bytes; some may have been copied)", direction.name(), source.errno.negated())]
    BatchTransfer {
        /// Which way.
        direction: TransferDirection,
        /// Batches given.
        batches: usize,
        /// Bytes of them all.
        bytes: u64,
        /// Why.
        #[source]
        source: NdlError,
    },
    /// Another driver call failed.
    #[error(transparent)]
    Driver(#[from] NdlError),
}

fn no_room(report: &OomReport) -> String {
    let (device, asked) = (report.device, &report.request);
    let hbm = asked.hbm.unwrap_or_default();
    let aligned = if asked.align == 0 { String::new() } else { format!(" aligned to {}", asked.align) };
    let (size, retries) = (asked.size, retried(report.retries));
    match report.hbm.as_ref().and_then(|state| state.room) {
        Some(room) => {
            format!("neuron{device} HBM {hbm} has no room for {size} bytes{aligned}{retries}: {room}")
        }
        None => format!(
            "neuron{device} HBM {hbm} has no room for {size} bytes{aligned}{retries}; this driver cannot list what is left"
        ),
    }
}

impl DmemError {
    /// The report of an allocation that found no room, on the device or the host.
    pub const fn report(&self) -> Option<&OomReport> {
        match self {
            Self::OutOfDeviceMemory(report) | Self::OutOfHostMemory(report) => Some(report),
            _ => None,
        }
    }

    /// The budget that refused an allocation.
    pub const fn refusal(&self) -> Option<&BudgetRefusal> {
        match self {
            Self::OverBudget(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// What was asked for, where there was no room for it: on the device, the host, or in a
    /// budget.
    pub const fn request(&self) -> Option<&Asked> {
        match self {
            Self::OutOfDeviceMemory(report) | Self::OutOfHostMemory(report) => Some(&report.request),
            Self::OverBudget(refusal) => Some(&refusal.request),
            _ => None,
        }
    }

    /// How often an allocation was tried again, because the
    /// [failure handler](crate::FailureHandler) said so.
    pub const fn retries(&self) -> u32 {
        match self {
            Self::OutOfDeviceMemory(report) | Self::OutOfHostMemory(report) => report.retries,
            Self::OverBudget(refusal) => refusal.retries,
            _ => 0,
        }
    }

    /// The same after so many retries.
    pub(crate) fn after_retries(mut self, retries: u32) -> Self {
        match &mut self {
            Self::OutOfDeviceMemory(report) | Self::OutOfHostMemory(report) => report.retries = retries,
            Self::OverBudget(refusal) => refusal.retries = retries,
            _ => {}
        }
        self
    }

    /// The status that callers of the C runtime see.
    pub const fn status(&self) -> NrtStatus {
        match self {
            Self::NoCore { .. }
            | Self::UsageLocation { .. }
            | Self::ZeroSize
            | Self::Alignment { .. }
            | Self::AlignedSize { .. }
            | Self::ScratchpadOwner { .. }
            | Self::ScratchpadPageSize { .. }
            | Self::ScratchpadSize { .. }
            | Self::OutOfBounds { .. }
            | Self::OtherDevice { .. }
            | Self::NoBatches
            | Self::InvalidBatch { .. } => NrtStatus::Invalid,
            Self::OutOfDeviceMemory { .. }
            | Self::OverBudget { .. }
            | Self::NoPhysicalAddress(_)
            | Self::NoScratchpadRoom { .. } => NrtStatus::Resource,
            Self::OutOfHostMemory { .. } => NrtStatus::FailHostMemAlloc,
            Self::NoCopyBuffer { .. }
            | Self::ScratchpadUnaligned { .. }
            | Self::Transfer { .. }
            | Self::BatchTransfer { .. }
            | Self::Driver(_) => NrtStatus::Failure,
        }
    }

    /// Where the failing allocation was to be.
    pub const fn location(&self) -> MemLocation {
        match self {
            Self::OutOfHostMemory { .. } | Self::UsageLocation { .. } => MemLocation::Host,
            Self::OutOfDeviceMemory { .. }
            | Self::OverBudget { .. }
            | Self::ScratchpadOwner { .. }
            | Self::ScratchpadSize { .. }
            | Self::NoScratchpadRoom { .. }
            | Self::ScratchpadUnaligned { .. } => MemLocation::Device,
            _ => MemLocation::Invalid,
        }
    }
}
