//! Small pieces of text, taken apart without a panic.

use std::borrow::Cow;

/// Whether there are only digits, and any.
pub(crate) fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A decimal number and nothing else.
pub(crate) fn number(text: &str) -> Option<u64> {
    digits(text).then(|| text.parse().ok())?
}

/// The name at the start.
pub(crate) fn ident(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// A number at the start, `0x` for hex, and what is behind it.
pub(crate) fn leading(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    let (radix, body) = match text.strip_prefix("0x") {
        Some(body) => (16, body),
        None => (10, text),
    };
    let end = body.find(|c: char| !c.is_digit(radix)).unwrap_or(body.len());
    let (figures, rest) = body.split_at_checked(end)?;
    Some((u64::from_str_radix(figures, radix).ok()?, rest))
}

/// The number right behind `key`, at its first place where one stands.
pub(crate) fn after(text: &str, key: &str) -> Option<u64> {
    text.match_indices(key).find_map(|(place, _)| Some(leading(text.get(place + key.len()..)?)?.0))
}

/// As [`after`], if `key` stands at the start of a word, and the number is not cut by the end of
/// the input.
pub(crate) fn word_after(text: &str, key: &str, cut: bool) -> Option<u64> {
    text.match_indices(key).find_map(|(place, _)| {
        if text.get(..place)?.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let (value, rest) = leading(text.get(place + key.len()..)?)?;
        (!cut || !rest.is_empty()).then_some(value)
    })
}

/// What stands behind `key`.
pub(crate) fn behind<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_once(key).map(|(_, rest)| rest)
}

/// Runs of blanks made one.
pub(crate) fn collapsed(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let mut last = 0;
    let is_plain = text.bytes().all(|byte| {
        let blanks = byte == b' ' && last == b' ';
        last = byte;
        !blanks && matches!(byte, b' '..=b'~')
    });
    if is_plain {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_their_key() {
        assert_eq!(after("size: 0x10, alignment: 32", "size: "), Some(16));
        assert_eq!(after("channel x channel 3", "channel "), Some(3));
        assert_eq!(word_after("secret=5 ret=7", "ret=", false), Some(7));
        assert_eq!(word_after("ret=7", "ret=", true), None);
        assert_eq!(leading("99999999999999999999999"), None);
        assert_eq!(collapsed("  a   b "), "a b");
    }
}
