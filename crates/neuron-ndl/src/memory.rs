//! Memory of a device, owned: a driver handle that is freed when dropped, and the bounce
//! buffers that copies go through.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::memory::Category;

use crate::backend::Mapping;
use crate::error::NdlError;
use crate::open::OpenDevice;

/// Bytes of a core's bounce buffer (`spec/ndl.md` 1.1).
pub const COPY_BUFFER_BYTES: u64 = 2 << 20;

/// What to allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// Bytes; the driver rounds up to a page.
    pub size: u64,
    /// Bytes; 0 for a page. Host memory takes only 0.
    pub align: u64,
    /// Host memory instead of device memory.
    pub host: bool,
    /// HBM; 0 for host memory.
    pub hbm: u32,
    /// Core that copies to it and that it is accounted to, 0..=7.
    pub core: u32,
    /// Category it is counted under.
    pub category: Category,
}

/// Memory that the driver allocated (`ndl_mem_info_t`, `spec/ndl.md` 1.3). Dropping it
/// frees it.
#[derive(Debug)]
pub struct Memory {
    device: Arc<OpenDevice>,
    handle: u64,
    pa: u64,
    request: AllocRequest,
}

impl Memory {
    pub(crate) fn allocate(device: &Arc<OpenDevice>, request: AllocRequest) -> Result<Self, NdlError> {
        let handle = device.allocate(&arg::MemAllocV2MemType64 {
            size: request.size,
            align: request.align,
            host_memory: request.host.into(),
            dram_channel: request.hbm,
            nc_id: request.core,
            mem_type: request.category as u32,
            ..Default::default()
        })?;
        // From here on an error frees the memory again.
        let mut memory = Self { device: Arc::clone(device), handle, pa: 0, request };
        memory.pa = memory.query_pa()?;
        Ok(memory)
    }

    fn query_pa(&self) -> Result<u64, NdlError> {
        let mut pa = 0;
        let argument = arg::MemGetPa { mem_handle: self.handle, pa: &raw mut pa as u64 };
        // SAFETY: `pa` points to a local u64 that outlives the call.
        unsafe { self.device.call(NdlError::PHYSICAL_ADDRESS, cmd::MEM_GET_PA, argument) }?;
        Ok(pa)
    }

    /// The driver's number for it: what goes into an argument where the runtime's callers
    /// have the address of its record (`spec/ndl.md` 1.3).
    pub const fn handle(&self) -> u64 {
        self.handle
    }

    /// Physical address; host memory carries the generation's host tag.
    pub const fn pa(&self) -> u64 {
        self.pa
    }

    /// What was asked for.
    pub const fn request(&self) -> &AllocRequest {
        &self.request
    }

    /// Maps all of it, anew with each call: who wants one mapping keeps it.
    ///
    /// # Errors
    /// EINVAL for device memory without a window, or the errno of `mmap(2)`.
    pub fn map(&self) -> Result<Mapping, NdlError> {
        let (mut mmap_offset, mut pa) = (0_u64, 0_u64);
        let argument = arg::MemGetInfo {
            mem_handle: self.handle,
            mmap_offset: &raw mut mmap_offset as u64,
            pa: &raw mut pa as u64,
        };
        // SAFETY: both addresses are of local u64s that outlive the call.
        unsafe { self.device.call("asking where memory maps", cmd::MEM_GET_INFO, argument) }?;
        let bytes = self.request.size.next_multiple_of(neuron_abi::arch::PAGE_SIZE);
        self.device.map("mapping memory", mmap_offset, bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let argument = arg::MemFree { mem_handle: self.handle };
        // SAFETY: the argument holds no address. A failure has no one to go to: the handle
        // is ours alone, so the only cause is a device that is gone, and its memory with it.
        let _freed = unsafe { self.device.call("freeing memory", cmd::MEM_FREE, argument) };
    }
}

/// The bounce buffer of a core: 2 MiB of host memory, mapped, shared by all copies of
/// the core, one at a time.
#[derive(Debug)]
pub struct CopyBuffer {
    locked: Mutex<Buffer>,
}

/// A bounce buffer while it is held.
#[derive(Debug)]
pub struct Buffer {
    /// The bytes. Unmapped before the memory is freed.
    pub mapping: Mapping,
    /// What the driver knows it by.
    pub memory: Memory,
}

impl CopyBuffer {
    pub(crate) fn allocate(device: &Arc<OpenDevice>, core: u32) -> Result<Self, NdlError> {
        let request = AllocRequest {
            size: COPY_BUFFER_BYTES,
            align: 0,
            host: true,
            hbm: 0,
            core,
            // Our choice (spec/ndl.md 8.2): shown as driver memory.
            category: Category::NcdevHost,
        };
        let memory = Memory::allocate(device, request)?;
        let mapping = memory.map()?;
        Ok(Self { locked: Mutex::new(Buffer { mapping, memory }) })
    }

    /// Takes the buffer for one transfer.
    pub fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
