//! An open device below `neuron_ndl`: the descriptor itself, and calls by the file's number.

use std::os::fd::OwnedFd;

use neuron_abi::memory::Category;
use neuron_abi::{arg, cmd};
use neuron_wire::client::open;
use neuron_wire::{Address, Answer, CallError, Calls, OpenedFile};
use zerocopy::{Immutable, IntoBytes};

use crate::child::SPAWN;

/// An open device of this process.
pub(crate) struct Raw {
    pub(crate) calls: Calls,
    /// The program's descriptor; it is open as long as there is one.
    pub(crate) descriptor: Option<OwnedFd>,
    pub(crate) file: u64,
}

impl Raw {
    pub(crate) fn open(address: &Address, device: u32) -> Self {
        let OpenedFile { socket, file } = open::open(address, device, 2).unwrap();
        Self { calls: Calls::new(address.clone()), descriptor: Some(socket), file }
    }

    /// An inherited descriptor.
    pub(crate) fn inherited(address: &Address, socket: OwnedFd) -> Self {
        let file = open::which(&socket, address.path()).unwrap();
        Self { calls: Calls::new(address.clone()), descriptor: Some(socket), file }
    }

    /// Closes its last descriptor: none is in a child that is being started either.
    pub(crate) fn close(&mut self) {
        let _no_child_is_on_its_way = SPAWN.read();
        self.descriptor = None;
    }

    /// A call whose argument holds no addresses, or such of this process that are valid.
    pub(crate) fn ioctl<T: IntoBytes + Immutable>(
        &self,
        word: u32,
        argument: &mut T,
    ) -> Result<Answer, CallError> {
        self.calls.ioctl(self.file, word, (&raw mut *argument) as u64)
    }

    /// The handle of new memory, and where it maps.
    pub(crate) fn allocate(&self, size: u64, host: bool) -> Result<(u64, u64), CallError> {
        let (mut handle, mut offset, mut pa) = (0_u64, 0_u64, 0_u64);
        let mut wanted = arg::MemAllocV2MemType64 {
            size,
            host_memory: host.into(),
            mem_type: if host { Category::TensorsHost } else { Category::TensorsDevice } as u32,
            mem_handle: &raw mut handle as u64,
            ..Default::default()
        };
        self.ioctl(cmd::MEM_ALLOC_V2MT64.word, &mut wanted)?;
        // The server has written it, which the compiler cannot know.
        let handle = std::hint::black_box(handle);
        let mut asked = arg::MemGetInfo {
            mem_handle: handle,
            mmap_offset: &raw mut offset as u64,
            pa: &raw mut pa as u64,
        };
        self.ioctl(cmd::MEM_GET_INFO.word, &mut asked)?;
        Ok((handle, std::hint::black_box(offset)))
    }

    pub(crate) fn free(&self, handle: u64) -> Result<(), CallError> {
        self.ioctl(cmd::MEM_FREE.word, &mut arg::MemFree { mem_handle: handle }).map(drop)
    }

    pub(crate) fn write(&self, handle: u64, bytes: &[u8]) -> Result<(), CallError> {
        self.copy(handle, bytes.as_ptr() as u64, bytes.len(), true)
    }

    pub(crate) fn read(&self, handle: u64, len: usize) -> Result<Vec<u8>, CallError> {
        let mut bytes = vec![0; len];
        self.copy(handle, bytes.as_mut_ptr() as u64, len, false)?;
        Ok(std::hint::black_box(bytes))
    }

    fn copy(&self, handle: u64, address: u64, len: usize, to_memory: bool) -> Result<(), CallError> {
        let mut copy = arg::MemBufCopy64 {
            mem_handle: handle,
            buffer: address,
            size: len as u64,
            copy_to_mem_handle: to_memory.into(),
            ..Default::default()
        };
        self.ioctl(cmd::MEM_BUF_COPY64.word, &mut copy).map(drop)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.close();
    }
}
