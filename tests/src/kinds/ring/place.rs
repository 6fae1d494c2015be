//! Memory at recorded addresses, for rings that a process binds.

use neuron_abi::memory::{Category, MemLocation};
use neuron_driver::Device;
use neuron_driver::pool::{ChunkRef, Lifespan, Request};

use crate::vectors::{Mismatch, equal_hex};

/// Allocates memory where a recorded chunk was. The recorder had allocated other chunks
/// before, which a case may not mention: what lies below is taken too, and kept.
#[derive(Default)]
pub struct Places {
    chunks: Vec<ChunkRef>,
}

impl Places {
    /// A chunk of `size` bytes at `address`.
    ///
    /// # Errors
    /// If it is placed elsewhere.
    pub fn chunk(&mut self, device: &Device, address: u64, size: u64) -> Result<ChunkRef, Mismatch> {
        let mut chunk = allocate(device, address, size)?;
        if let Some(gap) = address.checked_sub(chunk.pa()).filter(|gap| *gap > 0) {
            drop(chunk);
            self.chunks.push(allocate(device, address, gap)?);
            chunk = allocate(device, address, size)?;
        }
        equal_hex(format!("address of {size:#x} bytes"), chunk.pa(), address)?;
        self.chunks.push(ChunkRef::clone(&chunk));
        Ok(chunk)
    }

    /// A chunk of `size` bytes on the memory that `address` is on, wherever it is placed.
    ///
    /// # Errors
    /// If there is none.
    pub fn on_memory_of(&mut self, device: &Device, address: u64, size: u64) -> Result<ChunkRef, Mismatch> {
        let chunk = allocate(device, address, size)?;
        self.chunks.push(ChunkRef::clone(&chunk));
        Ok(chunk)
    }

    /// The chunks, in the order they were asked for.
    pub fn chunks(&self) -> &[ChunkRef] {
        &self.chunks
    }
}

/// Memory that nobody but its holders keep, on the memory that `address` is on.
fn allocate(device: &Device, address: u64, size: u64) -> Result<ChunkRef, Mismatch> {
    let hbm = device.geometry().hbm_holding(address, 1);
    let (location, category) = match hbm {
        Some(_) => (MemLocation::Device, Category::DmaRingsDevice),
        None => (MemLocation::Host, Category::DmaRingsHost),
    };
    let request = Request {
        size,
        align: 0,
        location,
        channel: hbm.unwrap_or(0),
        core: 0,
        category: category.raw(),
        lifespan: Lifespan::Local,
        pid: 0,
        usage: None,
    };
    let refused = |errno| Mismatch::new(format!("{size:#x} bytes at {address:#x}: {errno}"));
    device.pools().allocate(request).map_err(refused)
}
