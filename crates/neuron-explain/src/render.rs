//! The answers as text: a screen, whatever the log is (40 lines of 100 columns).

use std::fmt::Write as _;

use crate::Explanation;
use crate::answer::Answer;

/// Lines and columns of a screen.
const LINES: usize = 40;
const COLUMNS: usize = 100;
/// Columns of a part's name.
const NAME: usize = 10;

impl Explanation {
    /// The text for people, ending with a newline. Foreign text in it is fit for a terminal.
    pub fn text(&self) -> String {
        let mut lines = wrapped(&self.headline(), COLUMNS);
        if !self.tags.is_empty() {
            lines.extend(section("tags", &self.tags.iter().copied().collect::<Vec<_>>().join(", ")));
        }
        for (place, answer) in self.answers.iter().enumerate() {
            let part = if place == 0 { whole(answer) } else { brief(answer) };
            if place > 0 && lines.len() + part.len() + 2 > LINES {
                let more = self.answers.len() - place + self.answers_left_out;
                lines.push(String::new());
                lines.push(format!("{more} more answers: --json has them"));
                break;
            }
            lines.push(String::new());
            lines.extend(part);
        }
        let notes = self.notes.iter().flat_map(|note| section("note", note));
        let notes: Vec<_> = notes.collect();
        if lines.len() + notes.len() <= LINES {
            lines.extend(notes);
        }
        lines.truncate(LINES);
        let mut text = String::new();
        for line in lines {
            let line: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    fn headline(&self) -> String {
        let facts = &self.facts;
        let refused = facts.failures.iter().filter(|it| it.requested.is_some() || it.cut).count();
        let mut parts = vec![format!("format {}", facts.format)];
        let mut count = |number: usize, one: &str, many: &str| {
            if number > 0 {
                parts.push(format!("{number} {}", if number == 1 { one } else { many }));
            }
        };
        count(refused, "refused request", "refused requests");
        count(facts.other_requests.len(), "of another thread", "of other threads");
        count(
            usize::try_from(facts.duplicates).unwrap_or(usize::MAX),
            "line that repeats one",
            "lines that repeat them",
        );
        count(facts.memory_blocks.len(), "load of a model", "loads of models");
        count(facts.kernel.len(), "line of the driver", "lines of the driver");
        parts.join(", ")
    }
}

fn whole(answer: &Answer) -> Vec<String> {
    let mut lines = section("request", &answer.request);
    lines.extend(section("place", &answer.place));
    lines.extend(section("consumers", &answer.consumers));
    for (place, room) in answer.room.iter().enumerate() {
        lines.extend(section(if place == 0 { "room" } else { "" }, room));
    }
    lines.extend(section("cause", &answer.sentence));
    lines.extend(section("change", &answer.change));
    for (place, unknown) in answer.unknown.iter().enumerate() {
        lines.extend(section(if place == 0 { "not shown" } else { "" }, unknown));
    }
    lines
}

fn brief(answer: &Answer) -> Vec<String> {
    let mut lines = section("request", &format!("{}; {}", answer.request, answer.place));
    lines.extend(section("cause", &answer.sentence));
    lines.extend(section("change", &answer.change));
    lines
}

/// Lines below each other, the first behind the part's name.
fn section(name: &str, text: &str) -> Vec<String> {
    let lines = wrapped(text, COLUMNS - NAME - 1);
    let named = lines.into_iter().enumerate();
    named.map(|(place, line)| format!("{:NAME$} {line}", if place == 0 { name } else { "" })).collect()
}

/// Text in lines of at most `width` characters, apart at blanks where there are any.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let used = lines.last().map_or(0, |line| line.chars().count());
        if used > 0 && used + 1 + word.len() > width {
            lines.push(String::new());
        }
        while word.len() > width {
            let rest = word.split_off(width);
            if let Some(line) = lines.last_mut() {
                line.extend(word);
            }
            lines.push(String::new());
            word = rest;
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.extend(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_asked_for() {
        for text in ["", "a b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b", &"word ".repeat(30)] {
            let lines = wrapped(text, 10);
            assert!(lines.iter().all(|line| line.chars().count() <= 10), "{lines:?}");
            assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        }
    }
}
