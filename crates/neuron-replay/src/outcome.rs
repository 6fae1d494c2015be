//! What came of a replay, as plain data. As JSON it has these fields under these names;
//! `docs/replay.md` explains them.

use serde::Serialize;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Who wrote the trace.
    pub source: String,
    /// Events that are missing at its start.
    pub dropped: u64,
    /// Events that were read.
    pub events: u64,
    /// Allocations, those that were refused when it was recorded included.
    pub allocations: u64,
    /// Of those, refused when it was recorded.
    pub recorded_refusals: u64,
    /// Frees.
    pub frees: u64,
    /// Copies.
    pub copies: u64,
    /// Bytes of the copies.
    pub copied_bytes: u64,
    /// The run ended at the first refusal.
    pub stopped: bool,
    /// What was never freed, by owner, most bytes first.
    pub never_freed: Vec<Leak>,
    /// One for each scenario, in their order.
    pub columns: Vec<ColumnOutcome>,
}

/// What an owner never freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leak {
    /// Who; `-` for nobody.
    pub owner: String,
    /// The trace says that the owner was unloaded.
    pub unloaded: bool,
    /// Allocations that the end of their process freed.
    pub at_exit: u64,
    /// Their bytes, as asked for.
    pub at_exit_bytes: u64,
    /// Allocations that live when the trace ends.
    pub alive: u64,
    /// Their bytes, as asked for.
    pub alive_bytes: u64,
}

/// What came of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ColumnOutcome {
    /// Its name.
    pub scenario: String,
    /// Its instance type.
    pub instance: String,
    /// Allocations that it refused.
    pub refused: u64,
    /// Their bytes, as asked for.
    pub refused_bytes: u64,
    /// The first of them, in full.
    pub refusals: Vec<Refusal>,
    /// Allocations that were refused when the trace was recorded and would be served here. They are
    /// given back at once, because nothing in the trace frees them.
    pub would_be_served: u64,
    /// Allocations that went to the address that the trace has for them.
    pub same_address: u64,
    /// Allocations that went to another.
    pub other_address: u64,
    /// Most device memory at one time, as asked for.
    pub peak_device_bytes: u64,
    /// Line on which there was so much first; 0 if there never was any.
    pub peak_line: u64,
    /// Most host memory at one time. It is counted only: replays never refuse it for want of room.
    pub peak_host_bytes: u64,
    /// Peaks by category.
    pub categories: Vec<Peak>,
    /// Peaks by core: `device` and `core`.
    pub cores: Vec<CorePeak>,
    /// Peaks by HBM.
    pub hbms: Vec<HbmPeak>,
    /// Peaks by owner, largest first.
    pub owners: Vec<Peak>,
    /// Worst fragmentation of any HBM's main pool at any time: 1 - largest hole / free.
    pub worst_fragmentation: f64,
    /// Line of the event after which it was.
    pub worst_line: u64,
    /// Fragmentation of the worst HBM at the end.
    pub end_fragmentation: f64,
    /// Over time, evenly spread.
    pub samples: Vec<Sample>,
}

/// A peak by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Of what.
    pub name: String,
    /// Bytes as asked for.
    pub bytes: u64,
}

/// The peak of a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CorePeak {
    /// Device.
    pub device: u8,
    /// Core.
    pub core: u32,
    /// Bytes as asked for.
    pub bytes: u64,
}

/// The peak of an HBM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HbmPeak {
    /// Device.
    pub device: u8,
    /// HBM.
    pub hbm: u32,
    /// Bytes as taken: whole pages, without the firmware's reserve.
    pub bytes: u64,
    /// Bytes of the HBM.
    pub size: u64,
}

/// How things stood after an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The event's line.
    pub line: u64,
    /// Device memory in use, as asked for.
    pub device_bytes: u64,
    /// Fragmentation of the main pool of the HBM where it is worst.
    pub fragmentation: f64,
}

/// Why an allocation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Less is free than was asked for.
    Full,
    /// Enough is free, but in no hole of that size.
    Fragmented,
    /// There is a hole of that size, but none at that alignment.
    Alignment,
    /// The instance has no such device.
    NoDevice,
    /// The device has no such HBM.
    NoHbm,
    /// The driver counts by eight cores.
    NoCore,
    /// Zero bytes.
    ZeroBytes,
    /// More bytes than the driver takes in one request.
    TooLarge,
    /// An alignment above 2^31 - 1, or any for host memory.
    BadAlignment,
}

/// An allocation that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Line of the event.
    pub line: u64,
    /// Its id.
    pub id: u64,
    /// It was refused when the trace was recorded, too.
    pub recorded: bool,
    /// Why.
    pub cause: Cause,
    /// Bytes asked for.
    pub size: u64,
    /// Alignment that was tried, bytes.
    pub align: u64,
    /// Device.
    pub device: u8,
    /// HBM.
    pub hbm: u32,
    /// Core.
    pub core: u32,
    /// Usage type.
    pub usage: &'static str,
    /// Owner.
    pub owner: String,
    /// Name of the memory.
    pub hint: String,
    /// Bytes that are free on the HBM, both pools.
    pub free: u64,
    /// Bytes of its largest hole.
    pub largest_hole: u64,
    /// Bytes of the largest request that would be served at that alignment.
    pub largest_aligned: u64,
    /// By how many bytes, whole pages, that misses.
    pub missing: u64,
    /// Who has most of the HBM.
    pub top_owners: Vec<Holder>,
    /// What has most of it.
    pub top_hints: Vec<Holder>,
    /// The graph that was being loaded, by the newest `load` event.
    pub loading: Option<String>,
    /// The newest mark.
    pub after_mark: Option<String>,
}

/// Somebody who has memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Who.
    pub name: String,
    /// Bytes as asked for.
    pub bytes: u64,
    /// Allocations.
    pub count: u64,
}
