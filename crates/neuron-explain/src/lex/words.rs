//! Which readers a record may say something to, by the words in it: one pass in place of a search
//! for every text that a reader knows.
//!
//! The words hold no blanks, so that they stand in a record whether its blanks are collapsed or
//! not.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// Readers that have nothing to say without one of their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Readers(u8);

impl Readers {
    pub(super) const REQUEST: Self = Self(1);
    pub(super) const FILES: Self = Self(2);
    pub(super) const USAGE: Self = Self(4);
    pub(super) const CASCADE: Self = Self(8);
    pub(super) const KERNEL: Self = Self(16);
    /// The runtime's information block.
    pub(super) const BLOCK: Self = Self(32);
    /// Heads of an HBM's list.
    pub(super) const HBM: Self = Self(64);
    pub(super) const ALL: Self = Self(127);

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn any(self) -> bool {
        self.0 != 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The readers of a record.
    pub(super) fn of(record: &str) -> Self {
        let Some(words) = &*FINDER else { return Self::ALL };
        let found = words.find_overlapping_iter(record).filter_map(|it| WORDS.get(it.pattern().as_usize()));
        found.fold(Self::default(), |all, (_, readers)| all.and(*readers))
    }
}

/// Each word with those whose texts it is in. What a reader knows has one of its words.
const WORDS: [(&str, Readers); 40] = [
    ("Failed", Readers::REQUEST.and(Readers::KERNEL)),
    ("size", Readers::REQUEST),
    ("DEVICE", Readers::REQUEST),
    ("MLA", Readers::REQUEST),
    ("LNC", Readers::REQUEST),
    ("_device_", Readers::FILES),
    ("Utilization", Readers::USAGE),
    ("mapping", Readers::USAGE),
    ("rounded", Readers::USAGE),
    ("Usage", Readers::USAGE),
    ("breakdown", Readers::USAGE),
    ("dml_log_dev_neff_mem", Readers::USAGE),
    ("ret=", Readers::CASCADE),
    ("idx=", Readers::CASCADE),
    ("channel", Readers::CASCADE),
    ("NRT_", Readers::CASCADE),
    ("NERR_", Readers::CASCADE),
    ("err:", Readers::CASCADE),
    ("message=", Readers::CASCADE),
    ("pages", Readers::CASCADE),
    ("exceeded", Readers::CASCADE),
    ("compatible", Readers::CASCADE),
    ("mempool", Readers::KERNEL),
    ("Aligned", Readers::KERNEL),
    ("contiguous", Readers::KERNEL),
    ("genpool", Readers::KERNEL),
    ("DMA", Readers::KERNEL),
    ("large", Readers::KERNEL),
    ("internal", Readers::KERNEL),
    ("regions", Readers::KERNEL),
    ("occupied", Readers::KERNEL),
    ("leaked", Readers::KERNEL),
    ("pin", Readers::KERNEL),
    ("memset", Readers::KERNEL),
    ("open", Readers::KERNEL),
    ("usage:", Readers::KERNEL),
    ("nrt_infodump", Readers::BLOCK),
    ("version:", Readers::BLOCK),
    ("NEURON_", Readers::BLOCK),
    ("HBM", Readers::HBM),
];

static FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(WORDS.iter().map(|(word, _)| word)).ok());
