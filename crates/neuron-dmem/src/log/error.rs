//! What is wrong with a log, and what a reader did about what it could put right.

use std::io;
use std::path::PathBuf;

use super::format::{MAX_CAPACITY, VERSION};

/// Why a log cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file could not be made, opened or mapped.
    #[error("usage log {}: cannot {doing} it", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// There is another file under this name, which is not overwritten.
    #[error("{} is there and is no usage log; name another file, or remove it", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Another device's log, or another process's, is being written under this name.
    #[error("usage log {} is being written by process {pid}; each device of each process needs a file of its own", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// Who writes it, as its header has it.
        pid: u64,
    },
    /// A setting that is none.
    #[error("{variable} is `{value}`, but it has to be a whole number of events from 0 to {MAX_CAPACITY}")]
    Setting {
        /// The environment variable.
        variable: &'static str,
        /// What it holds.
        value: String,
    },
    /// The ring asked for is too large.
    #[error("a usage log holds at most {MAX_CAPACITY} events, not {capacity}")]
    Capacity {
        /// Events asked for.
        capacity: u64,
    },
    /// The file does not hold what it should.
    #[error("usage log {}: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        damage: Damage,
    },
    /// The writer changes the log faster than it can be read.
    #[error("usage log {} changed during each of {attempts} attempts to read it; try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// How often it was tried.
        attempts: u32,
    },
}

/// What is wrong with the contents of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It does not begin as a log does.
    #[error("it is no usage log: it does not begin with NEURONML")]
    Magic,
    /// Another layout.
    #[error("it is of version {found}; this program reads version {ours}", ours = VERSION)]
    Version {
        /// The file's.
        found: u64,
    },
    /// The header is not one that a writer makes.
    #[error("its header is damaged")]
    Header,
    /// Something is missing or left over.
    #[error("it has {found} bytes where its header says {expected}: it was cut, or is not all there")]
    Size {
        /// By the header.
        expected: u64,
        /// As it is.
        found: u64,
    },
    /// Cursors or journal are not possible.
    #[error("its {what} is damaged")]
    State {
        /// Which part.
        what: &'static str,
    },
    /// An event in the middle is not whole.
    #[error("event {number} of {first}..{end} is damaged")]
    Event {
        /// The event.
        number: u64,
        /// Oldest that is there.
        first: u64,
        /// Behind the newest.
        end: u64,
    },
    /// An event names an owner or a hint that is not there.
    #[error("event {number} names row {row}, which is not there")]
    Row {
        /// The event.
        number: u64,
        /// The row.
        row: u32,
    },
    /// A counter is not what base and events say.
    #[error("the counter of {counter} is {stored}, but base and events make {recomputed}")]
    Counter {
        /// Which.
        counter: String,
        /// As stored.
        stored: u64,
        /// As recomputed.
        recomputed: u64,
    },
    /// A peak is below what the counter was.
    #[error("the peak of {counter} is {stored}, but it has been at {seen}")]
    Peak {
        /// Which.
        counter: String,
        /// As stored.
        stored: u64,
        /// As recomputed.
        seen: u64,
    },
}

/// What a reader put right in its copy; the file stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// The writer ended, or paused, within an update. All of it was in the journal, and was
    /// carried out from there.
    Replayed {
        /// Number of the update.
        transaction: u64,
    },
    /// The last event is not whole, which no end of a process does but the end of a machine
    /// can. It was left out, and the counters are those that base and events make.
    TornEvent {
        /// The event.
        number: u64,
    },
}

impl std::fmt::Display for Repair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Replayed { transaction } => {
                write!(f, "update {transaction} was half done; it was completed from the journal")
            }
            Self::TornEvent { number } => write!(
                f,
                "event {number}, the last, is not whole; it was left out, and the counters are recomputed without it"
            ),
        }
    }
}
