//! The trace of events: what was allocated, copied and freed, in JSON Lines, for a replay against
//! other pools or after a change. `docs/trace-format.md` is the format.
//!
//! | module | what lives there |
//! |---|---|
//! | `event` | [`Header`] and [`Event`]: what a line says, and writing one |
//! | `names` | pieces of memory by address, as numbers that no other has |
//! | `file` | the file: lines gathered, never half of one |
//! | `from_log` | the events of a usage log |
//! | `error` | [`EventsError`] |
//!
//! Reading is `neuron-replay`'s.
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuron_abi::memory::UsageType;
//! use neuron_dmem::trace::events::{EventTrace, Header};
//! use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
//! use neuron_ndl::{Device, software::Machine};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("events.jsonl");
//! let trace = Arc::new(EventTrace::create(&path, &Header::of("my program", Some("trn1.2xlarge")))?);
//! let machine = Machine::new("trn1.2xlarge")?;
//! let memory = DeviceMemory::with(Device::open(&machine, 0)?, Setup::default().trace(trace.clone()))?;
//! let model = Allocator::new(&memory, AllocatorKind::Model, 0)?;
//! drop(model.allocate(&AllocRequest::device(1 << 20, UsageType::Weight).hint("w"))?);
//!
//! assert_eq!(trace.finish()?.events, 3);
//! let lines = std::fs::read_to_string(&path)?;
//! let lines: Vec<&str> = lines.lines().collect();
//! assert!(lines[1].starts_with(r#"{"event":"alloc","id":1,"size":1048576,"#), "{}", lines[1]);
//! assert!(lines[2].starts_with(r#"{"event":"free","id":1,"#));
//! assert!(lines[3].starts_with(r#"{"event":"exit""#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod event;
mod file;
mod from_log;
mod names;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use error::EventsError;
pub use event::{Alloc, Copy, Direction, Event, Header, VERSION};
pub use from_log::{header_of, of_log};

use super::note::{Change, Note};
use super::record::{Record, Sink};
use file::Lines;
use names::Names;

/// Names the file.
const FILE: &str = "NEURON_MEM_TRACE";

/// A trace of events that is being written. What is not written yet, at most 64 KiB, is written by
/// [`finish`](Self::finish), or when it is dropped.
pub struct EventTrace {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    lines: Lines,
    names: Names,
    events: u64,
    finished: bool,
    /// The first that happened; nothing is written after it.
    error: Option<io::Error>,
    failed: bool,
}

/// A trace that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Events in it, the header not counted.
    pub events: u64,
}

impl std::fmt::Debug for EventTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventTrace").field("path", &self.path).finish_non_exhaustive()
    }
}

impl EventTrace {
    /// A trace in this file. Replaces one that nobody writes any more, and no other file.
    ///
    /// # Errors
    /// [`EventsError::NotOurs`] and [`EventsError::InUse`] for what is there; [`EventsError::Io`] if
    /// the file cannot be made.
    pub fn create(path: impl Into<PathBuf>, header: &Header<'_>) -> Result<Self, EventsError> {
        let path = path.into();
        let lines = Lines::create(&path, header)?;
        let state =
            State { lines, names: Names::default(), events: 0, finished: false, error: None, failed: false };
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// The trace that the environment asks for: `NEURON_MEM_TRACE`, the path of a file, empty for
    /// none.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn from_environment(header: &Header<'_>) -> Result<Option<Self>, EventsError> {
        Self::path_from(|name| std::env::var_os(name)).map(|path| Self::create(path, header)).transpose()
    }

    /// The file that the environment asks for.
    pub fn environment_path() -> Option<PathBuf> {
        Self::path_from(|name| std::env::var_os(name))
    }

    fn path_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        variable(FILE).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an event.
    pub fn push(&self, event: &Event<'_>) {
        self.lock().push(event);
    }

    /// Writes that the process has ended, and what is left, and says how it went. Nothing that comes
    /// later is in the trace.
    ///
    /// # Errors
    /// [`EventsError::Io`] with the first error; the file ends with whole lines before it.
    pub fn finish(&self) -> Result<Written, EventsError> {
        let mut state = self.lock();
        if !state.finished {
            state.push(&Event::Exit { pid: 0, time: None });
            state.finished = true;
        }
        self.flushed(&mut state)
    }

    /// As [`finish`](Self::finish), without an end of the process: what lives, lives on.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn close(&self) -> Result<Written, EventsError> {
        let mut state = self.lock();
        state.finished = true;
        self.flushed(&mut state)
    }

    fn flushed(&self, state: &mut State) -> Result<Written, EventsError> {
        state.flush();
        match state.error.take() {
            Some(source) => Err(EventsError::Io { path: self.path.clone(), doing: "write", source }),
            None => Ok(Written { path: self.path.clone(), events: state.events }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, event: &Event<'_>) {
        if self.failed || self.finished {
            return;
        }
        let pushed = self.lines.push(event);
        self.keep(pushed);
        self.events += 1;
    }

    fn flush(&mut self) {
        if !self.failed {
            let flushed = self.lines.flush();
            self.keep(flushed);
        }
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failed = true;
            self.error.get_or_insert(error);
        }
    }

    fn note(&mut self, note: &Note<'_>) {
        let (device, time) = (note.device, Some(note.time_ns));
        let named = |name: &str| (!name.is_empty()).then(|| Cow::Owned(name.to_owned()));
        let event = match note.change {
            Change::Asked { location, hbm, size, align, usage, hint, owner, pa } => {
                let id = self.names.give(pa.map(|pa| (device, location, pa)));
                Some(Event::Alloc(Alloc {
                    id,
                    size,
                    align,
                    location,
                    device,
                    hbm,
                    core: note.core,
                    usage,
                    owner: owner.filter(|owner| !owner.is_empty()).map(Cow::Borrowed),
                    hint: hint.map(Cow::Borrowed),
                    pa,
                    refused: pa.is_none(),
                    pid: 0,
                    time,
                }))
            }
            Change::Freed { location, pa } => {
                self.names.take((device, location, pa)).map(|id| Event::Free { id, time })
            }
            Change::Copied { location, pa, into, bytes } => {
                let direction = if into { Direction::In } else { Direction::Out };
                self.names
                    .of((device, location, pa))
                    .map(|id| Event::Copy(Copy { id, bytes, direction, time }))
            }
            Change::Loading { model } => named(model).map(|graph| Event::Load { graph, time }),
            Change::Unloaded { model } => named(model).map(|graph| Event::Unload { graph, time }),
        };
        if let Some(event) = event {
            self.push(&event);
        }
    }
}

impl Sink for EventTrace {
    fn record(&self, _: &Record<'_>) {}

    fn follows_memory(&self) -> bool {
        true
    }

    fn memory(&self, note: &Note<'_>) {
        self.lock().note(note);
    }
}

impl Drop for EventTrace {
    fn drop(&mut self) {
        self.lock().flush();
    }
}

#[cfg(test)]
mod tests {
    use neuron_abi::memory::MemLocation;

    use super::*;

    #[test]
    fn the_environment_names_the_file_and_empty_is_none() {
        let with = |value: &str| EventTrace::path_from(|name| (name == FILE).then(|| value.into()));
        assert_eq!(with("a b/t"), Some("a b/t".into()));
        assert_eq!(with(""), None);
        assert_eq!(EventTrace::path_from(|_| None), None);
    }

    #[test]
    fn what_the_trace_did_not_see_allocated_is_not_freed_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let trace = EventTrace::create(&path, &Header::of("test", None)).unwrap();
        let location = MemLocation::Device;
        let freed = Change::Freed { location, pa: 7 };
        for change in [freed, Change::Copied { location, pa: 7, into: true, bytes: 1 }] {
            trace.memory(&Note { time_ns: 1, device: 0, core: 0, change });
        }
        trace.memory(&Note { time_ns: 2, device: 0, core: 0, change: Change::Loading { model: "" } });
        assert_eq!(trace.close().unwrap().events, 0);
    }
}
