//! Real logs: `tests/cases/` of the workspace, each with what a reader must find in it.

use neuron_dmem::report::{
    Alignment, Cell, Column, FailureLine, FailureLog, Label, Prefix, Row, Size, Table,
};
use serde_json::Value;

const TABLES: [&str; 3] = ["table12-aligned-13mb", "table12-file-only", "table13-tensors-4gb"];

fn read(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

fn log(case: &str) -> String {
    read(&format!("{case}.log"))
}

fn expected(case: &str) -> Value {
    serde_json::from_str(&read(&format!("{case}.expect.json"))).unwrap()
}

fn table(case: &str) -> Table {
    let mut tables = Table::read_all(&log(case)).unwrap();
    assert_eq!(tables.len(), 1, "{case}");
    tables.remove(0)
}

#[test]
fn real_tables_are_written_again_column_for_column() {
    for case in TABLES {
        let log = log(case);
        let lines: Vec<&str> = log.lines().filter(|line| line.contains('|')).collect();
        assert_eq!(table(case).text(), lines.join("\n") + "\n", "{case}");
    }
}

/// From the title on, with the names; the first line stands behind a prefix in two of them.
#[test]
fn what_stands_around_a_real_table_is_written_again_too() {
    for case in TABLES {
        let log = log(case);
        let title = "Displaying Current Memory Utilization:";
        let (_, rest) = log.split_once(title).unwrap();
        let document = table(case).document();
        let document = document.strip_prefix(title).unwrap();
        // The excerpt of 2025 ends with the names.
        assert!(rest.starts_with(document.trim_end_matches('\n')), "{case}:\n{document}\n{rest}");
        assert!(rest.starts_with(document) || case == "table13-tensors-4gb", "{case}");
    }
}

/// The figures of a row, by key, as `.expect.json` has them: what is not counted is absent.
fn figures(table: &Table, row: &Row) -> Vec<(&'static str, Size)> {
    let cells = table.columns.iter().zip(&row.cells);
    cells.filter_map(|(column, cell)| Some((column.key()?, cell.size()?))).collect()
}

fn assert_figures(table: &Table, row: &Row, expected: &Value, case: &str) {
    let admits = |expected: &Value, size: Size| {
        assert_eq!(expected["tol"], size.tol, "{case}: {row:?}");
        let bytes = expected["bytes"].as_u64().unwrap();
        assert!(bytes.abs_diff(size.bytes) <= size.tol, "{case}: {bytes} and {size:?}");
    };
    let mut categories = expected["categories"].as_object().unwrap().clone();
    for (key, size) in figures(table, row) {
        match key {
            "total" => admits(&expected["total"], size),
            key => admits(&categories.remove(key).unwrap_or_else(|| panic!("{case}: {key}")), size),
        }
    }
    assert!(categories.is_empty(), "{case}: not read: {categories:?}");
}

#[test]
fn every_figure_of_a_real_table_is_read() {
    for case in TABLES {
        let (table, expected) = (table(case), expected(case));
        let mut usage = expected["usage"].as_array().unwrap().clone();
        let mut neffs = expected["neffs"].as_array().unwrap().clone();
        let (mut device, mut hbm, mut core) = (Value::Null, Value::Null, Value::Null);
        for row in &table.rows {
            let take = |list: &mut Vec<Value>, is: &dyn Fn(&Value) -> bool| {
                let place = list.iter().position(is).unwrap_or_else(|| panic!("{case}: {row:?}"));
                list.remove(place)
            };
            let found = match row.label {
                Label::Neff { id } => take(&mut neffs, &|neff| neff["neff"] == id && neff["core"] == core),
                label => {
                    match label {
                        Label::Hbm { device: d, hbm: h } => {
                            (device, hbm, core) = (d.into(), h.into(), Value::Null)
                        }
                        Label::Overall { device: d } => {
                            (device, hbm, core) = (d.into(), Value::Null, Value::Null)
                        }
                        Label::Core { core: c } => core = c.into(),
                        Label::Neff { .. } => unreachable!(),
                    }
                    take(&mut usage, &|row| {
                        row["scope"]["device"] == device
                            && row["scope"]["hbm"] == hbm
                            && row["scope"]["core"] == core
                    })
                }
            };
            assert_figures(&table, row, &found, case);
            if let Label::Neff { id } = row.label {
                let name = table.names.iter().find(|name| name.id == id).map(|name| name.name.as_str());
                assert_eq!(found["name"].as_str(), name, "{case}");
                let reserved = row.cells.iter().find_map(|cell| match cell {
                    Cell::Reserved(size) => Some(size.bytes),
                    _ => None,
                });
                assert_eq!(found["reservation"]["bytes"].as_u64(), reserved, "{case}: {found}");
            }
        }
        assert!(usage.is_empty() && neffs.is_empty(), "{case}: not read: {usage:?} {neffs:?}");
        let page = expected["scratchpad_page"]["bytes"].as_u64();
        assert_eq!(page, table.reservation_page.map(|page| page.bytes), "{case}");
    }
}

#[test]
fn only_the_table_of_2025_has_a_column_for_xt_collectives() {
    let has = |case| table(case).columns.contains(&Column::XtCc);
    assert_eq!(TABLES.map(has), [false, false, true]);
}

#[test]
fn real_failure_lines_are_read_and_written_again_with_their_prefix() {
    for case in ["table12-aligned-13mb", "table13-tensors-4gb"] {
        let text = log(case);
        let log = FailureLog::read(&text).unwrap();
        let mut read = log.lines.iter();
        for line in text.lines() {
            let Some((prefix, message)) = Prefix::split(line) else { continue };
            assert_eq!(format!("{prefix}{message}"), line);
            if let Some(parsed) = FailureLine::parse(message) {
                assert_eq!(parsed.to_string(), message);
                assert_eq!(read.next(), Some(&(Some(prefix), parsed)));
            }
        }
        assert_eq!(read.next(), None);
    }
    let counts = |case| FailureLog::read(&log(case)).unwrap().lines.len();
    assert_eq!((counts("table12-aligned-13mb"), counts("table13-tensors-4gb")), (7, 3));
}

#[test]
fn what_was_refused_is_read_from_real_lines() {
    for case in ["table12-aligned-13mb", "table13-tensors-4gb", "scratchpad-1gb", "line-only-nd14"] {
        let log = FailureLog::read(&log(case)).unwrap();
        let expected = &expected(case)["failures"][0];
        let refused = log.lines.iter().find_map(|(_, line)| match line {
            FailureLine::Refused { requested, alignment, usage, device, core } => {
                Some((*requested, *alignment, usage.clone(), *device, *core))
            }
            _ => None,
        });
        let (requested, alignment, usage, device, core) = refused.unwrap();
        assert_eq!(expected["requested"]["bytes"], requested.bytes, "{case}");
        assert_eq!(expected["requested"]["tol"], requested.tol, "{case}");
        match alignment {
            Alignment::Bytes(size) => assert_eq!(expected["alignment"]["bytes"], size.bytes, "{case}"),
            Alignment::None => assert_eq!(expected["alignment"], "none", "{case}"),
            Alignment::NotPrinted => assert!(expected["alignment"].is_null(), "{case}"),
        }
        assert_eq!(expected["usage"], usage, "{case}");
        assert_eq!((&expected["device"], &expected["core"]), (&device.into(), &core.into()), "{case}");
    }
    let host = FailureLog::read(&log("host-4mib")).unwrap();
    assert_eq!(host.exact().map(|(location, bytes)| (location.name(), bytes)), Some(("HOST", 4 << 20)));
}
