//! One report in every form, as text in `golden/`. `BLESS=1 cargo test -p neuron-dmem --test
//! report golden` writes the files anew; look at what changed.

use neuron_abi::memory::{Aggregate, Category, MemLocation, UsageType};
use neuron_abi::status::NrtStatus;
use neuron_dmem::report::{
    Action, Asked, CategoryGrowth, Cause, CauseKind, Chunk, CoreUsage, Event, Files, Form, Growth, HbmState,
    HintUsage, Hints, Model, ModelUsage, OomReport, Origin, Time, UsageBytes,
};
use neuron_dmem::{DmemError, PoolRoom, Room};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const SENTENCE: &str = "HBM 2 has 1,073,741,824 B (1.0 GiB) left in its main pool but in pieces of 314,572,800 B \
                        (300.0 MiB) at most: free what lies between them, or allocate the largest blocks first.";

fn usage_bytes(counts: &[(UsageType, u64)]) -> UsageBytes {
    let mut bytes = UsageBytes::default();
    counts.iter().for_each(|&(usage, count)| bytes.add(usage, count));
    bytes
}

/// A key-value cache that fragmentation keeps out, on the second device of a trn2.
pub(crate) fn report() -> OomReport {
    let model = Model { id: 1002, name: "/models/decoder.safetensors".to_owned() };
    let weights = usage_bytes(&[
        (UsageType::Weight, 9 * GIB + 5000),
        (UsageType::InstrPe, 43 * MIB),
        (UsageType::DmaRingIo, 229 * 1024 + 62),
    ]);
    let mut busy = weights;
    busy.add_all(&usage_bytes(&[
        (UsageType::Tensor, 11 * GIB),
        (UsageType::Notification, 64 * MIB),
        (UsageType::UcodeLib, 1_772_093),
    ]));
    let hint = |hint: Option<&str>, usage, bytes, allocations| HintUsage {
        hint: hint.map(str::to_owned),
        usage,
        bytes,
        allocations,
    };
    let change = |category, bytes| CategoryGrowth { category, bytes };
    OomReport {
        time: Time { seconds: 0x6a0f_1e7d, micros: 561_070 },
        device: 1,
        request: Asked {
            location: MemLocation::Device,
            hbm: Some(2),
            core: 4,
            size: 512 * MIB,
            align: 16 * MIB,
            usage: UsageType::Tensor,
            hint: Some("kv.17".to_owned()),
            model: Some(model.clone()),
        },
        cause: Cause { kind: CauseKind::Fragmentation, sentence: SENTENCE.to_owned() },
        hbm: Some(HbmState {
            hbm: 2,
            lnc_size: 1,
            cores: vec![
                CoreUsage {
                    core: 4,
                    bytes: busy,
                    models: vec![ModelUsage { model: model.clone(), bytes: weights }],
                },
                CoreUsage {
                    core: 5,
                    bytes: usage_bytes(&[(UsageType::UcodeLib, 1_772_093)]),
                    models: vec![],
                },
            ],
            room: Some(Room {
                hbm: 2,
                main: PoolRoom {
                    size: 23 * GIB,
                    used: 22 * GIB,
                    largest_hole: 300 * MIB,
                    largest_aligned_hole: 288 * MIB,
                },
                small: PoolRoom {
                    size: GIB,
                    used: 700 * MIB,
                    largest_hole: 200 * MIB,
                    largest_aligned_hole: 192 * MIB,
                },
            }),
            others: Some(2 * GIB),
            hints: Hints {
                biggest: vec![
                    hint(Some("kv"), UsageType::Tensor, 11 * GIB, 44),
                    hint(Some("layer.0\n"), UsageType::Weight, 9 * GIB, 1),
                    hint(None, UsageType::Notification, 64 * MIB, 2),
                ],
                other_bytes: 44 * MIB,
                other_allocations: 1003,
                unlisted_bytes: 1_772_093,
            },
            growth: Some(Growth {
                since: model,
                bytes: 20 * GIB as i64,
                categories: vec![
                    change(Aggregate::ModelConstants, 9 * GIB as i64),
                    change(Aggregate::Tensors, 11 * GIB as i64),
                    change(Aggregate::Runtime, -4096),
                ],
            }),
            chunks: vec![
                Chunk { pa: 0x8000_0000_0000, size: 16 * MIB, category: Category::NcdevDevice.raw() },
                Chunk { pa: 0x8000_0100_0000, size: 9 * GIB, category: Category::ConstantsDevice.raw() },
                Chunk { pa: 0x8002_4100_0000, size: 4096, category: 99 },
            ],
        }),
        retries: 0,
    }
}

fn files() -> Files {
    let path = |name: &str| Some(format!("/tmp/{name}").into());
    Files {
        events: path("nrt_mem_log_device_1_6a0f1e7d.csv"),
        chunks: path("neuron_mem_log_device_1_hbm_2_6a0f1e7d.csv"),
        table: path("neuron_mem_table_device_1_nc_4.log"),
        ..Files::default()
    }
}

const ORIGIN: Origin = Origin { pid: 15_012, tid: 15_765 };

fn state(report: &OomReport) -> &HbmState {
    report.hbm.as_ref().unwrap()
}

/// Compares with a file in `golden/`.
fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/report/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{name}");
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_log_has_the_lines_of_a_failure_in_order_and_the_table() {
    let log = report().failure_log(ORIGIN, &files(), Form::Categories);
    golden("failure.log", &log);
}

/// Without files, without an alignment, where one core has the HBM to itself.
#[test]
fn the_log_leaves_out_what_there_is_not() {
    let mut report = report();
    report.request.align = 0;
    let state = report.hbm.as_mut().unwrap();
    state.cores.truncate(1);
    state.cores[0].models.clear();
    let log = report.failure_log(ORIGIN, &Files::default(), Form::Categories);
    golden("failure-short.log", &log);
}

#[test]
fn a_host_failure_has_lines_of_its_own() {
    let mut report = report();
    report.hbm = None;
    report.request = Asked {
        location: MemLocation::Host,
        hbm: None,
        align: 0,
        size: 4 * MIB,
        usage: UsageType::DmaRing,
        ..report.request
    };
    let log = report.failure_log(ORIGIN, &files(), Form::Categories);
    golden("failure-host.log", &log);
}

#[test]
fn the_table_file_is_the_log_from_its_title_on() {
    let report = report();
    let table = state(&report).table(report.device, Form::Categories).document();
    golden("table.log", &table);
    let log = report.failure_log(ORIGIN, &files(), Form::Categories);
    assert!(log.contains(&table));
}

#[test]
fn the_verbose_table_has_a_column_for_each_usage_type() {
    let report = report();
    let table = state(&report).table(report.device, Form::Verbose).document();
    golden("table-verbose.log", &table);
}

#[test]
fn people_read_the_cause_first() {
    golden("human.txt", &report().human());
}

#[test]
fn people_are_told_where_holes_are_not_known() {
    let mut report = report();
    let state = report.hbm.as_mut().unwrap();
    (state.room, state.others, state.growth) = (None, None, None);
    let human = report.human();
    assert!(
        human.contains("\nroom       holes are not known: this driver cannot list what lives\n"),
        "{human}"
    );
    assert!(!human.contains("growth"), "{human}");
    let error = DmemError::OutOfDeviceMemory(Box::new(report));
    let words = "neuron1 HBM 2 has no room for 536870912 bytes aligned to 16777216; this driver cannot list what is left";
    assert_eq!((error.to_string().as_str(), error.status()), (words, NrtStatus::Resource));
}

#[test]
fn json_has_every_figure_under_its_name() {
    let json = serde_json::to_string_pretty(&report()).unwrap() + "\n";
    golden("report.json", &json);
}

#[test]
fn the_dumps_have_a_heading_and_a_record_each() {
    let report = report();
    let chunks = written(|out| Chunk::write_csv(&state(&report).chunks, out));
    golden("chunks.csv", &chunks);
    let event = Event {
        index: 7,
        action: Action::Alloc,
        location: MemLocation::Device,
        usage: UsageType::Weight,
        channel: 2,
        core: 4,
        size: 9 * GIB,
        pa: 0x8000_0100_0000,
        align_offset: 0,
        total_mem_used: 9 * GIB,
        hint: "layer \"0\", bias".to_owned(),
    };
    let freed = Event {
        index: 8,
        action: Action::Free,
        location: MemLocation::Host,
        usage: UsageType::DmaRing,
        channel: 0,
        size: 4096,
        pa: 0x2_0000_1000,
        total_mem_used: 0,
        hint: String::new(),
        ..event
    };
    let events = written(|out| Event::write_csv(&[event.clone(), freed], out));
    golden("events.csv", &events);
}
