//! `explain --html`, `plan --html` and `replay --html`: what the page shows, and what becomes of its file.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use common::Folder;
use common::run::{Ran, command};
use neuron_mem::cli::{self, Cli};
use neuron_mem::exit::Exit;
use neuron_mem::model::Model;
use neuron_mem::{page, plan};
use neuron_page::Layout;
use neuron_plan::Ask;

use clap::Parser as _;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases");

fn explain(log: &Path, page: &Path) -> Ran {
    Ran::from(command("explain").arg(log).arg("--html").arg(page).output().unwrap())
}

fn log() -> PathBuf {
    Path::new(CASES).join("table12-aligned-13mb.log")
}

/// Whatever a folder has.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_log_becomes_bars_with_their_doubt_and_its_owners() {
    let folder = Folder::new();
    let file = folder.path().join("page.html");
    let plain = Ran::from(command("explain").arg(log()).output().unwrap()).done();
    assert_eq!(explain(&log(), &file).done(), plain, "the answer is printed all the same");
    let page = fs::read_to_string(&file).unwrap();
    for text in [
        "ND 0 HBM 2",
        "11.9 GiB \u{b1} 524.3 KiB",
        "where the blocks are is not known",
        "shared scratchpad",
        "context_encoding_model/_tp0_bk40/",
        "inferred from printed figures",
    ] {
        assert!(page.contains(text), "no {text:?}");
    }
    assert_eq!(names(folder.path()), ["page.html"]);
}

#[test]
fn a_file_is_replaced_whole_and_links_lead_to_it() {
    let folder = Folder::new();
    let (file, link) = (folder.path().join("old.html"), folder.path().join("link.html"));
    fs::write(&file, "x".repeat(1 << 20)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("old.html", &link).unwrap();
    explain(&log(), &link).done();
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(folder.path()), ["link.html", "old.html"]);
}

#[test]
fn a_page_never_takes_the_place_of_what_it_is_of() {
    let folder = Folder::new();
    let copy = folder.path().join("a.log");
    fs::copy(log(), &copy).unwrap();
    explain(&copy, &copy).failed(Exit::Usage, &["would replace what it is of"]);
    explain(&copy, folder.path()).failed(Exit::Usage, &["a folder has this name"]);
    assert_eq!(fs::read(&copy).unwrap(), fs::read(log()).unwrap());
    let model = folder.tensors("tiny.safetensors", &[("a", 3 << 20), ("b", 5000), ("c", 700_000)]);
    for named in [model.clone(), folder.path().to_owned()] {
        let mut command = command("plan");
        let ran = Ran::from(command.arg(&named).arg("--html").arg(&model).output().unwrap());
        ran.failed(Exit::Usage, &["would replace what it is of"]);
    }
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let folder = Folder::new();
    explain(&log(), Path::new("/dev/full"))
        .failed(Exit::Output, &["page `/dev/full`: cannot write it", "No space left on device"]);
    explain(&log(), &folder.path().join("none/page.html"))
        .failed(Exit::Output, &["cannot write it", "No such file or directory"]);
    // A file that may have no more than a block, as on a disk that is full.
    let file = folder.path().join("page.html");
    fs::write(&file, "old").unwrap();
    let line = format!(
        "trap '' XFSZ; ulimit -f 1; exec {} explain {} --html {} > /dev/null",
        env!("CARGO_BIN_EXE_neuron-mem"),
        log().display(),
        file.display()
    );
    let ran = Ran::from(std::process::Command::new("sh").args(["-c", &line]).output().unwrap());
    ran.failed(Exit::Output, &["cannot write it", "File too large"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(names(folder.path()), ["page.html"]);
}

#[test]
fn a_plan_becomes_a_map_and_the_exit_code_stays() {
    let folder = Folder::new();
    let model = folder.tensors("tiny.safetensors", &[("a", 3 << 20), ("b", 5000), ("c", 700_000)]);
    let file = folder.path().join("page.html");
    let plan = |options: &str| {
        let mut command = command("plan");
        command.arg(&model).arg("--html").arg(&file).args(options.split_whitespace());
        Ran::from(command.output().unwrap())
    };
    plan("").done();
    let fits = fs::read_to_string(&file).unwrap();
    assert!(fits.contains("sentence good") && fits.contains("neuron0 HBM 0"));
    plan("--kv-bytes 100G").failed(Exit::DoesNotFit, &["does not fit"]);
    let refused = fs::read_to_string(&file).unwrap();
    assert!(refused.contains("sentence bad") && refused.contains("no room for KV cache"));
    assert!(refused.contains("class=\"failing\""), "the moment is marked");
}

/// The map against the driver's own figures: holes are what no block covers.
#[test]
fn the_holes_of_a_map_are_those_of_the_pools() {
    let folder = Folder::new();
    let opened =
        Model::open(&folder.tensors("tiny.safetensors", &[("a", 3 << 20), ("b", 5000), ("c", 700_000)]))
            .unwrap();
    let models = [plan::planned(&opened)];
    for instance in ["trn1.2xlarge", "trn2.3xlarge"] {
        let ask = Ask { kv: 6 << 30, code: Some(60 << 20), ..Ask::on(instance) };
        let planned = neuron_plan::plan(&models, &ask).unwrap();
        let page = page::plan::page(&planned, &models, &[], "");
        assert!(!page.hbms.is_empty());
        for (map, hbm) in page.hbms.iter().zip(&planned.answer.hbms) {
            let Layout::Addresses { pools, blocks } = &map.layout else {
                unreachable!("plans have addresses")
            };
            for (pool, figures) in pools.iter().zip([hbm.main, hbm.small]) {
                let range = pool.from..pool.from + pool.bytes;
                let mut inside: Vec<_> = blocks.iter().filter(|block| range.contains(&block.from)).collect();
                inside.sort_by_key(|block| block.from);
                let (mut free, mut largest, mut left) = (range.start, 0, 0);
                for (from, end) in
                    inside.iter().map(|it| (it.from, it.from + it.bytes)).chain([(range.end, range.end)])
                {
                    assert!(from >= free, "blocks of {} lie over each other", map.name);
                    (largest, left, free) = (largest.max(from - free), left + from - free, end);
                }
                assert_eq!((pool.bytes, left, largest), (figures.size, figures.left, figures.largest_hole));
            }
        }
    }
}

#[test]
fn a_replay_becomes_a_map_of_its_first_refusal_or_of_its_peak() {
    let folder = Folder::new();
    let (trace, file) = (folder.path().join("t.jsonl"), folder.path().join("page.html"));
    let replay = |options: &str| {
        let mut command = command("replay");
        command.arg(&trace).arg("--html").arg(&file).args(options.split_whitespace());
        Ran::from(command.output().unwrap())
    };
    let alloc = |id: u64, size: u64, hint: &str| {
        let about = format!("\"size\":{size},\"usage\":\"WEIGHT\",\"owner\":\"a <b>\",\"hint\":\"{hint}\"");
        format!("{{\"event\":\"alloc\",\"id\":{id},{about}}}\n")
    };
    let head = "{\"v\":1,\"instance\":\"trn1.2xlarge\"}\n";
    let end = "{\"event\":\"free\",\"id\":1}\n";
    fs::write(&trace, [head, &alloc(1, 9 << 30, "first"), &alloc(2, 9 << 30, "second"), end].concat())
        .unwrap();
    replay("").failed(Exit::DoesNotFit, &["1 of 2 allocations refused, the first on line 3"]);
    let page = fs::read_to_string(&file).unwrap();
    for text in ["sentence bad", "no room for second, 9.0 GiB", "class=\"failing\"", "a &lt;b&gt;", "first"] {
        assert!(page.contains(text), "no {text:?}");
    }
    replay("--instance trn2.3xlarge").done();
    let page = fs::read_to_string(&file).unwrap();
    for text in ["sentence good", "All 2 allocations served on trn2.3xlarge", "line 3", "second"] {
        assert!(page.contains(text), "no {text:?}");
    }
    fs::write(&trace, head).unwrap();
    replay("").done();
    let ran = Ran::from(command("replay").arg(&trace).arg("--html").arg(&trace).output().unwrap());
    ran.failed(Exit::Usage, &["would replace what it is of"]);
    let ran = Ran::from(command("replay").args(["/dev/stdin", "--html"]).arg(&file).output().unwrap());
    ran.failed(Exit::Usage, &["--html reads the trace twice"]);
}

#[test]
fn the_option_is_understood() {
    let html = |words: &[&str]| match Cli::try_parse_from(["neuron-mem"].iter().chain(words)).unwrap().command
    {
        cli::Command::Explain(args) => args.html,
        cli::Command::Plan(args) => args.html,
        _ => None,
    };
    assert_eq!(html(&["explain", "--html", "a"]), Some("a".into()));
    assert_eq!(html(&["plan", "m", "--html=b"]), Some("b".into()));
    assert_eq!(html(&["plan", "m"]), None);
}
