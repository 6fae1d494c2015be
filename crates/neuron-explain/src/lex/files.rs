//! Dump files: what their names say (`spec/report.md` 3.1, 3.2).

use super::Message;
use crate::text::{after, leading};

/// A file that a failure left behind, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DumpFile {
    pub(crate) path: String,
    pub(crate) kind: DumpKind,
    pub(crate) device: Option<u32>,
    /// HBM; of the driver's dump alone. A table file's core says nothing.
    pub(crate) hbm: Option<u32>,
    /// Unix time of the failure.
    pub(crate) seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpKind {
    Events,
    Chunks,
    Table,
}

const KINDS: [(&str, DumpKind); 3] = [
    ("nrt_mem_log_device_", DumpKind::Events),
    ("neuron_mem_log_device_", DumpKind::Chunks),
    ("neuron_mem_table_device_", DumpKind::Table),
];

pub(super) fn lex(text: &str, messages: &mut Vec<Message>) {
    if !text.contains("_device_") {
        return;
    }
    let announced = text.contains("Wrote ") || text.contains("Also logged");
    let separator = |c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '<' | '>' | ',' | ';')
    };
    for word in text.split(separator) {
        if let Some(file) = DumpFile::parse(word.trim_end_matches(['.', ':'])) {
            let announced = announced && file.kind != DumpKind::Table;
            messages.push(Message::File { file, announced });
        }
    }
}

impl DumpFile {
    /// Reads a path. `None` for one that is none of these, or cut.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?;
        let (start, kind) = KINDS.into_iter().find(|(start, _)| name.starts_with(start))?;
        let (stem, extension) = name.rsplit_once('.')?;
        if extension != if kind == DumpKind::Table { "log" } else { "csv" } {
            return None;
        }
        let small = |value: u64| u32::try_from(value).ok();
        let device = leading(stem.strip_prefix(start)?).and_then(|(device, _)| small(device));
        let hbm = if kind == DumpKind::Chunks { after(stem, "_hbm_").and_then(small) } else { None };
        let hex = stem.rsplit('_').next().filter(|hex| hex.len() == 8 && kind != DumpKind::Table);
        let seconds = hex.and_then(|hex| u64::from_str_radix(hex, 16).ok());
        Some(Self { path: path.to_owned(), kind, device, hbm, seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_device_hbm_and_time() {
        let file = DumpFile::parse("/tmp/neuron_mem_log_device_12_hbm_2_6a0f1e7d.csv").unwrap();
        assert_eq!(
            (file.device, file.hbm, file.seconds, file.kind),
            (Some(12), Some(2), Some(0x6a0f_1e7d), DumpKind::Chunks)
        );
        let file = DumpFile::parse("x/nrt_mem_log_device_3_668e50fb.csv").unwrap();
        assert_eq!((file.device, file.hbm, file.kind), (Some(3), None, DumpKind::Events));
        let file = DumpFile::parse("/tmp/neuron_mem_table_device_0_nc_2.log").unwrap();
        assert_eq!((file.device, file.hbm, file.seconds), (Some(0), None, None));
        for cut in [
            "/tmp/nrt_mem_log_device_3_668e50",
            "/tmp/nrt_mem_log_device_3.c",
            "/tmp/other.csv",
            "nrt_mem_log_device_3_668e50fb.csv.gz",
        ] {
            assert_eq!(DumpFile::parse(cut), None, "{cut}");
        }
    }

    #[test]
    fn paths_are_found_in_their_sentences() {
        let mut messages = Vec::new();
        lex("Wrote nrt memory alloc debug info to '/tmp/nrt_mem_log_device_0_651a7ca9.csv'.", &mut messages);
        let [Message::File { file, announced: true }] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!(file.path, "/tmp/nrt_mem_log_device_0_651a7ca9.csv");
    }
}
