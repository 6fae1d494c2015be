//! Why a timeline cannot be written.

use std::io;
use std::path::PathBuf;

/// Why a timeline cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The file could not be made or written. What was written before can be opened.
    #[error("timeline {}: cannot {doing} it", path.display())]
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
    #[error("{} is there and is no timeline of ours; name another file, or remove it", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Another process writes a timeline under this name.
    #[error("timeline {} is being written by another process; name another file", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
}
