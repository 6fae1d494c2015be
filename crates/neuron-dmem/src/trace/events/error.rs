//! Why a trace cannot be written.

use std::io;
use std::path::PathBuf;

/// Why a trace of events cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventsError {
    /// The file could not be made or written. What was written before is whole lines.
    #[error("trace {}: cannot {doing} it", path.display())]
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
    #[error("{} is there and is no trace of ours; name another file, or remove it", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Another process writes a trace under this name.
    #[error("trace {} is being written by another process; name another file", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
}
