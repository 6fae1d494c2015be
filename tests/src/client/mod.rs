//! A process that uses the driver through its ioctls: an open file and memory of its own
//! that exists only here.
//!
//! | module | what lives there |
//! |---|---|
//! | [`space`] | the process's memory |
//! | `calls` | one method for each command that tests use often |

mod calls;
pub mod space;

use std::sync::Arc;

use neuron_abi::arg;
use neuron_abi::cmd::{self, Command};
use neuron_abi::memory::Category;
use neuron_driver::{Device, OpenFile, OpenMode};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::vectors::Mismatch;

pub use calls::NONE;
pub use space::Space;

/// Process id that the recorded sessions open the device with.
pub const PID: i32 = 1000;
/// User address of arguments.
const ARGUMENT: u64 = 0x7000_0000_0000;
/// User address of what an argument points to: handles and addresses.
const RESULT: u64 = 0x7000_0001_0000;

/// Memory that a client allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The driver's number for it.
    pub handle: u64,
    /// Bus address.
    pub pa: u64,
}

/// An open file and the process behind it. Dropping it is the process's exit.
pub struct Client {
    file: OpenFile,
    space: Space,
}

impl Client {
    /// Opens the device as [`PID`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn open(device: &Arc<Device>) -> Result<Self, Mismatch> {
        Self::open_as(device, PID)
    }

    /// Opens the device as another process.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn open_as(device: &Arc<Device>, pid: i32) -> Result<Self, Mismatch> {
        let file = OpenFile::open(device, pid, OpenMode::Full)
            .map_err(|errno| Mismatch::new(format!("open: {errno}")))?;
        Ok(Self { file, space: Space::default() })
    }

    /// The open file.
    pub const fn file(&self) -> &OpenFile {
        &self.file
    }

    /// The process's memory.
    pub const fn space(&self) -> &Space {
        &self.space
    }

    /// One ioctl: the word and an argument address. Returns 0 or a negative errno.
    pub fn ioctl(&self, word: u32, argument: u64) -> i64 {
        match self.file.ioctl(word, argument, &self.space) {
            Ok(()) => 0,
            Err(errno) => errno.negated().into(),
        }
    }

    /// One command with its argument structure, which shows afterwards what the driver
    /// wrote into it.
    pub fn call<T: IntoBytes + Immutable + FromBytes>(&self, command: &Command, argument: &mut T) -> i64 {
        self.space.map(ARGUMENT, argument.as_bytes().to_vec());
        let ret = self.ioctl(command.word, ARGUMENT);
        if let Ok(bytes) = self.space.bytes(ARGUMENT, size_of::<T>())
            && let Ok(after) = T::read_from_bytes(&bytes)
        {
            *argument = after;
        }
        ret
    }

    /// The 8 bytes that a command wrote where its argument pointed.
    fn result(&self) -> u64 {
        let bytes = self.space.bytes(RESULT, 8).unwrap_or_default();
        u64::read_from_bytes(&bytes).unwrap_or_default()
    }

    /// Allocates memory for a core, on an HBM or, if `hbm` is `None`, on the host.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn allocate(&self, hbm: Option<u32>, size: u64, core: u32) -> Result<Chunk, Mismatch> {
        self.try_allocate(hbm, size, core)
            .map_err(|ret| Mismatch::new(format!("allocating {size:#x} bytes for core {core}: {ret}")))
    }

    /// As [`allocate`](Self::allocate), where a refusal is expected.
    ///
    /// # Errors
    /// What the ioctl returned, of the allocation or of asking for its address.
    pub fn try_allocate(&self, hbm: Option<u32>, size: u64, core: u32) -> Result<Chunk, i64> {
        self.space.map(RESULT, vec![0; 8]);
        let mut wanted = arg::MemAllocV2MemType64 {
            size,
            host_memory: hbm.is_none().into(),
            dram_channel: hbm.unwrap_or(0),
            nc_id: core,
            mem_type: if hbm.is_none() { Category::TensorsHost } else { Category::TensorsDevice }.raw(),
            mem_handle: RESULT,
            ..Default::default()
        };
        match self.call(&cmd::MEM_ALLOC_V2MT64, &mut wanted) {
            0 => {}
            ret => return Err(ret),
        }
        let handle = self.result();
        match self.call(&cmd::MEM_GET_PA, &mut arg::MemGetPa { mem_handle: handle, pa: RESULT }) {
            0 => Ok(Chunk { handle, pa: self.result() }),
            ret => Err(ret),
        }
    }
}
