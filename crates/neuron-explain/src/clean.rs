//! A line as it stands in a file, made text: what consoles, containers and issue pages added or
//! mangled is taken away (`spec/report.md` 1). One line may hold several records: see [`records`].
//!
//! Not here: the runtime's own prefix ([`prefix`](crate::prefix)).

use std::borrow::Cow;

use neuron_dmem::report::Label;
use serde_json::Value;

use crate::text::ident;

/// Bytes of a terminal's title that are looked for its end.
const LONGEST_TITLE: usize = 256;
/// Bytes of an address in which its scheme ends.
const LONGEST_SCHEME: usize = 64;

/// Text of a line: no colours, control characters, NULs or links; every blank a plain one. Lone
/// carriage returns and escaped newlines become `\n`.
pub(crate) fn clean(line: &[u8]) -> Cow<'_, str> {
    let text = str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
    let text = match (unwrapped(&text), text) {
        (Some(inner), _) => Cow::Owned(plain(&inner).into_owned()),
        (None, Cow::Borrowed(text)) => plain(text),
        (None, Cow::Owned(text)) => Cow::Owned(plain(&text).into_owned()),
    };
    let text = if text.contains("](") { Cow::Owned(without_links(&text)) } else { text };
    let rest = without_container(&text).or_else(|| without_clock(&text)).map(str::len);
    match (rest, text) {
        (None, text) => text,
        // What goes stands in front.
        (Some(rest), Cow::Borrowed(text)) => Cow::Borrowed(text.get(text.len() - rest..).unwrap_or_default()),
        (Some(rest), Cow::Owned(mut text)) => {
            text.drain(..text.len() - rest);
            Cow::Owned(text)
        }
    }
}

/// What is behind `2026-05-21T15:02:21.561Z stdout F `, a container's clock and stream.
fn without_clock(text: &str) -> Option<&str> {
    let (clock, mut rest) = text.split_once(' ')?;
    let digits = |from: usize, to: usize| clock.get(from..to).is_some_and(crate::text::digits);
    let is_clock = digits(0, 4) && digits(5, 7) && digits(8, 10) && clock.get(10..11) == Some("T");
    for word in ["stdout", "stderr", "F", "P"] {
        rest = rest.strip_prefix(word).and_then(|rest| rest.strip_prefix(' ')).unwrap_or(rest);
    }
    is_clock.then_some(rest)
}

/// What is behind `server-1  | `, the name of a container with a bar of its own.
fn without_container(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once('|')?;
    let name = name.trim();
    let is_name = name.contains(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_'))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && Label::parse(name).is_none();
    is_name.then(|| rest.strip_prefix(' ').unwrap_or(rest))
}

/// The message of a JSON line, as container runtimes write them.
fn unwrapped(text: &str) -> Option<String> {
    let text = text.trim();
    if !text.starts_with('{') || !text.ends_with('}') {
        return None;
    }
    let Ok(Value::Object(fields)) = serde_json::from_str(text) else { return None };
    ["log", "message", "msg"].iter().find_map(|key| fields.get(*key)?.as_str().map(str::to_owned))
}

fn plain(text: &str) -> Cow<'_, str> {
    let Some(first) = text.bytes().position(is_special) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len());
    let (mut run, mut rest) = text.split_at_checked(first).unwrap_or((text, ""));
    loop {
        out.push_str(run);
        let Some(c) = rest.chars().next() else { return Cow::Owned(out) };
        run = "";
        if let Some(length) = colour(rest) {
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
        let next = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = next;
        match c {
            '\\' => match next.chars().next() {
                Some('n') => {
                    out.push('\n');
                    rest = next.get(1..).unwrap_or_default();
                }
                Some('t') => {
                    out.push(' ');
                    rest = next.get(1..).unwrap_or_default();
                }
                // Markdown's way to keep a character from meaning something.
                Some('*' | '[' | ']' | '|' | '"') => {}
                _ => out.push(c),
            },
            '\r' | '\n' => out.push('\n'),
            '\0' if next.starts_with('\0') => out.push(' '),
            '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' => {}
            c if c.is_whitespace() => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
        let length = rest.bytes().position(is_special).unwrap_or(rest.len());
        (run, rest) = rest.split_at_checked(length).unwrap_or((rest, ""));
    }
}

/// Whether a byte may begin something that is not taken as it stands.
const fn is_special(byte: u8) -> bool {
    !matches!(byte, b' '..=b'~') || matches!(byte, b'\\' | b'[' | b'^')
}

/// Length of a terminal's escape sequence at the start, also where the escape itself was lost or
/// is written as two characters.
fn colour(text: &str) -> Option<usize> {
    let start = match text.as_bytes() {
        [0x1b, b'[', ..] => 2,
        [b'^', b'[', b'[', ..] => 3,
        [0x1b, b']', rest @ ..] => {
            let end = rest.iter().take(LONGEST_TITLE).position(|byte| *byte == 0x7);
            return Some(end.map_or(2, |end| end + 3));
        }
        [0x1b, ..] => return Some(1),
        [b'[', b'0'..=b'9', ..] => 1,
        _ => return None,
    };
    let body = text.as_bytes().get(start..)?;
    let length = body.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';' | b'?'))?;
    let end = *body.get(length)?;
    let whole = start + length + 1;
    match start {
        1 => (end == b'm' && length <= 12).then_some(whole),
        _ => end.is_ascii_alphabetic().then_some(whole),
    }
}

/// `[text](url)` becomes `text`, also where the end of the line cut the address.
fn without_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Where the address ends, from the end of the text: looked for once, however many begin before it.
    let mut ends = text.len();
    while let Some(middle) = rest.find("](") {
        let (before, after) = rest.split_at(middle);
        let after = after.get(2..).unwrap_or_default();
        if ends > after.len() {
            ends = after.find([')', ' ', '\n']).map_or(0, |length| after.len() - length);
        }
        let (address, behind) = after.split_at(after.len() - ends);
        let scheme = address.as_bytes().windows(3).take(LONGEST_SCHEME).any(|it| it == b"://");
        let is_address = scheme || address.starts_with(['/', '#', '.', '<']);
        match before.rfind('[').filter(|_| is_address) {
            Some(open) => {
                out.push_str(before.get(..open).unwrap_or_default());
                out.push_str(before.get(open + 1..).unwrap_or_default());
                rest = behind.strip_prefix(')').unwrap_or(behind);
            }
            None => {
                out.push_str(before);
                out.push_str("](");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The records of a cleaned line: apart at newlines, before a second prefix of the runtime
/// (threads write into each other's lines), and before each `[TDRV:function]` of neuron-rtd.
pub(crate) fn records(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| {
        let mut ends: Vec<usize> = dates(line).chain(brackets(line)).filter(|place| *place > 0).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.push(line.len());
        let mut start = 0;
        ends.into_iter().filter_map(move |end| line.get(std::mem::replace(&mut start, end)..end))
    })
}

/// Places where a date of the runtime stands, but for the first, which opens the line's own record.
fn dates(line: &str) -> impl Iterator<Item = usize> {
    let bytes = line.as_bytes();
    let is_date = move |place: usize| {
        bytes.get(place..place + 15).is_some_and(|it| {
            date(it.get(..11).unwrap_or_default()) && it.get(11) == Some(&b' ') && it.get(14) == Some(&b':')
        })
    };
    let years = memchr::memchr_iter(b'-', bytes).filter_map(|place| place.checked_sub(4));
    years.filter(move |place| bytes.get(*place) == Some(&b'2') && is_date(*place)).skip(1)
}

/// Whether this is `2026-May-21`.
pub(crate) fn date(text: &[u8]) -> bool {
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let [y1, y2, y3, y4, b'-', m1, m2, m3, b'-', d1, d2] = text else { return false };
    [y1, y2, y3, y4, d1, d2].iter().all(|byte| byte.is_ascii_digit()) && MONTHS.contains(&&[*m1, *m2, *m3])
}

fn brackets(line: &str) -> impl Iterator<Item = usize> {
    memchr::memchr_iter(b'[', line.as_bytes()).filter_map(|place| {
        let inner = line.get(place + 1..)?;
        let module = inner.bytes().take(7).take_while(u8::is_ascii_uppercase).count();
        let behind = inner.get(module..)?.strip_prefix(':')?;
        let function = ident(behind).len();
        let named = (2..=6).contains(&module) && function > 0;
        (named && behind.get(function..)?.starts_with(']')).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        records(text).collect()
    }

    #[test]
    fn colours_go_whole_or_mangled() {
        for text in [
            "\u{1b}[1;31mFailed\u{1b}[0m to",
            "^[[31mFailed^[[0m to",
            "[31mFailed[0m to",
            "\u{1b}]0;t\u{7}Failed to",
        ] {
            assert_eq!(clean(text.as_bytes()), "Failed to", "{text:?}");
        }
        assert_eq!(clean(b"[0:1] total [XX] m [ND 0:NC 4]"), "[0:1] total [XX] m [ND 0:NC 4]");
    }

    #[test]
    fn nul_bytes_and_foreign_bytes_do_no_harm() {
        assert_eq!(clean(b"a\0b\0\0\0c\xff\r"), "ab  c\u{fffd}\n");
        assert_eq!(clean("\u{feff}a\u{a0}b\tc\u{200b}".as_bytes()), "a b c");
    }

    #[test]
    fn links_leave_their_text() {
        let link = "to [/tmp/a.csv](http://localhost:8890/tmp/a.csv) [nec_dev 0] x [out](y)";
        assert_eq!(clean(link.as_bytes()), "to /tmp/a.csv [nec_dev 0] x [out](y)");
        assert_eq!(clean(b"to [/tmp/a.csv](http://loc"), "to /tmp/a.csv");
    }

    #[test]
    fn the_name_of_a_container_goes_with_its_bar() {
        assert_eq!(clean(b"server-1  | ND 0 HBM 2 | 1.000B |"), "ND 0 HBM 2 | 1.000B |");
        for text in ["NC4 | 1.000B |", "\\_NC 4 | 1.000B |", " | TOTAL |", "ps aux | grep x"] {
            assert_eq!(clean(text.as_bytes()), text);
        }
    }

    #[test]
    fn the_clock_of_a_container_goes_and_the_runtime_s_stays() {
        assert_eq!(clean(b"2026-05-21T15:02:21.5Z stdout F  Total: 1.000B"), " Total: 1.000B");
        assert_eq!(clean(b"2026-05-21T15:02:21+00:00 Total"), "Total");
        let text = "2026-May-21 15:02:21.561070 1:1 ERROR  TDRV:a x";
        assert_eq!(clean(text.as_bytes()), text);
    }

    #[test]
    fn json_lines_of_containers_are_unwrapped() {
        let line = r#"{"log":"\u001b[31m\\_NC 4 | 1.000B |\u001b[0m\n","stream":"stderr"}"#;
        assert_eq!(clean(line.as_bytes()), "\\_NC 4 | 1.000B |\n");
        assert_eq!(clean(b"{not json}"), "{not json}");
    }

    #[test]
    fn a_line_is_cut_where_a_second_record_begins() {
        let first = "2026-May-21 15:02:21.561070 1:1 ERROR  TDRV:a x";
        assert_eq!(split(&format!("(w pid=1) {first}{first}")), [&format!("(w pid=1) {first}"), first]);
        assert_eq!(
            split("error '[NEFF:f] a [TDRV:g_h] b [ND 0:NC 4] c"),
            ["error '", "[NEFF:f] a ", "[TDRV:g_h] b [ND 0:NC 4] c"]
        );
        assert_eq!(split("a\\nb\n"), ["a\\nb", ""]);
        assert_eq!(split(&clean(b"a\\nb")), ["a", "b"]);
    }
}
