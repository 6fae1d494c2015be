//! Owners and hints as small numbers, so that an event costs no text. Bounded: of a text the first
//! [`LONGEST`] bytes count.

use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a text that count (our choice).
const LONGEST: usize = 256;

/// A text by number.
pub(crate) type Symbol = u32;
/// No text.
pub(crate) const NONE: Symbol = 0;
/// A text for which there was no room.
const OTHER: Symbol = 1;

/// Texts by number, in order of appearance.
#[derive(Debug)]
pub(crate) struct Names {
    known: HashMap<Arc<str>, Symbol>,
    entries: Vec<Entry>,
    vacant: Vec<Symbol>,
    limit: usize,
}

#[derive(Debug)]
struct Entry {
    text: Arc<str>,
    references: u64,
}

impl Names {
    /// At most so many texts; those beyond are `(other)`.
    pub(crate) fn new(limit: usize) -> Self {
        let entry = |text: &str| Entry { text: text.into(), references: 0 };
        Self { known: HashMap::new(), entries: vec![entry("-"), entry("(other)")], vacant: Vec::new(), limit }
    }

    /// The number of a text, one more reference to it.
    pub(crate) fn take(&mut self, text: Option<&str>) -> Symbol {
        let Some(text) = text.map(cut) else { return NONE };
        let symbol = match self.known.get(text) {
            Some(&symbol) => symbol,
            None if self.known.len() >= self.limit => return OTHER,
            None => self.add(text.into()),
        };
        if let Some(entry) = self.entries.get_mut(symbol as usize) {
            entry.references += 1;
        }
        symbol
    }

    fn add(&mut self, text: Arc<str>) -> Symbol {
        let entry = Entry { text: Arc::clone(&text), references: 0 };
        let symbol = match self.vacant.pop() {
            Some(symbol) => {
                if let Some(vacant) = self.entries.get_mut(symbol as usize) {
                    *vacant = entry;
                }
                symbol
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as Symbol
            }
        };
        self.known.insert(text, symbol);
        symbol
    }

    /// One reference less. A text without one is forgotten.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        if symbol <= OTHER {
            return;
        }
        let Some(entry) = self.entries.get_mut(symbol as usize) else { return };
        entry.references = entry.references.saturating_sub(1);
        if entry.references == 0 {
            self.known.remove(&entry.text);
            self.vacant.push(symbol);
        }
    }

    /// The text.
    pub(crate) fn text(&self, symbol: Symbol) -> Arc<str> {
        self.entries.get(symbol as usize).map_or_else(|| "".into(), |entry| Arc::clone(&entry.text))
    }
}

/// As much of a text as counts, cut between characters.
fn cut(text: &str) -> &str {
    if text.len() <= LONGEST {
        return text;
    }
    let end = (0..=LONGEST).rev().find(|&at| text.is_char_boundary(at));
    end.and_then(|end| text.get(..end)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_number_while_it_is_referred_to() {
        let mut names = Names::new(2);
        let a = names.take(Some("a"));
        let b = names.take(Some("b"));
        assert_eq!((names.take(Some("a")), names.take(None)), (a, NONE));
        assert_eq!(&*names.text(names.known["b"]), "b");
        assert_eq!(names.take(Some("c")), OTHER, "no room");
        names.release(a);
        assert_eq!(names.take(Some("a")), a);
        names.release(b);
        let c = names.take(Some("c"));
        assert_eq!((c, &*names.text(c)), (b, "c"), "in the place of b");
        names.release(OTHER);
        names.release(NONE);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut names = Names::new(9);
        let long = names.take(Some(&"é".repeat(200)));
        assert_eq!(names.text(long).len(), 256);
        assert_eq!(names.take(Some(&"é".repeat(300))), long);
    }
}
