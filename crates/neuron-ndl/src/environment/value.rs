//! What counts as a number, a switch, a list, and how foreign text is shown.

use std::ffi::OsStr;

use super::error::EnvironmentError;

/// Characters of foreign text that a message repeats (our choice: two terminal lines).
const LIMIT: usize = 160;

/// Foreign text made fit for a terminal: control characters escaped, length bounded.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == LIMIT {
            shown.push_str("...");
            break;
        }
        if matches!(c, '"' | '\'') { shown.push(c) } else { shown.extend(c.escape_debug()) }
    }
    shown
}

/// One variable and what it holds.
#[derive(Clone, Copy)]
pub(super) struct Held<'a> {
    pub(super) variable: &'static str,
    pub(super) value: &'a OsStr,
}

impl Held<'_> {
    /// It holds something else than what is accepted.
    pub(super) fn wrong(self, accepted: &'static str) -> EnvironmentError {
        EnvironmentError::Value { variable: self.variable, value: self.shown(), accepted }
    }

    /// The value, fit for a terminal.
    pub(super) fn shown(self) -> String {
        printable(&self.value.to_string_lossy())
    }

    /// The value without the blanks around it; nothing that counts is not UTF-8.
    pub(super) fn text(self, accepted: &'static str) -> Result<String, EnvironmentError> {
        self.value.to_str().map(|text| text.trim().to_owned()).ok_or_else(|| self.wrong(accepted))
    }

    /// A whole number, decimal or 0x and hexadecimal, of the range.
    pub(super) fn number(
        self,
        range: std::ops::RangeInclusive<u64>,
        accepted: &'static str,
    ) -> Result<u64, EnvironmentError> {
        let text = self.text(accepted)?;
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => digits_of(digits, 16),
            None => digits_of(&text, 10),
        };
        number.filter(|number| range.contains(number)).ok_or_else(|| self.wrong(accepted))
    }
}

/// On or off.
pub(super) fn switch(held: Held<'_>) -> Result<bool, EnvironmentError> {
    const ACCEPTED: &str = "1 or true, or 0 or false";
    match held.text(ACCEPTED)?.to_ascii_lowercase().as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(held.wrong(ACCEPTED)),
    }
}

/// A number of digits only. One that is beyond 64 bits is the largest: a range tells.
pub(super) fn digits_of(digits: &str, radix: u32) -> Option<u64> {
    // `from_str_radix` would also take `+1`.
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    Some(u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
}
