//! mmap of chunks (`spec/abi.md` 9.1). A mapping holds a reference: memory is used again
//! only when it was freed and unmapped.

use neuron_abi::errno::Errno;
use neuron_abi::memory::Category;

use crate::hw::DmaMemory;
use crate::pool::{ChunkRef, Lifespan};
use crate::process::OpenFile;

/// What to map, and the reference that keeps it. Hold it as long as the mapping lives.
#[derive(Debug)]
pub struct Mapped {
    /// Bytes to map.
    pub window: Window,
    /// Whether the process may write.
    pub writable: bool,
    /// Keeps the chunk.
    pub chunk: ChunkRef,
}

/// Where mapped bytes are.
#[derive(Clone, Debug)]
pub enum Window {
    /// Host memory.
    Host(DmaMemory),
    /// Device memory, through BAR4.
    Bar4 {
        /// Offset in the BAR, bytes.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
}

impl OpenFile {
    /// Resolves an mmap of `bytes` at `offset`, the cookie that `MEM_GET_INFO` gave.
    ///
    /// # Errors
    /// EINVAL for device memory that BAR4 does not show; EPERM for anything that is not
    /// the whole of a chunk.
    pub fn mmap(&self, offset: u64, bytes: u64) -> Result<Mapped, Errno> {
        let device = self.device();
        let chunk = device.pools().at_address(offset).ok_or(Errno::EPERM)?;
        let scratchpad = chunk.category() == Category::ContiguousScratchpadDevice as u32;
        let whole = if scratchpad { bytes <= device.pools().bounds(&chunk) } else { bytes == chunk.size() };
        if !whole || bytes == 0 {
            return Err(Errno::EPERM);
        }
        let window = match chunk.host_memory() {
            Some(memory) => Window::Host(memory.clone()),
            None => {
                let offset = device.geometry().bar4_offset(chunk.pa(), bytes).ok_or(Errno::EINVAL)?;
                if device.bar4_size() == 0 {
                    return Err(Errno::EINVAL);
                }
                Window::Bar4 { offset, bytes }
            }
        };
        let writable = chunk.pid() == self.pid() || chunk.lifespan() == Lifespan::Device;
        Ok(Mapped { window, writable, chunk })
    }
}
