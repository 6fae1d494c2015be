//! Numbers and foreign text as reports for people write them.

/// Characters of foreign text that are repeated before it is cut (our choice).
const LIMIT: usize = 160;

/// Exact and short: `104,857,600 B (100.0 MiB)`; below 1 KiB only `512 B`.
pub fn bytes(count: u64) -> String {
    if count < 1024 { short(count) } else { format!("{} B ({})", thousands(count), short(count)) }
}

/// The largest IEC unit that leaves at least 1, one decimal, rounded half up.
pub fn short(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut text = format!("{count} B");
    let (mut divisor, mut tenths) = (1_u128, u128::from(count) * 10);
    for unit in UNITS {
        // Of the unit before: what rounds up to 1024 of it is 1 of this one.
        if tenths < 10_240 {
            break;
        }
        divisor <<= 10;
        tenths = (u128::from(count) * 10 + divisor / 2) / divisor;
        text = format!("{}.{} {unit}", tenths / 10, tenths % 10);
    }
    text
}

/// As [`short`], with its sign.
pub fn signed(count: i64) -> String {
    let sign = if count < 0 { '-' } else { '+' };
    format!("{sign}{}", short(count.unsigned_abs()))
}

/// `17,179,869,184`.
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Foreign text in backquotes, fit for a terminal: control characters escaped, length bounded.
pub fn quoted(text: &str) -> String {
    let mut shown = String::from("`");
    for (place, c) in text.chars().enumerate() {
        if place == LIMIT {
            shown.push_str("...");
            break;
        }
        if matches!(c, '"' | '\'' | '\\') { shown.push(c) } else { shown.extend(c.escape_debug()) }
    }
    shown.push('`');
    shown
}

/// How often something was tried again, to follow a sentence; nothing if it was not.
pub(crate) fn retried(retries: u32) -> String {
    match retries {
        0 => String::new(),
        1 => ", after 1 retry".to_owned(),
        retries => format!(", after {retries} retries"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_the_largest_unit_that_leaves_one() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1,024 B (1.0 KiB)"),
            ((1 << 20) - 1, "1,048,575 B (1.0 MiB)"),
            (100_000_000, "100,000,000 B (95.4 MiB)"),
            (u64::MAX, "18,446,744,073,709,551,615 B (16.0 EiB)"),
        ] {
            assert_eq!(bytes(count), text);
        }
        assert_eq!((signed(-1024).as_str(), signed(0).as_str()), ("-1.0 KiB", "+0 B"));
        assert_eq!(signed(i64::MIN), "-8.0 EiB");
    }

    #[test]
    fn foreign_text_cannot_reach_the_terminal() {
        assert_eq!(quoted("слой \"a\"\u{1b}[2J\n"), "`слой \"a\"\\u{1b}[2J\\n`");
        assert_eq!(quoted(&"x".repeat(500)).len(), LIMIT + 5);
    }
}
