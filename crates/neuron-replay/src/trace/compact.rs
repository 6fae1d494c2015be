//! A line of our own format as this project writes it: no blanks, keys in the order of the
//! documentation, texts without escapes. That is nearly every line, and most of a replay's time.
//! Whatever is otherwise is none of such, and `json` reads it, or says what is wrong with it: this
//! module knows no errors, and takes no line that the other does not take the same.

use std::borrow::Cow;

use neuron_abi::memory::{MemLocation, UsageType};

use super::{Alloc, Copy, Direction, Event};

/// The event, if it is written like that.
pub(super) fn event(line: &[u8]) -> Option<Event<'_>> {
    let mut line = Line(line);
    let event = if line.strip(b"{\"event\":\"alloc\"") {
        alloc(&mut line)?
    } else if line.strip(b"{\"event\":\"free\"") {
        Event::Free { id: line.number(b",\"id\":")??, time: line.time()? }
    } else if line.strip(b"{\"event\":\"copy\"") {
        Event::Copy(Copy {
            id: line.number(b",\"id\":")??,
            direction: match line.text(b",\"direction\":")?? {
                "in" => Direction::In,
                "out" => Direction::Out,
                _ => return None,
            },
            bytes: line.number(b",\"bytes\":")??,
            time: line.time()?,
        })
    } else if line.strip(b"{\"event\":\"mark\"") {
        Event::Mark { name: line.text(b",\"name\":")??.into(), time: line.time()? }
    } else if line.strip(b"{\"event\":\"load\"") {
        Event::Load { graph: line.text(b",\"graph\":")??.into(), time: line.time()? }
    } else if line.strip(b"{\"event\":\"unload\"") {
        Event::Unload { graph: line.text(b",\"graph\":")??.into(), time: line.time()? }
    } else if line.strip(b"{\"event\":\"exit\"") {
        Event::Exit { pid: line.number(b",\"pid\":")?.unwrap_or(0), time: line.time()? }
    } else {
        return None;
    };
    (line.0 == b"}").then_some(event)
}

fn alloc<'a>(line: &mut Line<'a>) -> Option<Event<'a>> {
    Some(Event::Alloc(Alloc {
        id: line.number(b",\"id\":")??,
        size: line.number(b",\"size\":")??,
        align: line.number(b",\"align\":")?.unwrap_or(0),
        location: match line.text(b",\"location\":")? {
            None | Some("device") => MemLocation::Device,
            Some("host") => MemLocation::Host,
            Some(_) => return None,
        },
        device: line.number(b",\"device\":")?.unwrap_or(0).try_into().ok()?,
        hbm: line.number(b",\"hbm\":")?.unwrap_or(0).try_into().ok()?,
        core: line.number(b",\"core\":")?.unwrap_or(0).try_into().ok()?,
        usage: match line.text(b",\"usage\":")? {
            None => UsageType::Generic,
            Some(name) => *UsageType::ALL.iter().find(|usage| usage.name() == name)?,
        },
        owner: line.text(b",\"owner\":")?.map(Cow::Borrowed),
        hint: line.text(b",\"hint\":")?.map(Cow::Borrowed),
        pa: line.number(b",\"pa\":")?,
        refused: line.strip(b",\"refused\":true"),
        pid: line.number(b",\"pid\":")?.unwrap_or(0),
        time: line.time()?,
    }))
}

/// What is left of a line. A value is `None` where it is written otherwise, and `Some(None)` where
/// its key does not come next. Keys have a length that is known when this is compiled: comparing
/// with them is a few instructions.
struct Line<'a>(&'a [u8]);

impl<'a> Line<'a> {
    fn strip<const N: usize>(&mut self, prefix: &[u8; N]) -> bool {
        match self.0.split_first_chunk::<N>() {
            Some((found, rest)) if found == prefix => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn number<const N: usize>(&mut self, key: &[u8; N]) -> Option<Option<u64>> {
        if !self.strip(key) {
            return Some(None);
        }
        let (mut number, mut digits) = (0_u64, 0);
        while let Some(digit) = self.digit(digits) {
            number = number.checked_mul(10)?.checked_add(digit)?;
            digits += 1;
        }
        // A number of JSON has no zeros before it.
        if digits == 0 || (digits > 1 && self.0.first() == Some(&b'0')) {
            return None;
        }
        self.0 = self.0.get(digits..)?;
        Some(Some(number))
    }

    fn digit(&self, at: usize) -> Option<u64> {
        self.0.get(at).map(|byte| byte.wrapping_sub(b'0').into()).filter(|&digit| digit < 10)
    }

    /// A text without escapes.
    fn text<const N: usize>(&mut self, key: &[u8; N]) -> Option<Option<&'a str>> {
        if !self.strip(key) {
            return Some(None);
        }
        let quoted = self.0.strip_prefix(b"\"")?;
        let end = quoted.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        let (text, rest) = quoted.split_at(end);
        self.0 = rest.strip_prefix(b"\"")?;
        Some(Some(std::str::from_utf8(text).ok()?))
    }

    fn time(&mut self) -> Option<Option<u64>> {
        self.number(b",\"time\":")
    }
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    const LINES: [&str; 9] = [
        r#"{"event":"alloc","id":18446744073709551615,"size":0,"align":64,"location":"host","device":255,"hbm":4294967295,"core":2,"usage":"WEIGHT","owner":"l","hint":"é 日","pa":16777216,"refused":true,"pid":7,"time":5}"#,
        r#"{"event":"alloc","id":1,"size":18446744073709551615,"location":"device","usage":"XT_CC"}"#,
        r#"{"event":"alloc","id":1,"size":2}"#,
        r#"{"event":"free","id":1,"time":9}"#,
        r#"{"event":"copy","id":3,"direction":"out","bytes":10,"time":1}"#,
        r#"{"event":"mark","name":"first token"}"#,
        r#"{"event":"load","graph":"g","time":0}"#,
        r#"{"event":"unload","graph":"","time":3}"#,
        r#"{"event":"exit","pid":4,"time":3}"#,
    ];

    /// That a line is taken as by the other reader, or left to it.
    fn agrees(line: &[u8]) -> bool {
        let taken = event(line);
        if let Some(taken) = &taken {
            let text = String::from_utf8_lossy(line);
            assert_eq!(json::event(line).as_ref(), Ok(taken), "{text}");
        }
        taken.is_some()
    }

    #[test]
    fn what_this_project_writes_is_taken() {
        for line in LINES {
            assert!(agrees(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn no_line_is_taken_other_than_json_has_it() {
        let bytes = b"\"\\,:{}019-.eE \t\n\x00\x1f\x7f\xc3\xa9\xffnullalloc";
        for line in LINES.map(str::as_bytes) {
            for at in 0..line.len() {
                let (head, tail) = line.split_at(at);
                agrees(head);
                agrees(&[head, &tail[1..]].concat());
                for &byte in bytes {
                    agrees(&[head, &[byte], tail].concat());
                    agrees(&[head, &[byte], &tail[1..]].concat());
                }
                for key in [&b",\"id\":1"[..], b",\"hint\":\"x\"", b",\"refused\":false", b",\"x\":[]"] {
                    agrees(&[head, key, tail].concat());
                }
            }
        }
    }

    #[test]
    fn what_is_written_otherwise_is_left_to_the_other() {
        for line in [
            r#"{"event":"free", "id":1}"#,
            r#"{"event":"free","id":01}"#,
            r#"{"event":"free","id":1.0}"#,
            r#"{"event":"free","id":18446744073709551616}"#,
            r#"{"event":"free","id":1,"id":2}"#,
            r#"{"event":"mark","name":"a\n"}"#,
            r#"{"event":"alloc","size":2,"id":1}"#,
            r#"{"event":"alloc","id":1,"size":2,"device":256}"#,
            r#"{"event":"alloc","id":1,"size":2,"usage":"WAIT"}"#,
            r#"{"event":"alloc","id":1,"size":2,"hint":null}"#,
            r#"{"event":"exit"} "#,
            "",
        ] {
            assert!(!agrees(line.as_bytes()), "{line}");
        }
    }
}
