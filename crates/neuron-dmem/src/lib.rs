#![forbid(unsafe_code)]
//! The runtime's device-memory allocator ("dmem", seed 000): handles for device and host
//! memory, copies in and out (through a core's bounce buffer or without), and counters of
//! who uses what.
//!
//! Nothing here allocates device bytes or moves them: a driver behind
//! [`neuron_ndl::Device`] does. This layer sequences, keeps accounts, and owns.
//!
//! | you look for | go to |
//! |---|---|
//! | a device to allocate on | [`DeviceMemory`], [`Setup`] |
//! | allocating | [`Allocator`], [`AllocRequest`] |
//! | a handle: copy, map, drop to free | [`Dmem`] |
//! | many references, let go with one call | [`GcList`] |
//! | what allocators that are gone left alive | [`Allocator::destroy`], [`DeviceMemory::left_alive`] |
//! | pages of the shared scratchpad | [`Allocator::scratchpad`] |
//! | how a copy is cut and overlapped | [`transfer`] |
//! | many pieces in one call of the driver | [`batch`] |
//! | bytes in use by HBM, core and usage type | [`Usage`] |
//! | peaks, owners, hints, the newest events, a log that outlives the process | [`log`] |
//! | what is left on an HBM, and the largest hole | [`Room`] |
//! | limits of a core, an owner or a usage type | [`budget`] |
//! | making room when there is none | [`FailureHandler`] |
//! | what happened when: allocations, copies and their parts | [`trace`] |
//! | why an allocation found no room | [`report`], [`DmemError::report`] |
//!
//! ```
//! use neuron_abi::memory::UsageType;
//! use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
//! use neuron_ndl::{Device, software::Machine};
//!
//! let machine = Machine::new("trn1.2xlarge")?;
//! let memory = DeviceMemory::new(Device::open(&machine, 0)?);
//! let model = Allocator::new(&memory, AllocatorKind::Model, 0)?;
//!
//! let weight = model.allocate(&AllocRequest::device(1 << 20, UsageType::Weight).hint("w"))?;
//! weight.write(0, &[7; 4096])?;
//! let mut back = [0; 4096];
//! weight.read(0, &mut back)?;
//! assert_eq!(back, [7; 4096]);
//!
//! drop(weight);
//! assert_eq!(memory.usage().channel(0), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allocator;
pub mod batch;
pub mod budget;
mod device;
mod dmem;
mod error;
mod failure;
mod floor;
mod gc;
mod kind;
mod left;
mod list;
pub mod log;
mod owners;
mod place;
pub mod report;
mod request;
mod room;
mod scratch;
mod scratchpad;
mod sync;
pub mod trace;
pub mod transfer;
mod usage;

pub use allocator::Allocator;
pub use device::{DeviceMemory, Setup};
pub use dmem::Dmem;
pub use error::{BatchProblem, DmemError, TransferDirection};
pub use failure::{AllocFailure, Answer, FailureHandler};
pub use gc::GcList;
pub use kind::AllocatorKind;
pub use left::LeftAlive;
pub use log::{CHANNELS, CORES};
pub use request::AllocRequest;
pub use room::{PoolRoom, Room};
pub use scratchpad::{PagedBecause, ScratchpadOptions, ScratchpadPageSize, ScratchpadPages};
pub use usage::Usage;
