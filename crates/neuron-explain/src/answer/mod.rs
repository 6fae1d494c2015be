//! Answers: for each distinct failure what was asked, where, what fills the memory, what room was
//! left, why it failed, and the smallest change that would have helped.
//!
//! | module | what lives there |
//! |---|---|
//! | here | which answers a log gets |
//! | `device` | refused device requests: cause, and who holds the memory |
//! | `change` | what would have helped them |
//! | `other` | everything else: host, limits, versions, kernel, growth, tables alone |
//! | `words` | sizes, places, consumers in words |

mod change;
mod device;
mod other;
mod words;

use serde::Serialize;

use crate::dump::Dump;
use crate::facts::Facts;
use crate::stack::Stack;
use crate::tags::alike;
pub(crate) use words::scope;

/// Answers that are made; more are counted.
const MOST: usize = 64;

/// Why it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Less is left than was asked for.
    Capacity,
    /// No pool is that large, full or empty.
    LargerThanPool,
    /// Enough is left, but not in one piece, or not at an aligned address.
    FragmentationOrAlignment,
    /// Enough is left in a pool, in pieces too small. Only a chunk dump tells.
    Fragmentation,
    /// A piece is large enough, but not from an aligned address. Only a chunk dump tells.
    Alignment,
    /// Enough is left in both pools together, in neither alone.
    PoolSplit,
    /// Rounding hides whether it fits.
    CapacityOrFragmentation,
    /// It would fit by the dump: something was freed in between.
    FitsNow,
    /// The log does not show it.
    Open,
    /// No contiguous host memory of that size.
    HostContiguous,
    /// A limit of rings or queues, not of memory.
    RingLimit,
    /// Each load takes more.
    GraphGrowth,
    /// Runtime and driver do not fit together.
    DriverMismatch,
    /// A failure that was not for memory.
    NotOom,
    /// A copy did not end in time.
    DmaTimeout,
    /// A copy was hit by a reset and tried again.
    Retried,
}

/// How a cause is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The log or the dump shows it.
    Fact,
    /// It follows from printed figures and the generation's pools.
    Inferred,
    /// It cannot be told.
    Open,
}

/// Who holds what was missing, where that is not simply the process itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Holder {
    /// The same model, loaded more than once on a core.
    DuplicateModels {
        /// Its name.
        name: String,
        /// Copies.
        copies: usize,
        /// What all but one of them take.
        bytes: u64,
    },
    /// Another core of the same HBM.
    NeighbourCore {
        /// It.
        core: u32,
        /// What it has.
        bytes: u64,
    },
    /// None of this process's: another one, or what a dead one left. Only a chunk dump tells.
    OtherProcess {
        /// What the driver lists beyond this process's total.
        bytes: u64,
    },
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Entries of `failures` it is for.
    pub failures: Vec<usize>,
    /// What was asked for.
    pub request: String,
    /// Where.
    pub place: String,
    /// What fills the memory.
    pub consumers: String,
    /// Room by pool.
    pub room: Vec<String>,
    /// Kind of cause.
    pub cause: CauseKind,
    /// How it is known.
    pub basis: Basis,
    /// Who holds the memory.
    pub holder: Option<Holder>,
    /// The cause as a sentence.
    pub sentence: String,
    /// The smallest change that would have helped.
    pub change: String,
    /// What the log does not show.
    pub unknown: Vec<String>,
}

/// All answers of a log, and how many were left out.
pub(crate) fn answers(facts: &Facts, stack: Option<&Stack>, dumps: &[Dump]) -> (Vec<Answer>, usize) {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut left_out = 0;
    for (index, failure) in facts.failures.iter().enumerate() {
        let totals = |index: usize| {
            let failure = facts.failures.get(index)?;
            facts.usage.get(failure.row?)?.total
        };
        let same = groups.iter().position(|group| {
            let first = group.first().copied().unwrap_or_default();
            facts.failures.get(first).is_some_and(|other| alike(other, failure))
                && totals(first) == totals(index)
        });
        match same {
            Some(place) => groups.get_mut(place).into_iter().for_each(|group| group.push(index)),
            None if groups.len() < MOST => groups.push(vec![index]),
            None => left_out += 1,
        }
    }
    let mut answers: Vec<Answer> = groups
        .into_iter()
        .filter_map(|group| {
            let failure = facts.failures.get(*group.first()?)?;
            Some(match (failure.location, failure.requested) {
                (None, None) => other::status(facts, group),
                (Some("host"), _) => other::host(facts, failure, group),
                _ => device::answer(facts, failure, group, stack, dumps),
            })
        })
        .collect();
    if answers.is_empty() || facts.mismatch {
        other::extend(facts, stack, &mut answers);
    } else {
        other::kernel(facts, &mut answers);
    }
    (answers, left_out)
}
