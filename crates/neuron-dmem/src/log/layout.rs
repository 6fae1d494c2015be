//! Where everything is in a log, in RAM as in a file. `docs/log.md` has the same for readers
//! in other languages. Layout, header and version are our choice; counters and entries hold
//! what `spec/dmem.md` 1.4 and 1.5 give them.
//!
//! | words | |
//! |---|---|
//! | 0..16 | header: never changes |
//! | 16, 24 | number of the last transaction committed, applied |
//! | 32..37 | state |
//! | 512..1118 | meters, 3 words each: current, peak, base |
//! | 1536..2048 | two journals, used in turn |
//! | 2048.. | ring: capacity + 1 entries of 8 words |
//! | next page.. | rows: owners and hints, 16 words each |

use super::error::Damage;
pub(super) use super::format::{ENTRY, MAX_CAPACITY, ROW, ROW_METER, ROW_TEXT, VERSION, mix};
use super::rows::FIRST_ROW;
use super::words::{WORD, Words};

/// `NEURONML`, as the first eight bytes of a file.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"NEURONML");
/// Most rows: 128 MiB of them (our choice).
pub(super) const MAX_ROWS: u64 = 1 << 20;

/// Header words, in their order.
pub(super) const HEADER: usize = 16;
const HEADER_CHECK: usize = HEADER - 1;

/// Number of the last transaction whose journal is whole.
pub(super) const COMMITTED: usize = 16;
/// Number of the last transaction whose words are all in place.
pub(super) const APPLIED: usize = 24;

/// Events ever logged: the next one's number.
pub(super) const WRITTEN: usize = 32;
/// Number of the oldest event that is in the ring.
pub(super) const FIRST: usize = 33;
/// Rows in use from the first on.
pub(super) const ROWS_USED: usize = 34;
/// Counts changes of rows that no event tells: renamed or left.
pub(super) const ROW_CHANGES: usize = 35;
/// 1 once the writer has closed the log.
pub(super) const CLOSED: usize = 36;

/// First meter.
pub(super) const METERS: usize = 512;
/// Words of a meter: current, peak, base.
pub(super) const METER: usize = 3;

/// First journal: its transaction's number, count, then pairs of word and value.
const JOURNALS: usize = 1536;
const JOURNAL: usize = 256;
/// Pairs that a journal has room for.
pub(super) const JOURNAL_PAIRS: usize = (JOURNAL - 2) / 2;

/// First entry.
const RING: usize = 2048;

const PAGE: usize = 4096 / WORD;

/// Sizes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Events that the ring holds; 0 for no ring.
    pub(super) capacity: u64,
    /// Rows there is room for.
    pub(super) rows: u64,
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) geometry: Geometry,
    /// Index of the device (`mla_idx`).
    pub(super) device: u64,
    /// Process that writes.
    pub(super) pid: u64,
}

impl Geometry {
    /// First word of an event's entry. There is one more than the ring holds: a new event is
    /// written beside those that count, and takes the oldest one's place only when it is whole.
    pub(super) fn entry(self, number: u64) -> usize {
        RING + (number % (self.capacity + 1)) as usize * ENTRY
    }

    /// First word of a row.
    pub(super) fn row(self, row: u64) -> usize {
        self.rows_start() + row as usize * ROW
    }

    fn rows_start(self) -> usize {
        (RING + (self.capacity as usize + 1) * ENTRY).next_multiple_of(PAGE)
    }

    /// Words of the whole log.
    pub(super) fn words(self) -> usize {
        (self.rows_start() + self.rows as usize * ROW).next_multiple_of(PAGE)
    }

    /// Bytes of the whole log.
    pub(super) fn bytes(self) -> u64 {
        (self.words() * WORD) as u64
    }

    /// Whether a transaction may change this word.
    pub(super) fn is_state(self, word: usize) -> bool {
        let rows = self.rows_start()..self.rows_start() + self.rows as usize * ROW;
        (WRITTEN..=ROW_CHANGES).contains(&word)
            || (METERS..METERS + super::meters::COUNT * METER).contains(&word)
            || rows.contains(&word)
    }
}

/// First word of the journal that a transaction uses.
pub(super) const fn journal(transaction: u64) -> usize {
    JOURNALS + (transaction % 2) as usize * JOURNAL
}

impl Header {
    fn words(&self) -> [u64; HEADER] {
        let Geometry { capacity, rows } = self.geometry;
        let mut words = [0; HEADER];
        let fields = [
            MAGIC,
            VERSION,
            self.geometry.bytes(),
            self.device,
            self.pid,
            capacity,
            rows,
            super::meters::COUNT as u64,
        ];
        for (word, field) in words.iter_mut().zip(fields) {
            *word = field;
        }
        if let Some((check, fields)) = words.split_last_mut() {
            *check = mix(0, fields);
        }
        words
    }

    pub(super) fn write(&self, words: &Words) {
        words.store_block(0, &self.words());
    }

    /// Reads a header and checks it against the size of what it heads.
    pub(super) fn read(words: &Words, bytes: u64) -> Result<Self, Damage> {
        let mut found = [0; HEADER];
        words.load_block(0, &mut found);
        let [magic, version, size, device, pid, capacity, rows, ..] = found;
        if magic != MAGIC {
            return Err(Damage::Magic);
        }
        if version != VERSION {
            return Err(Damage::Version { found: version });
        }
        if words.load(HEADER_CHECK) != mix(0, &found[..HEADER_CHECK])
            || capacity > MAX_CAPACITY
            || !(FIRST_ROW..=MAX_ROWS).contains(&rows)
        {
            return Err(Damage::Header);
        }
        let header = Self { geometry: Geometry { capacity, rows }, device, pid };
        if header.words() != found {
            return Err(Damage::Header);
        }
        if bytes != size {
            return Err(Damage::Size { expected: size, found: bytes });
        }
        Ok(header)
    }
}

/// Makes zeroed words a log without events.
pub(super) fn begin(words: Words, header: &Header) -> Words {
    header.write(&words);
    words.publish(ROWS_USED, FIRST_ROW);
    words
}
