//! A failure of the command: an error, and the exit code it ends the process with. Library modules have their
//! own typed errors; this is where they become one type that `main` can print.

use std::error::Error;
use std::fmt;
use std::io;

use neuron_dmem::trace::chrome::TimelineError;
use neuron_dmem::trace::events::EventsError;

use crate::exit::Exit;
use crate::model::ModelError;

/// Why the command failed, and with which exit code.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    error: Box<dyn Error + Send + Sync>,
    notes: Vec<String>,
    report: Option<String>,
}

/// What was being done, and why it stopped.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
struct Because {
    doing: String,
    #[source]
    error: Box<dyn Error + Send + Sync>,
}

/// Standard output did not take the result.
#[derive(Debug, thiserror::Error)]
#[error("the result cannot be written to standard output")]
struct OutputError(#[source] io::Error);

impl Failure {
    /// A failure that ends the process with `exit`. A text is an error too: `Failure::new(Exit::Usage, "...")`.
    pub fn new(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, error: error.into(), notes: Vec::new(), report: None }
    }

    /// A failure with what was being done, and the error that stopped it.
    pub fn because(exit: Exit, doing: String, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(exit, Because { doing, error: error.into() })
    }

    /// Adds a line that the reader needs whatever the cause was.
    #[must_use]
    pub fn with_note(mut self, note: &str) -> Self {
        self.notes.push(note.to_owned());
        self
    }

    /// Adds a text of several lines that says more, to follow all else.
    #[must_use]
    pub fn with_report(self, report: String) -> Self {
        Self { report: Some(report), ..self }
    }

    /// The result could not be written to standard output.
    #[must_use]
    pub fn output(error: io::Error) -> Self {
        Self::new(Exit::Output, OutputError(error))
    }

    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether whoever read our output has left (`| head -1`): nothing is wrong, so nothing should be said.
    #[must_use]
    pub fn reader_left(&self) -> bool {
        self.error
            .downcast_ref::<OutputError>()
            .is_some_and(|OutputError(error)| error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The error, then each cause and note on a line of its own, then the report.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut cause = self.error.source();
        while let Some(error) = cause {
            write!(f, "\n  caused by: {error}")?;
            cause = error.source();
        }
        self.notes.iter().try_for_each(|note| write!(f, "\n  {note}"))?;
        self.report.iter().try_for_each(|report| write!(f, "\n\n{}", report.trim_end()))
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::new(Exit::Input, error)
    }
}

/// A file that was asked for: a name that something else has is the user's to change.
impl From<TimelineError> for Failure {
    fn from(error: TimelineError) -> Self {
        let exit = match error {
            TimelineError::Io { .. } => Exit::Output,
            _ => Exit::Usage,
        };
        Self::new(exit, error)
    }
}

impl From<EventsError> for Failure {
    fn from(error: EventsError) -> Self {
        let exit = match error {
            EventsError::Io { .. } => Exit::Output,
            _ => Exit::Usage,
        };
        Self::new(exit, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("loading failed")]
    struct Outer(#[source] io::Error);

    #[test]
    fn causes_follow_the_error_one_a_line() {
        let failure = Failure::new(Exit::Device, Outer(io::Error::other("ring stalled")));
        assert_eq!(failure.to_string(), "loading failed\n  caused by: ring stalled");
        assert_eq!(failure.exit(), Exit::Device);
    }

    #[test]
    fn a_report_follows_notes_that_are_added_later() {
        let failure =
            Failure::new(Exit::DoesNotFit, "full").with_report("a\nb\n".to_owned()).with_note("freed");
        assert_eq!(failure.to_string(), "full\n  freed\n\na\nb");
    }

    #[test]
    fn only_a_broken_output_pipe_is_silent() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(Failure::output(broken()).reader_left());
        assert!(!Failure::output(io::Error::from(io::ErrorKind::StorageFull)).reader_left());
        assert!(!Failure::new(Exit::Device, broken()).reader_left());
    }
}
