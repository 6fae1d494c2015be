//! What an older driver makes us do instead, and who is told.

use std::fmt;
use std::sync::Arc;

/// Something that a driver lacks, and what is done instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fallback {
    /// Allocations in the 48-byte form.
    AllocWithCategory,
    /// Allocations in the 40-byte form.
    AllocWithAlignment,
    /// Allocations by number 21.
    AllocOldest,
    /// Copies in the 32-byte form.
    Copy32,
    /// Buffer copies in the 32-byte form.
    BufferCopy32,
    /// Fills in the 24-byte form.
    Memset32,
    /// Asynchronous copies in the 48-byte form.
    AsyncCopy32,
    /// Asynchronous copies one by one, synchronously.
    SyncCopies,
    /// Chunks looked up without their handle.
    LookupWithoutHandle,
    /// No driver info: no features.
    NoDriverInfo,
    /// No device info: no neighbours.
    NoNeighbours,
    /// No range of versions.
    NoVersions,
    /// No HBM scrub.
    NoScrub,
}

impl Fallback {
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::AllocWithCategory => {
                ("allocations of 4 GiB and more", "allocations are smaller than 4 GiB")
            }
            Self::AllocWithAlignment => {
                ("categories of memory", "device memory is counted as unknown in its accounts")
            }
            Self::AllocOldest => ("aligned allocations", "memory is aligned by allocating more"),
            Self::Copy32 => ("64-bit copies", "copies reach the first 4 GiB of an allocation"),
            Self::BufferCopy32 => ("64-bit buffer copies", "they reach the first 4 GiB of an allocation"),
            Self::Memset32 => ("64-bit fills", "a fill is smaller than 4 GiB"),
            Self::AsyncCopy32 => {
                ("64-bit asynchronous copies", "they reach the first 4 GiB of an allocation")
            }
            Self::SyncCopies => ("asynchronous copies", "each piece of a copy is waited for"),
            Self::LookupWithoutHandle => ("handles of looked up memory", "none is told"),
            Self::NoDriverInfo => ("the driver info", "which forms of commands it takes is tried"),
            Self::NoNeighbours => ("the device info", "no neighbours are known"),
            Self::NoVersions => ("its compatible versions", "they are not checked"),
            // The runtime's own words (`spec/ndl.md` 5).
            Self::NoScrub => {
                ("HBM scrub", "Skipping HBM initialization/scrubbing due to no support in old driver")
            }
        }
    }

    /// What the driver lacks.
    pub const fn lacks(self) -> &'static str {
        self.texts().0
    }

    /// What is done instead.
    pub const fn instead(self) -> &'static str {
        self.texts().1
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the driver lacks {}: {}", self.lacks(), self.instead())
    }
}

/// Who hears of a fallback, once for each device and kind (the runtime's soft-incompatibility
/// callback). Called with the device's number from whichever thread found it out.
#[derive(Clone)]
pub struct FallbackHook(Arc<dyn Fn(u8, Fallback) + Send + Sync>);

impl FallbackHook {
    /// Calls `hook`.
    pub fn new(hook: impl Fn(u8, Fallback) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(super) fn call(&self, device: u8, fallback: Fallback) {
        (self.0)(device, fallback);
    }
}

impl fmt::Debug for FallbackHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FallbackHook")
    }
}
