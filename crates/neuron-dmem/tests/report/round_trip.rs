//! Random states: written in each form, read back, compared within the printed precision.

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};
use neuron_dmem::report::{
    Alignment, Asked, CategoryGrowth, Cause, CauseKind, Cell, Chunk, Column, CoreUsage, DumpOptions, Event,
    FailureLine, FailureLog, Files, Form, Growth, HbmState, HintUsage, Hints, Model, ModelUsage, OomReport,
    Origin, Table, Time, UsageBytes,
};
use neuron_dmem::{PoolRoom, Room};
use proptest::prelude::*;

/// Zero often, else of any magnitude up to the 16 TiB that no HBM has.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), (20u32..64, any::<u64>()).prop_map(|(shift, raw)| raw >> shift)]
}

fn usage_bytes() -> impl Strategy<Value = UsageBytes> {
    prop::collection::vec(bytes(), UsageType::COUNT)
        .prop_map(|counts| UsageBytes::of(|usage| counts[usage.index()]))
}

fn usage() -> impl Strategy<Value = UsageType> {
    prop::sample::select(UsageType::ALL)
}

/// Printable, as a name in a table stays; JSON takes more, and CSV too (tested with them).
fn name() -> impl Strategy<Value = String> {
    "\\PC{0,20}"
}

fn model() -> impl Strategy<Value = Model> {
    (any::<u64>(), name()).prop_map(|(id, name)| Model { id, name })
}

fn core(core: u32) -> impl Strategy<Value = CoreUsage> {
    let model = (model(), usage_bytes()).prop_map(|(model, bytes)| ModelUsage { model, bytes });
    (usage_bytes(), prop::collection::vec(model, 0..3)).prop_map(move |(bytes, models)| CoreUsage {
        core,
        bytes,
        models,
    })
}

fn room() -> impl Strategy<Value = Room> {
    any::<[u64; 8]>().prop_map(|[a, b, c, d, e, f, g, h]| Room {
        hbm: 1,
        main: PoolRoom { size: a, used: b, largest_hole: c, largest_aligned_hole: d },
        small: PoolRoom { size: e, used: f, largest_hole: g, largest_aligned_hole: h },
    })
}

fn hints() -> impl Strategy<Value = Hints> {
    let hint = (prop::option::of(name()), usage(), bytes(), any::<u64>())
        .prop_map(|(hint, usage, bytes, allocations)| HintUsage { hint, usage, bytes, allocations });
    (prop::collection::vec(hint, 0..4), any::<[u64; 3]>()).prop_map(|(biggest, [a, b, c])| Hints {
        biggest,
        other_bytes: a,
        other_allocations: b,
        unlisted_bytes: c,
    })
}

fn growth() -> impl Strategy<Value = Growth> {
    let change = (prop::sample::select(Aggregate::ALL), any::<i64>())
        .prop_map(|(category, bytes)| CategoryGrowth { category, bytes });
    (model(), any::<i64>(), prop::collection::vec(change, 0..3))
        .prop_map(|(since, bytes, categories)| Growth { since, bytes, categories })
}

fn state() -> impl Strategy<Value = HbmState> {
    let chunk = any::<(u64, u64, u32)>().prop_map(|(pa, size, category)| Chunk { pa, size, category });
    let optional = (prop::option::of(room()), prop::option::of(any::<u64>()), prop::option::of(growth()));
    (0u32..4, (core(2), core(3), any::<bool>()), optional, hints(), prop::collection::vec(chunk, 0..4))
        .prop_map(|(hbm, (first, second, shared), (room, others, growth), hints, chunks)| HbmState {
            hbm,
            lnc_size: 1,
            cores: if shared { vec![first, second] } else { vec![first] },
            room,
            others,
            hints,
            growth,
            chunks,
        })
}

fn report() -> impl Strategy<Value = OomReport> {
    let asked = (0u32..8, 1u64.., prop_oneof![Just(0), any::<u64>()], usage());
    let names = (prop::option::of(name()), prop::option::of(model()), name());
    let kind = prop::sample::select(&[CauseKind::Capacity, CauseKind::PoolSplit, CauseKind::Unknown][..]);
    (0u8..100, 0u64..1 << 37, asked, names, kind, prop::option::weighted(0.9, state())).prop_map(
        |(device, seconds, (core, size, align, usage), (hint, model, sentence), kind, hbm)| OomReport {
            time: Time { seconds, micros: 561_070 },
            device,
            request: Asked {
                location: if hbm.is_some() { MemLocation::Device } else { MemLocation::Host },
                hbm: hbm.as_ref().map(|state| state.hbm),
                core,
                size,
                align,
                usage,
                hint,
                model,
            },
            cause: Cause { kind, sentence },
            hbm,
            retries: core % 3,
        },
    )
}

const ORIGIN: Origin = Origin { pid: 15_012, tid: 71 };

fn files() -> Files {
    let path = |name: &str| Some(format!("dumps/{name}").into());
    Files { events: path("e.csv"), chunks: path("c.csv"), table: path("t.log"), ..Files::default() }
}

/// The figures the report was made with are within what was read of it.
fn assert_table(read: &Table, written: &Table) -> Result<(), TestCaseError> {
    prop_assert_eq!(&read.columns, &written.columns);
    prop_assert_eq!(&read.names, &written.names);
    prop_assert_eq!(read.rows.len(), written.rows.len());
    for (read, written) in read.rows.iter().zip(&written.rows) {
        prop_assert_eq!(read.label, written.label);
        prop_assert_eq!(read.cells.len(), written.cells.len());
        for (read, written) in read.cells.iter().zip(&written.cells) {
            match (read, written) {
                (Cell::Size(size), Cell::Size(exact)) => {
                    prop_assert!(size.admits(exact.bytes), "{exact:?} read as {size:?}");
                }
                (read, written) => prop_assert_eq!(read, written),
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_log_is_read_back_within_its_printed_precision(report in report(), verbose: bool) {
        let form = if verbose { Form::Verbose } else { Form::Categories };
        let text = report.failure_log(ORIGIN, &files(), form);
        let log = FailureLog::read(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        let asked = &report.request;
        prop_assert_eq!(log.exact(), Some((asked.location, asked.size)));
        for (prefix, _) in &log.lines {
            let prefix = prefix.as_ref().unwrap();
            prop_assert_eq!((prefix.time, prefix.origin), (report.time, ORIGIN));
        }
        let lines: Vec<_> = log.lines.iter().map(|(_, line)| line).collect();
        let category = asked.usage.aggregate().name();
        let Some(state) = &report.hbm else {
            let [_, FailureLine::EventFile(_), FailureLine::RefusedHost { requested, usage }] = lines[..] else {
                panic!("{lines:?}")
            };
            prop_assert!(requested.admits(asked.size) && usage == category);
            prop_assert_eq!(log.tables, Vec::<Table>::new());
            return Ok(());
        };
        let aligned = usize::from(asked.align != 0);
        prop_assert_eq!(lines.len(), 7 + aligned);
        let (FailureLine::Sharing { cores, .. }, refused) = (lines[3 + aligned], lines[4 + aligned]) else {
            panic!("{lines:?}")
        };
        prop_assert!(state.cores.iter().map(|core| &core.core).eq(cores));
        let FailureLine::Refused { requested, alignment, usage, device, core } = refused else { panic!("{lines:?}") };
        prop_assert!(requested.admits(asked.size) && usage == category);
        prop_assert_eq!((*device, *core), (report.device.into(), asked.core));
        match alignment {
            Alignment::Bytes(size) => prop_assert!(asked.align != 0 && size.admits(asked.align)),
            other => prop_assert!(asked.align == 0 && *other == Alignment::None),
        }
        prop_assert_eq!(lines[5 + aligned], &FailureLine::TableFollows);
        prop_assert_eq!(lines[6 + aligned], &FailureLine::TableFile("dumps/t.log".to_owned()));
        prop_assert_eq!(log.tables.len(), 1);
        assert_table(&log.tables[0], &state.table(report.device, form))?;
    }

    #[test]
    fn json_is_read_back_whole_but_for_the_chunks(report in report()) {
        let json = serde_json::to_string(&report).unwrap();
        let read: OomReport = serde_json::from_str(&json).unwrap();
        let mut expected = report;
        if let Some(state) = &mut expected.hbm {
            state.chunks.clear();
        }
        prop_assert_eq!(read, expected);
    }

    /// The total of a core is the sum of its columns, in both forms; a model's leaves out what
    /// is not counted for it.
    #[test]
    fn totals_are_the_sums_of_what_the_row_counts(state in state(), verbose: bool) {
        let table = state.table(0, if verbose { Form::Verbose } else { Form::Categories });
        for row in &table.rows {
            let total = row.cell(&table.columns, &Column::Total).and_then(|cell| cell.size());
            let parts = row.cells[1..].iter().filter_map(Cell::size).map(|size| size.bytes).sum::<u64>();
            prop_assert_eq!(total.unwrap().bytes, parts);
        }
    }

    #[test]
    fn every_reader_survives_any_text(text in "[ -~\n|]{0,300}", head in "(\\|TOTAL\\|Code\\|\n)?") {
        let text = head + &text;
        let _ = (FailureLog::read(&text), Event::read_csv(&text), Chunk::read_csv(&text));
    }

    #[test]
    fn no_form_for_people_has_control_characters(mut report in report(), hint: String) {
        report.request.hint = Some(hint.clone());
        if let Some(state) = &mut report.hbm {
            state.hints.biggest.iter_mut().for_each(|owner| owner.hint = Some(hint.clone()));
            state.cores.iter_mut().flat_map(|core| &mut core.models).for_each(|model| model.model.name = hint.clone());
        }
        prop_assert!(!report.human().chars().any(|c| c.is_control() && c != '\n'));
        let log = report.failure_log(ORIGIN, &Files::default(), Form::Categories);
        prop_assert!(!log.chars().any(|c| c.is_control() && c != '\n'));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn files_are_read_back(report in report(), verbose: bool) {
        let folder = tempfile::tempdir().unwrap();
        let form = if verbose { Form::Verbose } else { Form::Categories };
        let options = DumpOptions { directory: Some(folder.path().to_owned()), form };
        let files = report.write_files(&[], &options);
        prop_assert_eq!(&files.problems, &Vec::<String>::new());
        let read = |path: &Option<std::path::PathBuf>| std::fs::read_to_string(path.as_ref().unwrap()).unwrap();
        prop_assert_eq!(Event::read_csv(&read(&files.events)), Ok(Vec::new()));
        let json: OomReport = serde_json::from_str(&read(&files.report)).unwrap();
        prop_assert_eq!(json.request, report.request.clone());
        let Some(state) = &report.hbm else {
            prop_assert_eq!((files.chunks, files.table), (None, None));
            return Ok(());
        };
        let tables = Table::read_all(&read(&files.table)).unwrap();
        assert_table(&tables[0], &state.table(report.device, form))?;
        match state.room {
            Some(_) => prop_assert_eq!(Chunk::read_csv(&read(&files.chunks)), Ok(state.chunks.clone())),
            None => prop_assert_eq!(files.chunks, None),
        }
    }
}
