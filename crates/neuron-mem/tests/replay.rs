//! `replay` and `diff` as their users meet them, and the walk through them in `docs/replay.md`.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::llama::{LLAMA_8B, write_sparse};
use common::run::{Loaded, Ran, Timeline, command, load, neuron_mem};
use common::{Folder, minilm};
use neuron_abi::memory::UsageType;
use neuron_dmem::report::{Files, Form, Origin};
use neuron_dmem::trace::events::{EventTrace, Header};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
use neuron_mem::exit::Exit;
use neuron_ndl::Device;
use neuron_ndl::software::Machine;
use serde_json::Value;

fn ran(line: &str, file: &Path, options: &str) -> Ran {
    Ran::from(command(line).arg(file).args(options.split_whitespace()).output().unwrap())
}

fn replay(file: &Path, options: &str) -> Ran {
    ran("replay", file, options)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

const SERVED: &str = concat!(
    "{\"v\":1,\"instance\":\"trn1.2xlarge\",\"source\":\"test\"}\n",
    "{\"event\":\"alloc\",\"id\":1,\"size\":9000000000,\"usage\":\"WEIGHT\",\"owner\":\"a\",\"hint\":\"w\"}\n",
    "{\"event\":\"alloc\",\"id\":2,\"size\":6000000000,\"usage\":\"TENSOR\",\"owner\":\"b\",\"hint\":\"t\"}\n",
);

#[test]
fn exit_codes_are_those_of_the_documentation() {
    let folder = Folder::new();
    let served = folder.raw("served.jsonl", SERVED.as_bytes());
    replay(&served, "").done();
    let more = format!("{SERVED}{{\"event\":\"alloc\",\"id\":3,\"size\":6000000000,\"hint\":\"late\"}}\n");
    let refused = folder.raw("refused.jsonl", more.as_bytes());
    let ran =
        replay(&refused, "").failed(Exit::DoesNotFit, &["1 of 3 allocations refused, the first on line 4"]);
    for words in ["`late`", "full: ", "owners:  `a` 8.4 GiB, `b` 5.6 GiB", "never freed"] {
        assert!(ran.stdout.contains(words), "no {words:?} in {}", ran.stdout);
    }
    // Another instance is asked about, and has room; a what-if that has none is only told.
    replay(&refused, "--instance trn2.3xlarge --what-if instance=trn1.2xlarge").done();

    let bad = folder.raw("bad.jsonl", format!("{SERVED}{{\"event\":\"fly\"}}\n").as_bytes());
    replay(&bad, "").failed(Exit::Input, &["bad.jsonl`: line 4, column 14: unknown variant `fly`"]);
    replay(&folder.join("none"), "").failed(Exit::Input, &["cannot be opened"]);
    replay(&served, "--instance p4d.24xlarge")
        .refused(&["unknown instance type `p4d.24xlarge`", "trn1.2xlarge"]);
    replay(&served, "--what-if page=3000").refused(&["--what-if page=3000", "power of two"]);
    replay(&served, "--what-if fit=worst").refused(&["first or best"]);
    let elsewhere = folder.raw("e.jsonl", SERVED.replace("trn1.2x", "trn9.2x").as_bytes());
    replay(&elsewhere, "").refused(&["`trn9.2xlarge`", "--instance names another"]);
    replay(&elsewhere, "--instance inf2.xlarge").done();
}

#[test]
fn the_json_has_the_documented_fields() {
    let folder = Folder::new();
    let text = SERVED.replace("6000000000", "60000000000");
    let file = folder.raw("t.jsonl", text.as_bytes());
    let timeline = folder.join("timeline.json");
    let options = format!("--json --what-if fit=best --timeline {}", timeline.display());
    let report = json(&replay(&file, &options).failed(Exit::DoesNotFit, &[]).stdout);
    documented(&report);
    assert_eq!(report["columns"].as_array().unwrap().len(), 2);
    assert_eq!(report["columns"][0]["refusals"][0]["cause"], "full");
    let shown = json(&fs::read_to_string(&timeline).unwrap());
    let events = shown["traceEvents"].as_array().unwrap();
    assert_eq!(report["timeline"]["events"], events.len());
    assert!(events.iter().any(|event| event["ph"] == "C" && event["name"] == "HBM 0"));
    let refused = events.iter().find(|event| event["args"]["status"] == "NRT_RESOURCE");
    assert!(refused.is_some(), "{shown}");
    // What is no timeline is not replaced.
    replay(&file, &format!("--timeline {}", file.display())).refused(&["is no timeline of ours"]);
}

fn documented(report: &Value) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/replay.md");
    let docs = fs::read_to_string(docs).unwrap();
    let mut fields = Vec::new();
    collect(report, &mut fields);
    for field in fields {
        assert!(docs.contains(&format!("\"{field}\"")), "{field} is not documented");
    }
}

fn collect(value: &Value, fields: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(field, value)| {
            fields.push(field.clone());
            collect(value, fields);
        }),
        Value::Array(values) => values.iter().for_each(|value| collect(value, fields)),
        _ => {}
    }
}

#[test]
fn a_load_writes_a_trace_by_option_or_environment_and_a_failed_one_too() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a", 3_000_000), ("b", 8)]);
    let by_option = folder.join("option.jsonl");
    let loaded =
        Loaded::of(&load(&model, &format!("--json --trace {}", by_option.display())).done(), &[3_000_000, 8]);
    let lines = fs::read_to_string(&by_option).unwrap().lines().count();
    let file = by_option.display().to_string();
    assert_eq!(loaded.trace, Some(Timeline { file, events: lines - 1 }));
    let report = json(&replay(&by_option, "--json").done());
    assert_eq!((&report["allocations"], &report["frees"]), (&2.into(), &2.into()));
    assert_eq!(
        (&report["columns"][0]["same_address"], &report["columns"][0]["other_address"]),
        (&2.into(), &0.into())
    );
    assert_eq!(report["copied_bytes"], 2 * 3_000_008);

    let by_environment = folder.join("environment.jsonl");
    let output = command("load").arg(&model).env("NEURON_MEM_TRACE", &by_environment).output().unwrap();
    let text = Ran::from(output).done();
    assert!(text.ends_with(&format!("events in `{}`\n", by_environment.display())), "{text}");
    replay(&by_environment, "").done();

    let large = folder.sparse("large.safetensors", &[("a", 9 << 30), ("b", 9 << 30)]);
    let failed = folder.join("failed.jsonl");
    let options = format!("--cores 0 --trace {}", failed.display());
    let note = format!("its trace is in `{}`", failed.display());
    load(&large, &options).failed(Exit::DoesNotFit, &[&note]);
    let report = json(&replay(&failed, "--json --instance trn2.3xlarge").done());
    assert_eq!(
        (&report["recorded_refusals"], &report["columns"][0]["would_be_served"]),
        (&1.into(), &1.into())
    );
    replay(&failed, "").failed(Exit::DoesNotFit, &["1 of 2 allocations refused"]);
}

/// What `plan` says of an HBM, and where it put each block, a replay says again; of a model that does
/// not fit it names the same block, and tells on what it would.
#[test]
fn a_plan_becomes_a_trace_that_comes_out_at_its_addresses() {
    let folder = Folder::new();
    let small = folder.join("minilm.safetensors");
    write_sparse(&small, &minilm::tensors());
    let large = folder.join("llama");
    LLAMA_8B.write(&large);
    let trace = folder.join("t.jsonl");
    let plan = |model: &Path, options: &str| {
        ran("plan", model, &format!("{options} --json --trace {}", trace.display()))
    };
    for (model, options) in [
        (&small, ""),
        (&small, "--instance trn2.3xlarge --placement replicate --kv-bytes 1G --scratchpad-page 96M"),
        (&large, "--instance inf2.48xlarge --tp 16 --code-bytes 60M --scratchpad-private 3M"),
    ] {
        let planned = json(&plan(model, options).done());
        let blocks: u64 =
            planned["terms"].as_array().unwrap().iter().map(|term| number(term, "blocks")).sum();
        let report = json(&replay(&trace, "--json").done());
        let column = &report["columns"][0];
        assert_eq!(
            (number(&report, "allocations"), number(column, "same_address")),
            (blocks, blocks),
            "{options}"
        );
        assert_eq!(report["source"], "neuron-mem plan");
        let hbms = column["hbms"].as_array().unwrap();
        let wanted = planned["hbms"].as_array().unwrap().iter().filter(|hbm| number(hbm, "placed") > 0);
        let wanted: Vec<_> = wanted.map(|hbm| (&hbm["device"], &hbm["hbm"], &hbm["placed"])).collect();
        let found: Vec<_> = hbms.iter().map(|hbm| (&hbm["device"], &hbm["hbm"], &hbm["bytes"])).collect();
        assert_eq!(found, wanted, "{options}");
        let lines = fs::read_to_string(&trace).unwrap().lines().count() as u64;
        assert_eq!(number(&planned["trace"], "events"), lines - 1);
    }

    let planned = json(&plan(&large, "--cores 0 --kv-bytes 2G").failed(Exit::DoesNotFit, &[]).stdout);
    let refused = &planned["hbms"][0]["refused"];
    let report =
        json(&replay(&trace, "--json --what-if instance=trn2.3xlarge").failed(Exit::DoesNotFit, &[]).stdout);
    let first = &report["columns"][0]["refusals"][0];
    assert_eq!((&refused["name"], &first["hint"]), (&"KV cache".into(), &"KV cache".into()));
    assert_eq!(refused["largest_hole"], first["largest_hole"]);
    assert_eq!(report["columns"][1]["refused"], 0, "24 GiB are enough");
    ran("plan", &small, &format!("--trace {}", small.display())).refused(&["is no trace of ours"]);
}

fn number(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap()
}

#[test]
fn a_usage_log_becomes_a_trace() {
    let folder = Folder::new();
    let (log, trace) = (folder.join("usage.log"), folder.join("t.jsonl"));
    let output = command("load").env("NEURON_MEM_LOG", &log).output().unwrap();
    Ran::from(output).done();
    let text = ran("log", &log, &format!("--trace {}", trace.display())).done();
    assert!(text.ends_with(&format!("\ntrace `{}`: 187 events\n", trace.display())), "{text}");
    let report = json(&replay(&trace, "--json").done());
    assert_eq!((&report["source"], &report["allocations"]), (&"usage log".into(), &93.into()));
    assert_eq!(report["columns"][0]["other_address"], 0);
    let same = json(&Ran::from(command("diff").arg(&log).arg(&trace).arg("--json").output().unwrap()).done());
    assert_eq!((&same["memory"], &same["total"]["a"]), (&Value::Array(vec![]), &99_898_368.into()));
    Ran::from(command("diff").arg(&log).arg(folder.raw("x", b"hello")).output().unwrap())
        .failed(Exit::Input, &["cannot be compared", "no trace"]);
}

/// A program that runs out of memory has a trace and a report, which hold the same but for rounding.
#[test]
fn a_report_holds_what_the_trace_of_the_same_program_holds() {
    let folder = Folder::new();
    let (trace, report) = (folder.join("t.jsonl"), folder.join("report.log"));
    let events = Arc::new(EventTrace::create(&trace, &Header::of("test", Some("trn2.3xlarge"))).unwrap());
    let machine = Machine::new("trn2.3xlarge").unwrap();
    let setup = Setup::default().trace(events.clone());
    let memory = DeviceMemory::with(Device::open(&machine, 0).unwrap(), setup).unwrap();
    let models = [(0, "a"), (1, "b")]
        .map(|(core, name)| Allocator::labelled(&memory, AllocatorKind::Model, core, name).unwrap());
    let wanted = [
        (0, UsageType::Weight, 9 << 30),
        (1, UsageType::Weight, 12_345_678),
        (1, UsageType::Tensor, 5 << 30),
    ];
    let held =
        wanted.map(|(core, usage, size)| models[core].allocate(&AllocRequest::device(size, usage)).unwrap());
    let refused = models[1].allocate(&AllocRequest::device(11 << 30, UsageType::Io)).unwrap_err();
    let text = refused.report().unwrap().failure_log(Origin::current(), &Files::default(), Form::Categories);
    fs::write(&report, text).unwrap();
    drop(held);
    events.finish().unwrap();
    let diff = |a: &Path, b: &Path, options: &str| {
        Ran::from(command("diff").arg(a).arg(b).args(options.split_whitespace()).output().unwrap()).done()
    };
    let told = json(&diff(&trace, &report, "--json"));
    documented(&told);
    assert_eq!((&told["a_source"], &told["b_source"]), (&"trace".into(), &"report".into()));
    assert_eq!(told["total"]["a"], (14_u64 << 30) + 12_345_678);
    assert!(number(&told["total"], "tol") > 0, "{told}");
    for group in ["categories", "cores", "hbms"] {
        for change in told[group].as_array().unwrap() {
            let (a, b) = (number(change, "a"), number(change, "b"));
            assert!(a.abs_diff(b) <= change["tol"].as_u64().unwrap_or(0), "{group}: {change}");
        }
    }
    let names = |group: &str| -> Vec<&str> {
        told[group].as_array().unwrap().iter().map(|change| change["name"].as_str().unwrap()).collect()
    };
    assert_eq!(names("categories").len(), 2, "{told}");
    assert!(names("cores").len() == 2 && names("hbms") == ["neuron0 HBM 0"], "{told}");
    assert_eq!(names("owners").iter().filter(|name| ["a", "b"].contains(name)).count(), 2, "{told}");
    assert_eq!((&told["memory"], &told["duplicates"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    let text = diff(&report, &trace, "");
    assert!(text.contains("t.jsonl`, at its peak\n") && text.contains("`, as it reports last\n"), "{text}");

    // A list of one core does not tell its HBM, and what it prints of categories is all there is.
    let case = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases").join(name);
    let told = json(&diff(&case("list-tensors-172mb.log"), &case("table13-tensors-4gb.log"), "--json"));
    assert_eq!(told["hbms"], Value::Array(vec![]));
    let cores = told["cores"].as_array().unwrap();
    let at = |name: &str| cores.iter().find(|core| core["name"] == name).unwrap();
    assert_eq!(number(at("neuron0 core 0"), "b"), 0);
    let whole = at("neuron0 core 4");
    assert!(number(whole, "b").abs_diff(21_575_768_211) <= number(whole, "tol"), "{whole}");
    // A log without a row is none.
    Ran::from(command("diff").arg(&trace).arg(case("host-4mib.log")).output().unwrap())
        .failed(Exit::Input, &["cannot be compared", "no report of memory in use"]);
}

#[test]
fn a_log_of_rmm_is_replayed() {
    let folder = Folder::new();
    let text =
        "Thread,Time,Action,Pointer,Size,Stream\n1,0,allocate,0x7f00,4096,0x0\n1,0,free,0x7f00,4096,0x0\n";
    let file = folder.raw("rmm.csv", text.as_bytes());
    let report = json(&replay(&file, "--from rmm-csv --json").done());
    assert_eq!(
        (&report["source"], &report["allocations"], &report["frees"]),
        (&"RMM".into(), &1.into(), &1.into())
    );
    replay(&file, "").failed(Exit::Input, &["line 1, column 1", "no JSON object"]);
}

/// Runs every command of the page, in order, and compares what it shows with the block behind it.
#[test]
fn the_page_shows_what_the_commands_show() {
    let folder = Folder::new();
    fs::create_dir(folder.join("target")).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/replay.md");
    let docs = fs::read_to_string(&page).unwrap();
    let (mut compared, mut last) = (0, None);
    let mut lines = docs.lines();
    while let Some(line) = lines.next() {
        if let Some(args) = line.strip_prefix("    cargo run --release -- ") {
            let output = command(args).current_dir(folder.path()).output().unwrap();
            last = Some(Ran::from(output).done());
        } else if line == "```text" {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            assert_eq!(format!("{}\n", block.join("\n")), last.take().unwrap(), "in {}", page.display());
            compared += 1;
        }
    }
    assert_eq!(compared, 2);
    assert!(neuron_mem("replay --help").done().contains("--what-if"));
}
