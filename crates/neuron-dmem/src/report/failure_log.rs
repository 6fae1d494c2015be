//! The lines that a failure leaves in a log, in the order of the newest runtimes, and reading
//! them back (`spec/report.md` 3.2).
//!
//! Not here: the cascade of messages from the layers above, up to the API; those layers are
//! not this project's.

use neuron_abi::memory::MemLocation;

use super::column::Form;
use super::files::Files;
use super::line::{Alignment, FailureLine};
use super::parse::TableError;
use super::prefix::{Origin, Prefix};
use super::size::Size;
use super::snapshot::{HbmState, OomReport};
use super::table::Table;

impl OomReport {
    /// The lines of the log, each with its prefix, ending with a newline. Files are named if
    /// they were written.
    pub fn failure_log(&self, origin: Origin, files: &Files, form: Form) -> String {
        let mut text = String::new();
        for line in self.lines(files) {
            text.push_str(&self.prefixed(origin, &line));
            text.push('\n');
            if let (FailureLine::TableFollows, Some(state)) = (&line, &self.hbm) {
                let document = state.table(self.device, form).document();
                // Its first line is the message just written.
                text.push_str(document.split_once('\n').map_or("", |(_, rest)| rest));
            }
        }
        text
    }

    fn prefixed(&self, origin: Origin, line: &FailureLine) -> String {
        let prefix = Prefix {
            time: self.time,
            origin,
            level: "ERROR".to_owned(),
            module: "TDRV".to_owned(),
            function: line.function().to_owned(),
        };
        format!("{prefix}{line}")
    }

    /// The messages in order.
    fn lines(&self, files: &Files) -> Vec<FailureLine> {
        let asked = &self.request;
        let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let requested = Size::exact(asked.size);
        let usage = asked.usage.aggregate().name().to_owned();
        let mut lines = vec![FailureLine::Exact { location: asked.location, bytes: asked.size }];
        lines.extend(path(&files.events).map(FailureLine::EventFile));
        let Some(HbmState { lnc_size, cores, .. }) = &self.hbm else {
            lines.push(FailureLine::RefusedHost { requested, usage });
            return lines;
        };
        lines.extend(path(&files.chunks).map(FailureLine::ChunkFile));
        lines.extend((asked.align != 0).then_some(FailureLine::AlignmentHint));
        let cores = cores.iter().map(|core| core.core).collect();
        lines.push(FailureLine::Sharing { lnc_size: *lnc_size, cores });
        let alignment = match asked.align {
            0 => Alignment::None,
            align => Alignment::Bytes(Size::exact(align)),
        };
        let (device, core) = (self.device.into(), asked.core);
        lines.push(FailureLine::Refused { requested, alignment, usage, device, core });
        lines.push(FailureLine::TableFollows);
        lines.extend(path(&files.table).map(FailureLine::TableFile));
        lines
    }
}

/// What a text says of failures: the messages that are known, and the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureLog {
    /// Messages in order, with the prefix of those that have one of the newest form.
    pub lines: Vec<(Option<Prefix>, FailureLine)>,
    /// Tables in order.
    pub tables: Vec<Table>,
}

impl FailureLog {
    /// Reads a log. Lines that are neither are passed over.
    ///
    /// # Errors
    /// As [`Table::read_all`].
    pub fn read(text: &str) -> Result<Self, TableError> {
        let mut lines = Vec::new();
        for line in text.lines() {
            let (prefix, message) = match Prefix::split(line) {
                Some((prefix, message)) => (Some(prefix), message),
                None => (None, without_module(line)),
            };
            lines.extend(FailureLine::parse(message).map(|line| (prefix, line)));
        }
        Ok(Self { lines, tables: Table::read_all(text)? })
    }

    /// What was asked for, to the byte, where it is told.
    pub fn exact(&self) -> Option<(MemLocation, u64)> {
        self.lines.iter().find_map(|(_, line)| match line {
            FailureLine::Exact { location, bytes } => Some((*location, *bytes)),
            _ => None,
        })
    }
}

/// The message of a trimmed line, `ERROR  TDRV:log_dev_mem    message`.
fn without_module(line: &str) -> &str {
    let known = ["dmem_alloc_internal ", "dml_dump ", "dml_driver_dump ", "dml_log_host_mem "];
    let table = ["print_lnc_hbm_details ", "log_dev_mem ", "log_dev_mem_usage_table "];
    let functions = known.iter().chain(&table);
    let behind = line.split_once("TDRV:").and_then(|(_, rest)| {
        functions.map(|function| rest.strip_prefix(function)).find_map(|message| message)
    });
    behind.unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trimmed_line_is_read_behind_its_function() {
        let text =
            "ERROR TDRV:dmem_alloc_internal   Failed to allocate DEVICE memory (95079808 bytes): ret=-12";
        let log = FailureLog::read(text).unwrap();
        assert_eq!(log.exact(), Some((MemLocation::Device, 95_079_808)));
        assert_eq!(log.lines[0].0, None);
    }

    #[test]
    fn a_text_without_failures_has_none() {
        assert_eq!(FailureLog::read("hello\n\nTDRV:log_dev_mem x\n"), Ok(FailureLog::default()));
    }
}
