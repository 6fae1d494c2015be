//! The out-of-memory report (`spec/report.md`): taken when an allocation is refused, written
//! in the form users know and in one that says more, and read back.
//!
//! | module | what lives there |
//! |---|---|
//! | `snapshot` | the report as plain data, and its usage table |
//! | `capture` | taking one on the allocator's error path |
//! | `hints` | which hints have the most bytes |
//! | `cause` | why there was no room: a kind and a sentence |
//! | `human`, `figures` | the form for people |
//! | `failure_log`, `line`, `prefix`, `time` | the lines of the log: written, and read |
//! | `table`, `column`, `parse` | the usage table: its layout, written, and read |
//! | `size` | sizes as printed, and how exact they are |
//! | `records`, `csv` | the CSV dumps: written, and read |
//! | `files` | which files go where |
//! | `bytes` | bytes by usage type and category |
//!
//! Readers here take what the writers write and the tables of real logs. Joining the lines of
//! a wild log to failures, older forms, and advice are not this module's.
//!
//! ```
//! use neuron_abi::memory::UsageType;
//! use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
//! use neuron_ndl::{Device, software::Machine};
//!
//! let machine = Machine::new("trn1.2xlarge")?;
//! let memory = DeviceMemory::new(Device::open(&machine, 0)?);
//! let model = Allocator::labelled(&memory, AllocatorKind::Model, 0, "a model")?;
//! let _most = model.allocate(&AllocRequest::device(14 << 30, UsageType::Weight).hint("w"))?;
//!
//! let refused = model.allocate(&AllocRequest::device(2 << 30, UsageType::Tensor).hint("kv"));
//! let error = refused.err().ok_or("there is no room for it")?;
//! let report = error.report().ok_or("a full device has a report")?;
//! assert!(report.human().starts_with("out of memory on neuron0 HBM 0: core 0 asked for 2,147,483,648 B"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
pub(crate) mod capture;
mod cause;
mod column;
mod csv;
mod failure_log;
pub mod figures;
mod files;
pub(crate) mod hints;
mod human;
mod line;
mod parse;
mod prefix;
mod records;
mod size;
mod snapshot;
mod table;
mod time;

pub use bytes::UsageBytes;
pub use column::{Column, Form, category_key};
pub use csv::CsvError;
pub use failure_log::FailureLog;
pub use files::{DumpOptions, Files};
pub use line::{Alignment, FailureLine};
pub use parse::TableError;
pub use prefix::{Origin, Prefix};
pub use records::{Action, Chunk, Event};
pub use size::{Size, SizeError};
pub use snapshot::{
    Asked, CategoryGrowth, Cause, CauseKind, CoreUsage, Growth, HbmState, HintUsage, Hints, Model,
    ModelUsage, OomReport,
};
pub use table::{Cell, Label, NeffName, Row, Table};
pub use time::Time;
