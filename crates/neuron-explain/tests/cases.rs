//! Real logs: `tests/cases/` of the workspace, each with what a reader must find in it
//! (`spec/report.md` 6). `NEURON_MEM_CASES` names another folder of the same form.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::path::PathBuf;

use neuron_abi::arch::Generation;
use neuron_explain::{Options, explain};
use serde_json::Value;

fn folder() -> PathBuf {
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases");
    std::env::var_os("NEURON_MEM_CASES").map_or_else(|| ours.into(), PathBuf::from)
}

/// Log and expectation of every case.
fn cases() -> Vec<(String, Vec<u8>, Value)> {
    let mut cases: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?.strip_suffix(".expect.json")?.to_owned();
            let log = std::fs::read(path.with_file_name(format!("{name}.log"))).unwrap();
            Some((name, log, serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()))
        })
        .collect();
    cases.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(!cases.is_empty(), "no cases in {}", folder().display());
    cases
}

fn read(log: &[u8], arch: Option<u64>) -> (Value, String) {
    let generation = arch.and_then(|arch| Generation::from_raw(u32::try_from(arch).ok()?));
    let explanation = explain(&mut &log[..], &Options { generation, ..Options::default() }).unwrap();
    (serde_json::to_value(&explanation).unwrap(), explanation.text())
}

/// Differences between what is expected and what was read, each with its path. Sizes within their
/// tolerance; lists in any order; what is not expected has to be null or missing, in what is
/// `strict`.
fn differences(expected: &Value, read: &Value, path: &str, all: &mut Vec<String>) {
    match (expected, read) {
        (Value::Object(size), Value::Object(figure)) if size.contains_key("bytes") => {
            let bytes = |of: &serde_json::Map<String, Value>| of["bytes"].as_u64().unwrap();
            if bytes(size).abs_diff(bytes(figure)) > size["tol"].as_u64().unwrap()
                || size["tol"] != figure["tol"]
            {
                all.push(format!("{path}: {expected} expected, {read} read"));
            }
        }
        (Value::Object(expected), Value::Object(read)) => {
            for (key, value) in expected {
                differences(value, read.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"), all);
            }
            // Categories that are not expected are not in the log.
            if path.ends_with(".categories") || path.ends_with(".env") {
                for key in read.keys().filter(|key| !expected.contains_key(*key)) {
                    all.push(format!("{path}.{key}: not in the log"));
                }
            }
        }
        (Value::Array(expected), Value::Array(read)) => {
            let mut rest: Vec<&Value> = read.iter().collect();
            for value in expected {
                let found = rest.iter().position(|other| {
                    let mut wrong = Vec::new();
                    differences(value, other, path, &mut wrong);
                    wrong.is_empty()
                });
                match found {
                    Some(place) => drop(rest.remove(place)),
                    None => all.push(format!("{path}: {value} is not among {read:?}")),
                }
            }
            all.extend(rest.iter().map(|other| format!("{path}: {other} is not expected")));
        }
        (expected, read) if expected == read => {}
        (expected, read) => all.push(format!("{path}: {expected} expected, {read} read")),
    }
}

const LISTS: [&str; 8] = [
    "failures",
    "other_requests",
    "other_failures",
    "usage",
    "neffs",
    "memory_blocks",
    "kernel",
    "dump_files",
];

fn check(name: &str, log: &[u8], expected: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let told = expected["room"]["arch"].as_u64();
    for arch in [None, told] {
        let (read, text) = read(log, arch);
        for (key, value) in expected.as_object().unwrap() {
            match key.as_str() {
                "case" | "source" | "notes" | "complete" | "tags" | "not_tags" | "schema" => {}
                "room" if arch.is_none() => {}
                "cores_on_hbm" => {
                    if value != &read[key] {
                        wrong.push(format!("{key}: {value} expected, {} read", read[key]));
                    }
                }
                _ => differences(value, &read[key], key, &mut wrong),
            }
        }
        for list in LISTS.iter().filter(|list| expected.get(**list).is_none()) {
            differences(&Value::Array(Vec::new()), &read[list], list, &mut wrong);
        }
        for key in ["lnc_size", "scratchpad_page", "dump_time_utc", "compat"] {
            if expected.get(key).is_none() && !read[key].is_null() {
                wrong.push(format!("{key}: {} is not in the log", read[key]));
            }
        }
        let has = |tag: &Value| read["tags"].as_array().unwrap().contains(tag);
        let tags = |key: &str| expected[key].as_array().cloned().unwrap_or_default();
        wrong.extend(tags("tags").iter().filter(|tag| !has(tag)).map(|tag| format!("tag {tag} is missing")));
        wrong.extend(
            tags("not_tags").iter().filter(|tag| has(tag)).map(|tag| format!("tag {tag} must not be there")),
        );
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() > 40 || lines.iter().any(|line| line.chars().count() > 100) {
            wrong.push(format!("more than a screen:\n{text}"));
        }
        if std::env::var_os("NEURON_MEM_SHOW").is_some() && arch.is_none() {
            println!("---- {name}\n{text}");
        }
    }
    wrong
}

#[test]
fn every_field_and_tag_of_every_real_log_is_right() {
    let mut failed = Vec::new();
    let cases = cases();
    for (name, log, expected) in &cases {
        let wrong = check(name, log, expected);
        if !wrong.is_empty() {
            failed.push(format!("{name}:\n  {}", wrong.join("\n  ")));
        }
    }
    println!("{} of {} real logs right", cases.len() - failed.len(), cases.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What consoles, containers and issue pages do to a log changes nothing that it says.
#[test]
fn a_mangled_copy_of_a_real_log_says_the_same() {
    type Mangle = fn(&str) -> Vec<u8>;
    fn lines(text: &str, change: impl Fn(&str) -> String) -> Vec<u8> {
        text.lines()
            .map(|line| if line.trim().is_empty() { "\n".to_owned() } else { change(line) + "\n" })
            .collect::<String>()
            .into_bytes()
    }
    let ways: [(&str, Mangle); 9] = [
        ("CRLF", |text| text.replace('\n', "\r\n").into_bytes()),
        ("colours", |text| lines(text, |line| format!("\u{1b}[31m{line}\u{1b}[0m"))),
        ("colours without escapes", |text| lines(text, |line| format!("[31m{line}[0m"))),
        ("framework", |text| lines(text, |line| format!("(EngineCore_DP0 ip=10.0.0.1) {line}"))),
        ("container", |text| lines(text, |line| format!("2026-05-21T15:02:21.561070123Z stdout F {line}"))),
        ("compose", |text| lines(text, |line| format!("server-1  | {line}"))),
        ("no-break blanks", |text| text.replace(' ', "\u{a0}").into_bytes()),
        ("NULs and other bytes", |text| [b"\xff\xfe\0\0\n", text.as_bytes(), b"\0\0\0\n\x80"].concat()),
        ("UTF-16", |text| text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
    ];
    for (name, log, expected) in cases() {
        let Ok(text) = String::from_utf8(log) else { continue };
        for (way, mangle) in &ways {
            // An uptime stands in brackets before the text; a container's clock does not change it.
            let wrong = check(&name, &mangle(&text), &expected);
            assert!(wrong.is_empty(), "{name}, {way}:\n  {}", wrong.join("\n  "));
        }
    }
}

/// The log cut at every byte: never a panic, never a figure that the whole log does not have.
#[test]
fn a_log_cut_anywhere_says_nothing_wrong() {
    for (name, log, _) in cases() {
        let whole = read(&log, None).0;
        let sizes = all_sizes(&whole);
        // A line that is lost may leave the same figure less exact.
        let is_true = |(name, bytes, tol): &(String, u64, u64)| {
            sizes.iter().any(|(other, truth, _)| other == name && truth.abs_diff(*bytes) <= *tol)
        };
        for end in 0..log.len() {
            let (cut, _) = read(&log[..end], None);
            for size in all_sizes(&cut) {
                assert!(is_true(&size), "{name} cut at {end}: {size:?}");
            }
        }
        // From the front the first line may lose its beginning.
        for start in (0..log.len()).step_by(7) {
            let (cut, _) = read(&log[start..], None);
            for size in all_sizes(&cut) {
                assert!(is_true(&size), "{name} from {start}: {size:?}");
            }
        }
    }
}

/// Every figure of failures, usage, models and blocks, with its name.
fn all_sizes(value: &Value) -> Vec<(String, u64, u64)> {
    fn walk(value: &Value, name: &str, all: &mut Vec<(String, u64, u64)>) {
        match value {
            Value::Object(fields) if fields.len() == 2 && fields.contains_key("tol") => {
                all.push((
                    name.to_owned(),
                    fields["bytes"].as_u64().unwrap(),
                    fields["tol"].as_u64().unwrap(),
                ));
            }
            Value::Object(fields) => {
                // With half a heading left a column may lose its name for certain; its figure is the same.
                let named = fields.iter().filter(|(key, _)| *key != "ambiguous");
                named.for_each(|(key, value)| walk(value, key, all));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, name, all)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    for key in ["failures", "other_requests", "usage", "neffs", "memory_blocks", "scratchpad_page"] {
        walk(&value[key], key, &mut all);
    }
    all
}
