#![forbid(unsafe_code)]
//! Reads what Neuron runtimes and drivers log when memory runs out, of any era and however a paste
//! mangled it, and answers: what was asked, where, what fills the memory, what room was left, why
//! it failed, and the smallest change that would have helped (`spec/report.md`).
//!
//! What the log does not hold is null in the facts and said in the answer. What is inferred has
//! keys of its own.
//!
//! | module | what lives there |
//! |---|---|
//! | `scan` | bytes to lines; lines that say nothing are passed over |
//! | `clean` | colours, containers, links: taken off a line |
//! | `prefix` | date, process, thread, level, module, function: taken off a record |
//! | `lex` | records to messages |
//! | `join` | messages of many threads to facts |
//! | [`facts`] | what a log says, as data |
//! | [`stack`] | the generation, told or presumed, and what room it leaves |
//! | `tags` | what to look at, by rule |
//! | [`dump`] | the driver's list of chunks beside a log |
//! | [`answer`] | the answers; `render`: as text; `bars`: what is drawn |
//!
//! ```
//! use neuron_explain::{Options, explain};
//!
//! let log = "2025-Jun-18 14:30:52.926380 ERROR TDRV:log_dev_mem Failed to allocate 64.000MB \
//!            (usage: tensors) on ND 0:NC 0, current utilization:\n* total: 15.938GB\n* tensors: 15.938GB\n";
//! let explanation = explain(&mut log.as_bytes(), &Options::default())?;
//! assert!(explanation.tags.contains("capacity"));
//! assert_eq!(explanation.facts.failures[0].requested.map(|size| size.bytes), Some(64 << 20));
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod answer;
mod bars;
mod clean;
pub mod dump;
pub mod facts;
mod join;
mod lex;
mod prefix;
mod render;
mod scan;
pub mod stack;
mod tags;
mod text;

use std::collections::BTreeSet;
use std::io::{self, BufRead};

use neuron_abi::arch::Generation;
use serde::Serialize;

pub use answer::{Answer, Basis, CauseKind, Holder};
pub use bars::Bar;
pub use dump::Dump;
pub use facts::Facts;
pub use stack::{RoomLeft, Stack};

/// What is told besides the log.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The generation; presumed where it is not told.
    pub generation: Option<Generation>,
    /// Chunk dumps.
    pub dumps: Vec<Dump>,
}

/// Facts and answers. As JSON: the facts, and beside them the keys of `spec/report.md` 6 that
/// follow from them; `presumed`, `rooms` and `answers` are ours.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Version of the schema: 1.
    pub schema: u32,
    /// What the log says.
    #[serde(flatten)]
    pub facts: Facts,
    /// Room beside the first row that matters.
    pub room: Option<RoomLeft>,
    /// Room beside each row that matters.
    pub rooms: Vec<RoomLeft>,
    /// The generation, where it was not told.
    pub presumed: Option<Presumed>,
    /// What to look at.
    pub tags: BTreeSet<&'static str>,
    /// The answers.
    pub answers: Vec<Answer>,
    /// Answers that were too many.
    pub answers_left_out: usize,
    /// What the reader has to know besides.
    pub notes: Vec<String>,
}

/// A generation that nobody told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Presumed {
    /// 2, 3 or 4.
    pub arch: u32,
    /// Bytes of an HBM.
    pub stack_bytes: u64,
    /// What in the log says so.
    pub because: &'static str,
}

/// Reads a log and explains it.
///
/// # Errors
/// Those of the input.
pub fn explain(input: &mut dyn BufRead, options: &Options) -> io::Result<Explanation> {
    Ok(Explanation::of(read(input)?, options))
}

/// Reads a log: its facts alone, from which one sees which dumps to look for.
///
/// # Errors
/// Those of the input.
pub fn read(input: &mut dyn BufRead) -> io::Result<Facts> {
    scan::scan(input)
}

impl Explanation {
    /// Explains facts.
    pub fn of(facts: Facts, options: &Options) -> Self {
        let stack = Stack::of(&facts, options.generation);
        let rooms: Vec<RoomLeft> =
            tags::rows(&facts).into_iter().filter_map(|row| stack.as_ref()?.room(row)).collect();
        let presumed = stack.as_ref().and_then(|stack| {
            Some(Presumed { arch: stack.arch(), stack_bytes: stack.stack_bytes(), because: stack.because? })
        });
        let tags = tags::tags(&facts, stack.as_ref());
        let (answers, answers_left_out) = answer::answers(&facts, stack.as_ref(), &options.dumps);
        let mut notes = Vec::new();
        if facts.table_cut {
            notes.push("a table is cut: what is missing in it is not counted".to_owned());
        }
        if facts.left_out > 0 {
            notes.push(format!("{} records more than can be kept were left out", facts.left_out));
        }
        Self {
            schema: 1,
            room: rooms.first().copied(),
            rooms,
            presumed,
            tags,
            answers,
            answers_left_out,
            notes,
            facts,
        }
    }

    /// Whether there was nothing known in the log.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }
}
