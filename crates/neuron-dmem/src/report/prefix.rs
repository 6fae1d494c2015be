//! The prefix of a log line, in the newest form (`spec/report.md` 1).
//!
//! Not here: the prefixes of trimmed or older logs; a line that has another one, or none, is
//! all message.

use std::fmt;

use super::time::Time;

/// Columns of the function's name; a longer one runs straight into the message.
const FUNCTION_WIDTH: usize = 40;

/// When and where a line was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// When.
    pub time: Time,
    /// Which process and thread.
    pub origin: Origin,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: String,
    /// Module: `TDRV`, `NRT`.
    pub module: String,
    /// Function.
    pub function: String,
}

/// A process and a thread of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Process id.
    pub pid: u32,
    /// Thread id, as the kernel numbers them.
    pub tid: u32,
}

impl Origin {
    /// The calling thread; the process's id for both where `/proc` is not there.
    pub fn current() -> Self {
        let pid = std::process::id();
        // A link to `PID/task/TID`.
        let link = std::fs::read_link("/proc/thread-self").ok();
        let name = link.as_deref().and_then(std::path::Path::file_name).and_then(|name| name.to_str());
        Self { pid, tid: name.and_then(|name| name.parse().ok()).unwrap_or(pid) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, origin: Origin { pid, tid }, level, module, function } = self;
        write!(f, "{time} {pid:>5}:{tid:<5} {level:>5} {module:>5}:{function:<FUNCTION_WIDTH$}")
    }
}

impl Prefix {
    /// Splits a line behind its prefix; `None` if it has none of this form.
    pub fn split(line: &str) -> Option<(Self, &str)> {
        let (date, rest) = line.split_once(' ')?;
        let (clock, rest) = rest.split_once(' ')?;
        let time = Time::parse(date, clock)?;
        let (pid, rest) = rest.split_once(':')?;
        let (tid, rest) = rest.split_once(' ')?;
        let origin = Origin { pid: pid.trim().parse().ok()?, tid: tid.parse().ok()? };
        let (level, rest) = rest.trim_start().split_once(' ')?;
        let (module, rest) = rest.split_once(':')?;
        // A name as wide as its columns or wider has no blank behind it: its end is not known.
        let (function, message) =
            rest.split_at_checked(FUNCTION_WIDTH).filter(|(name, _)| name.ends_with(' '))?;
        let word = |text: &str| text.trim().to_owned();
        Some((
            Self { time, origin, level: word(level), module: word(module), function: word(function) },
            message,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "2026-May-21 15:02:21.687387 15012:15152 ERROR   NRT:nrt_infodump                            Failure: NRT_RESOURCE";

    #[test]
    fn a_real_prefix_is_split_and_written_again() {
        let (prefix, message) = Prefix::split(LINE).unwrap();
        assert_eq!((prefix.module.as_str(), prefix.function.as_str()), ("NRT", "nrt_infodump"));
        assert_eq!(prefix.origin, Origin { pid: 15012, tid: 15152 });
        assert_eq!(format!("{prefix}{message}"), LINE);
    }

    #[test]
    fn short_ids_stand_towards_their_colon() {
        let (mut prefix, _) = Prefix::split(LINE).unwrap();
        prefix.origin = Origin { pid: 15, tid: 15 };
        assert!(prefix.to_string().contains("    15:15    ERROR   NRT:"), "{prefix}");
        assert_eq!(Prefix::split(&format!("{prefix}x")), Some((prefix, "x")));
    }

    #[test]
    fn other_prefixes_are_none_of_this_form() {
        for line in ["", "ERROR  TDRV:log_dev_mem   x", "2026-May-21 15:02:21.0093 1:1 ERROR  TDRV:x", "{}"] {
            assert_eq!(Prefix::split(line), None, "{line}");
        }
    }

    #[test]
    fn a_thread_knows_its_own_number() {
        let here = Origin::current();
        let there = std::thread::spawn(Origin::current).join().unwrap();
        assert_eq!((here.pid, there.pid), (std::process::id(), std::process::id()));
        assert_ne!(here.tid, there.tid);
    }
}
