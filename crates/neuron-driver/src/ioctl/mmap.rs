//! mmap of chunks, of a generation's mappable parts, and of HBM as it is (`spec/abi.md`
//! 9.1, 9.2). A mapping holds a reference: memory is used again only when it was freed and
//! unmapped.

use std::sync::Arc;

use neuron_abi::arg;
use neuron_abi::errno::Errno;
use neuron_abi::memory::Category;

use super::Call;
use crate::arch::BarPlace;
use crate::device::Device;
use crate::mapping::Record;
use crate::pool::{ChunkRef, Lifespan};
use crate::process::OpenFile;

pub use crate::mapping::Window;

/// What to map, and the reference that keeps it. Hold it as long as the mapping lives.
pub struct Mapped {
    /// Bytes to map.
    pub window: Window,
    /// Whether the process may write. If not, the mapping is made without both rights: to
    /// write, and to be given that later.
    pub writable: bool,
    /// Keeps the chunk, if the mapping is of one.
    pub chunk: Option<ChunkRef>,
    /// Process it is for.
    pid: i32,
    device: Arc<Device>,
    record: Option<Record>,
}

impl Mapped {
    /// Tells the driver where the mapping went: the user address of its first byte. Without
    /// that it works, but no dma-buf can be made of it. Only attached processes' mappings
    /// are remembered, and none of registers.
    pub fn place(&mut self, va: u64) {
        let attached = self.device.slots().usage(self.pid).is_some();
        if !attached || matches!(self.window, Window::Bar0 { .. }) {
            return;
        }
        let mappings = self.device.system().mappings();
        let (window, chunk) = (self.window.clone(), self.chunk.clone());
        let record = mappings.record(self.pid, va, self.device.index(), window, self.writable, chunk);
        self.record = Some(record);
    }
}

impl std::fmt::Debug for Mapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapped")
            .field("window", &self.window)
            .field("writable", &self.writable)
            .field("pid", &self.pid)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}

impl OpenFile {
    /// Resolves an mmap by the process that opened the file, of `bytes` at `offset`: the
    /// cookie that `MEM_GET_INFO` or `RESOURCE_MMAP_INFO` gave.
    ///
    /// # Errors
    /// EINVAL for device memory that BAR4 does not show. EPERM for anything that is neither
    /// the whole of a chunk nor a mappable part, from a process without
    /// [raw access](OpenFile::with_raw_io); with it EINVAL unless it is HBM.
    pub fn mmap(&self, offset: u64, bytes: u64) -> Result<Mapped, Errno> {
        self.mmap_as(self.pid(), offset, bytes)
    }

    /// As [`mmap`](Self::mmap), by process `pid`, which got the file from the one that
    /// opened it. It does not inherit raw access.
    ///
    /// # Errors
    /// As [`mmap`](Self::mmap).
    pub fn mmap_as(&self, pid: i32, offset: u64, bytes: u64) -> Result<Mapped, Errno> {
        let device = self.device();
        let mapped = |window, writable, chunk| Mapped {
            window,
            writable,
            chunk,
            pid,
            device: Arc::clone(device),
            record: None,
        };
        if let Some(chunk) = device.pools().at_address(offset).filter(|chunk| is_whole(device, chunk, bytes))
        {
            let window = match chunk.host_memory() {
                Some(memory) => Window::Host(memory.clone()),
                None => hbm_window(device, chunk.pa(), bytes)?,
            };
            let writable = chunk.pid() == pid || chunk.lifespan() == Lifespan::Device;
            return Ok(mapped(window, writable, Some(chunk)));
        }
        if let Some(part) = device.arch().resource_at(offset, bytes) {
            let window = match part.place {
                BarPlace::Bar0(offset) => Window::Bar0 { offset, bytes },
                BarPlace::Bar4(_) if device.bar4_size() == 0 => return Err(Errno::EINVAL),
                BarPlace::Bar4(offset) => Window::Bar4 { offset, bytes },
            };
            return Ok(mapped(window, part.writable, None));
        }
        if !self.may_map_raw(pid) {
            return Err(Errno::EPERM);
        }
        Ok(mapped(hbm_window(device, offset, bytes)?, true, None))
    }
}

/// Whether a mapping of `bytes` is the chunk's own: all of it, or for the contiguous
/// scratchpad any size up to the main pool's end.
fn is_whole(device: &Device, chunk: &ChunkRef, bytes: u64) -> bool {
    let scratchpad = chunk.category() == Category::ContiguousScratchpadDevice as u32;
    let whole = if scratchpad { bytes <= device.pools().bounds(chunk) } else { bytes == chunk.size() };
    whole && bytes > 0
}

fn hbm_window(device: &Device, pa: u64, bytes: u64) -> Result<Window, Errno> {
    let offset = device.geometry().bar4_offset(pa, bytes).ok_or(Errno::EINVAL)?;
    if device.bar4_size() == 0 || bytes == 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Window::Bar4 { offset, bytes })
}

impl Call<'_> {
    pub(super) fn resource_mmap_info(&self) -> Result<(), Errno> {
        let arg: arg::ResourceMmapInfo = self.read()?;
        let part =
            self.device().arch().resource(arg.block, arg.block_id, arg.resource).ok_or(Errno::EINVAL)?;
        self.reply(&arg::ResourceMmapInfo { offset: part.cookie, size: part.bytes, ..arg })
    }
}
