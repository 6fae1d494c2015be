//! The progress bar: drawn on standard error when that is a terminal, silent otherwise, gone when the work
//! ends however it ends.

use std::fmt::Write;
use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::bytes::human;
use crate::shown::Shown;

/// Bytes per second and time left are indicatif's estimates; sizes are written by our one rule.
const TEMPLATE: &str = "[{bar:30}] {percent:>3}% {done} of {all} {rate} {eta} {wide_msg}";

/// Progress through a known number of bytes. Dropping it clears the bar.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar over `total` bytes if standard error is a terminal, silence otherwise.
    #[must_use]
    pub fn on_stderr(total: u64) -> Self {
        if std::io::stderr().is_terminal() {
            Self::on_target(total, ProgressDrawTarget::stderr())
        } else {
            Self::silent()
        }
    }

    /// Says nothing, wherever it runs.
    #[must_use]
    pub fn silent() -> Self {
        Self { bar: None }
    }

    fn on_target(total: u64, target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), target);
        // The template is a constant that the tests draw; indicatif's own is a bar too.
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(
            style.progress_chars("=> ").with_key("done", done).with_key("all", all).with_key("rate", rate),
        );
        Self { bar: Some(bar) }
    }

    /// The tensor that is being worked on now.
    pub fn tensor(&self, name: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(Shown(name).to_string());
        }
    }

    /// Counts `bytes` more as done.
    pub fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

// Writing to indicatif's line buffer cannot fail, and a progress bar would be no reason to stop.

fn done(state: &ProgressState, line: &mut dyn Write) {
    let _ = line.write_str(&human(state.pos()));
}

fn all(state: &ProgressState, line: &mut dyn Write) {
    let _ = line.write_str(&human(state.len().unwrap_or(0)));
}

fn rate(state: &ProgressState, line: &mut dyn Write) {
    // A float cast saturates: an estimate that is no number shows as 0 B/s.
    let _ = write!(line, "{}/s", human(state.per_sec() as u64));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    /// A terminal 120 columns wide that remembers what was written and counts cleared lines.
    #[derive(Debug, Clone, Default)]
    struct Screen(Arc<Mutex<(String, usize)>>);

    impl Screen {
        fn written(&self) -> String {
            self.0.lock().unwrap().0.clone()
        }

        fn write(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().0.push_str(text);
            Ok(())
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.write(text)
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().1 += 1;
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_terminal_sees_bytes_and_the_tensor_and_a_cleared_line_at_the_end() {
        let screen = Screen::default();
        let progress = Progress::on_target(2 << 20, ProgressDrawTarget::term_like(Box::new(screen.clone())));
        progress.tensor("layer.0\u{1b}[2J");
        progress.advance(1 << 20);
        progress.bar.as_ref().unwrap().force_draw();
        let written = screen.written();
        assert!(written.contains(" 50% 1.0 MiB of 2.0 MiB "), "{written:?}");
        assert!(written.contains("`layer.0\\u{1b}[2J`"), "{written:?}");

        let cleared_before = screen.0.lock().unwrap().1;
        drop(progress);
        assert!(screen.0.lock().unwrap().1 > cleared_before);
    }

    #[test]
    fn silence_takes_the_same_calls() {
        let progress = Progress::silent();
        progress.tensor("w");
        progress.advance(u64::MAX);
        assert!(progress.bar.is_none());
    }
}
