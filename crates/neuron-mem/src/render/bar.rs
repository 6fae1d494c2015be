//! How full an HBM is, as a bar of text.

use super::paint::{Colour, Paint};

/// Characters of a full bar.
const BAR: u64 = 20;

/// `[####....]`; `!` behind it if something was refused there.
pub(super) fn bar(used: u64, size: u64, refused: bool) -> String {
    // What is used at all is seen, and what is full only if it is.
    let filled = if used == 0 { 0 } else { scaled(used, BAR, size).clamp(1, BAR) };
    let over = if refused { "!" } else { "" };
    format!("[{}{}]{over}", "#".repeat(filled as usize), ".".repeat((BAR - filled) as usize))
}

/// A line with its bar coloured, which is found by its brackets; as it is without one.
pub(super) fn coloured(line: &str, used: u64, size: u64, refused: bool, paint: Paint) -> String {
    let (Some(from), Some(to)) = (line.find('['), line.find(']')) else { return line.to_owned() };
    let colour = match percent(used, size) {
        _ if refused => Colour::Red,
        90.. => Colour::Yellow,
        _ => Colour::Green,
    };
    let [before, bar, after] =
        [line.get(..=from), line.get(from + 1..to), line.get(to..)].map(Option::unwrap_or_default);
    format!("{before}{}{after}", paint.paint(colour, bar))
}

pub(super) fn percent(part: u64, whole: u64) -> u64 {
    scaled(part, 100, whole)
}

/// `part` of `whole` in units of which the whole has `units`, rounded down.
fn scaled(part: u64, units: u64, whole: u64) -> u64 {
    let scaled = (u128::from(part) * u128::from(units)).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_at_all_is_seen_and_full_is_only_what_is() {
        assert_eq!(bar(0, 100, false), format!("[{}]", ".".repeat(20)));
        assert_eq!(bar(1, 1000, false), format!("[#{}]", ".".repeat(19)));
        assert_eq!(bar(999, 1000, true), format!("[{}.]!", "#".repeat(19)));
        assert_eq!(bar(1000, 1000, false), format!("[{}]", "#".repeat(20)));
        assert_eq!(bar(5, 0, false), format!("[#{}]", ".".repeat(19)));
    }

    #[test]
    fn only_the_bar_is_coloured() {
        let line = "HBM [##] 1 %";
        assert_eq!(coloured(line, 1, 100, false, Paint::PLAIN), line);
        for (used, refused, code) in [(1, false, 32), (90, false, 33), (1, true, 31)] {
            let expected = format!("HBM [\u{1b}[{code}m##\u{1b}[0m] 1 %");
            assert_eq!(coloured(line, used, 100, refused, Paint::COLOURS), expected);
        }
    }
}
