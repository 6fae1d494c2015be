//! Small writes that the processor does itself, through the HBM window (`spec/dma-op.md` 7.1).
//! They are not ordered against DMA in flight.

use neuron_abi::errno::Errno;
use vm_memory::VolatileSlice;

use crate::device::Device;
use crate::pool::ChunkRef;
use crate::user::UserMemory;

/// Bytes of such a write, at most: two pages.
pub const DIRECT_WRITE_MAX: u64 = 8192;
/// Size and offset are multiples of it.
const WORD: u64 = 4;

/// A write that may go through the window.
#[derive(Clone, Copy, Debug)]
pub struct DirectWrite<'a> {
    /// The chunk.
    pub chunk: &'a ChunkRef,
    /// Offset in it, bytes.
    pub offset: u64,
    /// User address of the bytes.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The caller's limit.
    pub threshold: u64,
}

impl Device {
    /// Does all of `writes` through the window if each qualifies; `false`, with nothing
    /// written, if not.
    ///
    /// # Errors
    /// EFAULT; part of the bytes may have been written.
    pub fn write_directly(&self, user: &dyn UserMemory, writes: &[DirectWrite<'_>]) -> Result<bool, Errno> {
        let windows: Option<Vec<_>> = writes.iter().map(|write| self.window(write)).collect();
        let Some(windows) = windows else { return Ok(false) };
        for (write, window) in writes.iter().zip(windows) {
            user.read(write.address, window)?;
        }
        Ok(true)
    }

    /// Where a write lands in the window, if it may go there. (The device model of PCI
    /// revision 255, where it never may, is refused by probe.)
    fn window(&self, write: &DirectWrite<'_>) -> Option<VolatileSlice<'_>> {
        let &DirectWrite { chunk, offset, bytes, threshold, .. } = write;
        let qualifies = chunk.is_device()
            && bytes <= threshold.min(DIRECT_WRITE_MAX)
            && bytes.is_multiple_of(WORD)
            && offset.is_multiple_of(WORD);
        if !qualifies {
            return None;
        }
        self.hardware().window(self.geometry().bar4_offset(chunk.pa() + offset, bytes)?, bytes)
    }
}
