//! The usage log (`dma_memory_logger`, seed 000 §5, `spec/dmem.md` 1.4 and 1.5): who has how
//! much device memory, the most it ever was, and the newest events, in memory or in a file
//! that others can read, also after kill -9. What its file looks like: `docs/log.md`.
//!
//! | module | what lives there |
//! |---|---|
//! | `layout`, `entry`, `rows`, `meters` | the bytes: header and cursors, an event, names, counters |
//! | `writer` | [`UsageLog`]: every allocation and free as one transaction |
//! | `reader`, `check` | [`LogFile`]: a consistent copy of a file, counted again |
//! | `tables` | [`Statistics`] and [`Event`]: what both show |
//! | `options`, `file` | [`LogOptions`] and the environment; making and mapping a file |
//! | `words` | the memory under all of it |
//!
//! Nothing here allocates device memory, decides on it, or formats for people.
//!
//! ```
//! use neuron_abi::memory::{Aggregate, UsageType};
//! use neuron_dmem::log::{LogFile, LogOptions, WriterState};
//! use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
//! use neuron_ndl::{Device, software::Machine};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("usage.log");
//! let machine = Machine::new("trn1.2xlarge")?;
//! let options = LogOptions::default().events(1000).file(&path);
//! let memory = DeviceMemory::with(Device::open(&machine, 0)?, Setup::default().log(options))?;
//! let model = Allocator::labelled(&memory, AllocatorKind::Model, 0, "llama")?;
//! let weight = model.allocate(&AllocRequest::device(1 << 20, UsageType::Weight).hint("w"))?;
//!
//! let statistics = memory.statistics();
//! assert_eq!(statistics.category(Aggregate::ModelConstants).current, 1 << 20);
//! assert_eq!(statistics.owners[0].amount.peak, 1 << 20);
//!
//! // As another process sees it, now or after this one is no more.
//! let log = LogFile::open(&path)?;
//! assert_eq!((log.writer(), log.written()), (WriterState::Writing, 1));
//! assert_eq!(log.statistics(), statistics);
//! assert_eq!(log.events_from(0).next().and_then(|event| event.hint).as_deref(), Some("w"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod entry;
mod error;
mod file;
mod format;
mod layout;
mod meters;
mod options;
mod reader;
mod rows;
mod tables;
mod words;
mod writer;

#[cfg(test)]
mod tests;

pub use entry::Action;
pub use error::{Damage, LogError, Repair};
pub use meters::{CHANNELS, CORES};
pub(crate) use meters::{channel, of_core};
pub use options::LogOptions;
pub use reader::{LogFile, WriterState};
pub use tables::{Amount, Event, HintUse, Owner, OwnerUse, Statistics};
pub use writer::UsageLog;
pub(crate) use writer::{Charge, OwnerRow, Record};
