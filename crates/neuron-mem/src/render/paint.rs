//! Colours, for people at a terminal who did not say that they want none.

use std::ffi::OsStr;
use std::fmt;
use std::io::IsTerminal as _;

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(bool);

/// A colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// All is well.
    Green,
    /// Nearly not.
    Yellow,
    /// It is not.
    Red,
}

impl Paint {
    /// No colours.
    pub const PLAIN: Self = Self(false);
    /// Colours, whoever reads them.
    pub const COLOURS: Self = Self(true);

    /// Colours if standard output is a terminal, unless `NO_COLOR` is set and not empty.
    #[must_use]
    pub fn of_stdout() -> Self {
        Self::of(std::io::stdout().is_terminal(), std::env::var_os("NO_COLOR").as_deref())
    }

    fn of(terminal: bool, no_color: Option<&OsStr>) -> Self {
        Self(terminal && no_color.is_none_or(OsStr::is_empty))
    }

    /// The text in a colour.
    #[must_use]
    pub fn paint(self, colour: Colour, text: impl fmt::Display) -> String {
        let code = match colour {
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Red => 31,
        };
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_and_not_against_no_color() {
        let of = |terminal, no_color: Option<&str>| Paint::of(terminal, no_color.map(OsStr::new));
        assert_eq!(of(true, None), Paint::COLOURS);
        assert_eq!(of(true, Some("")), Paint::COLOURS);
        assert_eq!([of(true, Some("1")), of(false, None), of(false, Some(""))], [Paint::PLAIN; 3]);
        assert_eq!(Paint::COLOURS.paint(Colour::Red, "no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(Paint::PLAIN.paint(Colour::Red, "no"), "no");
    }
}
