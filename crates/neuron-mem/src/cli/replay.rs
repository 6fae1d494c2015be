//! The arguments of `replay` and `diff`, and what a `--what-if` says.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use neuron_replay::scenario::{Align, Change, Fit, Order, Scenario};
use neuron_replay::trace::Format;

use super::ByteSize;
use crate::exit::Exit;

/// Arguments of `replay`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct ReplayArgs {
    /// A trace that `load --trace`, `plan --trace`, `log --trace`, or a program with NEURON_MEM_TRACE wrote
    pub trace: PathBuf,

    /// What the trace is written in
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = TraceFormat::Native)]
    pub from: TraceFormat,

    /// Instance type whose pools it is run against [default: the trace's, or trn1.2xlarge]
    #[arg(long, value_name = "NAME")]
    pub instance: Option<String>,

    /// Also run it with something different, in a column of its own: `instance=NAME`, `align=SIZE` (or
    /// `none`), `small-pool=SIZE` (or `off`), `small-max=SIZE`, `fit=first` or `best`, `page=SIZE`,
    /// `order=trace`, `largest-first` or `smallest-first`; several joined with commas
    #[arg(long, value_name = "KEY=VALUE")]
    pub what_if: Vec<WhatIf>,

    /// End at the first allocation that is refused
    #[arg(long)]
    pub stop: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,

    /// Also write what is in use over time into FILE, a timeline for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,

    /// Also write the first scenario as a page for a browser into FILE, which is replaced: where everything was
    /// at the first refusal, or when most was in use
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Arguments of `diff`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct DiffArgs {
    /// A trace, a usage log, or a log with a report of memory in use: the state before
    pub a: PathBuf,

    /// The state after
    pub b: PathBuf,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// What a trace is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// JSON Lines, as neuron-mem writes it
    Native,
    /// The CSV log of RMM, the RAPIDS memory manager
    RmmCsv,
}

impl From<TraceFormat> for Format {
    fn from(format: TraceFormat) -> Self {
        match format {
            TraceFormat::Native => Self::Native,
            TraceFormat::RmmCsv => Self::RmmCsv,
        }
    }
}

/// A scenario as the command line gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatIf {
    /// As given: what its column is called.
    pub name: String,
    /// What it changes.
    pub changes: Vec<Change>,
}

impl FromStr for WhatIf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let changes = text.split(',').map(change).collect::<Result<_, _>>()?;
        Ok(Self { name: text.to_owned(), changes })
    }
}

fn change(text: &str) -> Result<Change, String> {
    const KEYS: &str = "instance, align, small-pool, small-max, fit, page and order";
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE; keys are {KEYS}"))?;
    let size = || value.parse::<ByteSize>().map(|size| size.0).map_err(|error| error.to_string());
    let one_of = |values: &str| format!("`{key}` is {values}, not `{value}`");
    Ok(match (key, value) {
        ("instance", name) => {
            Change::Instance(Scenario::instance_name(name).map_err(|error| error.to_string())?)
        }
        ("align", "none") => Change::Align(Align::None),
        ("align", _) => Change::Align(Align::AtLeast(size()?)),
        ("small-pool", "off") => Change::SmallPool(0),
        ("small-pool", _) => Change::SmallPool(size()?),
        ("small-max", _) => Change::SmallMax(size()?),
        ("fit", "first") => Change::Fit(Fit::First),
        ("fit", "best") => Change::Fit(Fit::Best),
        ("fit", _) => return Err(one_of("first or best")),
        ("page", _) => Change::Page(size()?),
        ("order", "trace") => Change::Order(Order::Trace),
        ("order", "largest-first") => Change::Order(Order::LargestFirst),
        ("order", "smallest-first") => Change::Order(Order::SmallestFirst),
        ("order", _) => return Err(one_of("trace, largest-first or smallest-first")),
        _ => return Err(format!("`{key}` cannot be changed; keys are {KEYS}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_understood_alone_and_together() {
        let changes = |text: &str| text.parse::<WhatIf>().unwrap().changes;
        assert_eq!(changes("instance=trn2.3xlarge"), [Change::Instance("trn2.3xlarge")]);
        assert_eq!(changes("align=64K"), [Change::Align(Align::AtLeast(65_536))]);
        assert_eq!(changes("align=none"), [Change::Align(Align::None)]);
        assert_eq!(changes("small-pool=off,fit=best"), [Change::SmallPool(0), Change::Fit(Fit::Best)]);
        assert_eq!(
            changes("small-pool=2G,small-max=1M"),
            [Change::SmallPool(2 << 30), Change::SmallMax(1 << 20)]
        );
        assert_eq!(changes("page=2M,fit=first"), [Change::Page(2 << 20), Change::Fit(Fit::First)]);
        for (value, order) in [
            ("trace", Order::Trace),
            ("largest-first", Order::LargestFirst),
            ("smallest-first", Order::SmallestFirst),
        ] {
            assert_eq!(changes(&format!("order={value}")), [Change::Order(order)]);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can() {
        for (text, words) in [
            ("", "is not KEY=VALUE"),
            ("fit", "is not KEY=VALUE"),
            ("fit=worst", "first or best"),
            ("order=random", "largest-first"),
            ("speed=9", "keys are instance, align"),
            ("page=big", "is not a size"),
            ("instance=p4d", "known are inf2.xlarge"),
            ("fit=best,", "is not KEY=VALUE"),
        ] {
            let error = text.parse::<WhatIf>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
