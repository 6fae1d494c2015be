#![forbid(unsafe_code)]
//! Traces of allocations, run against the driver's own memory pools or against others: would this
//! have fitted there, what filled the device, what was never freed. No bytes are moved and no device
//! is needed.
//!
//! | module | what lives there |
//! |---|---|
//! | [`trace`] | reading a trace, line by line; `docs/trace-format.md` is the format |
//! | [`scenario`] | what a replay is run against: instance, pools, placement, order |
//! | [`pools`] | one HBM: the driver's channel, or best fit in its place |
//! | [`run()`] | a whole trace, against one scenario or several |
//! | [`replay`] | the run: events in, one column of results for each scenario out |
//! | [`outcome`] | what came of it, as plain data |
//! | [`picture`] | where everything was at one line, and how it came there |
//! | [`diff`] | two traces side by side |
//!
//! Memory is bounded by what lives in the trace at one time, not by its length.
//!
//! ```
//! use neuron_replay::replay::Options;
//! use neuron_replay::run;
//! use neuron_replay::scenario::Scenario;
//! use neuron_replay::trace::{Format, Reader};
//!
//! let trace = concat!(
//!     r#"{"v":1,"instance":"trn1.2xlarge","source":"by hand"}"#, "\n",
//!     r#"{"event":"alloc","id":1,"size":9663676416,"usage":"WEIGHT","owner":"a"}"#, "\n",
//!     r#"{"event":"alloc","id":2,"size":9663676416,"usage":"TENSOR","owner":"b"}"#, "\n",
//! );
//! let mut reader = Reader::new(trace.as_bytes(), Format::Native)?;
//! let scenarios = [Scenario::named("trn1.2xlarge")?, Scenario::named("trn2.3xlarge")?];
//! let outcome = run(&mut reader, &scenarios, &Options::default(), None)?;
//! assert_eq!(outcome.columns[0].refused, 1, "16 GiB are not enough");
//! assert_eq!(outcome.columns[0].refusals[0].line, 3);
//! assert_eq!(outcome.columns[1].refused, 0, "24 GiB are");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod column;
pub mod diff;
mod ledger;
mod meters;
mod names;
mod numbers;
pub mod outcome;
pub mod picture;
pub mod pools;
pub mod replay;
mod run;
mod samples;
pub mod scenario;
mod timeline;
pub mod trace;

pub use run::run;
