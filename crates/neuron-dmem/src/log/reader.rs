//! Reading a log that another process writes, or wrote until it ended, however it ended.
//!
//! The writer never waits for a reader. A reader copies, and then looks whether anything was
//! committed meanwhile; if so, it goes on from what it has. Events that the writer overtook
//! are not kept. What is copied is then counted again in full ([`check`](super::check)).

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::check::recount;
use super::entry::Entry;
use super::error::{Damage, LogError, Repair};
use super::file;
use super::layout::{
    APPLIED, CLOSED, COMMITTED, ENTRY, FIRST, Header, JOURNAL_PAIRS, ROW, ROW_CHANGES, ROWS_USED, WRITTEN,
    journal,
};
use super::rows::{FIRST_ROW, Row};
use super::tables::{Event, Statistics, Tables, read_meters, read_row};
use super::words::Words;
use crate::scratch;

/// Attempts to copy a log between two updates of it (our choice: a fraction of a second).
const ATTEMPTS: u32 = 100_000;

/// Whether a log's writer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterState {
    /// It is: more events may come.
    Writing,
    /// It closed the log.
    Closed,
    /// It ended without closing it: it was killed.
    Ended,
}

impl WriterState {
    /// One word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writing => "writing",
            Self::Closed => "closed",
            Self::Ended => "ended",
        }
    }
}

/// A log in a file, as it was at the last [`refresh`](Self::refresh).
///
/// Everything in it was checked: each event is whole, and all counters are what base and
/// events make. The file is mapped for reading; a file that somebody cuts short between the
/// look at its size and the copy ends the process with SIGBUS, which no safe code can exclude.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Arc<File>,
    header: Header,
    words: Words,
    copy: Copied,
    writer: WriterState,
    tables: Tables,
    repairs: Vec<Repair>,
}

/// What was copied so far.
#[derive(Debug, Default)]
struct Copied {
    /// Update that everything below is of.
    transaction: Option<u64>,
    first: u64,
    entries: VecDeque<Option<Entry>>,
    rows: Vec<Row>,
    row_changes: u64,
    /// Rows that events have changed since they were copied.
    stale: HashSet<u32>,
    all_stale: bool,
}

/// The words of the log, those of an update under way taken from its journal.
struct View<'a> {
    words: &'a Words,
    pending: Vec<(usize, u64)>,
}

impl View<'_> {
    fn load(&self, word: usize) -> u64 {
        self.pending(word).unwrap_or_else(|| self.words.load(word))
    }

    fn pending(&self, word: usize) -> Option<u64> {
        self.pending.iter().find(|&&(at, _)| at == word).map(|&(_, value)| value)
    }

    fn patch(&self, first: usize, into: &mut [u64]) {
        if self.pending.is_empty() {
            return;
        }
        for (word, value) in (first..).zip(into) {
            *value = self.pending(word).unwrap_or(*value);
        }
    }
}

impl LogFile {
    /// Opens a log and reads it.
    ///
    /// # Errors
    /// [`LogError::Io`]; [`LogError::Damaged`] if it is none or its contents are not right;
    /// [`LogError::Busy`] if the writer left no moment to copy it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LogError> {
        let path = path.as_ref().to_owned();
        let file::Opened { file, header, words } = file::open(&path)?;
        let mut log = Self {
            path,
            file,
            header,
            words,
            copy: Copied::default(),
            writer: WriterState::Writing,
            tables: Tables::default(),
            repairs: Vec::new(),
        };
        log.refresh()?;
        Ok(log)
    }

    /// Reads what has changed.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn refresh(&mut self) -> Result<(), LogError> {
        let damaged = |path: &Path, damage| LogError::Damaged { path: path.to_owned(), damage };
        let looked = self.file.metadata();
        let look_failed = |source| LogError::Io { path: self.path.clone(), doing: "look at", source };
        let (found, expected) = (looked.map_err(look_failed)?.len(), self.header.geometry.bytes());
        if found != expected {
            return Err(damaged(&self.path, Damage::Size { expected, found }));
        }
        // Before the events: when it says that no more will come, all that came are seen.
        self.writer = self.writer_now();
        for _ in 0..ATTEMPTS {
            match self.attempt() {
                Ok(true) => return Ok(()),
                Ok(false) => std::thread::yield_now(),
                Err(damage) => return Err(damaged(&self.path, damage)),
            }
        }
        Err(LogError::Busy { path: self.path.clone(), attempts: ATTEMPTS })
    }

    /// Whether its writer was there.
    pub const fn writer(&self) -> WriterState {
        self.writer
    }

    /// Index of the device.
    pub const fn device(&self) -> u64 {
        self.header.device
    }

    /// Process that writes, or wrote.
    pub const fn pid(&self) -> u64 {
        self.header.pid
    }

    /// Events that the ring holds; 0 if there is none.
    pub const fn capacity(&self) -> u64 {
        self.header.geometry.capacity
    }

    /// Events logged since the log began.
    pub fn written(&self) -> u64 {
        self.copy.first + self.copy.entries.len() as u64
    }

    /// Events overwritten by newer ones.
    pub const fn dropped(&self) -> u64 {
        if self.capacity() == 0 { 0 } else { self.copy.first }
    }

    /// Number of the oldest event that is there.
    pub const fn first(&self) -> u64 {
        self.copy.first
    }

    /// What was put right.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// Current and peak of everything that is counted.
    pub fn statistics(&self) -> Statistics {
        self.tables.statistics()
    }

    /// Events from this number on, oldest first; those that are there.
    pub fn events_from(&self, number: u64) -> impl Iterator<Item = Event> {
        let skip = usize::try_from(number.saturating_sub(self.copy.first)).unwrap_or(usize::MAX);
        let numbered = (self.copy.first..).zip(&self.copy.entries).skip(skip);
        numbered.filter_map(|(number, entry)| Some(self.tables.event(number, entry.as_ref()?)))
    }

    fn writer_now(&self) -> WriterState {
        let closed = || self.words.load_published(CLOSED) == 1;
        if !closed() && scratch::is_written(&self.file) {
            WriterState::Writing
        } else if closed() {
            WriterState::Closed
        } else {
            WriterState::Ended
        }
    }

    /// Copies the log as it is after one update. False if there was another meanwhile.
    fn attempt(&mut self) -> Result<bool, Damage> {
        let committed = self.words.load_published(COMMITTED);
        if self.copy.transaction == Some(committed) {
            return Ok(true);
        }
        self.copy.transaction = None;
        let copied = self.copy(committed);
        fence(Ordering::Acquire);
        let overtaken = self.words.load(FIRST);
        if self.words.load(COMMITTED) != committed {
            self.copy.forget_before(overtaken);
            return Ok(false);
        }
        let (meters, repair) = copied?;
        self.copy.stale.clear();
        self.copy.all_stale = false;
        let mut tables = Tables { meters, rows: self.copy.rows.clone() };
        let torn = recount(self.copy.first, self.copy.entries.iter(), &mut tables)?;
        self.tables = tables;
        self.repairs = repair.into_iter().chain(torn).collect();
        self.copy.transaction = Some(committed);
        Ok(true)
    }

    /// Copies the log, which may change meanwhile. What is returned is worth something only
    /// if it has not; of events and rows, `self.copy` knows what can be kept.
    fn copy(&mut self, committed: u64) -> Result<(Vec<[u64; 3]>, Option<Repair>), Damage> {
        let Self { words, header, copy, .. } = self;
        let geometry = header.geometry;
        let applied = words.load_published(APPLIED);
        let pending =
            if applied == committed { Vec::new() } else { pending(words, header, committed, applied)? };
        let repair = (applied != committed).then_some(Repair::Replayed { transaction: committed });
        let view = View { words, pending };

        let [written, first, rows_used, row_changes] =
            [WRITTEN, FIRST, ROWS_USED, ROW_CHANGES].map(|word| view.load(word));
        let inside = written.checked_sub(first).is_some_and(|events| events <= geometry.capacity);
        if !inside || !(FIRST_ROW..=geometry.rows).contains(&rows_used) {
            return Err(Damage::State { what: "state" });
        }

        copy.move_to(first, written);
        for number in copy.end()..written {
            let mut entry = [0; ENTRY];
            words.load_block(geometry.entry(number), &mut entry);
            let entry = Entry::from_words(number, &entry);
            copy.stale.extend(entry.iter().flat_map(Entry::referenced));
            copy.entries.push_back(entry);
        }

        if row_changes != copy.row_changes || rows_used < copy.rows.len() as u64 {
            copy.all_stale = true;
            copy.row_changes = row_changes;
        }
        let row = |row: u64| {
            let mut row_words: [u64; ROW] = read_row(words, geometry, row);
            view.patch(geometry.row(row), &mut row_words);
            Row::from_words(&row_words)
        };
        if copy.all_stale {
            copy.rows.clear();
        }
        for &stale in &copy.stale {
            if let Some(known) = copy.rows.get_mut(stale as usize) {
                *known = row(stale.into());
            }
        }
        // Rows that are new now may be torn: they are looked at again until all is one.
        for new in copy.rows.len() as u64..rows_used {
            copy.rows.push(row(new));
            copy.stale.insert(new as u32);
        }

        let mut meters = read_meters(words);
        for (meter, values) in meters.iter_mut().enumerate() {
            view.patch(super::layout::METERS + meter * super::layout::METER, values);
        }
        Ok((meters, repair))
    }
}

/// The words and values of an update that is committed and not applied.
fn pending(
    words: &Words,
    header: &Header,
    committed: u64,
    applied: u64,
) -> Result<Vec<(usize, u64)>, Damage> {
    let at = journal(committed);
    let (number, count) = (words.load(at), words.load(at + 1));
    if applied.wrapping_add(1) != committed || number != committed || count > JOURNAL_PAIRS as u64 {
        return Err(Damage::State { what: "journal" });
    }
    (0..count as usize)
        .map(|pair| {
            let (word, value) = (words.load(at + 2 + 2 * pair), words.load(at + 3 + 2 * pair));
            let word = usize::try_from(word).ok().filter(|&word| header.geometry.is_state(word));
            word.map(|word| (word, value)).ok_or(Damage::State { what: "journal" })
        })
        .collect()
}

impl Copied {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Lets go of events that are not in the log any more.
    fn forget_before(&mut self, first: u64) {
        while self.first < first {
            let Some(entry) = self.entries.pop_front() else { break };
            self.first += 1;
            // Its bytes went to the bases of its rows.
            match entry {
                Some(entry) => self.stale.extend(entry.referenced()),
                None => self.all_stale = true,
            }
        }
    }

    /// Makes room for the events `first..written`, of which those that are known are kept.
    fn move_to(&mut self, first: u64, written: u64) {
        self.forget_before(first);
        if self.first != first || self.end() > written {
            // Events passed unseen, or the file is not the one it was.
            self.entries.clear();
            self.first = first;
            self.all_stale = true;
        }
    }
}
