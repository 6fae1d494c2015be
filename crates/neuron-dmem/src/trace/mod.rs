//! The system trace (`nrt_sys_trace`, `spec/dmem.md` 4): a begin and a stop record of each
//! allocation, free and copy, spans of what a copy spends its time on, and what is in use
//! after each change. A [`Sink`] that the [`Setup`](crate::Setup) names gets them; without one
//! nothing is recorded, not even a clock read.
//!
//! | module | what lives there |
//! |---|---|
//! | `record` | [`Record`], its parts, and [`Sink`] |
//! | `tracer` | how this layer makes records: brackets, spans, gauges |
//! | `note` | [`Note`]: what happens to pieces of memory, for sinks that follow it |
//! | `tee` | several sinks as one |
//! | [`events`] | a sink that writes allocations and frees for a replay |
//! | [`chrome`] | a sink that writes a timeline for Perfetto and chrome://tracing |
//!
//! Where the runtime leaves an event open (a usage that cannot be on the host, seed 000 §2),
//! it is closed here with the status that the caller gets.
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuron_abi::memory::UsageType;
//! use neuron_dmem::trace::chrome::ChromeTrace;
//! use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
//! use neuron_ndl::{Device, software::Machine};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("timeline.json");
//! let timeline = Arc::new(ChromeTrace::create(&path)?);
//! let machine = Machine::new("trn1.2xlarge")?;
//! let setup = Setup::default().trace(timeline.clone());
//! let memory = DeviceMemory::with(Device::open(&machine, 0)?, setup)?;
//! let model = Allocator::new(&memory, AllocatorKind::Model, 0)?;
//!
//! let weight = model.allocate(&AllocRequest::device(1 << 20, UsageType::Weight).hint("w"))?;
//! weight.write(0, &[7; 1 << 20])?;
//! drop(weight);
//!
//! assert!(timeline.finish()?.events > 0);
//! let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)?;
//! let events = json["traceEvents"].as_array().ok_or("a list")?;
//! assert!(events.iter().any(|event| event["name"] == "copy in" && event["ph"] == "B"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod chrome;
pub mod events;
mod note;
mod record;
mod tee;
mod tracer;

pub use note::{Change, Note};
pub use record::{About, EventNumber, Lane, Record, Sink, What};
pub(crate) use tee::Both;
pub use tracer::Clock;
pub(crate) use tracer::{Bracket, Lanes, Span, Tracer, monotonic};
