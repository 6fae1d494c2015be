//! A sink that writes a timeline: the JSON that opens in Perfetto and chrome://tracing.
//! `docs/timeline.md` says how to read it.
//!
//! | module | what lives there |
//! |---|---|
//! | `event` | records as events of the Trace Event Format |
//! | `rows` | which row an event is shown on |
//! | `file` | the file: streamed, and whole at any moment |
//! | `error` | [`TimelineError`] |

mod error;
mod event;
mod file;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use error::TimelineError;

use super::record::{Record, Sink};
use event::Events;
use file::{Document, Store};

/// A timeline that is being written. What is not written yet, at most 64 KiB, is written by
/// [`finish`](Self::finish), or when it is dropped.
pub struct ChromeTrace {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    document: Document<Box<dyn Store>>,
    events: Events,
    written: u64,
    /// The first that happened; nothing is written after it.
    error: Option<std::io::Error>,
    failed: bool,
}

/// A timeline that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The file.
    pub path: PathBuf,
    /// Events in it, those that name rows included.
    pub events: u64,
}

impl std::fmt::Debug for ChromeTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChromeTrace").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ChromeTrace {
    /// A timeline in this file. Replaces one that nobody writes any more, and no other file.
    ///
    /// # Errors
    /// [`TimelineError::NotOurs`] and [`TimelineError::InUse`] for what is there;
    /// [`TimelineError::Io`] if the file cannot be made.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, TimelineError> {
        let path = path.into();
        let document = file::create(&path)?;
        Ok(Self::over(path, document))
    }

    fn over(path: PathBuf, document: Document<Box<dyn Store>>) -> Self {
        let state = State { document, events: Events::default(), written: 0, error: None, failed: false };
        Self { path, state: Mutex::new(state) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what is left, and says how it went since the last time: that something cannot be
    /// written never disturbs what is traced, so it is told here. Records may still come.
    ///
    /// # Errors
    /// [`TimelineError::Io`] with the first error. The file ends before it, and can be opened.
    pub fn finish(&self) -> Result<Timeline, TimelineError> {
        let mut state = self.lock();
        state.flush();
        match state.error.take() {
            Some(error) => Err(file::cannot(&self.path, "write")(error)),
            None => Ok(Timeline { path: self.path.clone(), events: state.written }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            self.failed = true;
            self.error.get_or_insert(error);
        }
    }

    fn flush(&mut self) {
        if self.failed {
            return;
        }
        let flushed = self.document.flush();
        self.keep(flushed);
    }
}

impl Sink for ChromeTrace {
    fn record(&self, record: &Record<'_>) {
        let mut state = self.lock();
        for event in state.events.of(record) {
            if state.failed {
                return;
            }
            let pushed = state.document.push(&event);
            state.keep(pushed);
            state.written += 1;
        }
    }
}

impl Drop for ChromeTrace {
    fn drop(&mut self) {
        self.lock().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::file::tests::Small;
    use super::*;
    use crate::trace::record::What;

    #[test]
    fn a_full_disk_is_told_once_when_all_is_over() {
        let store = Small { bytes: Vec::new(), room: 100_000 };
        let document = Document::begin(Box::new(store) as Box<dyn Store>).unwrap();
        let timeline = ChromeTrace::over("t.json".into(), document);
        let what = What::InUse { hbm: Some(0), bytes: 1, category: None };
        for time_ns in 0..5000 {
            timeline.record(&Record { time_ns, device: 0, core: 0, thread: 1, what });
        }
        let error = timeline.finish().unwrap_err();
        assert_eq!(error.to_string(), "timeline t.json: cannot write it");
        let TimelineError::Io { source, .. } = error else { panic!("another error") };
        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
        timeline.record(&Record { time_ns: 9, device: 0, core: 0, thread: 1, what });
        assert!(timeline.finish().is_ok(), "told once");
    }
}
