//! The lines that the library prints on the standard error output (`NEURON_RT_LOG_LEVEL`,
//! `spec/nrt-abi.md` 5).

use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Level {
    /// A call failed.
    Error = 1,
    /// Something is done otherwise than was asked.
    Warn = 2,
    /// Opened, closed.
    Info = 3,
}

/// Lines up to this level are printed: errors, unless the environment says otherwise.
static SHOWN: AtomicU8 = AtomicU8::new(Level::Error as u8);

/// Takes the level of `NEURON_RT_LOG_LEVEL`. A value that is no level is as good as none: what is
/// printed must not decide whether a program runs.
pub(crate) fn follow_environment() {
    let value = std::env::var("NEURON_RT_LOG_LEVEL").unwrap_or_default();
    SHOWN.store(level_of(&value) as u8, Ordering::Relaxed);
}

fn level_of(value: &str) -> Level {
    match value.trim().to_ascii_uppercase().as_str() {
        "WARN" | "WARNING" => Level::Warn,
        "INFO" | "DEBUG" | "TRACE" => Level::Info,
        _ => Level::Error,
    }
}

/// Prints a line, if lines of its level are printed. One that cannot be written is lost.
pub(crate) fn line(level: Level, call: &str, text: &str) {
    if level as u8 > SHOWN.load(Ordering::Relaxed) {
        return;
    }
    let level = match level {
        Level::Error => "ERROR",
        Level::Warn => "WARN",
        Level::Info => "INFO",
    };
    let pid = std::process::id();
    let _lost = writeln!(std::io::stderr().lock(), "neuron-mem[{pid}] {level} {call}: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_printed_unless_more_is_asked_for() {
        assert_eq!(["", "ERROR", "nonsense"].map(level_of), [Level::Error; 3]);
        assert_eq!(["warn", " INFO ", "TRACE"].map(level_of), [Level::Warn, Level::Info, Level::Info]);
    }
}
