//! Copies between user memory and a dmem (seed 000 §3, `spec/dmem.md` 6).
//!
//! | module | what lives there |
//! |---|---|
//! | [`chunks`] | how a staged copy is cut: the exact table |
//! | [`staged`] | the copy through a core's bounce buffer, two chunks alive at a time |
//!
//! Dispatch ([`Path`]): on the way in, host memory is copied directly, and device memory
//! staged or without a bounce; on the way out, the path is asked first, so a process that
//! copies without a bounce does so from host memory too. The asymmetry is the runtime's own
//! (seed 000 §3, quirk).

pub mod chunks;
pub mod staged;

use neuron_ndl::{Device, Direction, Memory, NdlError, ZeroCopyOptions};
use vm_memory::VolatileSlice;

use crate::error::{DmemError, TransferDirection};
use crate::trace::Lanes;

/// How device memory is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// Through the core's bounce buffer, in pieces.
    #[default]
    Staged,
    /// By DMA from and to the user's own pages, on the core's default queue.
    ZeroCopy {
        /// Writes of up to so many bytes go through the HBM window instead; the driver takes
        /// at most 8192. 0 for never.
        direct_write: u32,
    },
}

/// What a copy is about.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) device: &'a Device,
    pub(crate) memory: &'a Memory,
    pub(crate) hint: Option<&'a str>,
    pub(crate) path: Path,
    pub(crate) lanes: Lanes<'a>,
}

/// The user's bytes on the way in.
#[derive(Clone, Copy)]
pub(crate) enum HostBytes<'a> {
    /// Nobody changes them.
    Plain(&'a [u8]),
    /// Somebody may.
    Volatile(VolatileSlice<'a>),
}

impl HostBytes<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Volatile(bytes) => bytes.len(),
        }
    }

    /// Copies the part at `offset` that `into` has room for. False if it is not there.
    fn copy_to(&self, offset: usize, into: VolatileSlice<'_>) -> bool {
        match self {
            Self::Plain(bytes) => bytes
                .get(offset..)
                .and_then(|rest| rest.get(..into.len()))
                .map(|part| into.copy_from(part))
                .is_some(),
            Self::Volatile(bytes) => {
                bytes.subslice(offset, into.len()).map(|part| part.copy_to_volatile_slice(into)).is_ok()
            }
        }
    }
}

impl Target<'_> {
    fn failed(&self, direction: TransferDirection, bytes: u64, done: u64, source: NdlError) -> DmemError {
        let hint = self.hint.unwrap_or("no hint").to_owned();
        DmemError::Transfer { direction, hint, bytes, done, source }
    }
}

/// Copies to the dmem. The range was checked.
pub(crate) fn copy_in(target: Target<'_>, offset: u64, bytes: HostBytes<'_>) -> Result<(), DmemError> {
    let Target { device, memory, path, lanes, .. } = target;
    let size = bytes.len() as u64;
    let copied = match (path, bytes) {
        _ if memory.request().host => {
            let _parts = lanes.whole(size, true);
            match bytes {
                HostBytes::Plain(bytes) => device.buffer_copy_in(memory, offset, bytes),
                HostBytes::Volatile(bytes) => device.buffer_copy_in_volatile(memory, offset, bytes),
            }
        }
        (Path::Staged, _) => return staged::copy_in(target, offset, bytes),
        (Path::ZeroCopy { direct_write }, HostBytes::Plain(bytes)) => {
            let _parts = lanes.whole(size, size <= direct_write.into());
            device.zero_copy_in(memory, offset, bytes, ZeroCopyOptions { queue: None, direct_write })
        }
        (Path::ZeroCopy { direct_write }, HostBytes::Volatile(bytes)) => {
            let _parts = lanes.whole(size, size <= direct_write.into());
            let options = ZeroCopyOptions { queue: None, direct_write };
            device.zero_copy(memory, offset, bytes, Direction::In, options)
        }
    };
    copied.map_err(|source| target.failed(TransferDirection::In, size, 0, source))
}

/// Copies from the dmem. The range was checked.
pub(crate) fn copy_out(target: Target<'_>, offset: u64, bytes: VolatileSlice<'_>) -> Result<(), DmemError> {
    let Target { device, memory, path, lanes, .. } = target;
    let size = bytes.len() as u64;
    let copied = match path {
        Path::ZeroCopy { .. } => {
            let _parts = lanes.whole(size, false);
            device.zero_copy(memory, offset, bytes, Direction::Out, ZeroCopyOptions::default())
        }
        Path::Staged if memory.request().host => {
            let _parts = lanes.whole(size, true);
            device.buffer_copy_out_volatile(memory, offset, bytes)
        }
        Path::Staged => return staged::copy_out(target, offset, bytes),
    };
    copied.map_err(|source| target.failed(TransferDirection::Out, size, 0, source))
}
