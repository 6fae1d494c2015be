//! The command's exit codes. This table is the only place that knows them: `--help` prints it, the library
//! attaches a code to each failure, `main` hands it to the system.

use std::fmt::Write as _;
use std::process::ExitCode;

/// How the command ended, as its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Exit {
    /// 0: everything asked for was done.
    Done = 0,
    /// 1: the result could not be written, to standard output or to the files asked for.
    Output = 1,
    /// 2: the command line is wrong, or asks for something that is not supported.
    Usage = 2,
    /// 3: a model, log or dump could not be read, is malformed, or has nothing known in it.
    Input = 3,
    /// 4: the model does not fit in the device's memory.
    DoesNotFit = 4,
    /// 5: the device failed, or a transfer did.
    Device = 5,
    /// 6: what was read back from the device differs from the model.
    Mismatch = 6,
    /// 7: a program left device or host memory behind (`run --fail-on-leak`).
    Left = 7,
    /// 127: the program could not be started (`run`).
    NotStarted = 127,
    /// 130: stopped by SIGINT or SIGTERM.
    Interrupted = 130,
}

impl Exit {
    /// Every code, in numeric order.
    pub const ALL: [Exit; 10] = [
        Exit::Done,
        Exit::Output,
        Exit::Usage,
        Exit::Input,
        Exit::DoesNotFit,
        Exit::Device,
        Exit::Mismatch,
        Exit::Left,
        Exit::NotStarted,
        Exit::Interrupted,
    ];

    /// The number the system sees.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What the code means, in a few words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Output => "the result could not be written",
            Exit::Usage => "usage error",
            Exit::Input => "unreadable or malformed input",
            Exit::DoesNotFit => "does not fit in device memory",
            Exit::Device => "device or transfer error",
            Exit::Mismatch => "verification mismatch",
            Exit::Left => "a program left memory behind",
            Exit::NotStarted => "the program could not be started",
            Exit::Interrupted => "interrupted",
        }
    }

    /// The table `--help` ends with, one code a line.
    #[must_use]
    pub fn help() -> String {
        let mut text = String::from("Exit codes:");
        for exit in Exit::ALL {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {:>3}  {}", exit.code(), exit.meaning());
        }
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_published_ones() {
        let codes = Exit::ALL.map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 127, 130]);
    }

    #[test]
    fn help_lists_every_code_with_its_meaning() {
        let help = Exit::help();
        for exit in Exit::ALL {
            assert!(help.contains(&format!("{:>3}  {}", exit.code(), exit.meaning())), "{exit:?}");
        }
    }
}
