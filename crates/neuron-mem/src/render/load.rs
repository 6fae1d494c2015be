//! What `load` did, as JSON with a fixed set of fields and as text for people.

use std::fmt::Write as _;

use serde::Serialize;

use super::{index_or, table};
use crate::bytes::{exact_and_human, human, plural, thousands};
use crate::shown::{Shown, ShownList};

/// The JSON result of `load`: these fields, in this order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// The backend that ran: `software` or `kernel`.
    pub backend: String,
    /// Instance type; of the kernel's devices what the driver calls them, `None` (JSON `null`) if it does not
    /// show it.
    pub instance: Option<String>,
    /// Tensors in the model, those without data included.
    pub tensors: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Bytes the driver counted as allocated for them, rounding included.
    pub allocated_bytes: u64,
    /// Time the copy to the device took, in seconds.
    pub seconds: f64,
    /// `bytes` over `seconds`; see [`bytes_per_second`].
    pub bytes_per_second: u64,
    /// Whether every tensor was read back and found equal.
    pub verified: bool,
    /// Memory in use while the model was loaded, by the driver's count.
    pub usage: Vec<Usage>,
    /// Bytes the driver counted after everything was freed beyond those it counted before the load.
    pub leaked_bytes: u64,
    /// The timeline, if one was asked for; else the field is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// The trace of events, if one was asked for; else the field is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Timeline>,
}

/// A timeline or trace that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// The file, as it was named; bytes that are not UTF-8 as U+FFFD.
    pub file: String,
    /// Events in it.
    pub events: u64,
}

/// Memory in use for one purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Device index.
    pub device: u32,
    /// HBM channel; `None` (JSON `null`) is host memory.
    pub hbm: Option<u32>,
    /// Core; `None` (JSON `null`) is memory of the device as a whole.
    pub core: Option<u32>,
    /// The driver's category: `constants`, `dma rings`, ...
    pub category: String,
    /// Bytes in use.
    pub bytes: u64,
}

/// What the text says beyond the JSON fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadDetail {
    /// The model's [`Source`](crate::model::Source), displayed.
    pub model: String,
    /// Oddities found in the model.
    pub notes: Vec<String>,
    /// Names of the tensors that have no data, and so no dmem.
    pub zero_sized: Vec<String>,
    /// The outcome of reading back.
    pub verification: Verification,
    /// What the driver's counters read before the load.
    pub baseline_bytes: u64,
}

/// The outcome of reading tensors back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verification {
    /// Not asked for.
    Skipped,
    /// So many tensors were compared and all were equal.
    Equal(u64),
    /// These tensors differ.
    Different(Vec<String>),
}

/// The rate for a report, rounded to whole bytes; 0 if no time was measured.
#[must_use]
pub fn bytes_per_second(bytes: u64, seconds: f64) -> u64 {
    // The cast saturates.
    if seconds > 0.0 { (bytes as f64 / seconds).round() as u64 } else { 0 }
}

impl LoadReport {
    /// The report for people, below the [`headline`](super::headline), which they see
    /// before the work. Ends with a newline.
    #[must_use]
    pub fn text(&self, detail: &LoadDetail) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut text, detail);
        text
    }

    fn write_text(&self, text: &mut String, detail: &LoadDetail) -> std::fmt::Result {
        let (tensors, bytes) = (plural(self.tensors, "tensor"), exact_and_human(self.bytes));
        writeln!(text, "model {}: {tensors}, {bytes}", detail.model)?;
        for note in &detail.notes {
            writeln!(text, "note: {note}")?;
        }
        for name in &detail.zero_sized {
            writeln!(text, "tensor {} has no data and takes no memory", Shown(name))?;
        }
        writeln!(text, "\n{}\n", self.usage_table())?;

        writeln!(text, "allocated  {}", exact_and_human(self.allocated_bytes))?;
        let rate = human(self.bytes_per_second);
        writeln!(text, "copied     {bytes} in {:.3} s, {rate}/s", self.seconds)?;
        match &detail.verification {
            Verification::Skipped => writeln!(text, "verified   nothing, as asked")?,
            Verification::Equal(count) => writeln!(text, "verified   {}", plural(*count, "tensor"))?,
            Verification::Different(names) => {
                let (count, names) = (plural(names.len() as u64, "tensor"), ShownList(names));
                writeln!(text, "verified   {count} read back different: {names}")?;
            }
        }
        let baseline = exact_and_human(detail.baseline_bytes);
        match self.leaked_bytes {
            0 => writeln!(text, "freed      driver counters back to {baseline}"),
            leaked => {
                let leaked = exact_and_human(leaked);
                writeln!(
                    text,
                    "freed      leaked {leaked}: driver counters were at {baseline} before the load"
                )
            }
        }?;
        if let Some(Timeline { file, events }) = &self.timeline {
            writeln!(text, "timeline   {} in {}", plural(*events, "event"), Shown(file))?;
        }
        if let Some(Timeline { file, events }) = &self.trace {
            writeln!(text, "trace      {} in {}", plural(*events, "event"), Shown(file))?;
        }
        Ok(())
    }

    fn usage_table(&self) -> String {
        let mut table = table(["device", "hbm", "core", "category", "bytes", "size"], 4);
        for usage in &self.usage {
            table.add_row([
                usage.device.to_string(),
                index_or(usage.hbm, "host"),
                index_or(usage.core, "-"),
                usage.category.clone(),
                thousands(usage.bytes),
                human(usage.bytes),
            ]);
        }
        let total = self.usage.iter().fold(0u64, |total, usage| total.saturating_add(usage.bytes));
        table.add_row(["total", "", "", "", &thousands(total), &human(total)]);
        table.trim_fmt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> LoadReport {
        let usage = |hbm, core, category: &str, bytes| Usage {
            device: 0,
            hbm,
            core,
            category: category.to_owned(),
            bytes,
        };
        LoadReport {
            backend: "software".to_owned(),
            instance: Some("trn1.2xlarge".to_owned()),
            tensors: 93,
            bytes: 99_898_368,
            allocated_bytes: 99_901_440,
            seconds: 0.031_25,
            bytes_per_second: bytes_per_second(99_898_368, 0.031_25),
            verified: true,
            usage: vec![
                usage(Some(0), Some(0), "constants", 50_000_000),
                usage(Some(1), Some(1), "constants", 49_901_440),
                usage(None, None, "dma rings", 4096),
            ],
            leaked_bytes: 0,
            timeline: None,
            trace: None,
        }
    }

    fn detail() -> LoadDetail {
        LoadDetail {
            model: "built-in transformer, seed 0".to_owned(),
            notes: vec![],
            zero_sized: vec![],
            verification: Verification::Equal(93),
            baseline_bytes: 1_048_576,
        }
    }

    #[test]
    fn json_has_exactly_the_published_fields_in_order() {
        let mut report = report();
        report.usage.truncate(1);
        let mut out = Vec::new();
        super::super::write_json(&mut out, &report).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"backend":"software","instance":"trn1.2xlarge","tensors":93,"bytes":99898368,"#,
                r#""allocated_bytes":99901440,"seconds":0.03125,"bytes_per_second":3196747776,"verified":true,"#,
                r#""usage":[{"device":0,"hbm":0,"core":0,"category":"constants","bytes":50000000}],"#,
                r#""leaked_bytes":0}"#,
                "\n"
            )
        );
    }

    #[test]
    fn text_shows_every_number_exactly_and_short() {
        let text = report().text(&detail());
        let expected = "\
model built-in transformer, seed 0: 93 tensors, 99,898,368 B (95.3 MiB)

| device | hbm  | core | category  |      bytes |     size |
|--------|------|------|-----------|------------|----------|
| 0      | 0    | 0    | constants | 50,000,000 | 47.7 MiB |
| 0      | 1    | 1    | constants | 49,901,440 | 47.6 MiB |
| 0      | host | -    | dma rings |      4,096 |  4.0 KiB |
| total  |      |      |           | 99,905,536 | 95.3 MiB |

allocated  99,901,440 B (95.3 MiB)
copied     99,898,368 B (95.3 MiB) in 0.031 s, 3.0 GiB/s
verified   93 tensors
freed      driver counters back to 1,048,576 B (1.0 MiB)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_timeline_is_told_where_there_is_one() {
        let timeline = Some(Timeline { file: "a\u{1b}.json".to_owned(), events: 1234 });
        let report = LoadReport { timeline, ..report() };
        let text = report.text(&detail());
        assert!(text.ends_with("\ntimeline   1,234 events in `a\\u{1b}.json`\n"), "{text}");
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.ends_with(r#","timeline":{"file":"a\u001b.json","events":1234}}"#), "{json}");
    }

    #[test]
    fn a_leak_and_a_difference_are_told() {
        let report = LoadReport { verified: false, leaked_bytes: 4096, ..report() };
        let verification = Verification::Different(vec!["w\u{1b}".to_owned()]);
        let text = report.text(&LoadDetail { verification, ..detail() });
        assert!(text.contains("verified   1 tensor read back different: `w\\u{1b}`\n"), "{text}");
        assert!(
            text.ends_with(
                "freed      leaked 4,096 B (4.0 KiB): driver counters were at 1,048,576 B (1.0 MiB) before the load\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn notes_and_zero_sized_tensors_stand_before_the_table() {
        let detail = LoadDetail {
            notes: vec!["odd".to_owned()],
            zero_sized: vec!["empty".to_owned()],
            verification: Verification::Skipped,
            ..detail()
        };
        let text = report().text(&detail);
        assert!(
            text.contains("note: odd\ntensor `empty` has no data and takes no memory\n\n| device"),
            "{text}"
        );
        assert!(text.contains("verified   nothing, as asked\n"), "{text}");
    }

    #[test]
    fn a_load_that_took_no_time_has_no_rate() {
        assert_eq!(bytes_per_second(1000, 0.0), 0);
        assert_eq!(bytes_per_second(1000, f64::NAN), 0);
        assert_eq!(bytes_per_second(1000, 0.5), 2000);
        assert_eq!(bytes_per_second(u64::MAX, 1e-9), u64::MAX);
    }
}
