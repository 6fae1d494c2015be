//! How a difference between us and a recorded case is told.

use std::fmt::{self, Debug, Display, LowerHex};

/// What differs, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch(String);

impl Mismatch {
    /// A difference, described.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The same, with where it was found in front.
    #[must_use]
    pub fn at(self, place: impl Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mismatch {}

/// Compares one value with what was recorded.
///
/// # Errors
/// If they differ; both are told.
pub fn equal<T: PartialEq + Debug>(what: impl Display, ours: T, recorded: T) -> Result<(), Mismatch> {
    if ours == recorded {
        return Ok(());
    }
    Err(Mismatch::new(format!("{what}: ours {ours:?}, recorded {recorded:?}")))
}

/// As [`equal`], for addresses and register values.
///
/// # Errors
/// If they differ.
pub fn equal_hex<T: PartialEq + LowerHex>(what: impl Display, ours: T, recorded: T) -> Result<(), Mismatch> {
    if ours == recorded {
        return Ok(());
    }
    Err(Mismatch::new(format!("{what}: ours {ours:#x}, recorded {recorded:#x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_place_and_both_values() {
        let found = equal_hex("base", 0x10, 0x20).unwrap_err().at("ring 3");
        assert_eq!(found.to_string(), "ring 3: base: ours 0x10, recorded 0x20");
        assert_eq!(equal("ret", -22, -22), Ok(()));
    }
}
