//! Commands about memory and cores that the allocator does not need: what a handle is, the
//! chunk at an address, mappable parts, HBM scrub.

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::enums::{Block, Resource};
use neuron_abi::features::Features;

use crate::backend::Mapping;
use crate::compat::Fallback;
use crate::device::Device;
use crate::error::NdlError;
use crate::memory::Memory;
use crate::windows;

/// What the driver knows of an allocation (`MEM_GET_EXTENDED_INFO`, `spec/abi.md` 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Host memory instead of device memory.
    pub host: bool,
    /// What it is mapped by.
    pub mmap_offset: u64,
    /// Physical address; host memory carries the generation's host tag.
    pub pa: u64,
    /// Process that allocated it.
    pub pid: u64,
    /// Bytes, rounded up to a page.
    pub size: u64,
}

/// A chunk that holds an address (`MEM_MC_GET_INFO`, `spec/abi.md` 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkAt {
    /// Its first address, and what it is mapped by.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Its handle, if the driver tells it.
    pub handle: Option<u64>,
}

impl Device {
    /// What the driver knows of an allocation.
    ///
    /// # Errors
    /// The driver's errno.
    pub fn memory_info(&self, memory: &Memory) -> Result<MemoryInfo, NdlError> {
        let argument = arg::MemGetExtendedInfo { mem_handle: memory.handle(), ..Default::default() };
        // SAFETY: the argument holds no user address.
        let info =
            unsafe { self.opened().call("asking about memory", cmd::MEM_GET_EXTENDED_INFO, argument) }?;
        let arg::MemGetExtendedInfo { host_memory, mmap_offset, pa, pid, size, .. } = info;
        Ok(MemoryInfo { host: host_memory != 0, mmap_offset, pa, pid, size })
    }

    /// The chunk that holds a physical address, of whatever process. Addresses of host memory
    /// carry the generation's host tag.
    ///
    /// # Errors
    /// ENOMEM for an address in no chunk; EINVAL with
    /// [`Detail::NoCommand`](crate::Detail::NoCommand) from a driver that cannot look it up.
    pub fn chunk_at(&self, pa: u64) -> Result<ChunkAt, NdlError> {
        let found = self.opened().lookup(pa)?;
        let handle = (found.mem_handle != 0).then_some(found.mem_handle);
        Ok(ChunkAt { start: found.mmap_offset, size: found.size, handle })
    }

    /// Maps a part of the device: to read, and to write unless it is
    /// [`All`](Resource::All) of a block.
    ///
    /// # Errors
    /// EINVAL for a part that the device does not have, or the errno of `mmap(2)`.
    pub fn map_part(&self, block: Block, block_id: u32, resource: Resource) -> Result<Mapping, NdlError> {
        windows::map(self.opened(), block, block_id, resource)
    }

    /// Fills an HBM with a word, by the device, and waits for it: all of it but what the
    /// firmware keeps. `false`, and nothing done, if the driver has no such command.
    ///
    /// # Errors
    /// EPERM for an HBM that is none, EBUSY while another process does the same.
    pub fn scrub_hbm(&self, core: u32, hbm: u32, value: u32) -> Result<bool, NdlError> {
        if !self.facts().features.contains(Features::HBM_SCRUB) {
            self.opened().compat.tell(Fallback::NoScrub);
            return Ok(false);
        }
        let start = arg::HbmScrubStart { nc_id: core, hbm_index: hbm, axi_port: 0, init_val: value };
        // SAFETY: neither argument holds an address.
        unsafe { self.opened().call("starting an HBM scrub", cmd::HBM_SCRUB_START, start) }?;
        let wait = arg::HbmScrubWait { nc_id: core, hbm_index: hbm };
        // SAFETY: as above.
        unsafe { self.opened().call("waiting for an HBM scrub", cmd::HBM_SCRUB_WAIT, wait) }?;
        Ok(true)
    }
}
