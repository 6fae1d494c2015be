//! The argument SIZE: a count of bytes, with a binary unit if one likes.

use std::str::FromStr;

/// A count of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// A size that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ByteSizeError {
    /// Neither a number nor a number with a unit.
    #[error("`{0}` is not a size such as `200000`, `64K`, `1M` or `1G`")]
    NotASize(String),
    /// More than 64 bits.
    #[error("`{0}` is more bytes than 64 bits count")]
    TooLarge(String),
}

/// Units by their letter, each 1024 times the one before.
const UNITS: [(char, u64); 3] = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)];

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    /// Digits, and perhaps a unit: `K`, `M` or `G`, small letters too, `iB` behind it or not. All are powers
    /// of 1024.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let not_a_size = || ByteSizeError::NotASize(text.to_owned());
        let too_large = || ByteSizeError::TooLarge(text.to_owned());
        if digits.is_empty() {
            return Err(not_a_size());
        }
        let scale = match unit {
            "" => 1,
            unit => {
                let letter = unit.strip_suffix("iB").unwrap_or(unit);
                let known =
                    |(name, _): &&(char, u64)| letter.eq_ignore_ascii_case(name.encode_utf8(&mut [0; 4]));
                UNITS.iter().find(known).ok_or_else(not_a_size)?.1
            }
        };
        // Nothing but digits, so a number that is none has too many of them.
        let count: u64 = digits.parse().map_err(|_| too_large())?;
        count.checked_mul(scale).map(Self).ok_or_else(too_large)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("200000", 200_000),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("1M", 1 << 20),
            ("3G", 3 << 30),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        let parse = |text: &str| text.parse::<ByteSize>().unwrap_err();
        for text in
            ["", "K", "iB", "-1", "+1", "1.5M", "1 M", "64KB", "1T", "0x10", "1e6", "64iB", "٣", "1KK"]
        {
            assert_eq!(parse(text), ByteSizeError::NotASize(text.to_owned()));
        }
        for text in ["18446744073709551616", "18014398509481984K", "17179869184G"] {
            assert_eq!(parse(text), ByteSizeError::TooLarge(text.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn random_text_is_never_a_panic(text in "[0-9KMGiB]{0,24}|\\PC{0,12}") {
            let _ = text.parse::<ByteSize>();
        }

        #[test]
        fn every_count_of_bytes_is_itself(bytes: u64) {
            prop_assert_eq!(bytes.to_string().parse(), Ok(ByteSize(bytes)));
        }
    }
}
