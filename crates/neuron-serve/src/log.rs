//! What the server tells: a line for each thing, to standard error or a file. A line that cannot
//! be written, as on a full disk, is lost and counted; nobody waits or fails for it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where lines go.
#[derive(Debug)]
pub struct Log {
    sink: Sink,
    lost: AtomicU64,
}

#[derive(Debug)]
enum Sink {
    None,
    StandardError,
    File(Mutex<File>),
}

impl Log {
    /// Nowhere.
    #[must_use]
    pub const fn none() -> Self {
        Self { sink: Sink::None, lost: AtomicU64::new(0) }
    }

    /// Standard error.
    #[must_use]
    pub const fn standard_error() -> Self {
        Self { sink: Sink::StandardError, lost: AtomicU64::new(0) }
    }

    /// The end of a file, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn file(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { sink: Sink::File(Mutex::new(file)), lost: AtomicU64::new(0) })
    }

    /// Lines that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Writes a line, after the time in seconds since 1970.
    pub fn note(&self, line: impl fmt::Display) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // One write, so that lines stay whole. Text of clients brings no line breaks along.
        let line = line.to_string().replace(|c: char| c.is_control(), "?");
        let text = format!("{}.{:03} {line}\n", since.as_secs(), since.subsec_millis());
        let written = match &self.sink {
            Sink::None => Ok(()),
            Sink::StandardError => io::stderr().write_all(text.as_bytes()),
            Sink::File(file) => {
                file.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes())
            }
        };
        if written.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_what_a_full_disk_loses_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Log::file(&path).unwrap();
        log.note("first");
        log.note("second\nthird");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest).collect();
        assert_eq!((lines, log.lost()), (vec!["first", "second?third"], 0));
        let full = Log::file(Path::new("/dev/full")).unwrap();
        full.note("nowhere");
        assert_eq!(full.lost(), 1);
    }
}
