//! `plan`: addresses as `load`'s, real models by a second sum, exit codes, and that its page stays true.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use common::Folder;
use common::llama::{KEYS, LLAMA_8B, LLAMA_70B, LLAMA_405B, Llama, VOCABULARY, write_sparse};
use common::minilm;
use common::run::{Ran, command, of_page};
use neuron_dmem::log::{Action, LogFile};
use neuron_mem::exit::Exit;
use neuron_mem::model::Model;
use neuron_mem::plan::planned;
use neuron_plan::{Ask, Placed, Term};
use serde_json::Value;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan.md");

fn plan(path: &Path, options: &str) -> Ran {
    Ran::from(command("plan").arg(path).args(options.split_whitespace()).output().unwrap())
}

fn json(ran: Ran) -> Value {
    assert_eq!(ran.stdout.matches('\n').count(), 1, "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

fn llama(folder: &Folder, model: Llama) -> std::path::PathBuf {
    let path = folder.join("llama");
    model.write(&path);
    path
}

/// (hint, core, HBM, address, bytes) of what `load` allocates, from its usage log.
fn loaded(model: &Path, options: &str, log: &Path) -> Vec<(String, u32, u32, u64, u64)> {
    let mut load = command("load --no-verify");
    load.arg(model).args(options.split_whitespace()).env("NEURON_MEM_LOG", log);
    Ran::from(load.output().unwrap()).done();
    let events = LogFile::open(log).unwrap();
    let allocated = events.events_from(0).filter(|event| event.action == Action::Alloc);
    allocated
        .map(|event| (event.hint.as_deref().unwrap().to_owned(), event.core, event.hbm, event.pa, event.size))
        .collect()
}

#[test]
fn load_gives_every_tensor_the_address_that_plan_said() {
    let folder = Folder::new();
    let model = folder.join("minilm.safetensors");
    write_sparse(&model, &minilm::tensors());
    for (instance, cores) in [
        ("trn1.2xlarge", None),
        ("trn1.2xlarge", Some(vec![1])),
        ("trn2.3xlarge", None),
        ("trn2.3xlarge", Some(vec![5, 0])),
    ] {
        let mut options = format!("--instance {instance}");
        if let Some(cores) = &cores {
            let list: Vec<String> = cores.iter().map(u32::to_string).collect();
            options += &format!(" --cores {}", list.join(","));
        }
        let models = [planned(&Model::open(&model).unwrap())];
        let ask = Ask { cores, ..Ask::on(instance) };
        let planned = neuron_plan::plan(&models, &ask).unwrap();
        let weights = planned.placed.iter().filter(|placed| placed.block.term == Term::Weights);
        let planned: Vec<_> = weights
            .map(|Placed { hbm, pa, block, .. }| {
                let (m, t) = block.tensor.unwrap();
                (models[m].tensors[t].name.clone(), block.core, *hbm, *pa, block.bytes)
            })
            .collect();
        assert_eq!(planned.len(), 104, "{options}");
        assert_eq!(planned, loaded(&model, &options, &folder.join("log")), "{options}");
    }
}

/// The sum of the header is that of the published file, 90,868,376 bytes, less its header.
#[test]
fn a_model_of_90_mb_fits_on_the_smallest_instance_and_leaves_the_rest() {
    let folder = Folder::new();
    let model = folder.join("minilm.safetensors");
    write_sparse(&model, &minilm::tensors());
    let answer = json(plan(&model, "--json"));
    assert_eq!((&answer["fits"], &answer["short_bytes"]), (&true.into(), &0.into()));
    assert_eq!(answer["models"][0]["bytes"], 22_713_216 * 4 + 512 * 8);
    assert_eq!(answer["models"][0]["largest"]["name"], "embeddings.word_embeddings.weight");
    assert_eq!(answer["smallest_instance"]["instance"], "inf2.xlarge");
    // Both HBMs, the 16 MiB of the firmware, two cores' costs in pages, and the tensors in pages.
    let pages = |bytes: u64| bytes.next_multiple_of(4096);
    let tensors: u64 = minilm::tensors().iter().map(|tensor| pages(tensor.bytes)).sum();
    let costs = 2 * (pages(1_772_093) + pages(570_368) + pages(28_672));
    let left: u64 = hbms(&answer).map(|hbm| field(&hbm["main"], "left") + field(&hbm["small"], "left")).sum();
    assert_eq!(left, 2 * ((16 << 30) - (16 << 20)) - costs - tensors);
    let spare = hbms(&answer).map(|hbm| field(&hbm["main"], "left") + field(&hbm["small"], "left")).min();
    assert_eq!(Some(field(&answer, "spare_bytes")), spare);

    let text = plan(&model, "").done();
    assert!(text.starts_with("fits on trn1.2xlarge: "), "{text}");
    assert!(text.lines().count() <= 24 && !text.contains('\u{1b}'), "{text}");
    for words in [
        "microcode 1,772,093",
        "runtime 570,368",
        "rings 28,672",
        "samples from logs of 2026",
        "--code-bytes",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

fn hbms(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["hbms"].as_array().unwrap().iter()
}

fn field(object: &Value, name: &str) -> u64 {
    object[name].as_u64().unwrap()
}

/// Bytes in pages of what each of `tp` cores gets of a model, by its published measures alone.
fn per_core(model: Llama, tp: u64) -> u64 {
    let pages = |elements: u64| (elements * 2 / tp).next_multiple_of(4096);
    let Llama { hidden, intermediate, layers, .. } = model;
    let layer = 3 * pages(hidden * intermediate)
        + 2 * pages(hidden * hidden)
        + 2 * pages(KEYS * hidden)
        + 2 * pages(hidden);
    2 * pages(VOCABULARY * hidden) + layers * layer + pages(hidden)
}

#[test]
fn an_8_b_model_fits_on_the_two_cores_of_a_trainium() {
    let folder = Folder::new();
    let model = llama(&folder, LLAMA_8B);
    let answer = json(plan(&model, "--tp 2 --kv-bytes 4G --code-bytes 60M --json"));
    assert_eq!(answer["fits"], true, "{answer}");
    assert_eq!(answer["models"][0]["bytes"], LLAMA_8B.parameters * 2);
    let pages = |bytes: u64| bytes.next_multiple_of(4096);
    for (i, hbm) in hbms(&answer).enumerate() {
        let costs = pages(1_772_093) + pages(570_368) + 28_672 + if i == 0 { 92_274_688 } else { 0 };
        assert_eq!(field(hbm, "asked"), per_core(LLAMA_8B, 2) + (2 << 30) + (60 << 20) + costs);
        assert_eq!((field(hbm, "placed"), field(hbm, "short")), (field(hbm, "asked"), 0));
    }
    assert_eq!(answer["terms"][0]["term"], "weights");
    assert_eq!(answer["terms"][0]["bytes"], LLAMA_8B.parameters * 2);
}

#[test]
fn a_70_b_model_does_not_fit_on_the_smallest_instance_and_hears_what_would_do() {
    let folder = Folder::new();
    let model = llama(&folder, LLAMA_70B);
    let ran = plan(&model, "--json").failed(Exit::DoesNotFit, &["does not fit on trn1.2xlarge", "GiB short"]);
    let answer = json(ran);
    assert_eq!(answer["fits"], false);
    assert_eq!(answer["models"][0]["bytes"], LLAMA_70B.parameters * 2);
    // All there is less the firmware's reserve and the costs of two cores; tensors are whole pages here.
    let pages = |bytes: u64| bytes.next_multiple_of(4096);
    let room = 2 * ((16 << 30) - (16 << 20) - pages(1_772_093) - pages(570_368) - 28_672);
    assert_eq!(field(&answer, "short_bytes"), LLAMA_70B.parameters * 2 - room);
    assert_eq!(answer["smallest_tp"], Value::Null);
    // 16 cores of 16 GiB: 12 do not divide its dimensions.
    let smallest = &answer["smallest_instance"];
    assert_eq!((&smallest["instance"], &smallest["tp"]), (&"inf2.48xlarge".into(), &16.into()));

    let text = plan(&model, "").failed(Exit::DoesNotFit, &[]).stdout;
    assert!(text.starts_with("does not fit on trn1.2xlarge: "), "{text}");
    assert!(text.contains("--instance inf2.48xlarge --tp 16") && text.lines().count() <= 24, "{text}");

    let named = json(plan(&model, "--instance inf2.48xlarge --tp 16 --json"));
    assert_eq!(named["fits"], true);
    let first = &named["hbms"][0];
    let costs = pages(1_772_093) + pages(570_368) + 28_672 + 92_274_688;
    assert_eq!(field(first, "asked"), per_core(LLAMA_70B, 16) + costs);
    assert_eq!(json(plan(&model, "--instance inf2.48xlarge --tp 8 --json"))["smallest_tp"], 16);
}

#[test]
fn a_405_b_model_takes_the_largest_instance() {
    let folder = Folder::new();
    let model = llama(&folder, LLAMA_405B);
    let answer = json(plan(&model, "--instance trn2.48xlarge --tp 64 --json"));
    assert_eq!(answer["fits"], true);
    assert_eq!((&answer["lnc"], &answer["devices"], &answer["cores"]), (&2.into(), &16.into(), &64.into()));
    assert_eq!(answer["models"][0]["bytes"], LLAMA_405B.parameters * 2);
    let pages = |bytes: u64| bytes.next_multiple_of(4096);
    // Two physical cores for each HBM, the first with collectives.
    let costs = 2 * (pages(1_772_093) + pages(570_368) + 28_672) + 92_274_688;
    for hbm in hbms(&answer) {
        assert_eq!(field(hbm, "asked"), per_core(LLAMA_405B, 64) + costs);
    }
    assert_eq!(hbms(&answer).count(), 64);
    let text = plan(&model, "--instance trn2.48xlarge --tp 64").done();
    assert!(text.contains("neuron0 HBM 0 and 63 alike") && text.lines().count() <= 24, "{text}");
}

#[test]
fn models_are_planned_together_and_each_has_its_line() {
    let folder = Folder::new();
    let [draft, target] = [3u64 << 30, 14 << 30]
        .map(|bytes| folder.sparse(&format!("m{bytes}.safetensors"), &[("a", bytes / 2), ("b", bytes / 2)]));
    let both = |options: &str| {
        let mut plan = command("plan");
        Ran::from(plan.args([&draft, &target]).args(options.split_whitespace()).output().unwrap())
    };
    let answer = json(both("--json"));
    assert_eq!((&answer["fits"], answer["models"].as_array().unwrap().len()), (&true.into(), 2));
    let text = both("--cores 0").failed(Exit::DoesNotFit, &["short"]).stdout;
    assert_eq!(text.lines().filter(|line| line.starts_with("model ")).count(), 2, "{text}");
    assert!(text.contains("refused   tensor b, "), "{text}");
}

#[test]
fn costs_of_a_core_can_be_replaced() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a", 5000)]);
    let costs = |options: &str| json(plan(&model, &format!("{options} --json")))["costs"].clone();
    assert_eq!(costs("--era 2025")["microcode"], 100_669_588);
    assert_eq!(costs("--era 2025 --microcode-bytes 7 --rings-bytes 8K")["microcode"], 7);
    assert_eq!(costs("--tp 2 --collectives-bytes 1M")["collectives"], 1 << 20);
    assert_eq!(costs("")["collectives"], 0);
    let text = plan(&model, "--runtime-bytes 0 --code-bytes 1M").done();
    assert!(text.contains("as given, else samples from logs of 2026"), "{text}");
    assert!(text.contains("instructions 2.0 MiB") && !text.contains("--code-bytes"), "{text}");
}

#[test]
fn what_cannot_be_planned_is_refused_with_its_exit_code() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a", 5000)]);
    for (options, words) in [
        ("--tp 0", "0 is not in 1.."),
        ("--lnc 3", "3 is not in 1..=2"),
        ("--lnc 2", "one physical core only"),
        ("--tp 3", "trn1.2xlarge has 2 logical cores of 1, not 3; as many has inf2.24xlarge"),
        ("--cores 2", "no core 2; it has cores 0 to 1"),
        ("--cores 0,0", "core 0 is named twice"),
        ("--cores 1 --tp 2", "leave one of the two out"),
        ("--instance trn2.3xlarge --lnc 2 --cores 3", "core 2 is not among those named"),
        ("--instance trn9.huge", "known: inf2.xlarge"),
        ("--kv-bytes 99999999999999999999", "more bytes than 64 bits count"),
        ("--kv-bytes some", "`some` is not a size"),
        ("--align 3", "power of two, not 3"),
        ("--align 0", "power of two, not 0"),
        ("--placement everywhere", "possible values: shard, replicate, roundrobin"),
    ] {
        plan(&model, options).refused(&[words]);
    }
    Ran::from(command("plan").output().unwrap()).refused(&["<MODEL>..."]);
    plan(&folder.join("none"), "").failed(Exit::Input, &["no such file"]);
    let cut = folder.raw("cut.safetensors", &fs::read(&model).unwrap()[..200]);
    plan(&cut, "").failed(Exit::Input, &["not a usable safetensors file"]);
}

#[test]
fn sizes_beyond_all_memory_are_an_answer() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a", 5000)]);
    for size in ["10000000000000000000", "18446744073709551615"] {
        let ran = plan(&model, &format!("--kv-bytes {size} --scratchpad-private {size} --json"));
        let answer = json(ran.failed(Exit::DoesNotFit, &["EiB short"]));
        assert_eq!((&answer["fits"], &answer["smallest_instance"]), (&false.into(), &Value::Null));
        assert!(field(&answer, "short_bytes") > 1 << 62);
    }
    let text = plan(&model, "--kv-bytes 18446744073709551615").failed(Exit::DoesNotFit, &[]).stdout;
    assert!(text.contains("no instance known fits"), "{text}");
}

/// Each command of the page is run where its models are, and prints what stands there.
#[test]
fn the_page_shows_what_the_command_prints() {
    let folder = Folder::new();
    LLAMA_70B.write(&folder.join("target/llama-70b"));
    let commands = of_page(PAGE, folder.path());
    assert!(commands.len() >= 2);
    for (line, shown, ran) in commands {
        assert_eq!(format!("{}{}", ran.stdout, ran.stderr), shown, "{line}");
    }
}

#[test]
fn the_environment_of_this_machine_does_not_count() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a", 5000)]);
    let plain = plan(&model, "").done();
    let mut set = command("plan");
    set.arg(&model).envs(
        [("NEURON_RT_VISIBLE_CORES", "1"), ("NEURON_MEM_BACKEND", "kernel")]
            .map(|(name, value)| (OsStr::new(name), OsStr::new(value))),
    );
    assert_eq!(Ran::from(set.output().unwrap()).done(), plain);
}

#[test]
fn an_answer_that_cannot_be_written_ends_with_1() {
    let folder = Folder::new();
    let model = folder.tensors("m.safetensors", &[("a", 5000)]);
    for options in ["", "--json"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut plan = command("plan");
        plan.arg(&model).args(options.split_whitespace()).stdout(full).stderr(std::process::Stdio::piped());
        Ran::from(plan.output().unwrap()).failed(Exit::Output, &["cannot be written"]);
    }
}
