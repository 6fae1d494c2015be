//! Markup from which nothing foreign breaks out: markup is text of the program, and all else is
//! escaped, the same way between tags and in quoted attributes.

use std::fmt::{self, Display, Write};

/// Characters of a text at most.
const LONGEST: usize = 2000;

/// Markup being written.
#[derive(Debug, Default)]
pub(crate) struct Html(String);

impl Html {
    /// Markup. Attributes in it are quoted by `"`.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Anything else: between tags, or in a quoted attribute that takes any text.
    pub(crate) fn text(&mut self, text: impl Display) -> &mut Self {
        let mut escaping = Escaping { out: &mut self.0, left: LONGEST };
        // It fails only to stop a text that is too long.
        if write!(escaping, "{text}").is_err() {
            self.0.push('\u{2026}');
        }
        self
    }

    /// Nothing: for closures that give nothing back.
    pub(crate) const fn end(&mut self) {}

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

struct Escaping<'a> {
    out: &'a mut String,
    left: usize,
}

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                '\'' => self.out.push_str("&#39;"),
                '\n' => self.out.push('\n'),
                // What turns the direction of the text around it, or is nothing that is shown.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                    self.out.push('\u{fffd}');
                }
                c if c.is_control() => self.out.push('\u{fffd}'),
                c => self.out.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(text: &str) -> String {
        let mut html = Html::default();
        html.text(text);
        html.finish()
    }

    #[test]
    fn nothing_foreign_opens_or_closes_anything() {
        assert_eq!(
            escaped("</script><img src=x onerror=\"a('b')\">&\u{202e}\0\n"),
            "&lt;/script&gt;&lt;img src=x onerror=&quot;a(&#39;b&#39;)&quot;&gt;&amp;\u{fffd}\u{fffd}\n"
        );
    }

    #[test]
    fn a_text_without_end_is_cut() {
        assert_eq!(escaped(&"x".repeat(LONGEST)), "x".repeat(LONGEST));
        assert_eq!(escaped(&"x".repeat(LONGEST + 1)), format!("{}\u{2026}", "x".repeat(LONGEST)));
    }

    proptest! {
        #[test]
        fn what_is_read_back_is_what_was_written(text in "[ -~äß\u{4e2d}]{0,80}") {
            let escaped = escaped(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            let back = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
            let read = back.iter().fold(escaped, |text, (from, to)| text.replace(from, to));
            prop_assert_eq!(read, text);
        }
    }
}
