//! Sizes as the report prints them, and what a printed size says (`spec/report.md` 2).
//!
//! One printer for all: three decimals and B, KB, MB or GB, in powers of 1024 in spite of
//! the names. Reading back gives the nearest byte and how far off it may be.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Units, each 1024 of the one before.
const UNITS: [(&str, u64); 4] = [("B", 1), ("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30)];
const DECIMALS: u32 = 3;

/// A number of bytes as far as it is known: `bytes`, give or take `tol`.
///
/// From a printed size, `bytes` is value times unit to the nearest byte and `tol` half of
/// the last digit, rounded up: 1 for KB, 525 for MB, 536,871 for GB. `B` is exact.
/// Displayed by the report's rule, whatever `tol` is; as JSON `{"bytes","tol"}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
    /// How far from the truth `bytes` may be.
    pub tol: u64,
}

impl Size {
    /// A count that is known.
    pub const fn exact(bytes: u64) -> Self {
        Self { bytes, tol: 0 }
    }

    /// Whether a true value of `bytes` may have been printed as this.
    pub const fn admits(&self, bytes: u64) -> bool {
        self.bytes.abs_diff(bytes) <= self.tol
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&printed(self.bytes))
    }
}

/// The unit steps up at 1024, so a value just below it may print as `1024.000KB`; ties go to
/// the even digit, as a C library's `%.3f` has it (our choice: no public size shows either).
fn printed(bytes: u64) -> String {
    let (name, unit) = UNITS.into_iter().rev().find(|(_, unit)| bytes >= *unit).unwrap_or(("B", 1));
    let scale = u128::from(10_u64.pow(DECIMALS));
    let (scaled, unit) = (u128::from(bytes) * scale, u128::from(unit));
    let (mut digits, twice_rest) = (scaled / unit, scaled % unit * 2);
    if twice_rest > unit || twice_rest == unit && digits % 2 == 1 {
        digits += 1;
    }
    format!("{}.{:03}{name}", digits / scale, digits % scale)
}

/// The text is not a size as the report prints one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a size such as 13.107MB")]
pub struct SizeError(String);

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        parse(text).ok_or_else(|| SizeError(text.chars().take(40).collect()))
    }
}

fn parse(text: &str) -> Option<Size> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (value, name) = text.split_at_checked(split)?;
    let unit = UNITS.into_iter().find(|(unit, _)| *unit == name)?.1;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || value.ends_with('.') {
        return None;
    }
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let value = whole.parse::<u128>().ok()?.checked_mul(scale)?.checked_add(fraction)?;
    let twice = value.checked_mul(u128::from(unit))?.checked_mul(2)?;
    let bytes = u64::try_from(twice.checked_add(scale)? / scale.checked_mul(2)?).ok()?;
    let tol = if unit == 1 { 0 } else { u128::from(unit).div_ceil(scale.checked_mul(2)?) };
    Some(Size { bytes, tol: u64::try_from(tol).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn public_sizes_print_as_in_their_logs() {
        for (bytes, text) in [
            (0, "0.000B"),
            (72, "72.000B"),
            (1023, "1023.000B"),
            (1024, "1.000KB"),
            (13_743_184, "13.107MB"),
            (180_355_072, "172.000MB"),
            (37_748_736, "36.000MB"),
            (4 << 30, "4.000GB"),
            ((1 << 20) - 1, "1023.999KB"),
            ((1 << 30) - 1, "1024.000MB"),
            (u64::MAX, "17179869184.000GB"),
        ] {
            assert_eq!(Size::exact(bytes).to_string(), text);
        }
    }

    #[test]
    fn ties_go_to_the_even_digit() {
        assert_eq!(Size::exact(1024 + 64).to_string(), "1.062KB"); // 1.0625
        assert_eq!(Size::exact(1024 + 192).to_string(), "1.188KB"); // 1.1875
    }

    #[test]
    fn tolerance_is_half_of_the_last_digit_rounded_up() {
        for (text, bytes, tol) in [
            ("0.000B", 0, 0),
            ("72.000B", 72, 0),
            ("640.188KB", 655_553, 1),
            ("52.328MB", 54_869_885, 525),
            ("23.853GB", 25_611_963_728, 536_871),
            ("16MB", 16 << 20, 1 << 19),
        ] {
            assert_eq!(text.parse(), Ok(Size { bytes, tol }), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in
            ["", "n/a", "12", "KB", ".5KB", "1.KB", "1.5 KB", "-1.000KB", "1.0TB", "1e3KB", "1.000KBx"]
        {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        let long = "9".repeat(60) + "GB";
        assert!(long.parse::<Size>().is_err());
        assert!(format!("0.{}GB", "0".repeat(60)).parse::<Size>().is_err());
    }

    proptest! {
        #[test]
        fn a_printed_size_admits_its_bytes_and_prints_again(shift in 0u32..64, raw: u64) {
            let bytes = raw >> shift;
            let text = Size::exact(bytes).to_string();
            let size: Size = text.parse().map_err(|e| TestCaseError::fail(format!("{e}")))?;
            prop_assert!(size.admits(bytes), "{bytes} as {text}: {size:?}");
            // A value that rounded up to 1024 of a unit is the next unit's 1.
            let again = if let Some(name) = text.strip_prefix("1024.000") {
                format!("1.000{}", if name == "KB" { "MB" } else if name == "MB" { "GB" } else { name })
            } else {
                text.clone()
            };
            prop_assert_eq!(size.to_string(), if text.ends_with("GB") { text } else { again });
        }
    }
}
