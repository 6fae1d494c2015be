//! One device, opened (`ndl_device_t`): typed commands over a backend's bytes.

use std::sync::Arc;

use neuron_abi::arch::{Generation, Geometry};
use neuron_abi::arg::{self, AppInfo, MemChunkEntry};
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::limits::{MAX_CORES, MAX_PROCESSES};
use vm_memory::VolatileSlice;
use zerocopy::{FromBytes, IntoBytes};

use crate::backend::{Backend, Lane};
use crate::error::NdlError;
use crate::memory::{AllocRequest, CopyBuffer, Memory};
use crate::open::OpenDevice;

/// What a device said of itself when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The N of `/dev/neuronN`.
    pub index: u8,
    /// Generation.
    pub generation: Generation,
    /// PCI revision.
    pub revision: u32,
    /// What the driver can do.
    pub features: Features,
    /// Connected devices.
    pub neighbours: Vec<u32>,
}

/// Handle of an asynchronous copy: what the next copy, or a wait, names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitHandle(u32);

impl WaitHandle {
    /// No copy before this one: a chain starts.
    pub const NONE: Self = Self(u32::MAX);
    /// Finish the copy before the call returns.
    pub const SYNC: Self = Self(0);

    /// Whether it names a copy that has to be waited for.
    pub const fn is_pending(self) -> bool {
        matches!(self.0, 1 | 2)
    }
}

/// A copy between two allocations.
#[derive(Clone, Copy, Debug)]
pub struct CopyRequest<'a> {
    /// Where the bytes are.
    pub source: &'a Memory,
    /// Where they go.
    pub destination: &'a Memory,
    /// Offset in the source, bytes.
    pub source_offset: u64,
    /// Offset in the destination, bytes.
    pub destination_offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A device, opened: eight bounce buffers and what the driver said of itself.
#[derive(Debug)]
pub struct Device {
    copy_buffers: Vec<CopyBuffer>,
    open: Arc<OpenDevice>,
    facts: DeviceFacts,
    backend: &'static str,
}

impl Device {
    /// Opens device `index`: facts, features, then a bounce buffer for each of eight
    /// cores, whatever the device has (`spec/ndl.md` 5).
    ///
    /// # Errors
    /// The failing step; what was done before it is undone.
    pub fn open(backend: &dyn Backend, index: u8) -> Result<Arc<Self>, NdlError> {
        let operation = "opening the device";
        let file =
            backend.open(index, Lane::Full).map_err(|errno| NdlError { device: index, operation, errno })?;
        let open = Arc::new(OpenDevice { file, index });
        let facts = facts(&open)?;
        let copy_buffers =
            (0..MAX_CORES).map(|core| CopyBuffer::allocate(&open, core)).collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { copy_buffers, open, facts, backend: backend.name() }))
    }

    pub(crate) fn opened(&self) -> &OpenDevice {
        &self.open
    }

    /// Name of the backend behind it.
    pub const fn backend(&self) -> &'static str {
        self.backend
    }

    /// The file behind it, for the other modules of typed commands.
    pub(crate) fn open_file(&self) -> &OpenDevice {
        &self.open
    }

    /// What the device said of itself.
    pub const fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    pub(crate) fn open_device(&self) -> &OpenDevice {
        &self.open
    }

    /// Cores and memory ranges of its generation.
    pub fn geometry(&self) -> &'static Geometry {
        self.facts.generation.geometry()
    }

    /// The bounce buffer of a core; no system call (`ndl_get_copy_buf`).
    pub fn copy_buffer(&self, core: u32) -> Option<&CopyBuffer> {
        self.copy_buffers.get(core as usize)
    }

    /// Allocates.
    ///
    /// # Errors
    /// ENOMEM when nothing fits, EINVAL for a bad HBM, core or alignment.
    pub fn allocate(&self, request: AllocRequest) -> Result<Memory, NdlError> {
        Memory::allocate(&self.open, request)
    }

    /// Copies between two allocations and returns when the bytes are there.
    ///
    /// # Errors
    /// EINVAL outside an allocation, ETIMEDOUT when the engine does not answer.
    pub fn copy(&self, copy: CopyRequest<'_>) -> Result<(), NdlError> {
        let argument = arg::MemCopy64 {
            src_mem_handle: copy.source.handle(),
            dst_mem_handle: copy.destination.handle(),
            size: copy.bytes,
            src_offset: copy.source_offset,
            dst_offset: copy.destination_offset,
        };
        // SAFETY: the argument holds no address.
        unsafe { self.open.call("copying", cmd::MEM_COPY64, argument) }?;
        Ok(())
    }

    /// Starts a copy, waits for the one `previous` names, and returns the handle of this
    /// one. `prefetch` is where a caller will put the bytes next: a hint, 0 for none.
    ///
    /// # Errors
    /// As [`copy`](Self::copy). When the wait for `previous` fails, both are over.
    pub fn copy_async(
        &self,
        copy: CopyRequest<'_>,
        prefetch: u64,
        previous: WaitHandle,
    ) -> Result<WaitHandle, NdlError> {
        let argument = arg::MemCopyAsync64 {
            src_mem_handle: copy.source.handle(),
            dst_mem_handle: copy.destination.handle(),
            size: copy.bytes,
            src_offset: copy.source_offset,
            dst_offset: copy.destination_offset,
            host_prefetch_addr: prefetch,
            pwait_handle: previous.0,
            wait_handle: 0,
        };
        // SAFETY: the prefetch address is a hint that no driver reads or writes through.
        let answer = unsafe { self.open.call("copying", cmd::MEM_COPY_ASYNC64, argument) }?;
        Ok(WaitHandle(answer.wait_handle))
    }

    /// Waits for an asynchronous copy that `memory` is the device end of.
    ///
    /// # Errors
    /// EINVAL if no such copy runs, ETIMEDOUT when it does not end. It is over either way.
    pub fn copy_wait(&self, memory: &Memory, handle: WaitHandle) -> Result<(), NdlError> {
        let argument = arg::MemCopyAsyncWait {
            src_mem_handle: memory.handle(),
            dst_mem_handle: memory.handle(),
            pwait_handle: handle.0,
            ..Default::default()
        };
        // SAFETY: the argument holds no address.
        unsafe { self.open.call("waiting for a copy", cmd::MEM_COPY_ASYNC_WAIT, argument) }?;
        Ok(())
    }

    /// Copies `from` into the allocation at `offset`.
    ///
    /// # Errors
    /// EINVAL outside the allocation, or the copy's error.
    pub fn buffer_copy_in(&self, memory: &Memory, offset: u64, from: &[u8]) -> Result<(), NdlError> {
        // SAFETY: `from` is borrowed for the call and only read in this direction.
        unsafe { self.buffer_copy(memory, offset, from.as_ptr() as u64, from.len(), true) }
    }

    /// As [`buffer_copy_in`](Self::buffer_copy_in), from memory that may change meanwhile.
    ///
    /// # Errors
    /// As [`buffer_copy_in`](Self::buffer_copy_in).
    pub fn buffer_copy_in_volatile(
        &self,
        memory: &Memory,
        offset: u64,
        from: VolatileSlice<'_>,
    ) -> Result<(), NdlError> {
        let address = from.ptr_guard().as_ptr() as u64;
        // SAFETY: a volatile slice is valid memory for its lifetime, which covers the call.
        unsafe { self.buffer_copy(memory, offset, address, from.len(), true) }
    }

    /// Copies from the allocation at `offset` into `into`.
    ///
    /// # Errors
    /// As [`buffer_copy_in`](Self::buffer_copy_in).
    pub fn buffer_copy_out(&self, memory: &Memory, offset: u64, into: &mut [u8]) -> Result<(), NdlError> {
        self.buffer_copy_out_volatile(memory, offset, VolatileSlice::from(into))
    }

    /// As [`buffer_copy_out`](Self::buffer_copy_out), into memory that others may look at.
    ///
    /// # Errors
    /// As [`buffer_copy_in`](Self::buffer_copy_in).
    pub fn buffer_copy_out_volatile(
        &self,
        memory: &Memory,
        offset: u64,
        into: VolatileSlice<'_>,
    ) -> Result<(), NdlError> {
        let address = into.ptr_guard_mut().as_ptr() as u64;
        // SAFETY: a volatile slice is valid memory for its lifetime, which covers the call.
        unsafe { self.buffer_copy(memory, offset, address, into.len(), false) }
    }

    /// # Safety
    /// `len` bytes at `address` are valid to read (`to_memory`) or write.
    unsafe fn buffer_copy(
        &self,
        memory: &Memory,
        offset: u64,
        address: u64,
        len: usize,
        to_memory: bool,
    ) -> Result<(), NdlError> {
        let argument = arg::MemBufCopy64 {
            mem_handle: memory.handle(),
            buffer: address,
            size: len as u64,
            offset,
            copy_to_mem_handle: to_memory.into(),
            ..Default::default()
        };
        // SAFETY: the buffer is valid by this function's contract.
        unsafe { self.open.call("copying a buffer", cmd::MEM_BUF_COPY64, argument) }?;
        Ok(())
    }

    /// Fills part of an allocation with one byte value, by the device itself.
    ///
    /// # Errors
    /// EINVAL outside the allocation, ETIMEDOUT when the engine does not answer.
    pub fn memset(&self, memory: &Memory, offset: u64, bytes: u64, value: u8) -> Result<(), NdlError> {
        let argument = arg::Memset64 {
            mem_handle: memory.handle(),
            offset,
            value: value.into(),
            size: bytes,
            ..Default::default()
        };
        // SAFETY: the argument holds no address.
        unsafe { self.open.call("filling memory", cmd::MEMSET64, argument) }?;
        Ok(())
    }

    /// All living blocks of an HBM, of all processes and of the driver, by address.
    ///
    /// # Errors
    /// The driver's errno.
    pub fn chunks(&self, hbm: u32) -> Result<Vec<MemChunkEntry>, NdlError> {
        let operation = "listing memory";
        let mut entries: Vec<MemChunkEntry> = Vec::new();
        loop {
            let argument = arg::DumpMemChunks {
                hbm_index: hbm,
                num_entries_in: entries.len() as u32,
                data: entries.as_mut_ptr() as u64,
                ..Default::default()
            };
            let mut bytes = argument;
            // SAFETY: `data` has room for `num_entries_in` entries; with fewer than there are
            // the driver copies none.
            let listed =
                unsafe { self.open.call_bytes(operation, cmd::DUMP_MEM_CHUNKS, bytes.as_mut_bytes()) };
            let count = bytes.num_entries_out as usize;
            match listed {
                Ok(()) => {
                    entries.truncate(count);
                    return Ok(entries);
                }
                // Grows between two calls are the only reason to ask again.
                Err(error) if error.errno == Errno::EAGAIN && count > entries.len() => {
                    entries.resize(count + 16, MemChunkEntry::default());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Processes that have the device open, with the bytes each holds.
    ///
    /// # Errors
    /// The driver's errno.
    pub fn processes(&self) -> Result<Vec<AppInfo>, NdlError> {
        const WANTS_MEMORY: u16 = 1 << 1;
        let (header_len, entry_len) = (size_of::<arg::GetAppsInfo>(), size_of::<AppInfo>());
        let header = arg::GetAppsInfo {
            apps_info_flags: WANTS_MEMORY,
            capacity: MAX_PROCESSES as u32,
            ..Default::default()
        };
        let mut bytes = vec![0; header_len + MAX_PROCESSES * entry_len];
        if let Some(start) = bytes.get_mut(..header_len) {
            start.copy_from_slice(header.as_bytes());
        }
        let operation = "listing processes";
        // SAFETY: the argument holds no address, and has room for `capacity` entries.
        unsafe { self.open.call_bytes(operation, cmd::DEVICE_GET_ALL_APPS_INFO, &mut bytes) }?;
        let (head, entries) = bytes.split_at(header_len);
        let count = arg::GetAppsInfo::read_from_bytes(head).map_or(0, |header| header.size as usize);
        let entries = entries.chunks_exact(entry_len).take(count);
        Ok(entries.filter_map(|entry| AppInfo::read_from_bytes(entry).ok()).collect())
    }
}

fn facts(open: &OpenDevice) -> Result<DeviceFacts, NdlError> {
    // SAFETY: these three arguments hold no address on the way in.
    let basic = unsafe {
        open.call("asking for the generation", cmd::DEVICE_BASIC_INFO, arg::DeviceBasicInfo::default())
    }?;
    let info =
        arg::DeviceDriverInfo { size: size_of::<arg::DeviceDriverInfo>() as u32, ..Default::default() };
    // SAFETY: as above.
    let driver = unsafe { open.call("asking for the driver's features", cmd::DRIVER_INFO_GET, info) }?;
    // SAFETY: as above.
    let device =
        unsafe { open.call("asking for the neighbours", cmd::DEVICE_INFO, arg::DeviceInfo::default()) }?;
    let unknown =
        NdlError { device: open.index, operation: "a generation we do not know", errno: Errno::ENODEV };
    Ok(DeviceFacts {
        index: open.index,
        generation: Generation::from_raw(basic.architecture).ok_or(unknown)?,
        revision: basic.revision,
        features: Features::from_bits(driver.feature_flags1),
        neighbours: device
            .connected_devices
            .into_iter()
            .take(device.connected_device_count as usize)
            .collect(),
    })
}
