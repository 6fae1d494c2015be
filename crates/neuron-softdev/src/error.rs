//! Errors of the device's doors.

use std::io;

use thiserror::Error;

use crate::geometry::GeometryError;

/// Why a device could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No such geometry.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The host refused memory or address space.
    #[error("no memory for the device: {0}")]
    Memory(#[source] io::Error),
    /// The host refused a thread.
    #[error("no worker thread for the device: {0}")]
    Thread(#[source] io::Error),
    /// [`Execution::Threaded`](crate::Execution::Threaded) with no worker at all.
    #[error("threaded execution needs at least one worker")]
    NoWorkers,
}

/// Why a BAR access failed. Nothing was read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Not a multiple of 4.
    #[error("BAR{bar}+{offset:#x}: not 4-byte aligned")]
    Misaligned {
        /// BAR number.
        bar: u8,
        /// Offset asked for.
        offset: u64,
    },
    /// Past the BAR's end.
    #[error("BAR{bar}+{offset:#x}: past the end of the BAR ({size:#x} bytes)")]
    OutOfRange {
        /// BAR number.
        bar: u8,
        /// Offset asked for.
        offset: u64,
        /// Bytes of the BAR.
        size: u64,
    },
    /// The function has no such BAR.
    #[error("no BAR{bar}")]
    NoSuchBar {
        /// BAR number.
        bar: u8,
    },
    /// Inside the BAR, but nothing is there: between two HBM channels, or across one's end.
    #[error("BAR{bar}+{offset:#x}: no memory there")]
    Gap {
        /// BAR number.
        bar: u8,
        /// Offset asked for.
        offset: u64,
    },
    /// A [`Fault::ReadError`](crate::Fault::ReadError) struck.
    #[error("BAR{bar}+{offset:#x}: injected read error")]
    Injected {
        /// BAR number.
        bar: u8,
        /// Offset asked for.
        offset: u64,
    },
}
