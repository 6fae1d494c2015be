//! How numbers, of bytes above all, are written for people: thousands separators for the exact count, and one
//! rule for the short form. No other module formats sizes.

/// IEC units, each 1024 times the one before; `u64::MAX` is 16.0 EiB, so no further unit is needed.
const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// The short form: the largest IEC unit that leaves at least 1, with one decimal, rounded half up; below
/// 1 KiB the exact count. `1536` is `1.5 KiB`, `1023` is `1023 B`.
///
/// A value that rounds up to 1024.0 of a unit is written as 1.0 of the next one.
#[must_use]
pub fn human(bytes: u64) -> String {
    let mut tenths = u128::from(bytes) * 10;
    let mut divisor = 1u128;
    let mut unit = 0;
    while unit + 1 < UNITS.len() && tenths >= 1024 * 10 {
        divisor *= 1024;
        tenths = (u128::from(bytes) * 10 + divisor / 2) / divisor;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or("B");
    if unit == 0 { format!("{bytes} {name}") } else { format!("{}.{} {name}", tenths / 10, tenths % 10) }
}

/// The exact count with a comma between groups of three digits: `17179869184` is `17,179,869,184`.
#[must_use]
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Exact and short together: `104,857,600 B (100.0 MiB)`; below 1 KiB only `512 B`.
#[must_use]
pub fn exact_and_human(bytes: u64) -> String {
    if bytes < 1024 { human(bytes) } else { format!("{} B ({})", thousands(bytes), human(bytes)) }
}

/// A count and what is counted, which takes an `s` unless there is one: `1 tensor`, `1,024 tensors`.
#[must_use]
pub fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_take_the_largest_unit_that_leaves_at_least_one() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1 << 20, "1.0 MiB"),
            (100_000_000, "95.4 MiB"),
            (16 << 30, "16.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn a_value_that_rounds_to_1024_moves_to_the_next_unit() {
        assert_eq!(human((1 << 20) - 1), "1.0 MiB");
        assert_eq!(human(1_048_524), "1023.9 KiB");
        assert_eq!(human(1_048_525), "1.0 MiB");
    }

    #[test]
    fn thousands_are_separated_from_the_right() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (17_179_869_184, "17,179,869,184")] {
            assert_eq!(thousands(count), text);
        }
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn the_short_form_is_left_out_where_it_would_repeat_the_exact_one() {
        assert_eq!(exact_and_human(1023), "1023 B");
        assert_eq!(exact_and_human(104_857_600), "104,857,600 B (100.0 MiB)");
    }

    #[test]
    fn one_of_a_thing_is_singular() {
        assert_eq!([0, 1, 1024].map(|n| plural(n, "tensor")), ["0 tensors", "1 tensor", "1,024 tensors"]);
    }

    proptest! {
        #[test]
        fn separators_never_change_the_number(count: u64) {
            prop_assert_eq!(thousands(count).replace(',', ""), count.to_string());
        }

        #[test]
        fn the_short_form_is_within_half_a_tenth_of_its_unit(bytes: u64) {
            let text = human(bytes);
            let (value, unit) = text.split_once(' ').unwrap();
            let power = UNITS.iter().position(|&u| u == unit).unwrap();
            let scale = 1024f64.powi(power as i32);
            let value: f64 = value.parse().unwrap();
            prop_assert!((1.0..1024.0).contains(&value) || power == 0);
            prop_assert!((value - bytes as f64 / scale).abs() <= 0.0500001);
        }
    }
}
