//! A log from its bytes: line by line, in bounded memory, and lines that say nothing known passed
//! over cheaply.

use std::io::{self, BufRead};
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::clean::{clean, records};
use crate::facts::Facts;
use crate::join::Joiner;

/// Bytes of a line that are read; the rest of it is passed over.
const LONGEST: usize = 1 << 20;

/// What a line has at least one of if it says something known by itself.
const NEEDLES: [&str; 47] = [
    "ERROR",
    "Failed to ",
    "Failure: ",
    "|",
    "_device_",
    "LNC size is",
    "Memory Utilization",
    "utilization:",
    "NEFF id to name",
    "Per NEFF",
    "Per-NEFF",
    "Current Usage Total",
    "dml_log_dev_neff_mem",
    "err:",
    "ret=",
    "NERR_",
    "NRT_",
    "nrt_infodump",
    "NRT version",
    "Driver version",
    "mla_idx=",
    "tpb->idx=",
    "not compatible",
    "mempool",
    "genpool",
    "DMA completion",
    "too large",
    "No more pages",
    "exceeded queue",
    "open count",
    " usage:",
    "mc leaked",
    "pin host pages",
    "memset memory",
    "host mem occ",
    "internal pool",
    "HBM usage",
    "NEURON_",
    "* total",
    "of size ",
    "message=",
    "device regions",
    "Aligned memory",
    "contiguous scratchpad",
    "NeuronCore reset",
    "channel ",
    // The blanks of the others may have become these.
    "\u{a0}",
];

static FILTER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(NEEDLES).ok());

/// Reads a log to its end.
///
/// # Errors
/// Those of the input.
pub(crate) fn scan(input: &mut dyn BufRead) -> io::Result<Facts> {
    let mut joiner = Joiner::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let ended = read_line(input, &mut line)?;
        if line.is_empty() && !ended {
            return Ok(joiner.end());
        }
        // UTF-16 of plain text has a NUL in every character.
        let without_nul;
        let bytes: &[u8] = if memchr::memchr(0, &line).is_some() && !matches(&line) {
            without_nul = line.iter().copied().filter(|byte| *byte != 0).collect::<Vec<u8>>();
            &without_nul
        } else {
            &line
        };
        if joiner.attentive() || matches(bytes) {
            let text = clean(bytes);
            let text = text.trim_end_matches('\n');
            for record in records(text) {
                // Only the last record of the last line can have lost its end.
                let last = record.as_bytes().as_ptr_range().end == text.as_bytes().as_ptr_range().end;
                joiner.record(record, !ended && last);
            }
        }
    }
}

fn matches(line: &[u8]) -> bool {
    FILTER.as_ref().is_none_or(|filter| filter.is_match(line))
}

/// Appends a line without its newline, cut at [`LONGEST`]. Whether it ended with one.
fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let buffer = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        if buffer.is_empty() {
            return Ok(false);
        }
        let end = memchr::memchr(b'\n', buffer);
        let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        let room = LONGEST.saturating_sub(line.len());
        line.extend_from_slice(part.get(..part.len().min(room)).unwrap_or_default());
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut input = io::BufReader::with_capacity(3, text);
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            let ended = read_line(&mut input, &mut line).unwrap();
            if line.is_empty() && !ended {
                return lines;
            }
            lines.push((line, ended));
        }
    }

    #[test]
    fn lines_are_cut_at_newlines_wherever_the_buffer_ends() {
        let expected = [(b"abcd".to_vec(), true), (Vec::new(), true), (b"e\0f".to_vec(), false)];
        assert_eq!(lines(b"abcd\n\ne\0f"), expected);
    }

    #[test]
    fn an_endless_line_is_read_in_bounded_memory() {
        let mut text = vec![b'x'; LONGEST + 10];
        text.extend(b"\nnext\n");
        let lines = lines(&text);
        assert_eq!((lines[0].0.len(), &lines[1].0[..]), (LONGEST, &b"next"[..]));
    }

    #[test]
    fn a_figure_that_the_end_of_the_input_cut_is_not_taken() {
        let line = "Failed to alloc DEVICE memory: 13743184";
        let requested =
            |text: &str| scan(&mut text.as_bytes()).unwrap().failures[0].requested.map(|it| it.bytes);
        assert_eq!(requested(&format!("{line}\n")), Some(13_743_184));
        assert_eq!(requested(line), None);
    }
}
