//! The reader: lines, their numbers, and what holds across them.

use std::io::{BufRead, Read as _};

use super::error::{TraceError, Wrong};
use super::rmm::Rmm;
use super::{Event, Header, compact, json};

/// Bytes of the longest line (our choice).
pub const MAX_LINE: usize = 64 << 10;

/// What a trace is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// JSON Lines, as `docs/trace-format.md` has it.
    #[default]
    Native,
    /// The CSV log of RMM, the RAPIDS memory manager.
    RmmCsv,
}

/// Reads a trace. It keeps one line, and of RMM's log the pointers that live.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    header: Header<'static>,
    rmm: Option<Rmm>,
    last_id: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`TraceError`] with what is wrong with it.
    pub fn new(input: R, format: Format) -> Result<Self, TraceError> {
        let rmm = (format == Format::RmmCsv).then(Rmm::default);
        let mut reader =
            Self { input, line: Vec::new(), number: 0, header: Header::default(), rmm, last_id: 0 };
        if !reader.read_line()? {
            return Err(reader.at(1, "nothing is there; a trace begins with a header".to_owned()));
        }
        let header = match format {
            Format::Native => json::header(&reader.line),
            Format::RmmCsv => Rmm::header(&reader.line),
        };
        reader.header = header.map_err(|(column, what)| reader.at(column, what))?;
        Ok(reader)
    }

    /// The header.
    pub const fn header(&self) -> &Header<'static> {
        &self.header
    }

    /// Number of the line that was read last, from 1.
    pub const fn line(&self) -> u64 {
        self.number
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// [`TraceError`] with where it is wrong. Reading on after that makes no sense.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, TraceError> {
        if !self.read_line()? {
            return Ok(None);
        }
        let number = self.number;
        let at = |(column, what)| TraceError::Line { line: number, column, what };
        let event = match &mut self.rmm {
            None => compact::event(&self.line).map_or_else(|| json::event(&self.line), Ok),
            Some(rmm) => rmm.event(&self.line),
        }
        .map_err(at)?;
        if let Event::Alloc(alloc) = &event {
            if alloc.id <= self.last_id {
                let what = format!(
                    "id {} after {}: ids of allocations rise, so that none is used twice",
                    alloc.id, self.last_id
                );
                return Err(at((json::column_of(&self.line, "id"), what)));
            }
            self.last_id = alloc.id;
        }
        Ok(Some(event))
    }

    /// That the event read last is wrong, by somebody who knows more than one line.
    pub fn wrong(&self, wrong: &Wrong) -> TraceError {
        let column = if self.rmm.is_some() { 1 } else { json::column_of(&self.line, wrong.key) };
        self.at(column, wrong.what.to_string())
    }

    fn at(&self, column: u64, what: String) -> TraceError {
        TraceError::Line { line: self.number.max(1), column, what }
    }

    /// False at the end.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        self.number += 1;
        let most = MAX_LINE as u64 + 1;
        let read = (&mut self.input).take(most).read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| TraceError::Io { line: self.number, source })?;
        if read == 0 {
            self.number -= 1;
            return Ok(false);
        }
        if self.line.ends_with(b"\n") {
            self.line.pop();
        } else if read as u64 == most {
            let what = format!("a line of more than {MAX_LINE} bytes; each event is one short line");
            return Err(self.at(most, what));
        }
        Ok(true)
    }
}
