//! Foreign text (tensor names, file names, words from a header) made fit for a terminal or a log: control
//! characters escaped, length bounded. Every message that repeats something read from a file goes through here.

use std::fmt;
use std::path::Path;

/// Characters of foreign text a message repeats before it is cut (our choice: two terminal lines).
const LIMIT: usize = 160;

/// Displays foreign text in backquotes, escaped and cut to a bounded length.
///
/// Printable Unicode stays as it is; control characters, which could move a terminal's cursor or hide text,
/// are written as Rust escapes.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`")?;
        write_escaped(f, self.0)?;
        f.write_str("`")
    }
}

/// As [`Shown`], for a path; bytes that are not UTF-8 show as U+FFFD.
#[derive(Debug, Clone, Copy)]
pub struct ShownPath<'a>(pub &'a Path);

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.0.to_string_lossy()).fmt(f)
    }
}

/// Displays up to five items in backquotes and counts the rest: `` `a`, `b` and 3 more``.
#[derive(Debug, Clone, Copy)]
pub struct ShownList<'a>(pub &'a [String]);

impl fmt::Display for ShownList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ITEMS: usize = 5;
        for (i, item) in self.0.iter().take(ITEMS).enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            Shown(item).fmt(f)?;
        }
        match self.0.len().saturating_sub(ITEMS) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A message composed elsewhere (a parser's), escaped and cut, without quotes.
#[must_use]
pub fn bounded(message: &impl fmt::Display) -> String {
    struct Bounded<'a>(&'a str);
    impl fmt::Display for Bounded<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_escaped(f, self.0)
        }
    }
    Bounded(&message.to_string()).to_string()
}

fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for (shown, c) in text.chars().enumerate() {
        if shown == LIMIT {
            return write!(f, "... ({} bytes)", text.len());
        }
        // `escape_debug` would also escape quotes, which are harmless and common in parser messages.
        if matches!(c, '"' | '\'') { write!(f, "{c}")? } else { write!(f, "{}", c.escape_debug())? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unicode_names_stay_readable() {
        assert_eq!(Shown("слой.0.权重").to_string(), "`слой.0.权重`");
    }

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        let shown = Shown("a\u{1b}[2Jb\n\u{202e}c").to_string();
        assert_eq!(shown, "`a\\u{1b}[2Jb\\n\\u{202e}c`");
    }

    #[test]
    fn long_names_are_cut_and_say_how_long_they_were() {
        let shown = Shown(&"x".repeat(100_000)).to_string();
        assert_eq!(shown, format!("`{}... (100000 bytes)`", "x".repeat(LIMIT)));
    }

    #[test]
    fn a_text_of_exactly_the_limit_is_whole() {
        assert_eq!(bounded(&"y".repeat(LIMIT)), "y".repeat(LIMIT));
    }

    #[test]
    fn lists_name_five_and_count_the_rest() {
        let items: Vec<String> = (0..7).map(|i| format!("s{i}")).collect();
        assert_eq!(ShownList(&items[..2]).to_string(), "`s0`, `s1`");
        assert_eq!(ShownList(&items).to_string(), "`s0`, `s1`, `s2`, `s3`, `s4` and 2 more");
    }
}
