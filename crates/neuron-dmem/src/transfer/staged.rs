//! The staged copy (`dmem_device_copy`): through the core's bounce buffer, each chunk's
//! DMA running while the host copies the chunk before or after it.
//!
//! The buffer is held for the whole transfer, and never let go while a request may still
//! be using it.

use neuron_abi::errno::Errno;
use neuron_ndl::{CopyBuffer, CopyRequest, HostBytes, NdlError, WaitHandle};
use vm_memory::VolatileSlice;

use super::Target;
use super::chunks::Chunk;
use crate::error::{DmemError, TransferDirection};
use crate::trace::Span;

/// What the runtime logs when a chunk cannot be started.
const FAILED_IN: &str = "Failed to copy in buffer to dmem";
const FAILED_OUT: &str = "Failed to copy out dmem to buffer";

impl<'a> Target<'a> {
    fn buffer(&self) -> Result<&CopyBuffer, NdlError> {
        let core = self.memory.request().core;
        self.device.copy_buffer(core).ok_or_else(|| self.refused("Failed to get copy buffer"))
    }

    /// A range that was checked before and is not there all the same.
    fn refused(&self, operation: &'static str) -> NdlError {
        NdlError::new(self.device.facts().index, operation, Errno::EINVAL)
    }

    /// Waits for `handle` if it names a copy. A failing wait is final: the driver has
    /// released the context.
    fn wait(&self, handle: WaitHandle) -> Result<(), NdlError> {
        if !handle.is_pending() {
            return Ok(());
        }
        let _waiting = self.lanes.wait();
        self.device.copy_wait(self.memory, handle)
    }

    /// Requests a copy behind `previous`, and waits for that. `running` is the DMA that is
    /// traced: `previous`'s, then this one's.
    fn request(
        &self,
        copy: CopyRequest<'_>,
        prefetch: u64,
        previous: WaitHandle,
        running: &mut Option<Span<'a>>,
    ) -> Result<WaitHandle, NdlError> {
        let requested = self.lanes.dma(copy.bytes);
        let waiting = if previous == WaitHandle::NONE { None } else { self.lanes.wait() };
        let handle = self.device.copy_async(copy, prefetch, previous)?;
        drop(waiting);
        *running = requested;
        Ok(handle)
    }
}

fn part<'a>(
    target: &Target<'_>,
    buffer: VolatileSlice<'a>,
    chunk: Chunk,
) -> Result<VolatileSlice<'a>, NdlError> {
    buffer
        .subslice(chunk.place as usize, chunk.bytes as usize)
        .map_err(|_| target.refused("staging in the bounce buffer"))
}

/// Host to device: stage a chunk, start it, stage the next one while it runs. `offset` is in
/// the driver's allocation.
pub(super) fn copy_in(target: Target<'_>, offset: u64, bytes: HostBytes<'_>) -> Result<(), DmemError> {
    let size = bytes.len() as u64;
    let mut done = 0;
    run_in(&target, offset, bytes, &mut done)
        .map_err(|source| target.failed(TransferDirection::In, size, done, source))
}

fn run_in(target: &Target<'_>, offset: u64, bytes: HostBytes<'_>, done: &mut u64) -> Result<(), NdlError> {
    let (size, core) = (bytes.len() as u64, target.memory.request().core);
    let buffer = target.buffer()?.lock();
    let (plan, trial) = target.chunking.begin(core, TransferDirection::In, size);
    let mut previous = plan.first;
    let mut running = None;
    let mut before = 0;
    for chunk in plan.chunks(size) {
        let staged = part(target, buffer.mapping.slice(), chunk).and_then(|part| {
            let _copying = target.lanes.host_copy(chunk.bytes);
            match bytes.copy_to(chunk.offset as usize, part) {
                true => Ok(()),
                false => Err(target.refused("reading the user's bytes")),
            }
        });
        let copy = CopyRequest {
            source: &buffer.memory,
            destination: target.memory,
            source_offset: chunk.place,
            destination_offset: offset + chunk.offset,
            bytes: chunk.bytes,
        };
        let started = staged.and_then(|()| {
            let started = target.request(copy, 0, previous, &mut running);
            started.map_err(|error| NdlError { operation: FAILED_IN, ..error })
        });
        match started {
            Ok(handle) => previous = handle,
            Err(error) => {
                // It may still read the buffer, which we are about to let go.
                let _outcome = target.wait(previous);
                return Err(error);
            }
        }
        // A copy with a handle is known to have arrived when the next one was started.
        *done = if previous.is_pending() { before } else { chunk.end() };
        before = chunk.end();
    }
    target.wait(previous)?;
    drop(running);
    *done = size;
    if let Some(trial) = trial {
        trial.end();
    }
    Ok(())
}

/// Device to host: start a chunk, and while it runs drain the one before it. `offset` is in
/// the driver's allocation.
pub(super) fn copy_out(target: Target<'_>, offset: u64, bytes: VolatileSlice<'_>) -> Result<(), DmemError> {
    let size = bytes.len() as u64;
    let mut done = 0;
    run_out(&target, offset, bytes, &mut done)
        .map_err(|source| target.failed(TransferDirection::Out, size, done, source))
}

fn run_out(
    target: &Target<'_>,
    offset: u64,
    bytes: VolatileSlice<'_>,
    done: &mut u64,
) -> Result<(), NdlError> {
    let (size, core) = (bytes.len() as u64, target.memory.request().core);
    let buffer = target.buffer()?.lock();
    let (plan, trial) = target.chunking.begin(core, TransferDirection::Out, size);
    let mut drain = |chunk: Chunk| -> Result<(), NdlError> {
        let staged = part(target, buffer.mapping.slice(), chunk)?;
        let into = bytes
            .subslice(chunk.offset as usize, chunk.bytes as usize)
            .map_err(|_| target.refused("writing the user's bytes"))?;
        let _copying = target.lanes.host_copy(chunk.bytes);
        staged.copy_to_volatile_slice(into);
        *done = chunk.end();
        Ok(())
    };
    let mut previous = plan.first;
    let mut running = None;
    let mut staged: Option<Chunk> = None;
    for chunk in plan.chunks(size) {
        let copy = CopyRequest {
            source: target.memory,
            destination: &buffer.memory,
            source_offset: offset + chunk.offset,
            destination_offset: chunk.place,
            bytes: chunk.bytes,
        };
        let prefetch = bytes.ptr_guard().as_ptr() as u64 + chunk.offset;
        match target.request(copy, prefetch, previous, &mut running) {
            Ok(handle) => previous = handle,
            Err(error) => {
                // Save the chunk before the failed one, if its own copy ended well.
                if let (Ok(()), Some(chunk)) = (target.wait(previous), staged) {
                    drain(chunk)?;
                }
                return Err(NdlError { operation: FAILED_OUT, ..error });
            }
        }
        if let Some(chunk) = staged.replace(chunk) {
            drain(chunk)?;
        }
        // Without a handle it is there already.
        if !previous.is_pending()
            && let Some(chunk) = staged.take()
        {
            drain(chunk)?;
        }
    }
    target.wait(previous)?;
    drop(running);
    if let Some(chunk) = staged {
        drain(chunk)?;
    }
    if let Some(trial) = trial {
        trial.end();
    }
    Ok(())
}
