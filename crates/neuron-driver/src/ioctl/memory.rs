//! Allocation, lookup and chunk dump (`spec/abi.md` 4).

use neuron_abi::arg;
use neuron_abi::errno::Errno;
use neuron_abi::memory::{Category, MemLocation};

use super::Call;
use crate::pool::{Lifespan, Request};

/// What the four widths of allocation have in common.
struct Wanted {
    size: u64,
    align: u64,
    host_memory: u32,
    channel: u32,
    core: u32,
    category: Option<u32>,
    /// User address for the handle.
    handle: u64,
}

impl Call<'_> {
    pub(super) fn mem_alloc(&self) -> Result<(), Errno> {
        // This width alone answers EACCES when the argument itself cannot be read.
        let arg: arg::MemAlloc = self.read().map_err(|_| Errno::EACCES)?;
        self.allocate(&Wanted {
            size: arg.size,
            align: 0,
            host_memory: arg.host_memory,
            channel: arg.dram_channel,
            core: arg.nc_id,
            category: None,
            handle: arg.mem_handle,
        })
    }

    pub(super) fn mem_alloc_v2(&self) -> Result<(), Errno> {
        let arg: arg::MemAllocV2 = self.read()?;
        self.allocate(&Wanted {
            size: arg.size,
            align: arg.align,
            host_memory: arg.host_memory,
            channel: arg.dram_channel,
            core: arg.nc_id,
            category: None,
            handle: arg.mem_handle,
        })
    }

    pub(super) fn mem_alloc_v2_mem_type(&self) -> Result<(), Errno> {
        let arg: arg::MemAllocV2MemType = self.read()?;
        self.allocate(&Wanted {
            size: arg.size,
            align: arg.align,
            host_memory: arg.host_memory,
            channel: arg.dram_channel,
            core: arg.nc_id,
            category: Some(arg.mem_type),
            handle: arg.mem_handle,
        })
    }

    /// The same request as the 48-byte form; the longer argument only tells a client
    /// that this driver takes sizes of 4 GiB and more.
    pub(super) fn mem_alloc_v2_mem_type64(&self) -> Result<(), Errno> {
        let arg: arg::MemAllocV2MemType64 = self.read()?;
        self.allocate(&Wanted {
            size: arg.size,
            align: arg.align,
            host_memory: arg.host_memory,
            channel: arg.dram_channel,
            core: arg.nc_id,
            category: Some(arg.mem_type),
            handle: arg.mem_handle,
        })
    }

    fn allocate(&self, wanted: &Wanted) -> Result<(), Errno> {
        let (location, unknown) = match wanted.host_memory {
            0 => (MemLocation::Device, Category::UnknownDevice),
            _ => (MemLocation::Host, Category::UnknownHost),
        };
        let pools = self.device().pools();
        let chunk = pools.allocate(Request {
            size: wanted.size,
            align: wanted.align,
            location,
            channel: wanted.channel,
            core: wanted.core,
            category: wanted.category.unwrap_or(unknown as u32),
            lifespan: Lifespan::CurrentProcess,
            pid: self.pid,
            usage: self.device().slots().usage(self.pid),
        })?;
        let told = pools.publish(&chunk).and_then(|handle| self.write(wanted.handle, &handle));
        if told.is_err() {
            pools.discard(&chunk);
        }
        told
    }

    pub(super) fn mem_free(&self) -> Result<(), Errno> {
        let arg: arg::MemFree = self.read()?;
        self.device().pools().free(arg.mem_handle)
    }

    pub(super) fn mem_get_pa(&self) -> Result<(), Errno> {
        let arg: arg::MemGetPa = self.read()?;
        let chunk = self.device().pools().lookup(arg.mem_handle)?;
        self.write(arg.pa, &chunk.pa())
    }

    pub(super) fn mem_get_info(&self) -> Result<(), Errno> {
        let arg: arg::MemGetInfo = self.read()?;
        let chunk = self.device().pools().lookup(arg.mem_handle)?;
        self.write(arg.pa, &chunk.pa())?;
        match arg.mmap_offset {
            0 => Ok(()),
            address => self.write(address, &chunk.pa()),
        }
    }

    /// The handle is written back where the shipped driver gives away a kernel pointer.
    pub(super) fn mem_get_extended_info(&self) -> Result<(), Errno> {
        let arg: arg::MemGetExtendedInfo = self.read()?;
        let chunk = self.device().pools().lookup(arg.mem_handle)?;
        self.reply(&arg::MemGetExtendedInfo {
            mem_handle: arg.mem_handle,
            version: 0,
            host_memory: (!chunk.is_device()).into(),
            mmap_offset: chunk.pa(),
            pa: chunk.pa(),
            pid: u64::from(chunk.pid().cast_unsigned()),
            size: chunk.size(),
        })
    }

    pub(super) fn mem_mc_get_info(&self) -> Result<(), Errno> {
        let arg: arg::MemGetMcMmapInfo = self.read()?;
        let chunk = self.device().pools().at_address(arg.pa).ok_or(Errno::ENOMEM)?;
        self.reply(&arg::MemGetMcMmapInfo { mmap_offset: chunk.pa(), size: chunk.size(), ..arg })
    }

    /// Publishes a handle if the chunk has none.
    pub(super) fn mem_mc_get_info_v2(&self) -> Result<(), Errno> {
        let arg: arg::MemGetMcMmapInfoV2 = self.read()?;
        let pools = self.device().pools();
        let chunk = pools.at_address(arg.pa).ok_or(Errno::ENOMEM)?;
        let mem_handle = pools.publish(&chunk)?;
        self.reply(&arg::MemGetMcMmapInfoV2 {
            mmap_offset: chunk.pa(),
            size: chunk.size(),
            mem_handle,
            ..arg
        })
    }

    pub(super) fn dump_mem_chunks(&self) -> Result<(), Errno> {
        let arg: arg::DumpMemChunks = self.read()?;
        let chunks = self.device().pools().device_chunks(arg.hbm_index);
        self.reply(&arg::DumpMemChunks { num_entries_out: chunks.len() as u32, ..arg })?;
        if (arg.num_entries_in as usize) < chunks.len() {
            return Err(Errno::EAGAIN);
        }
        let stride = size_of::<arg::MemChunkEntry>() as u64;
        for (index, (pa, size, mem_type)) in chunks.into_iter().enumerate() {
            let at = arg.data.checked_add(index as u64 * stride).ok_or(Errno::EFAULT)?;
            self.write(at, &arg::MemChunkEntry { pa, size, mem_type, ..Default::default() })?;
        }
        Ok(())
    }
}
