//! Copies between user memory and a dmem (seed 000 §3, `spec/dmem.md` 6).
//!
//! | module | what lives there |
//! |---|---|
//! | [`chunks`] | how a staged copy is cut: the exact table, and a serial one |
//! | `learner` | what copies took, and which way to take next |
//! | `policy` | [`ChunkPolicy`], and the device's state behind it |
//! | `staged` | the copy through a core's bounce buffer, two chunks alive at a time |
//!
//! Dispatch ([`Path`], `spec/dmem.md` 6.1): on the way in, host memory is copied directly, and
//! device memory staged or without a bounce; on the way out, the path is asked first, so a
//! process that copies without a bounce does so from host memory too. The asymmetry is the
//! runtime's own (seed 000 §3, quirk).
//!
//! A driver without zero-copy ([`Features::ZEROCOPY`] not set) is asked all the same, since one
//! of the releases before the flag has the command; EINVAL or ENOTTY means no, and the copy goes
//! the other way (`spec/ndl.md` 3.2, 8.1, our choice). Where the flag is set and a copy is
//! refused, the refusal stands: the path was asked for by name.
//!
//! A copy of no bytes succeeds without a request (`spec/dmem.md` 6.2, our choice).

pub mod chunks;
mod learner;
mod policy;
mod staged;
#[cfg(test)]
mod tests;

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_ndl::environment::default_direct_write;
use neuron_ndl::{Device, Direction, HostBytes, Memory, NdlError, ZeroCopyOptions};
use vm_memory::VolatileSlice;

use crate::error::{DmemError, TransferDirection};
use crate::trace::Lanes;
pub use policy::ChunkPolicy;
pub(crate) use policy::Chunking;

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

impl Path {
    /// Zero-copy with the runtime's default for small writes: through the window up to 4096
    /// bytes, but never on V2 (`spec/ndl.md` 7, `NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE`).
    pub const fn zero_copy(generation: Generation) -> Self {
        Self::ZeroCopy { direct_write: default_direct_write(generation) }
    }

    /// Bytes up to which writes of a batch go through the window: a batch is copied without a
    /// bounce on either path.
    pub(crate) const fn direct_write(self, generation: Generation) -> u32 {
        match self {
            Self::ZeroCopy { direct_write } => direct_write,
            Self::Staged => default_direct_write(generation),
        }
    }
}

/// What a copy is about.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) device: &'a Device,
    pub(crate) memory: &'a Memory,
    /// Where the dmem begins in the driver's allocation: added to every offset.
    pub(crate) align_offset: u64,
    pub(crate) hint: Option<&'a str>,
    pub(crate) path: Path,
    pub(crate) chunking: &'a Chunking,
    pub(crate) lanes: Lanes<'a>,
}

impl Target<'_> {
    fn failed(&self, direction: TransferDirection, bytes: u64, done: u64, source: NdlError) -> DmemError {
        let hint = self.hint.unwrap_or("no hint").to_owned();
        DmemError::Transfer { direction, hint, bytes, done, source }
    }

    /// Whether a zero-copy that passed our checks failed because the driver has none.
    fn has_no_zero_copy(&self, error: &NdlError) -> bool {
        matches!(error.errno, Errno::EINVAL | Errno::ENOTTY)
            && !self.device.facts().features.contains(Features::ZEROCOPY)
    }
}

/// Whether the driver does a write through the HBM window (`spec/dma-op.md` 7.1): a few whole words.
const fn is_direct(limit: u32, offset: u64, bytes: u64) -> bool {
    const MOST: u64 = 8192;
    bytes <= limit as u64 && bytes <= MOST && bytes.is_multiple_of(4) && offset.is_multiple_of(4)
}

/// Copies to the dmem at `offset`. The range was checked.
pub(crate) fn copy_in(target: Target<'_>, offset: u64, bytes: HostBytes<'_>) -> Result<(), DmemError> {
    let Target { device, memory, align_offset, path, lanes, .. } = target;
    if bytes.is_empty() {
        return Ok(());
    }
    let (offset, size) = (align_offset + offset, bytes.len() as u64);
    let copied = match (memory.request().host, path) {
        (true, _) => {
            let _parts = lanes.whole(size, true);
            match bytes {
                HostBytes::Plain(bytes) => device.buffer_copy_in(memory, offset, bytes),
                HostBytes::Volatile(bytes) => device.buffer_copy_in_volatile(memory, offset, bytes),
            }
        }
        (false, Path::ZeroCopy { direct_write }) => {
            let parts = lanes.whole(size, is_direct(direct_write, offset, size));
            let options = ZeroCopyOptions { queue: None, direct_write };
            let copied = match bytes {
                HostBytes::Plain(bytes) => device.zero_copy_in(memory, offset, bytes, options),
                HostBytes::Volatile(bytes) => device.zero_copy(memory, offset, bytes, Direction::In, options),
            };
            drop(parts);
            match copied {
                Err(error) if target.has_no_zero_copy(&error) => {
                    return staged::copy_in(target, offset, bytes);
                }
                copied => copied,
            }
        }
        (false, Path::Staged) => return staged::copy_in(target, offset, bytes),
    };
    copied.map_err(|source| target.failed(TransferDirection::In, size, 0, source))
}

/// Copies from the dmem at `offset`. The range was checked.
pub(crate) fn copy_out(target: Target<'_>, offset: u64, bytes: VolatileSlice<'_>) -> Result<(), DmemError> {
    let Target { device, memory, align_offset, path, lanes, .. } = target;
    if bytes.is_empty() {
        return Ok(());
    }
    let (place, size) = (align_offset + offset, bytes.len() as u64);
    let copied = match path {
        Path::ZeroCopy { .. } => {
            let parts = lanes.whole(size, false);
            let copied = device.zero_copy(memory, place, bytes, Direction::Out, ZeroCopyOptions::default());
            drop(parts);
            match copied {
                Err(error) if target.has_no_zero_copy(&error) => {
                    return copy_out(Target { path: Path::Staged, ..target }, offset, bytes);
                }
                copied => copied,
            }
        }
        Path::Staged if memory.request().host => {
            let _parts = lanes.whole(size, true);
            device.buffer_copy_out_volatile(memory, place, bytes)
        }
        Path::Staged => return staged::copy_out(target, place, bytes),
    };
    copied.map_err(|source| target.failed(TransferDirection::Out, size, 0, source))
}
