//! Reading, writing, filling, copying (`spec/nrt-abi.md` 4.4, 7). Ranges are checked before anything
//! moves; when a call returns, its bytes are where they belong.

use std::sync::Arc;

use vm_memory::VolatileSlice;

use crate::refusal::Refusal;
use crate::storage::Bytes;
use crate::tensor::View;

/// Bytes that are moved at a time where they go through a buffer.
const PIECE: u64 = 1 << 20;

impl View {
    /// Copies from `offset` on into the buffer.
    pub(crate) fn read(&self, offset: u64, into: VolatileSlice<'_>) -> Result<(), Refusal> {
        self.check(offset, into.len() as u64)?;
        if into.is_empty() {
            return Ok(());
        }
        match self.storage.dmem() {
            Some(dmem) => Ok(dmem.read_volatile(self.offset + offset, into)?),
            None => {
                self.host(offset, into.len() as u64)?.copy_to_volatile_slice(into);
                Ok(())
            }
        }
    }

    /// Copies the buffer to `offset`.
    pub(crate) fn write(&self, offset: u64, from: VolatileSlice<'_>) -> Result<(), Refusal> {
        self.check(offset, from.len() as u64)?;
        if from.is_empty() {
            return Ok(());
        }
        match self.storage.dmem() {
            Some(dmem) => Ok(dmem.write_volatile(self.offset + offset, from)?),
            None => {
                from.copy_to_volatile_slice(self.host(offset, from.len() as u64)?);
                Ok(())
            }
        }
    }

    /// Fills a range with one value; memory of the device, by the device.
    pub(crate) fn fill(&self, offset: u64, bytes: u64, value: u8) -> Result<(), Refusal> {
        self.check(offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        if let Bytes::Device(dmem) = self.storage.bytes()? {
            return Ok(dmem.fill(self.offset + offset, bytes, value)?);
        }
        let range = self.host(offset, bytes)?;
        let values = [value; 4096];
        for at in (0..range.len()).step_by(values.len()) {
            let rest = range.offset(at).map_err(|_| outside())?;
            rest.copy_from(values.get(..rest.len().min(values.len())).unwrap_or_default());
        }
        Ok(())
    }

    /// Copies a range of another tensor to `offset`. Between devices, or cores of one, nothing is copied.
    pub(crate) fn copy_from(
        &self,
        offset: u64,
        source: &Self,
        source_offset: u64,
        bytes: u64,
    ) -> Result<(), Refusal> {
        source.check(source_offset, bytes)?;
        self.check(offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let (from, to) = (source.offset + source_offset, self.offset + offset);
        match (source.storage.bytes()?, self.storage.bytes()?) {
            (Bytes::Device(source_memory), Bytes::Device(memory)) => {
                let place = |dmem: &neuron_dmem::Dmem| (dmem.device(), dmem.core(), dmem.hbm());
                if place(source_memory) != place(memory) {
                    let [from, to] = [source_memory, memory].map(|dmem| {
                        format!("neuron{} core {} HBM {}", dmem.device(), dmem.core(), dmem.hbm())
                    });
                    let why = format!(
                        "tensors of different cores cannot be copied, {from} to {to}: read and write them"
                    );
                    return Err(Refusal::invalid(why));
                }
                if Arc::ptr_eq(&source.storage, &self.storage) && from.abs_diff(to) < bytes {
                    return self.move_within(source, source_offset, offset, bytes);
                }
                Ok(memory.copy_from(to, source_memory, from, bytes)?)
            }
            (Bytes::Device(memory), Bytes::Host(_)) => {
                Ok(memory.read_volatile(from, self.host(offset, bytes)?)?)
            }
            (Bytes::Host(_), Bytes::Device(memory)) => {
                Ok(memory.write_volatile(to, source.host(source_offset, bytes)?)?)
            }
            (Bytes::Host(_), Bytes::Host(_)) => {
                source.host(source_offset, bytes)?.copy_to_volatile_slice(self.host(offset, bytes)?);
                Ok(())
            }
        }
    }

    /// As C's `memmove`: through a buffer, from that end on at which nothing is overwritten that is
    /// still to be read (our choice).
    fn move_within(&self, source: &Self, source_offset: u64, offset: u64, bytes: u64) -> Result<(), Refusal> {
        let mut buffer = vec![0; PIECE.min(bytes) as usize];
        let forward = source.offset + source_offset > self.offset + offset;
        let pieces = bytes.div_ceil(PIECE);
        for number in 0..pieces {
            let number = if forward { number } else { pieces - 1 - number };
            let at = number * PIECE;
            let length = PIECE.min(bytes - at) as usize;
            let piece = VolatileSlice::from(buffer.get_mut(..length).unwrap_or_default());
            source.read(source_offset + at, piece)?;
            self.write(offset + at, piece)?;
        }
        Ok(())
    }

    /// A range of memory that is reached directly. It was checked.
    fn host(&self, offset: u64, bytes: u64) -> Result<VolatileSlice<'_>, Refusal> {
        match self.storage.bytes()? {
            Bytes::Host(slice) => {
                slice.subslice((self.offset + offset) as usize, bytes as usize).map_err(|_| outside())
            }
            Bytes::Device(_) => Err(Refusal::failure("device memory is not reached directly")),
        }
    }
}

fn outside() -> Refusal {
    Refusal::invalid("the range is outside the tensor's memory")
}
