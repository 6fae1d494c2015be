//! Copies between user memory and a dmem (seed 000 §3, `spec/dmem.md` 6).
//!
//! | module | what lives there |
//! |---|---|
//! | [`chunks`] | how a staged copy is cut: the exact table |
//! | [`staged`] | the copy through a core's bounce buffer, two chunks alive at a time |
//!
//! Dispatch: host memory is copied directly, device memory is staged.

pub mod chunks;
pub mod staged;

use neuron_ndl::{Device, Memory, NdlError};
use vm_memory::VolatileSlice;

use crate::error::{DmemError, TransferDirection};

/// What a copy is about.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) device: &'a Device,
    pub(crate) memory: &'a Memory,
    pub(crate) hint: Option<&'a str>,
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
    if !target.memory.request().host {
        return staged::copy_in(target, offset, bytes);
    }
    let len = bytes.len() as u64;
    let copied = match bytes {
        HostBytes::Plain(bytes) => target.device.buffer_copy_in(target.memory, offset, bytes),
        HostBytes::Volatile(bytes) => target.device.buffer_copy_in_volatile(target.memory, offset, bytes),
    };
    copied.map_err(|source| target.failed(TransferDirection::In, len, 0, source))
}

/// Copies from the dmem. The range was checked.
pub(crate) fn copy_out(target: Target<'_>, offset: u64, bytes: VolatileSlice<'_>) -> Result<(), DmemError> {
    if !target.memory.request().host {
        return staged::copy_out(target, offset, bytes);
    }
    let len = bytes.len() as u64;
    target
        .device
        .buffer_copy_out_volatile(target.memory, offset, bytes)
        .map_err(|source| target.failed(TransferDirection::Out, len, 0, source))
}
