//! Owners as small numbers, so that an event costs no text. Bounded: of a text the first [`LONGEST`]
//! bytes count, and there is room for so many.

use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a text that count (our choice).
const LONGEST: usize = 256;

/// A text by number.
pub(crate) type Symbol = u32;
/// No text.
const NONE: Symbol = 0;
/// A text for which there was no room.
const OTHER: Symbol = 1;

/// Texts by number, in order of appearance.
#[derive(Debug)]
pub(crate) struct Names {
    known: HashMap<Arc<str>, Symbol>,
    texts: Vec<Arc<str>>,
    limit: usize,
}

impl Names {
    /// At most so many texts; those beyond are `(other)`.
    pub(crate) fn new(limit: usize) -> Self {
        Self { known: HashMap::new(), texts: vec!["-".into(), "(other)".into()], limit }
    }

    /// The number of a text.
    pub(crate) fn number(&mut self, text: Option<&str>) -> Symbol {
        let Some(text) = text.map(cut) else { return NONE };
        match self.known.get(text) {
            Some(&symbol) => symbol,
            None if self.known.len() >= self.limit => OTHER,
            None => {
                let (symbol, text) = (self.texts.len() as Symbol, Arc::<str>::from(text));
                self.texts.push(Arc::clone(&text));
                self.known.insert(text, symbol);
                symbol
            }
        }
    }

    /// The text.
    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol as usize).map_or("", |text| text)
    }
}

/// As much of a text as counts, cut between characters.
pub(crate) fn cut(text: &str) -> &str {
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
    fn a_text_has_one_number_and_those_without_room_share_one() {
        let mut names = Names::new(2);
        let [a, b] = ["a", "b"].map(|text| names.number(Some(text)));
        assert_eq!((names.number(Some("a")), names.number(None)), (a, NONE));
        assert_eq!((names.text(a), names.text(b), names.text(NONE)), ("a", "b", "-"));
        assert_eq!(names.number(Some("c")), OTHER, "no room");
        assert_eq!((names.number(Some("b")), names.text(OTHER), names.text(9)), (b, "(other)", ""));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut names = Names::new(9);
        let long = names.number(Some(&"é".repeat(200)));
        assert_eq!(names.text(long).len(), 256);
        assert_eq!(names.number(Some(&"é".repeat(300))), long);
        assert_eq!(cut(&format!("x{}", "é".repeat(200))).len(), 255);
    }
}
