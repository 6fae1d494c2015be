//! What a sink gets: plain data.

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};
use neuron_abi::status::NrtStatus;

use super::note::Note;

/// Takes records, from any thread.
///
/// It is called inside allocations, copies and frees, and in part under a lock: it must not
/// panic, and not allocate, free or copy memory of a device that it traces.
pub trait Sink: Send + Sync {
    /// Takes one.
    fn record(&self, record: &Record<'_>);

    /// Whether it is of use to call [`memory`](Self::memory). Asked once for each device.
    fn follows_memory(&self) -> bool {
        false
    }

    /// Takes what happens to a piece of memory, if it [follows](Self::follows_memory) that.
    fn memory(&self, note: &Note<'_>) {
        let _ = note;
    }
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, in nanoseconds of the trace's [`Clock`](super::Clock).
    pub time_ns: u64,
    /// Device index.
    pub device: u8,
    /// Core on the device.
    pub core: u32,
    /// Thread of this process: a number from 1 that no other thread has.
    pub thread: u64,
    /// What.
    pub what: What<'a>,
}

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// An event begins.
    Begin {
        /// Of this event and no other of the process; its stop has the same.
        id: u64,
        /// Which.
        event: EventNumber,
        /// About which memory.
        about: About<'a>,
    },
    /// It has ended, well or not.
    Stop {
        /// Its begin's.
        id: u64,
        /// Which.
        event: EventNumber,
        /// About which memory.
        about: About<'a>,
        /// What the caller gets.
        status: NrtStatus,
    },
    /// A part of a copy; the record's time is its end.
    Span {
        /// Which part.
        lane: Lane,
        /// When it began, in nanoseconds of the same clock.
        began_ns: u64,
        /// Bytes that it moves; 0 for a wait.
        bytes: u64,
    },
    /// What this process has in use after an allocation or free, as it is charged.
    InUse {
        /// HBM; `None` for host memory.
        hbm: Option<u32>,
        /// Bytes on it.
        bytes: u64,
        /// The category of device memory that changed, and its bytes over all cores.
        category: Option<(Aggregate, u64)>,
    },
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About<'a> {
    /// Host or device.
    pub location: MemLocation,
    /// HBM; 0 for host memory.
    pub hbm: u32,
    /// What the memory is used for; `None` for a batch, which may be about several.
    pub usage: Option<UsageType>,
    /// Bytes: asked for, freed or copied.
    pub size: u64,
    /// Name of the memory.
    pub hint: Option<&'a str>,
}

/// Number of a traced event (`spec/dmem.md` 4). A batch of copies brings its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventNumber(pub u32);

impl EventNumber {
    /// Copy to the device.
    pub const COPY_IN: Self = Self(30);
    /// Copy from the device.
    pub const COPY_OUT: Self = Self(31);
    /// Allocation.
    pub const ALLOCATION: Self = Self(34);
    /// Free.
    pub const FREE: Self = Self(35);

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::COPY_IN => "copy in",
            Self::COPY_OUT => "copy out",
            Self::ALLOCATION => "allocation",
            Self::FREE => "free",
            _ => "event",
        }
    }
}

/// Parts of a copy. Which there are follows from its path; they are ours, not the runtime's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The host moves bytes: into or out of the bounce buffer, or of host memory.
    HostCopy,
    /// A DMA: from its request to the return of the call that waited for it. The next chunk's
    /// begins before that.
    Dma,
    /// The host waits for a DMA's marker: time in the call that waits, which for all chunks but
    /// the last is the one that requests the next.
    Wait,
}

impl Lane {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostCopy => "host copy",
            Self::Dma => "DMA",
            Self::Wait => "marker wait",
        }
    }
}
