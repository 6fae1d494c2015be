//! Older drivers: a driver with what they lack hidden.
//!
//! Of releases before 2.24.7 nothing is known but that clients still look for them. The order
//! in which they are taken to have lost commands here is by command number and feature bit
//! (our choice). [`OldDriver::hide`] makes others.

use neuron_abi::arg::{CompatibleVersion, DeviceDriverInfo, MemBufCopy64, MemBufCopy64Zc};
use neuron_abi::cmd::{self, Command, Release};
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::limits::DEFAULT_H2T_QUEUE;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::backend::{Backend, DeviceFile, Lane, Mapping};
use crate::introspect::Introspection;

/// How old a driver is, newest first. Each lacks what the newer ones lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    /// All there is.
    V2_27_4,
    /// No completion queues.
    V2_25_4,
    /// No batches and no H2T queues to be had; zero-copy reads 40 bytes, and is not reported.
    V2_24_7,
    /// No 64-bit forms, no zero-copy, no contiguous scratchpad.
    Before64Bit,
    /// No list of chunks, no HBM scrub.
    BeforeChunkList,
    /// No categories; chunks by address are told without their handle.
    BeforeCategories,
    /// No driver info: features can only be tried.
    BeforeDriverInfo,
    /// No asynchronous copies, chunks by address or windows; no basic info.
    BeforeAsync,
    /// Allocations by number 21 only; no range of versions.
    BeforeAlignment,
}

impl Age {
    /// All, newest first.
    pub const ALL: [Self; 9] = [
        Self::V2_27_4,
        Self::V2_25_4,
        Self::V2_24_7,
        Self::Before64Bit,
        Self::BeforeChunkList,
        Self::BeforeCategories,
        Self::BeforeDriverInfo,
        Self::BeforeAsync,
        Self::BeforeAlignment,
    ];

    /// Features that the driver reports; `None` if it cannot be asked.
    pub const fn features(self) -> Option<Features> {
        Some(match self {
            Self::V2_27_4 => Features::of(Release::V2_27_4),
            Self::V2_25_4 => Features::of(Release::V2_25_4),
            Self::V2_24_7 => Features::of(Release::V2_24_7),
            Self::Before64Bit => Features::from_bits(0x3F),
            Self::BeforeChunkList => Features::from_bits(0x1F),
            Self::BeforeCategories => Features::from_bits(0x0F),
            Self::BeforeDriverInfo | Self::BeforeAsync | Self::BeforeAlignment => return None,
        })
    }

    /// Commands that the driver before this one had.
    fn lost(self) -> Vec<Command> {
        let since = |release| cmd::ALL.iter().filter(move |command| command.since == release);
        match self {
            Self::V2_27_4 => Vec::new(),
            Self::V2_25_4 => since(Release::V2_27_4).copied().collect(),
            // Zero-copy is there, in an older form.
            Self::V2_24_7 => since(Release::V2_25_4)
                .filter(|&command| *command != cmd::MEM_BUF_ZEROCOPY64)
                .copied()
                .collect(),
            Self::Before64Bit => vec![
                cmd::MEM_ALLOC_V2MT64,
                cmd::MEM_COPY64,
                cmd::MEM_BUF_COPY64,
                cmd::MEMSET64,
                cmd::MEM_COPY_ASYNC64,
                cmd::MEM_BUF_ZEROCOPY64,
            ],
            Self::BeforeChunkList => vec![cmd::DUMP_MEM_CHUNKS, cmd::HBM_SCRUB_START, cmd::HBM_SCRUB_WAIT],
            Self::BeforeCategories => vec![cmd::MEM_ALLOC_V2MT, cmd::MEM_MC_GET_INFO_V2],
            Self::BeforeDriverInfo => vec![cmd::DRIVER_INFO_GET],
            Self::BeforeAsync => vec![
                cmd::MEM_COPY_ASYNC,
                cmd::MEM_COPY_ASYNC_WAIT,
                cmd::MEM_MC_GET_INFO,
                cmd::RESOURCE_MMAP_INFO,
                cmd::DEVICE_BASIC_INFO,
            ],
            Self::BeforeAlignment => vec![cmd::MEM_ALLOC_V2, cmd::COMPATIBLE_VERSION],
        }
    }
}

/// A driver that is as old as one likes, in front of one that is not.
pub struct OldDriver {
    inner: Box<dyn Backend>,
    manner: Manner,
}

/// What is different.
#[derive(Clone, Debug)]
struct Manner {
    hidden: Vec<u32>,
    features: Option<Features>,
    /// Newest and oldest version, if not the driver's own.
    versions: Option<(u32, u32)>,
    /// Zero-copy reads 40 bytes, of whatever the word says.
    short_zero_copy: bool,
    /// The size of a buffer copy is counted in 32 bits.
    short_buffer_copy: bool,
}

impl OldDriver {
    /// A driver of this age.
    pub fn new(inner: impl Backend + 'static, age: Age) -> Self {
        let lost = Age::ALL.into_iter().take_while(|newer| *newer <= age).flat_map(Age::lost);
        let manner = Manner {
            hidden: lost.map(|command| command.word).collect(),
            features: age.features(),
            versions: None,
            short_zero_copy: age >= Age::V2_24_7,
            short_buffer_copy: true,
        };
        Self { inner: Box::new(inner), manner }
    }

    /// Without this command too.
    #[must_use]
    pub fn hide(mut self, command: Command) -> Self {
        self.manner.hidden.push(command.word);
        self
    }

    /// Reporting these features.
    #[must_use]
    pub fn reporting(mut self, features: Features) -> Self {
        self.manner.features = Some(features);
        self
    }

    /// Working with runtimes of these versions.
    #[must_use]
    pub fn versions(mut self, min: u32, max: u32) -> Self {
        self.manner.versions = Some((max, min));
        self
    }
}

impl Backend for OldDriver {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
        Ok(Box::new(OldFile { inner: self.inner.open(index, lane)?, manner: self.manner.clone() }))
    }
}

const DRIVER_INFO: u32 = cmd::DRIVER_INFO_GET.word;
const VERSIONS: u32 = cmd::COMPATIBLE_VERSION.word;

/// Changes an answer.
fn patch<T: FromBytes + IntoBytes + Immutable>(argument: &mut [u8], change: impl FnOnce(&mut T)) {
    if let Ok((mut answer, _)) = T::read_from_prefix(argument) {
        change(&mut answer);
        // As long as what was read there.
        let _written = answer.write_to_prefix(argument);
    }
}

struct OldFile {
    inner: Box<dyn DeviceFile>,
    manner: Manner,
}

impl DeviceFile for OldFile {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno> {
        let manner = &self.manner;
        if manner.hidden.contains(&word) {
            return Err(Errno::EINVAL);
        }
        if manner.short_zero_copy && cmd::nr_of(word) == cmd::MEM_BUF_ZEROCOPY64.nr() {
            let (read, _) = MemBufCopy64::read_from_prefix(argument).map_err(|_| Errno::EFAULT)?;
            let mut whole = MemBufCopy64Zc {
                mem_handle: read.mem_handle,
                buffer: read.buffer,
                size: read.size,
                offset: read.offset,
                is_copy_to_device: read.copy_to_mem_handle,
                h2t_qid: DEFAULT_H2T_QUEUE,
                ..Default::default()
            };
            // SAFETY: the buffer is valid by this function's contract.
            return unsafe { self.inner.ioctl(cmd::MEM_BUF_ZEROCOPY64.word, whole.as_mut_bytes()) };
        }
        if manner.short_buffer_copy && word == cmd::MEM_BUF_COPY64.word {
            let (mut read, _) = MemBufCopy64::read_from_prefix(argument).map_err(|_| Errno::EFAULT)?;
            read.size &= u64::from(u32::MAX);
            // SAFETY: the buffer is valid by this function's contract, and not longer now.
            return unsafe { self.inner.ioctl(word, read.as_mut_bytes()) };
        }
        // SAFETY: passed on to the caller.
        unsafe { self.inner.ioctl(word, argument) }?;
        match (word, manner.features, manner.versions) {
            (DRIVER_INFO, Some(features), _) => patch(argument, |info: &mut DeviceDriverInfo| {
                info.feature_flags1 = features.bits();
            }),
            (VERSIONS, _, Some((max, min))) => {
                patch(argument, |range: &mut CompatibleVersion| *range = CompatibleVersion { max, min });
            }
            _ => {}
        }
        Ok(())
    }

    fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno> {
        self.inner.mmap(offset, bytes, writable)
    }

    fn introspect(&self) -> Option<Introspection> {
        self.inner.introspect()
    }
}
