//! The prefix of a record, of any era and however trimmed (`spec/report.md` 1): date, time, process
//! and thread, level, module, function. Each part may be missing.

use crate::clean::date;
use crate::text::{digits, ident, number};

/// Columns of the function's name; a longer one runs straight into the message.
const FUNCTION_WIDTH: usize = 40;
/// Modules that are known without a level before them.
const MODULES: [&str; 6] = ["TDRV", "NRT", "NMGR", "ENCD", "ENC", "NEFF"];
const LEVELS: [&str; 8] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE", "WARNING", "FATAL", "ERR"];

/// When and by whom a record was written, as far as it says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    /// Date and time as printed; `None` without a date.
    pub(crate) time: Option<String>,
    pub(crate) pid: Option<u64>,
    pub(crate) tid: Option<u64>,
}

/// A record, cut behind its prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) stamp: Stamp,
    /// Whether its level is ERROR, or not told.
    pub(crate) is_error: bool,
    pub(crate) module: Option<&'a str>,
    pub(crate) function: Option<&'a str>,
    pub(crate) message: &'a str,
    /// The form of neuron-rtd, `[TDRV:function] message`.
    pub(crate) bracketed: bool,
    /// Process that a framework names in front, `(EngineCore_DP0 pid=15012)`.
    pub(crate) tag: Option<u64>,
}

impl<'a> Record<'a> {
    /// Cuts a record.
    pub(crate) fn split(text: &'a str) -> Self {
        let tag = tag(text);
        let mut record = match module(text) {
            Some(found) => found,
            None => Self { is_error: true, ..bare(text) },
        };
        record.tag = tag;
        record.stamp.pid = record.stamp.pid.or(tag);
        record
    }
}

/// A record with `LEVEL MODULE:function` or `[MODULE:function]` in it.
fn module(text: &str) -> Option<Record<'_>> {
    for colon in memchr::memchr_iter(b':', text.as_bytes()) {
        let before = text.get(..colon)?;
        let behind = text.get(colon + 1..)?;
        let name = before.rsplit(|c: char| !c.is_ascii_uppercase()).next()?;
        let function = ident(behind);
        if !(2..=6).contains(&name.len())
            || !function.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        {
            continue;
        }
        let before = before.strip_suffix(name)?;
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = behind.get(function.len()..)?;
        if before.ends_with('[')
            && let Some(message) = rest.strip_prefix(']')
        {
            let stamp = Stamp::default();
            let message = message.trim();
            return Some(Record {
                stamp,
                is_error: true,
                module: Some(name),
                function: Some(function),
                message,
                bracketed: true,
                tag: None,
            });
        }
        let trimmed = before.trim_end();
        let level = LEVELS.iter().find(|level| trimmed.ends_with(**level));
        if level.is_none() && !(MODULES.contains(&name) && (trimmed.is_empty() || before.ends_with(' '))) {
            continue;
        }
        let front = level.and_then(|level| trimmed.strip_suffix(*level)).unwrap_or(trimmed);
        let is_error = level.is_none_or(|level| level.starts_with("ERR") || *level == "FATAL");
        let (function, message) = cut_function(behind, function);
        let stamp = stamp(front);
        let message = message.trim();
        return Some(Record {
            stamp,
            is_error,
            module: Some(name),
            function: Some(function),
            message,
            bracketed: false,
            tag: None,
        });
    }
    None
}

/// Where a name as wide as its columns or wider ends cannot be seen: messages begin with a
/// capital, names have none.
fn cut_function<'a>(behind: &'a str, function: &'a str) -> (&'a str, &'a str) {
    let mut end = function.len();
    if end >= FUNCTION_WIDTH {
        let capital =
            function.bytes().enumerate().skip(FUNCTION_WIDTH).find(|(_, byte)| byte.is_ascii_uppercase());
        end = capital.map_or(end, |(place, _)| place);
    }
    behind.split_at_checked(end).unwrap_or((function, ""))
}

/// Reads what stands before the level, from its end.
fn stamp(front: &str) -> Stamp {
    let mut words = front.split_whitespace().rev().peekable();
    let mut stamp = Stamp::default();
    // ` 15:15 ` of aligned numbers may also come as `15: 15` from a careless copy; not read.
    if let Some((pid, tid)) = words.peek().copied().and_then(ids) {
        (stamp.pid, stamp.tid) = (Some(pid), Some(tid));
        words.next();
    }
    if let (Some(time), Some(day)) = (words.next(), words.next())
        && clock(time)
        && let Some(day) = ending_in_date(day)
    {
        stamp.time = Some(format!("{day} {time}"));
    }
    stamp
}

/// A record without module and function: what is left of its prefix, if any, begins with a date.
fn bare(text: &str) -> Record<'_> {
    let plain = Record { message: text.trim(), ..Record::default() };
    let years = memchr::memchr_iter(b'-', text.as_bytes())
        .map_while(|place| (place < 204).then(|| place.checked_sub(4)));
    let is_date = |place: &usize| text.as_bytes().get(*place..place + 11).is_some_and(date);
    let Some(place) = years.flatten().find(is_date) else {
        return plain;
    };
    let mut rest = text.get(place..).unwrap_or_default();
    let mut take = |is: &dyn Fn(&str) -> bool| {
        let trimmed = rest.trim_start();
        let word = trimmed.split(' ').next().unwrap_or_default();
        let found = is(word);
        if found {
            rest = trimmed.get(word.len()..).unwrap_or_default();
        }
        found.then_some(word)
    };
    let day = take(&|word| date(word.as_bytes()));
    let time = take(&clock);
    let both = take(&|word| ids(word).is_some()).and_then(ids);
    take(&|word| LEVELS.contains(&word));
    let time = day.zip(time).map(|(day, time)| format!("{day} {time}"));
    let stamp = Stamp { time, pid: both.map(|it| it.0), tid: both.map(|it| it.1) };
    Record { stamp, message: rest.trim(), ..Record::default() }
}

fn ids(word: &str) -> Option<(u64, u64)> {
    let (pid, tid) = word.split_once(':')?;
    Some((number(pid)?, number(tid)?))
}

/// `15:02:21` with or without a fraction.
fn clock(word: &str) -> bool {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, "0"));
    let parts: Vec<&str> = whole.split(':').collect();
    parts.len() == 3
        && parts.iter().all(|part| part.len() == 2 && digits(part))
        && !fraction.is_empty()
        && digits(fraction)
}

/// A quote or bracket may stand right before the date.
fn ending_in_date(word: &str) -> Option<&str> {
    let start = word.len().checked_sub(11)?;
    word.get(start..).filter(|day| date(day.as_bytes()))
}

fn tag(text: &str) -> Option<u64> {
    // Few lines have one, and this is cheaper to look for.
    memchr::memchr(b'(', text.as_bytes())?;
    let (before, rest) = text.split_once("pid=")?;
    let open = before.rfind('(')?;
    let closed = before.get(open..)?.contains(')');
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let ends_well = matches!(rest.as_bytes().get(end), Some(b')' | b','));
    if closed || !ends_well { None } else { number(rest.get(..end)?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(text: &str) -> (Option<String>, Option<u64>, Option<u64>) {
        let stamp = Record::split(text).stamp;
        (stamp.time, stamp.pid, stamp.tid)
    }

    #[test]
    fn prefixes_of_every_era_are_cut() {
        for (text, time, ids) in [
            (
                "2026-May-21 15:02:21.561070 15012:15765 ERROR  TDRV:log_dev_mem                             Failed",
                Some("2026-May-21 15:02:21.561070"),
                Some((15012, 15765)),
            ),
            (
                "2023-Oct-02 08:17:45.0945  4703:4866  ERROR   NRT:nrt_init Failed",
                Some("2023-Oct-02 08:17:45.0945"),
                Some((4703, 4866)),
            ),
            (
                "2021-Aug-01 01:02:03.0093    15:15    ERROR  TDRV:x  Failed",
                Some("2021-Aug-01 01:02:03.0093"),
                Some((15, 15)),
            ),
            (
                "2025-Jun-18 14:30:52.926380 ERROR TDRV:log_dev_mem Failed",
                Some("2025-Jun-18 14:30:52.926380"),
                None,
            ),
            (
                "2025-Jun-18 14:30:52 7:8 ERROR TDRV:log_dev_mem Failed",
                Some("2025-Jun-18 14:30:52"),
                Some((7, 8)),
            ),
            ("14:30:52.926380 7:8 ERROR TDRV:log_dev_mem Failed", None, Some((7, 8))),
            ("ERROR TDRV:log_dev_mem   Failed", None, None),
            ("TDRV:log_dev_mem Failed", None, None),
            (
                "2026-05-21T15:02:21.5Z stderr F 2026-May-21 15:02:21.561070 1:2 ERROR  ENCD:f Failed",
                Some("2026-May-21 15:02:21.561070"),
                Some((1, 2)),
            ),
            (
                "ERROR 01-26 10:27:42 engine.py:381] 2026-May-21 15:02:21.561070 1:2 ERROR  ENCD:f Failed",
                Some("2026-May-21 15:02:21.561070"),
                Some((1, 2)),
            ),
            ("(EngineCore_DP0 pid=15012) ERROR TDRV:f Failed", None, None),
        ] {
            let record = Record::split(text);
            assert_eq!(record.message, "Failed", "{text}");
            assert_eq!(record.stamp.time.as_deref(), time, "{text}");
            let tag = text.contains("pid=").then_some(15012);
            assert_eq!(
                (record.stamp.pid, record.stamp.tid),
                (ids.map(|it| it.0).or(tag), ids.map(|it| it.1)),
                "{text}"
            );
            assert!(record.is_error && record.module.is_some());
        }
    }

    #[test]
    fn a_long_function_runs_into_its_message() {
        let name = "tensor_allocate_some_name_longer_than_its_forty_cols_x";
        assert_eq!(name.len(), 54);
        let text = format!("2026-May-21 15:02:21.561070 1:2 ERROR  TDRV:{name}Failed to x");
        let record = Record::split(&text);
        assert_eq!((record.function, record.message), (Some(name), "Failed to x"));
    }

    #[test]
    fn neuron_rtd_has_brackets() {
        let record = Record::split("[TDRV:dmem_alloc] Failed to alloc DEVICE memory: 4194304");
        assert_eq!((record.bracketed, record.function), (true, Some("dmem_alloc")));
        assert_eq!(record.message, "Failed to alloc DEVICE memory: 4194304");
    }

    #[test]
    fn what_only_looks_like_a_module_is_none() {
        for text in [
            "Failed (usage: x) on ND14:NC 6",
            "engine.py:381] HTTP:get",
            "neuron:mc_alloc: device",
            "a :b C:",
            "[ND 0:NC 4] Current",
        ] {
            assert_eq!(Record::split(text).module, None, "{text}");
        }
        assert_eq!(
            stamped("2025-Jun-18 14:30:52.9 7:8 Failed (x) on ND14:NC 6"),
            (Some("2025-Jun-18 14:30:52.9".to_owned()), Some(7), Some(8))
        );
        assert!(!Record::split("2025-Jun-18 14:30:52.9 INFO  TDRV:x y").is_error);
    }
}
