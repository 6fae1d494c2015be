//! One device, opened (`ndl_device_t`): typed commands over a backend's bytes.

use std::sync::Arc;

use neuron_abi::arch::{CompatRange, Geometry};
use neuron_abi::arg::{self, AppInfo, MemChunkEntry};
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::limits::{MAX_CORES, MAX_PROCESSES};
use vm_memory::VolatileSlice;
use zerocopy::{FromBytes, IntoBytes};

use crate::backend::{Backend, Lane, Mapping};
use crate::compat::{Compat, FallbackHook};
use crate::error::{Detail, NdlError};
use crate::facts::{self, DeviceFacts};
use crate::memory::{AllocRequest, CopyBuffer, Memory};
use crate::open::OpenDevice;
use crate::windows;

/// Handle of an asynchronous copy: what the next copy, or a wait, names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitHandle(u32);

impl WaitHandle {
    /// No copy before this one: a chain starts.
    pub const NONE: Self = Self(u32::MAX);
    /// Finish the copy before the call returns.
    pub const SYNC: Self = Self(0);

    /// Whether it is [`SYNC`](Self::SYNC).
    pub const fn is_sync(self) -> bool {
        self.0 == 0
    }

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

/// Bytes of the longest buffer copy that goes to the driver in one: 2 GiB, whole pieces of its
/// own 64 KiB.
const BUFFER_COPY_PIECE: u64 = 2 << 30;

/// How a device is opened. The default is the runtime's.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Map every HBM whole (`NEURON_RT_MAP_HBM`): see [`Device::hbm_window`].
    pub map_hbm: bool,
    /// Who hears what an older driver makes us do instead; nobody by default.
    pub on_fallback: Option<FallbackHook>,
}

/// A device, opened: eight bounce buffers and what the driver said of itself.
#[derive(Debug)]
pub struct Device {
    /// Unmapped first.
    hbm_windows: Vec<Mapping>,
    copy_buffers: Vec<CopyBuffer>,
    open: Arc<OpenDevice>,
    facts: DeviceFacts,
    backend: &'static str,
}

impl Device {
    /// Opens device `index` with default options.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(backend: &dyn Backend, index: u8) -> Result<Arc<Self>, NdlError> {
        Self::open_with(backend, index, &OpenOptions::default())
    }

    /// Opens device `index`: its node, what it is, whether we speak its driver's version,
    /// features, a bounce buffer for each of eight cores, whatever the device has, and the HBMs
    /// if asked (`spec/ndl.md` 5).
    ///
    /// # Errors
    /// The failing step; what was done before it is undone. EPROTONOSUPPORT with
    /// [`Detail::Versions`] for a driver that is too old or too new.
    pub fn open_with(backend: &dyn Backend, index: u8, options: &OpenOptions) -> Result<Arc<Self>, NdlError> {
        let opening = |errno| NdlError::new(index, NdlError::OPENING, errno);
        let file = backend.open(index, Lane::Full).map_err(opening)?;
        let compat = Compat::new(index, options.on_fallback.clone());
        let open = Arc::new(OpenDevice { file, index, compat });
        let facts = DeviceFacts::ask(&open)?;
        let copy_buffers = (0..MAX_CORES)
            .map(|core| {
                CopyBuffer::allocate(&open, core).map_err(|error| error.with(Detail::CopyBuffer { core }))
            })
            .collect::<Result<_, _>>()?;
        let hbm_windows =
            if options.map_hbm { windows::map_hbms(&open, facts.generation.geometry())? } else { Vec::new() };
        Ok(Arc::new(Self { hbm_windows, copy_buffers, open, facts, backend: backend.name() }))
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

    /// The runtime ids that the driver works with (ioctl 93).
    ///
    /// # Errors
    /// The driver's errno; EINVAL with [`Detail::NoCommand`] if it does not say.
    pub fn compatible_versions(&self) -> Result<CompatRange, NdlError> {
        let operation = "asking for the driver's versions";
        facts::versions(&self.open)?.ok_or_else(|| {
            let name = cmd::COMPATIBLE_VERSION.name;
            self.open.failed(operation, Errno::EINVAL).with(Detail::NoCommand(name))
        })
    }

    /// All of an HBM, if the device was opened so: whatever lives there, of whatever process.
    pub fn hbm_window(&self, hbm: u32) -> Option<&Mapping> {
        self.hbm_windows.get(hbm as usize)
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
        self.open.copy(&argument)
    }

    /// Starts a copy, waits for the one `previous` names, and returns the handle of this
    /// one. `prefetch` is where a caller will put the bytes next: a hint, 0 for none. With a
    /// driver that has no asynchronous copies the copy is over, and the handle
    /// [`SYNC`](WaitHandle::SYNC).
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
        self.open.copy_async(&argument).map(WaitHandle)
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

    /// Cut into pieces of which the shipped driver's 32-bit counters can count each
    /// (`spec/abi.md` 5.4): it would drop the upper half of a longer one's size. Pieces before
    /// one that fails are copied.
    ///
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
        let len = len as u64;
        let mut done = 0;
        loop {
            let size = (len - done).min(BUFFER_COPY_PIECE);
            let argument = arg::MemBufCopy64 {
                mem_handle: memory.handle(),
                buffer: address.wrapping_add(done),
                size,
                offset: offset.saturating_add(done),
                copy_to_mem_handle: to_memory.into(),
                ..Default::default()
            };
            // SAFETY: the piece lies inside the buffer, which is valid by this function's contract.
            unsafe { self.open.copy_buffer(&argument) }?;
            done += size;
            if done == len {
                return Ok(());
            }
        }
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
        self.open.memset(&argument)
    }

    /// All living blocks of an HBM, of all processes and of the driver, by address.
    ///
    /// # Errors
    /// The driver's errno; EINVAL with [`Detail::NoCommand`] if it is too old to list them.
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
                // A driver that has the command does not say EINVAL to any HBM (`spec/abi.md` 4.8).
                Err(error) if error.errno == Errno::EINVAL => {
                    return Err(error.with(Detail::NoCommand(cmd::DUMP_MEM_CHUNKS.name)));
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
