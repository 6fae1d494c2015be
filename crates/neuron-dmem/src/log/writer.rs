//! Writing: every allocation and every free becomes one transaction.
//!
//! In memory of this process the lock is enough: nobody else looks, and with the process the log
//! is gone. In a file a transaction first puts the event into the spare place of the ring, then all words that
//! it will change, with their new values, into a journal, then commits: one store of its
//! number. Only then are the words changed, and its number stored as applied. Whoever finds
//! the log at any moment, because it looks from another process or because the writer is no
//! more, has all of the transaction or nothing of it.

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};

use super::entry::{Action, Entry, Padding};
use super::error::LogError;
use super::layout::{
    APPLIED, CLOSED, COMMITTED, FIRST, Geometry, Header, JOURNAL_PAIRS, METER, METERS, ROW_CHANGES,
    ROW_METER, ROW_TEXT, ROWS_USED, WRITTEN, begin, journal,
};
use super::options::LogOptions;
use super::rows::{OTHER_HINTS, OTHER_OWNERS, Place, Row, RowIndex, RowKind, cut, text_words};
use super::tables::{Event, Statistics, Tables, read_meters, read_row};
use super::words::Words;
use super::{file, meters};
use crate::kind::AllocatorKind;
use crate::scratch;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::usage::Usage;

/// The usage log of a device (`dma_mem_log_t`): counters with their peaks, and a ring of the
/// newest events.
///
/// One lock guards all of it; nothing else is locked, allocated on the device or waited for
/// under it.
#[derive(Debug)]
pub struct UsageLog {
    writer: Mutex<Writer>,
    header: Header,
}

/// What is logged of an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) location: MemLocation,
    pub(crate) usage: UsageType,
    pub(crate) hbm: u32,
    pub(crate) core: u32,
    /// Bytes asked for.
    pub(crate) size: u64,
    /// Bytes allocated beyond them: 0, or the alignment that is made by hand.
    pub(crate) padding: u64,
    pub(crate) pa: u64,
    pub(crate) align_offset: u64,
}

/// Names an allocator in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerRow(u32);

/// An allocation that was logged and is to be logged as freed, once.
#[derive(Debug)]
pub(crate) struct Charge(Entry);

#[derive(Debug)]
struct Writer {
    words: Words,
    geometry: Geometry,
    transaction: u64,
    written: u64,
    first: u64,
    index: RowIndex,
    /// The journal of the transaction that is being made: number, count, pairs. `None` where
    /// words are changed at once, since only who has the lock can see them.
    journal: Option<Vec<u64>>,
}

impl UsageLog {
    /// A log of the device with this index.
    ///
    /// Without a file it is in memory, of which a ring takes no more than was written to; if
    /// there is not so much, there is no ring, and counting goes on.
    ///
    /// # Errors
    /// [`LogError::Capacity`]; with a file also those of making it. In memory it cannot fail
    /// otherwise.
    pub fn new(device: u8, options: &LogOptions) -> Result<Self, LogError> {
        let header = options.header(device)?;
        if let Some(path) = options.path() {
            return Ok(Self::over(header, file::create(path, &header)?));
        }
        Ok(match Words::lazy(header.geometry.words()) {
            Some(words) => Self::over(header, begin(words, &header)),
            None => Self::without_ring(device),
        })
    }

    /// The log that everybody gets who asked for none in particular.
    pub(crate) fn in_memory(device: u8) -> Self {
        Self::new(device, &LogOptions::default()).unwrap_or_else(|_| Self::without_ring(device))
    }

    pub(super) fn without_ring(device: u8) -> Self {
        let header = Header { geometry: Geometry { capacity: 0, rows: 256 }, device: device.into(), pid: 0 };
        Self::over(header, begin(Words::few(header.geometry.words()), &header))
    }

    /// Over words that [`begin`] made a log.
    pub(super) fn over(header: Header, words: Words) -> Self {
        let geometry = header.geometry;
        let index = RowIndex::new(geometry.rows);
        let journal = words.are_shared().then(|| {
            let mut journal = Vec::with_capacity(2 + 2 * JOURNAL_PAIRS);
            journal.extend([0, 0]);
            journal
        });
        let writer = Writer { words, geometry, transaction: 0, written: 0, first: 0, index, journal };
        Self { writer: Mutex::new(writer), header }
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events that the ring holds; 0 if there is none.
    pub const fn capacity(&self) -> u64 {
        self.header.geometry.capacity
    }

    /// Events logged, and how many of them were overwritten by newer ones.
    pub fn counts(&self) -> (u64, u64) {
        let writer = self.lock();
        (writer.written, if writer.geometry.capacity == 0 { 0 } else { writer.first })
    }

    /// What is in use now.
    pub fn usage(&self) -> Usage {
        let writer = self.lock();
        Usage::from_counters(|meter| meter.map_or(0, |meter| writer.words.load(METERS + meter * METER)))
    }

    /// Bytes on an HBM, or the host, and of a category, at one moment.
    pub(crate) fn in_use(&self, hbm: Option<u32>, category: Aggregate) -> (u64, u64) {
        let writer = self.lock();
        let of = |meter: usize| writer.words.load(METERS + meter * METER);
        let place = hbm.map_or(Some(meters::HOST), meters::channel);
        (place.map_or(0, of), of(meters::category(category)))
    }

    /// Current and peak of everything that is counted, at one moment.
    pub fn statistics(&self) -> Statistics {
        self.lock().tables().statistics()
    }

    /// Events that are in the ring, oldest first.
    pub fn events(&self) -> Vec<Event> {
        let writer = self.lock();
        let tables = writer.tables();
        let entries =
            (writer.first..writer.written).filter_map(|number| Some((number, writer.entry(number)?)));
        entries.map(|(number, entry)| tables.event(number, &entry)).collect()
    }

    /// Lists an allocator.
    pub(crate) fn owner(&self, kind: AllocatorKind, core: u32, label: &str) -> OwnerRow {
        let mut writer = self.lock();
        let place = writer.index.owner();
        let row = writer.name(place, RowKind::Owner { kind, core, left: false }, cut(label), OTHER_OWNERS);
        writer.index.refer(row);
        OwnerRow(row)
    }

    /// An allocator is gone. Its handles may live on.
    pub(crate) fn owner_left(&self, OwnerRow(row): OwnerRow) {
        let mut writer = self.lock();
        writer.leave(row);
        writer.index.release(row);
    }

    /// Counts an allocation and logs it.
    pub(crate) fn allocated(&self, record: &Record, OwnerRow(owner): OwnerRow, hint: Option<&str>) -> Charge {
        let mut writer = self.lock();
        let hint = hint.map_or(0, |hint| {
            let hint = cut(hint);
            let place = writer.index.hint(hint);
            writer.name(place, RowKind::Hint, hint, OTHER_HINTS)
        });
        let entry = Entry {
            action: Action::Alloc,
            location: record.location,
            usage: record.usage,
            channel: record.hbm,
            hint,
            padding: Padding::of(record.padding),
            core: record.core,
            owner,
            size: record.size,
            pa: record.pa,
            align_offset: record.align_offset,
            total: 0,
        };
        entry.referenced().for_each(|row| writer.index.refer(row));
        writer.log(entry);
        Charge(entry)
    }

    /// Takes an allocation back and logs that it was freed.
    pub(crate) fn freed(&self, Charge(entry): &Charge) {
        let mut writer = self.lock();
        writer.log(Entry { action: Action::Free, ..*entry });
        entry.referenced().for_each(|row| writer.index.release(row));
    }
}

impl Drop for UsageLog {
    fn drop(&mut self) {
        let words = &self.lock().words;
        words.publish(CLOSED, 1);
        words.file().map(scratch::no_longer_written);
    }
}

impl Writer {
    fn set(&mut self, word: usize, value: u64) {
        match &mut self.journal {
            Some(journal) => journal.extend([word as u64, value]),
            None => self.words.store(word, value),
        }
    }

    /// Makes the words that were [set](Self::set) those of the log, all or none.
    fn commit(&mut self) {
        let Some(journal_words) = &mut self.journal else { return };
        self.transaction = self.transaction.wrapping_add(1);
        let count = journal_words.len() / 2 - 1;
        debug_assert!(count <= JOURNAL_PAIRS);
        for (word, value) in journal_words.iter_mut().zip([self.transaction, count as u64]) {
            *word = value;
        }
        self.words.store_block(journal(self.transaction), journal_words);
        self.words.publish(COMMITTED, self.transaction);
        for pair in journal_words.chunks_exact(2).skip(1) {
            if let [word, value] = *pair {
                self.words.store(word as usize, value);
            }
        }
        self.words.publish(APPLIED, self.transaction);
        journal_words.truncate(2);
    }

    fn log(&mut self, mut entry: Entry) {
        entry.total = match (entry.location, meters::channel(entry.channel)) {
            (MemLocation::Device, Some(channel)) => entry.change(self.words.load(METERS + channel * METER)),
            _ => 0,
        };
        for at in self.meters_of(&entry).into_iter().flatten() {
            let current = entry.change(self.words.load(at));
            self.set(at, current);
            if current > self.words.load(at + 1) {
                self.set(at + 1, current);
            }
        }
        if self.geometry.capacity == 0 {
            self.fold(&entry);
            self.first += 1;
        } else {
            if self.written - self.first == self.geometry.capacity {
                if let Some(oldest) = self.entry(self.first) {
                    self.fold(&oldest);
                    oldest.referenced().for_each(|row| self.index.release(row));
                }
                self.first += 1;
            }
            self.words.store_block(self.geometry.entry(self.written), &entry.words(self.written));
            entry.referenced().for_each(|row| self.index.refer(row));
        }
        self.written += 1;
        self.set(WRITTEN, self.written);
        self.set(FIRST, self.first);
        self.commit();
    }

    /// Keeps in the bases what an event did that is to be overwritten.
    fn fold(&mut self, entry: &Entry) {
        for at in self.meters_of(entry).into_iter().flatten() {
            let base = entry.change(self.words.load(at + 2));
            self.set(at + 2, base);
        }
    }

    /// First words of the meters that an event moves.
    fn meters_of(&self, entry: &Entry) -> [Option<usize>; 7] {
        let [channel, usage, core, category, place] =
            meters::moved_by(entry).map(|meter| Some(METERS + meter? * METER));
        let [owner, hint] = entry.rows().map(|row| {
            let row = row.map(u64::from).filter(|&row| row < self.geometry.rows);
            row.map(|row| self.geometry.row(row) + ROW_METER)
        });
        [channel, usage, core, category, place, owner, hint]
    }

    fn entry(&self, number: u64) -> Option<Entry> {
        let mut words = [0; super::layout::ENTRY];
        self.words.load_block(self.geometry.entry(number), &mut words);
        Entry::from_words(number, &words)
    }

    /// Writes the name of a row that is new or was given to another; returns the row.
    fn name(&mut self, place: Place, kind: RowKind, text: &str, others: u32) -> u32 {
        let row = match place {
            Place::Known(row) => return row,
            Place::Others => return others,
            Place::Fresh(row) | Place::Recycled(row) => row,
        };
        let at = self.geometry.row(row.into());
        let recycled = matches!(place, Place::Recycled(_));
        if recycled {
            // Nameless in a transaction of its own: until the next one the text is not whole.
            self.set_row_head(at, 0);
            for word in at + ROW_METER..at + ROW_TEXT {
                self.set(word, 0);
            }
            self.commit();
        }
        self.words.store_block(at + ROW_TEXT, &text_words(text));
        let head = kind.head(text.len());
        if recycled {
            self.set_row_head(at, head);
        } else {
            self.set(at, head);
        }
        self.set(ROWS_USED, self.index.used());
        self.commit();
        row
    }

    /// Changes the head of a row that readers may have copied.
    fn set_row_head(&mut self, at: usize, head: u64) {
        self.set(at, head);
        self.set(ROW_CHANGES, self.words.load(ROW_CHANGES).wrapping_add(1));
    }

    fn leave(&mut self, row: u32) {
        let words = read_row(&self.words, self.geometry, row.into());
        let Row { kind: Some(RowKind::Owner { kind, core, .. }), text, .. } = Row::from_words(&words) else {
            return;
        };
        let head = RowKind::Owner { kind, core, left: true }.head(text.len());
        self.set_row_head(self.geometry.row(row.into()), head);
        self.commit();
    }

    fn tables(&self) -> Tables {
        let rows =
            (0..self.index.used()).map(|row| Row::from_words(&read_row(&self.words, self.geometry, row)));
        Tables { meters: read_meters(&self.words), rows: rows.collect() }
    }
}
