//! Rows: the names that events refer to, owners and hints, each with a meter of its own.
//!
//! The log keeps its own copy of a hint, because the handle's goes with the handle
//! (`spec/dmem.md` 1.5, trap). A row is given to another name only when nothing living and no
//! event in the ring refers to it, and only when there is no fresh one; when there is neither,
//! the name counts under "others".
//!
//! | row | |
//! |---|---|
//! | 0 | none |
//! | 1, 2 | other owners, other hints |
//! | 3.. | as they come |

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::kind::AllocatorKind;

use super::format::{ROW, ROW_METER, ROW_TEXT, TEXT};
use super::words::WORD;

pub(super) const OTHER_OWNERS: u32 = 1;
pub(super) const OTHER_HINTS: u32 = 2;
/// First row that is given to a name.
pub(super) const FIRST_ROW: u64 = 3;

/// Whose row it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RowKind {
    Hint,
    Owner { kind: AllocatorKind, core: u32, left: bool },
}

/// A row as its words have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// `None` while it has no name.
    pub(super) kind: Option<RowKind>,
    pub(super) text: Arc<str>,
    pub(super) meter: [u64; 3],
}

impl RowKind {
    /// The first word of a row with a text of so many bytes.
    pub(super) fn head(self, text: usize) -> u64 {
        let (tag, core) = match self {
            Self::Hint => (1, 0),
            Self::Owner { kind, core, left } => {
                (2 + u64::from(kind == AllocatorKind::Model) + 2 * u64::from(left), core)
            }
        };
        tag | (text as u64) << 8 | u64::from(core) << 32
    }

    fn from_head(head: u64) -> Option<Self> {
        let tag = head & 0xff;
        let kind = if tag.is_multiple_of(2) { AllocatorKind::Global } else { AllocatorKind::Model };
        match tag {
            1 => Some(Self::Hint),
            2..=5 => Some(Self::Owner { kind, core: (head >> 32) as u32, left: tag >= 4 }),
            _ => None,
        }
    }
}

impl Row {
    pub(super) fn from_words(words: &[u64; ROW]) -> Self {
        let head = words[0];
        let kind = RowKind::from_head(head);
        let bytes: Vec<u8> = words[ROW_TEXT..].iter().flat_map(|word| word.to_le_bytes()).collect();
        let len = match kind {
            Some(_) => (head >> 8 & 0xff) as usize,
            None => 0,
        };
        let text = String::from_utf8_lossy(bytes.get(..len).unwrap_or(&bytes)).into();
        Self { kind, text, meter: [words[ROW_METER], words[ROW_METER + 1], words[ROW_METER + 2]] }
    }
}

/// As much of a text as a row has room for, cut between characters.
pub(super) fn cut(text: &str) -> &str {
    let end = (0..=TEXT.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    end.and_then(|end| text.get(..end)).unwrap_or("")
}

/// The words of a text.
pub(super) fn text_words(text: &str) -> [u64; TEXT / WORD] {
    let mut words = [0; TEXT / WORD];
    for (word, bytes) in words.iter_mut().zip(text.as_bytes().chunks(WORD)) {
        let mut whole = [0; WORD];
        for (to, from) in whole.iter_mut().zip(bytes) {
            *to = *from;
        }
        *word = u64::from_le_bytes(whole);
    }
    words
}

/// Which rows are taken, by what: the writer's own index, not part of the log.
#[derive(Debug)]
pub(super) struct RowIndex {
    limit: u64,
    rows: Vec<Taken>,
    hints: HashMap<Arc<str>, u32>,
    /// Rows that nothing referred to when they were put here, longest first.
    vacant: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct Taken {
    hint: Option<Arc<str>>,
    references: u64,
    in_vacant: bool,
}

/// Where a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the row that it had.
    Known(u32),
    /// In a row that was never used.
    Fresh(u32),
    /// In a row that another name had.
    Recycled(u32),
    /// Under others.
    Others,
}

impl RowIndex {
    pub(super) fn new(limit: u64) -> Self {
        let rows = (0..FIRST_ROW).map(|_| Taken::default()).collect();
        Self { limit, rows, hints: HashMap::new(), vacant: VecDeque::new() }
    }

    /// Rows in use.
    pub(super) fn used(&self) -> u64 {
        self.rows.len() as u64
    }

    /// The row of a hint. The text is what [`cut`] left of it.
    pub(super) fn hint(&mut self, text: &str) -> Place {
        if let Some(&row) = self.hints.get(text) {
            return Place::Known(row);
        }
        let place = self.take();
        if let Place::Fresh(row) | Place::Recycled(row) = place {
            let text: Arc<str> = text.into();
            if let Some(taken) = self.rows.get_mut(row as usize) {
                taken.hint = Some(Arc::clone(&text));
            }
            self.hints.insert(text, row);
        }
        place
    }

    /// A row for an owner.
    pub(super) fn owner(&mut self) -> Place {
        self.take()
    }

    fn take(&mut self) -> Place {
        if self.used() < self.limit {
            self.rows.push(Taken::default());
            return Place::Fresh((self.used() - 1) as u32);
        }
        while let Some(row) = self.vacant.pop_front() {
            let Some(taken) = self.rows.get_mut(row as usize) else { continue };
            taken.in_vacant = false;
            if taken.references == 0 {
                if let Some(hint) = taken.hint.take() {
                    self.hints.remove(&hint);
                }
                return Place::Recycled(row);
            }
        }
        Place::Others
    }

    /// One more reference: a living handle, an allocator, an event in the ring.
    pub(super) fn refer(&mut self, row: u32) {
        if let Some(taken) = self.rows.get_mut(row as usize) {
            taken.references += 1;
        }
    }

    /// One reference less.
    pub(super) fn release(&mut self, row: u32) {
        let own = u64::from(row) >= FIRST_ROW;
        let Some(taken) = self.rows.get_mut(row as usize) else { return };
        taken.references = taken.references.saturating_sub(1);
        if own && taken.references == 0 && !taken.in_vacant {
            taken.in_vacant = true;
            self.vacant.push_back(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_recycled_only_when_nothing_refers_to_it_and_none_is_fresh() {
        let mut index = RowIndex::new(5);
        assert_eq!(index.hint("a"), Place::Fresh(3));
        index.refer(3);
        index.release(3);
        assert_eq!(index.hint("b"), Place::Fresh(4), "a fresh row first, so that a's peak stays");
        index.refer(4);
        assert_eq!(index.hint("a"), Place::Known(3));
        index.refer(3);
        assert_eq!(index.owner(), Place::Others, "a came back to life");
        index.release(3);
        assert_eq!(index.owner(), Place::Recycled(3));
        index.refer(3);
        assert_eq!(index.hint("a"), Place::Others);
        index.release(4);
        assert_eq!(index.hint("a"), Place::Recycled(4));
        assert_eq!(index.hint("a"), Place::Known(4));
    }

    #[test]
    fn texts_survive_their_words_and_are_cut_between_characters() {
        for text in ["", "layer.0.weight", &"é".repeat(60), &"x".repeat(96), &"x".repeat(97)] {
            let kept = cut(text);
            assert!(kept.len() <= 96 && text.starts_with(kept) && text.len() - kept.len() <= 24);
            let kind = RowKind::Owner { kind: AllocatorKind::Model, core: 7, left: true };
            let mut words = [0; ROW];
            (words[0], words[2]) = (kind.head(kept.len()), 5);
            words[ROW_TEXT..].copy_from_slice(&text_words(kept));
            let row = Row::from_words(&words);
            assert_eq!((row.kind, &*row.text, row.meter), (Some(kind), kept, [0, 5, 0]));
        }
        assert_eq!(cut(&"é".repeat(60)).len(), 96);
    }

    #[test]
    fn every_kind_survives_its_head_and_other_tags_are_none() {
        let owners = [AllocatorKind::Global, AllocatorKind::Model]
            .into_iter()
            .flat_map(|kind| [false, true].map(|left| RowKind::Owner { kind, core: 3, left }));
        for kind in owners.chain([RowKind::Hint]) {
            assert_eq!(RowKind::from_head(kind.head(12)), Some(kind));
        }
        assert_eq!([0, 6, 255].map(RowKind::from_head), [None; 3]);
    }
}
