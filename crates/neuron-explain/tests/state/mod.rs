//! Random states, their reports in each form, and the ways in which logs are mangled.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::fmt::Write as _;

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};
use neuron_dmem::report::{
    Asked, Cause, CauseKind, Column, CoreUsage, Files, Form as Columns, HbmState, Hints, Model, ModelUsage,
    OomReport, Origin, Size, Time, UsageBytes, category_key,
};
use neuron_explain::facts::Key;
use proptest::prelude::*;

/// The form that a report is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    R1,
    R2a,
    R2b,
    N2,
}

/// A core's bytes, a neighbour's, and a request that was refused. Device of Trainium2.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) form: Form,
    pub(crate) device: u32,
    pub(crate) hbm: u32,
    pub(crate) core: u32,
    pub(crate) asked: u64,
    align: u64,
    usage: UsageType,
    own: UsageBytes,
    neighbour: UsageBytes,
    model: UsageBytes,
    name: String,
}

const ORIGIN: Origin = Origin { pid: 15_012, tid: 15_765 };
const TIME: Time = Time { seconds: 0x6a0f_1e7d, micros: 561_070 };

/// Bytes of any magnitude up to 8 GiB, often none.
fn usage_bytes(share: u64) -> impl Strategy<Value = UsageBytes> {
    let bytes = prop_oneof![2 => Just(0), 3 => (31u32..64, any::<u64>()).prop_map(move |(shift, raw)| (raw >> shift) / share)];
    prop::collection::vec(bytes, UsageType::COUNT)
        .prop_map(|counts| UsageBytes::of(|usage| counts[usage.index()]))
}

pub(crate) fn state() -> impl Strategy<Value = State> {
    let form = prop::sample::select(&[Form::R1, Form::R2a, Form::R2b, Form::R2b, Form::N2][..]);
    // At least a core above 1, so that the generation is presumed as it is told.
    let place = (form, 0u32..16, 1u32..4, 0u32..2);
    let asked = (
        prop_oneof![Just(1_u64 << 20), 1u64 << 19..1 << 33, 1u64..1 << 35],
        prop::sample::select(&[0_u64, 4096, 1 << 24][..]),
        prop::sample::select(UsageType::ALL),
    );
    (place, asked, usage_bytes(6), usage_bytes(12), usage_bytes(64), "[a-z0-9/_.+]{1,40}").prop_map(
        |((form, device, hbm, second), (asked, align, usage), own, neighbour, model, name)| State {
            form,
            device,
            hbm,
            core: hbm * 2 + second,
            asked,
            align: if form == Form::R1 { 0 } else { align },
            usage,
            own,
            neighbour,
            model,
            name,
        },
    )
}

impl State {
    /// The printed total of its row.
    pub(crate) fn total(&self) -> u64 {
        match self.form {
            Form::R1 | Form::N2 => self.own.total(),
            Form::R2a | Form::R2b => self.own.total() + self.neighbour.total(),
        }
    }

    pub(crate) fn totals(&self) -> Vec<u64> {
        vec![self.own.total(), self.neighbour.total(), self.own.total() + self.neighbour.total()]
    }

    pub(crate) fn figures(&self, key: Key) -> Vec<u64> {
        let (own, neighbour) = (category(&self.own, key), category(&self.neighbour, key));
        vec![own, neighbour, own + neighbour]
    }

    pub(crate) fn model_totals(&self) -> Vec<u64> {
        vec![Aggregate::ALL.iter().filter(|it| !per_core(**it)).map(|it| self.model.category(*it)).sum()]
    }

    pub(crate) fn model_figures(&self, key: Key) -> Vec<u64> {
        vec![category(&self.model, key)]
    }

    /// What has to be left in the text for the state to be read from it.
    pub(crate) fn evidence(&self) -> Vec<String> {
        let size = Size::exact(self.asked);
        let total = Size::exact(self.total());
        let mut parts = vec![format!("{} bytes)", self.asked), format!("Failed to allocate {size} (")];
        parts.push(format!("usage: {}) on ND", self.usage.aggregate().name()));
        match self.form {
            Form::R1 => {
                parts[0] = format!("DEVICE memory: {}\n", self.asked);
                parts.push(format!("NC {}, current utilization:\n", self.core));
                parts.push(format!("* total: {total}\n"));
            }
            _ => {
                parts.push(format!(":NC {}\n", self.core));
                // The heading, and the first row with its figure.
                parts.push("| Tensors |".to_owned());
                parts.push("| Buffers |\n".to_owned());
                parts.push(format!("| {total} |"));
            }
        }
        parts
    }

    fn report(&self) -> OomReport {
        let other = self.hbm * 2 + 1 - self.core % 2;
        let model = Model { id: 1001, name: self.name.clone() };
        let mut cores = vec![
            CoreUsage {
                core: self.core,
                bytes: self.own,
                models: vec![ModelUsage { model, bytes: self.model }],
            },
            CoreUsage { core: other, bytes: self.neighbour, models: Vec::new() },
        ];
        cores.sort_by_key(|core| core.core);
        let hbm = HbmState {
            hbm: self.hbm,
            lnc_size: 1,
            cores,
            room: None,
            others: None,
            hints: Hints::default(),
            growth: None,
            chunks: Vec::new(),
        };
        OomReport {
            time: TIME,
            device: u8::try_from(self.device).unwrap(),
            request: Asked {
                location: MemLocation::Device,
                hbm: Some(self.hbm),
                core: self.core,
                size: self.asked,
                align: self.align,
                usage: self.usage,
                hint: None,
                model: None,
            },
            cause: Cause { kind: CauseKind::Unknown, sentence: String::new() },
            retries: 0,
            hbm: Some(hbm),
        }
    }

    /// The report as a log.
    pub(crate) fn text(&self) -> String {
        match self.form {
            Form::R2b => {
                let path = |name: String| Some(format!("/tmp/{name}").into());
                let files = Files {
                    events: path(format!("nrt_mem_log_device_{}_6a0f1e7d.csv", self.device)),
                    chunks: path(format!(
                        "neuron_mem_log_device_{}_hbm_{}_6a0f1e7d.csv",
                        self.device, self.hbm
                    )),
                    table: path(format!("neuron_mem_table_device_{}_nc_{}.log", self.device, self.core)),
                    ..Files::default()
                };
                self.report().failure_log(ORIGIN, &files, Columns::Categories)
            }
            Form::R2a => self.r2a(),
            Form::R1 => self.r1(),
            Form::N2 => self.n2(),
        }
    }

    /// 13 columns, `Overall`, the HBM only in a file's name.
    fn r2a(&self) -> String {
        let report = self.report();
        let mut table = report.hbm.as_ref().unwrap().table(report.device, Columns::Categories);
        let place = table.columns.len() - 1;
        table.columns.insert(place, Column::XtCc);
        for row in &mut table.rows {
            row.cells.insert(place, neuron_dmem::report::Cell::Size(Size::default()));
            if let neuron_dmem::report::Label::Hbm { device, .. } = row.label {
                row.label = neuron_dmem::report::Label::Overall { device };
            }
        }
        let text = report.failure_log(ORIGIN, &Files::default(), Columns::Categories);
        let (before, _) = text.split_once("Displaying Current").unwrap();
        before.to_owned() + &table.document()
    }

    fn r1(&self) -> String {
        let mut text = line("dmem_alloc_internal", &format!("Failed to alloc DEVICE memory: {}", self.asked));
        text += &line(
            "dml_dump",
            &format!(
                "Wrote nrt memory alloc debug info to /tmp/nrt_mem_log_device_{}_6a0f1e7d.csv",
                self.device
            ),
        );
        let usage = self.usage.aggregate().name();
        text += &line(
            "log_dev_mem",
            &format!(
                "Failed to allocate {} (usage: {usage}) on ND{:2}:NC {}, current utilization:",
                Size::exact(self.asked),
                self.device,
                self.core
            ),
        );
        let _ = writeln!(text, "\t* total: {}", Size::exact(self.own.total()));
        for key in Key::ALL {
            let bytes = category(&self.own, key);
            if bytes > 0 {
                let _ = writeln!(text, "\t* {}: {}", key.printed(), Size::exact(bytes));
            }
        }
        text + "\n"
            + &line(
                "tensor_allocate",
                &format!("Failed to allocate {} bytes on DEVICE for tensor UNKNOWN.", self.asked),
            )
    }

    fn n2(&self) -> String {
        let size = |bytes: u64| Size::exact(bytes);
        let mut text = line("dml_log_dev_neff_mem", "");
        let _ = writeln!(
            text,
            "[ND{:2}:NC {}] Current Usage Total: {}",
            self.device,
            self.core,
            size(self.own.total())
        );
        let _ =
            writeln!(text, "\tShared Scratchpad: {}", size(self.own.category(Aggregate::SharedScratchpad)));
        let _ = writeln!(text, "\tTensors: {}", size(self.own.category(Aggregate::Tensors)));
        let _ = writeln!(text, "Per NEFF memory usage breakdown for [{}]:", self.name);
        let _ = writeln!(text, "\tTotal: {}", size(self.model_totals()[0]));
        for key in Key::ALL {
            if let Some(aggregate) = aggregate(key).filter(|it| !per_core(*it)) {
                let _ = writeln!(text, "\t* {}: {}", key.printed(), size(self.model.category(aggregate)));
            }
        }
        text + "\n"
    }
}

fn line(function: &str, message: &str) -> String {
    format!("{TIME} 15012:15765 ERROR  TDRV:{function:<40}{message}\n")
}

fn per_core(aggregate: Aggregate) -> bool {
    matches!(aggregate, Aggregate::Tensors | Aggregate::SharedScratchpad | Aggregate::ProfilerBuffers)
}

fn aggregate(key: Key) -> Option<Aggregate> {
    Aggregate::ALL.iter().copied().find(|it| category_key(*it) == key.name())
}

fn category(bytes: &UsageBytes, key: Key) -> u64 {
    aggregate(key).map_or(0, |it| bytes.category(it))
}

/// What happens to a log on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Colours,
    Crlf,
    Framework,
    Container,
    /// Date, process and thread are trimmed, blanks collapsed.
    Trimmed,
    Links,
    /// Lines of another thread in between.
    Interleaved(u64),
    Twice,
    NoBreakBlanks,
    /// Cut at any byte, by the caller.
    CutEnd,
}

pub(crate) fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        1 => Just(Way::Colours),
        1 => Just(Way::Crlf),
        1 => Just(Way::Framework),
        1 => Just(Way::Container),
        1 => Just(Way::Trimmed),
        1 => Just(Way::Links),
        1 => any::<u64>().prop_map(Way::Interleaved),
        1 => Just(Way::Twice),
        1 => Just(Way::NoBreakBlanks),
        2 => Just(Way::CutEnd),
    ]
}

const NOISE: [&str; 4] = [
    "2026-May-21 15:02:21.561071 15012:99    ERROR  TDRV:ht_insert                               Duplicate entry key: 1025",
    "2026-May-21 15:02:21.561071 15012:99    INFO   TDRV:io_create_queues                        Rank: 0, Vring: qSPIO0 has 6528/6528 desc's",
    "(APIServer pid=1) INFO 05-21 15:02:21 [loggers.py:116] Avg prompt throughput: 0.0 tokens/s | Running: 1 reqs",
    "2026-May-21 15:02:21.561071 15012:99    ERROR   NRT:nrt_infodump                            Visible cores: 0, 1",
];

impl Way {
    pub(crate) fn apply(&self, text: &str) -> String {
        let lines = |change: &dyn Fn(&str) -> String| {
            text.lines()
                .map(|line| if line.trim().is_empty() { "\n".to_owned() } else { change(line) + "\n" })
                .collect::<String>()
        };
        match self {
            Self::Colours => lines(&|line| format!("\u{1b}[0;31m{line}\u{1b}[0m")),
            Self::Crlf => text.replace('\n', "\r\n"),
            Self::Framework => lines(&|line| format!("(EngineCore_DP0 pid=15012) {line}")),
            Self::Container => lines(&|line| format!("2026-05-21T15:02:21.5Z stderr F {line}")),
            Self::Trimmed => lines(&|line| {
                let line = line.find("ERROR").map_or(line, |place| &line[place..]);
                line.split_whitespace().collect::<Vec<_>>().join(" ")
            }),
            Self::Links => lines(&|line| match line.find("/tmp/") {
                Some(place) => {
                    format!("{}[{path}](http://localhost:8890{path})", &line[..place], path = &line[place..])
                }
                None => line.to_owned(),
            }),
            Self::Interleaved(seed) => {
                let mut seed = *seed;
                text.lines()
                    .map(|line| {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let noise = NOISE
                            .get((seed >> 60) as usize)
                            .map_or_else(String::new, |noise| format!("{noise}\n"));
                        format!("{noise}{line}\n")
                    })
                    .collect()
            }
            Self::Twice => text.repeat(2),
            Self::NoBreakBlanks => text.replace(' ', "\u{a0}"),
            Self::CutEnd => text.to_owned(),
        }
    }
}

/// A text as a search has to see it: no colours, blanks collapsed.
pub(crate) fn plain(text: &str) -> String {
    let text = text.replace("\u{1b}[0;31m", "").replace("\u{1b}[0m", "").replace('\r', "");
    let lines = text.split_inclusive('\n').map(|line| {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        words + if line.ends_with('\n') { "\n" } else { "" }
    });
    lines.collect::<String>().replace('|', " | ").replace("  ", " ").replace("| \n", "|\n")
}
