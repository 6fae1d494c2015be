//! Bars under an explanation: how full the memories are that it speaks of.

use neuron_explain::{Bar, Explanation};

use super::bar;
use super::paint::Paint;
use crate::bytes::human;

/// Lines of a screen, bars included.
const LINES: usize = 40;
/// Bars at most.
const MOST: usize = 8;

/// The text, with bars below it as far as they fit on its screen. Ends with a newline.
#[must_use]
pub fn text(explanation: &Explanation, paint: Paint) -> String {
    let mut text = explanation.text();
    let room = LINES.saturating_sub(text.lines().count() + 1).min(MOST);
    let bars = explanation.bars();
    for (place, line) in bars.iter().filter_map(|bar| line(bar, paint)).take(room).enumerate() {
        if place == 0 {
            text.push('\n');
        }
        text.push_str(&line);
    }
    text
}

/// `None` where it is not known how much there is.
fn line(bar: &Bar<'_>, paint: Paint) -> Option<String> {
    let (total, room) = bar.row.total.zip(bar.room)?;
    let (used, size) = (total.bytes, room.pool_bytes);
    let shown = bar::bar(used, size, room.contradiction);
    let percent = bar::percent(used, size);
    let line = format!("{shown} {percent:>3} % of {}  {}", human(size), bar.row.scope.words());
    Some(bar::coloured(&line, used, size, room.contradiction, paint) + "\n")
}
