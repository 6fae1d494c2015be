//! Each rule of `spec/report.md` 1, 3, 6.1 and 6.2 by a small made-up log.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use common::{explained, explained_as};
use neuron_abi::arch::Generation;
use serde_json::{Value, json};

const MODULES: &str = "ERROR  TDRV:";

/// A line with the newest prefix.
fn line(tid: u32, micros: u32, text: &str) -> String {
    format!("2026-May-21 15:02:21.{micros:06} 15012:{tid:<5} {MODULES}{:<40}{text}\n", "some_function")
}

fn exact(tid: u32, micros: u32, bytes: u64) -> String {
    line(
        tid,
        micros,
        &format!("Failed to allocate DEVICE memory ({bytes} bytes): memory allocation failed (ret=-12)"),
    )
}

fn report(tid: u32, micros: u32, size: &str, place: &str) -> String {
    line(tid, micros, &format!("Failed to allocate {size} (alignment: none, usage: tensors) on {place}"))
}

fn list(tid: u32, place: &str, bullets: &str) -> String {
    line(tid, 5, &format!("Failed to allocate 64.000MB (usage: tensors) on {place}, current utilization:"))
        + bullets
}

fn tags(read: &Value) -> Vec<&str> {
    read["tags"].as_array().unwrap().iter().map(|tag| tag.as_str().unwrap()).collect()
}

fn count(read: &Value, list: &str) -> usize {
    read[list].as_array().unwrap().len()
}

const HEADING: &str = "\
              |          |  Model   |  Model   |          |  Shared  |          |          |DMA Rings |DMA Rings | DMA Rings |DMA Rings |           | Profiler |
              |  TOTAL   |   Code   |Constants | Tensors  |Scratchpad|Scratchpad| Runtime  |    IO    |  Spill   |Collectives| Runtime  |Collectives| Buffers  |
";

fn row(label: &str, total: &str, tensors: &str) -> String {
    let zeros = "0.000B | 0.000B";
    let rest = "0.000B | 0.000B | 0.000B | 0.000B | 0.000B | 0.000B | 0.000B | 0.000B | 0.000B";
    format!("{label} | {total} | {zeros} | {tensors} | {rest} |\n")
}

#[test]
fn the_exact_line_and_the_report_of_a_thread_are_one_failure() {
    let read = explained(&(exact(1, 1, 13_743_184) + &report(1, 2, "13.107MB", "ND 0:NC 1")));
    assert_eq!((count(&read, "failures"), &read["duplicates"]), (1, &json!(1)));
    assert_eq!(read["failures"][0]["requested"], json!({"bytes": 13_743_184, "tol": 0}));
    assert_eq!(read["failures"][0]["time"], "2026-May-21 15:02:21.000002");
    assert_eq!(read["failures"][0]["errno"], -12);
}

#[test]
fn a_report_of_another_size_is_another_failure() {
    let read = explained(&(exact(1, 1, 13_743_184) + &report(1, 2, "14.000MB", "ND 0:NC 1")));
    assert_eq!((count(&read, "failures"), &read["duplicates"]), (2, &json!(0)));
}

#[test]
fn an_exact_line_without_report_stands_beside_another_thread_s_report_in_any_order() {
    for order in [[0, 1, 2], [2, 0, 1], [0, 2, 1]] {
        let lines = [exact(1, 1, 1 << 26), report(1, 2, "64.000MB", "ND 0:NC 1"), exact(2, 3, 1 << 26)];
        let read = explained(&order.map(|place| lines[place].clone()).concat());
        assert_eq!((count(&read, "failures"), count(&read, "other_requests")), (1, 1), "{order:?}");
        assert_eq!(read["other_requests"][0]["tid"], 2);
        assert_eq!(read["duplicates"], 1);
    }
    let read = explained(&(exact(1, 1, 1 << 26) + &exact(2, 3, 1 << 26)));
    assert_eq!(
        (count(&read, "failures"), count(&read, "other_requests")),
        (2, 0),
        "without a report each is one"
    );
}

#[test]
fn reports_on_different_devices_and_cores_are_separate_failures() {
    let reports = ["ND 0:NC 1", "ND 3:NC 1", "ND 0:NC 2"].map(|place| report(1, 1, "64.000MB", place));
    let read = explained(&reports.concat());
    assert_eq!((count(&read, "failures"), &read["duplicates"]), (3, &json!(0)));
}

#[test]
fn the_same_failure_announced_again_is_a_duplicate_and_a_retry_is_not() {
    let one = report(1, 1, "64.000MB", "ND 0:NC 1");
    assert_eq!(count(&explained(&one.repeat(3)), "failures"), 1);
    assert_eq!(explained(&one.repeat(3))["duplicates"], 2);
    let announced = one.clone() + &report(2, 2, "64.000MB", "ND 0:NC 1");
    assert_eq!(count(&explained(&announced), "failures"), 1);
    let retry =
        exact(1, 1, 1 << 26) + &one + &exact(1, 900, 1 << 26) + &report(1, 901, "64.000MB", "ND 0:NC 1");
    assert_eq!((count(&explained(&retry), "failures"), &explained(&retry)["duplicates"]), (2, &json!(2)));
}

/// Trimmed copies have no times: equal lines are copies, unless reports of several places claim them.
#[test]
fn equal_lines_without_a_time_are_one_unless_reports_say_otherwise() {
    let exact = "ERROR TDRV:dmem_alloc_internal Failed to alloc DEVICE memory: 45429600\n";
    let report = |place: &str| {
        format!(
            "ERROR TDRV:log_dev_mem Failed to allocate 43.325MB (usage: dma rings) on {place}, current utilization:\n* total: 15.972GB\n\n"
        )
    };
    let two = explained(&(exact.repeat(2) + &report("ND 3:NC 0") + &report("ND 0:NC 0")));
    assert_eq!((count(&two, "failures"), &two["duplicates"]), (2, &json!(2)));
    for failure in two["failures"].as_array().unwrap() {
        assert_eq!(failure["requested"], json!({"bytes": 45_429_600, "tol": 0}));
    }
    let one = explained(&(exact.repeat(2) + &report("ND 3:NC 0").repeat(2)));
    assert_eq!((count(&one, "failures"), count(&one, "usage"), &one["duplicates"]), (1, 1, &json!(3)));
    assert_eq!(explained(&exact.repeat(3))["duplicates"], 2);
}

#[test]
fn a_whole_log_pasted_twice_says_everything_once() {
    let table = line(1, 3, "Displaying Current Memory Utilization:")
        + HEADING
        + &row("ND 0 HBM 2", "23.000GB", "20.000GB")
        + "\n";
    let log = exact(1, 1, 1 << 30) + &report(1, 2, "1.000GB", "ND 0:NC 4") + &table;
    let (once, twice) = (explained(&log), explained(&log.repeat(2)));
    for list in ["failures", "usage"] {
        assert_eq!(once[list], twice[list], "{list}");
    }
    assert_eq!((&once["duplicates"], &twice["duplicates"]), (&json!(1), &json!(3)));
}

#[test]
fn cascade_lines_that_repeat_the_bytes_are_duplicates() {
    let log = exact(1, 1, 4_194_304)
        + &line(
            1,
            2,
            "Failed to allocate aligned (0) buffer in MLA DRAM for W1 of size 4194304 bytes, channel 2",
        )
        + &line(1, 3, "Failed to allocate 4194304 bytes on DEVICE for tensor kv.")
        + &line(1, 4, "Failed to allocate 99 bytes on DEVICE for tensor kv.");
    let read = explained(&log);
    assert_eq!((count(&read, "failures"), &read["duplicates"]), (1, &json!(2)));
    assert_eq!((&read["failures"][0]["hbm"], &read["failures"][0]["tensor"]), (&json!(2), &json!("W1")));
}

#[test]
fn device_and_core_come_from_report_then_cascade_then_files() {
    let cascade = line(1, 2, "init failed mla_idx=5 tpb->idx=1");
    let read = explained(&(exact(1, 1, 77) + &cascade));
    assert_eq!((&read["failures"][0]["device"], &read["failures"][0]["core"]), (&json!(5), &json!(1)));
    let read = explained(&(report(1, 1, "1.000MB", "ND 2:NC 0") + &cascade));
    assert_eq!((&read["failures"][0]["device"], &read["failures"][0]["core"]), (&json!(2), &json!(0)));
    let file = |device: u32| {
        line(
            1,
            3,
            &format!("Wrote nrt memory alloc debug info to /tmp/nrt_mem_log_device_{device}_6a0f1e7d.csv"),
        )
    };
    let table = line(1, 4, "Also logged memory breakdown to /tmp/neuron_mem_table_device_4_nc_7.log");
    let read = explained(&(exact(1, 1, 77) + &file(4) + &table));
    assert_eq!((&read["failures"][0]["device"], &read["failures"][0]["core"]), (&json!(4), &Value::Null));
    let read = explained(&(exact(1, 1, 77) + &file(4) + &file(5)));
    assert_eq!(read["failures"][0]["device"], Value::Null);
    let noise = line(1, 2, "[nec_dev 3] failed to init") + &line(1, 3, "Visible cores: 6");
    let read = explained(&(exact(1, 1, 77) + &noise));
    assert_eq!((&read["failures"][0]["device"], &read["failures"][0]["core"]), (&Value::Null, &Value::Null));
}

#[test]
fn each_failure_of_a_thread_has_its_own_files_and_hbm() {
    let one = |hbm: u32, at: u32| {
        line(
            1,
            at,
            &format!(
                "Wrote driver memory alloc debug info to /tmp/neuron_mem_log_device_0_hbm_{hbm}_6a0f1e7d.csv"
            ),
        ) + &report(1, at + 1, "64.000MB", &format!("ND 0:NC {}", hbm * 2))
    };
    let read = explained(&(one(1, 1) + &one(3, 10)));
    let hbms: Vec<_> = (0..2).map(|place| read["failures"][place]["hbm"].as_u64()).collect();
    assert_eq!(hbms, [Some(1), Some(3)]);
}

#[test]
fn interleaved_threads_keep_their_lines_apart() {
    let log = exact(1, 1, 1 << 20)
        + &exact(2, 2, 1 << 21)
        + &line(
            2,
            3,
            "Wrote driver memory alloc debug info to /tmp/neuron_mem_log_device_1_hbm_1_6a0f1e7d.csv",
        )
        + &line(
            1,
            4,
            "Wrote driver memory alloc debug info to /tmp/neuron_mem_log_device_0_hbm_0_6a0f1e7d.csv",
        )
        + &report(2, 5, "2.000MB", "ND 1:NC 2")
        + &report(1, 6, "1.000MB", "ND 0:NC 0");
    let read = explained(&log);
    assert_eq!((count(&read, "failures"), &read["duplicates"]), (2, &json!(2)));
    for failure in read["failures"].as_array().unwrap() {
        assert_eq!(
            (&failure["hbm"], failure["tid"].as_u64().map(|tid| json!(tid - 1))),
            (&failure["device"], Some(failure["device"].clone()))
        );
    }
}

#[test]
fn a_status_is_of_the_last_failure_of_its_process_before_it() {
    let status = |tid, at, text: &str| line(tid, at, text);
    let log = exact(1, 1, 77)
        + &exact(2, 2, 78)
        + &status(9, 3, "Failed to load NN: /x, err: 4")
        + &status(9, 4, "Failure: NRT_FAILURE in f");
    let read = explained(&log);
    assert_eq!(read["failures"][0]["status"], Value::Null);
    assert_eq!(
        (&read["failures"][1]["status"], &read["failures"][1]["status_seen"]),
        (&json!(4), &json!(true))
    );
    assert_eq!(
        (&read["failures"][0]["status_inferred"], read["failures"][1].get("status_inferred")),
        (&json!(4), None)
    );
    let read = explained(&(status(9, 1, "Failure: NRT_RESOURCE in nrt_load_util") + &exact(1, 2, 77)));
    assert_eq!(read["failures"][0]["status"], Value::Null);
    assert_eq!(
        read["other_failures"],
        json!([{"pid": 15012, "tid": 9, "status": 4, "status_seen": true, "where": "nrt_load_util"}])
    );
    let other = exact(1, 2, 77).replace("15012:", "15013:");
    let read = explained(&(other + &status(9, 3, "Failed to x, ret=2")));
    assert_eq!((&read["failures"][0]["status"], count(&read, "other_failures")), (&Value::Null, 1));
}

#[test]
fn a_status_alone_is_one_failure_with_the_first_line_of_its_thread() {
    let log = line(7, 1, "mapping failed")
        + &line(8, 2, "other")
        + &line(7, 3, "Failed to load NN: /x, err: 4")
        + &line(8, 4, "Failure: NRT_RESOURCE in f");
    let read = explained(&log);
    assert_eq!(count(&read, "failures"), 1);
    let failure = &read["failures"][0];
    assert_eq!(
        (&failure["time"], &failure["tid"], &failure["requested"]),
        (&json!("2026-May-21 15:02:21.000001"), &json!(7), &Value::Null)
    );
    assert_eq!(tags(&read), ["not-oom"]);
    let read = explained(&(line(7, 0, "No more pages for ring type: 1") + &log));
    assert_eq!(tags(&read), ["ring-limit"]);
}

#[test]
fn neuron_rtd_s_status_encloses_its_lines() {
    let log = "Context=X NRTD response code 'NERR_RESOURCE' (4) The runtime '[NEFF:f] file not found [TDRV:dmem_alloc] Failed to alloc DEVICE memory: 4194304\n[TDRV:g] Failed to x\n'\n";
    let read = explained(log);
    assert_eq!((&read["format"], count(&read, "failures")), (&json!("R0"), 1));
    assert_eq!((&read["failures"][0]["status"], count(&read, "other_failures")), (&json!(4), 0));
}

#[test]
fn lists_end_at_an_empty_line_and_leave_out_zeros() {
    let log = list(1, "ND 0:NC 0", "\t* total: 15.000GB\n* tensors: 14.000GB\n\n* collectives: 1.000GB\n");
    let read = explained(&log);
    let categories = &read["usage"][0]["categories"];
    assert!(
        categories["tensors"].is_object()
            && categories["collectives"].is_null()
            && categories["runtime"].is_null()
    );
    assert_eq!(read["format"], "R1");
}

#[test]
fn two_lists_whose_heads_came_first_are_filled_one_after_the_other() {
    let log = list(1, "ND 0:NC 0", "")
        + &list(2, "ND 1:NC 0", "")
        + "* total: 15.000GB\n* tensors: 14.000GB\n\n* total: 12.000GB\n* tensors: 11.000GB\n";
    let read = explained(&log);
    let totals: Vec<_> = (0..2)
        .map(|at| {
            (
                read["usage"][at]["scope"]["device"].as_u64(),
                read["usage"][at]["total"]["bytes"].as_u64().unwrap() >> 30,
            )
        })
        .collect();
    assert_eq!(totals, [(Some(0), 15), (Some(1), 12)]);
}

#[test]
fn a_list_that_another_thread_writes_into_goes_on() {
    let log = list(1, "ND 0:NC 0", "* total: 15.000GB\n") + &exact(2, 9, 5) + "* tensors: 14.000GB\n";
    assert_eq!(explained(&log)["usage"][0]["categories"]["tensors"]["bytes"], 14_u64 << 30);
}

#[test]
fn a_list_under_a_line_that_names_an_hbm_is_the_hbm_s() {
    let log = list(
        1,
        "ND 2:NC 1",
        "Overall HBM usage (HBM 0):\n* total: 15.000GB\n* dma rings io: 4.000GB\n\nUsage of NC 1:\n* total: 12.000GB\n",
    );
    let read = explained(&log);
    assert_eq!(read["usage"][0]["scope"], json!({"device": 2, "hbm": 0, "core": null}));
    assert_eq!(read["usage"][1]["scope"], json!({"device": 2, "hbm": null, "core": 1}));
    assert_eq!((&read["format"], &read["failures"][0]["row"]), (&json!("R1b"), &json!(0)));
    assert!(tags(&read).contains(&"dma-rings-dominate"));
}

#[test]
fn table_rows_take_device_and_hbm_from_the_row_above() {
    let table = HEADING.to_owned()
        + &row("ND 5 HBM 3", "20.000GB", "19.000GB")
        + &row("  NC 6", "12.000GB", "11.000GB")
        + &row("ND 6 Overall", "1.000GB", "1.000GB")
        + &row("\\_NC 0", "1.000GB", "0.000B");
    let read = explained(&table);
    let scopes: Vec<_> = (0..4).map(|at| read["usage"][at]["scope"].clone()).collect();
    assert_eq!(scopes[1], json!({"device": 5, "hbm": 3, "core": 6}));
    assert_eq!(scopes[3], json!({"device": 6, "hbm": null, "core": 0}));
}

#[test]
fn capacity_fragmentation_and_neither() {
    // 24 GiB less 16 MiB less 23.500GB are 496 MiB.
    let log = |size: &str| {
        report(1, 2, size, "ND 0:NC 4")
            + &line(1, 3, "Displaying Current Memory Utilization:")
            + HEADING
            + &row("ND 0 HBM 2", "23.500GB", "20.000GB")
            + &row("\\_NC 4", "23.500GB", "20.000GB")
    };
    assert_eq!(tags(&explained(&log("600.000MB"))), ["capacity", "tensors-dominate"]);
    assert_eq!(
        tags(&explained(&log("100.000MB"))),
        ["fragmentation-or-alignment", "pool-split", "tensors-dominate"]
    );
    assert_eq!(tags(&explained(&log("512.000KB"))), ["fragmentation-or-alignment", "tensors-dominate"]);
    let read = explained(&log("496.000MB"));
    assert_eq!(tags(&read), ["tensors-dominate"]);
    assert_eq!(read["answers"][0]["cause"], "capacity_or_fragmentation");
    let told = explained_as(&log("600.000MB"), Some(Generation::V4));
    assert_eq!(tags(&told), ["fragmentation-or-alignment", "tensors-dominate"]);
    assert_eq!((&told["presumed"], &told["room"]["arch"]), (&Value::Null, &json!(4)));
}

#[test]
fn without_a_row_the_cause_is_open() {
    let read = explained(&report(1, 2, "600.000MB", "ND 0:NC 4"));
    assert_eq!((tags(&read), &read["answers"][0]["cause"]), (vec!["partial"], &json!("open")));
}

#[test]
fn an_idle_core_has_an_hbm_of_its_own() {
    let two = |first: &str, second: &str, total: &str| {
        list(1, first, "* total: 15.900GB\n\n") + &list(2, second, &format!("* total: {total}\n\n"))
    };
    assert!(tags(&explained(&two("ND 0:NC 0", "ND 0:NC 1", "1.000GB"))).contains(&"idle-core"));
    assert!(!tags(&explained(&two("ND 0:NC 0", "ND 0:NC 1", "2.000GB"))).contains(&"idle-core"));
    assert!(
        !tags(&explained(&two("ND 0:NC 4", "ND 0:NC 5", "1.000GB"))).contains(&"idle-core"),
        "they share it"
    );
    assert!(tags(&explained(&two("ND 0:NC 4", "ND 0:NC 6", "1.000GB"))).contains(&"idle-core"));
}

#[test]
fn growth_is_of_one_core() {
    let block = |core: u32, total: &str| {
        line(1, 1, "").replace("some_function       ", "dml_log_dev_neff_mem")
            + &format!(
                "[ND 0:NC {core}] Current Usage Total: {total}\n\tshared scratchpad: 0.000B\nPer NEFF memory usage breakdown for [m]:\n\tTotal: 1.000KB\n\t* model code: 1.000KB\n\n"
            )
    };
    assert!(tags(&explained(&(block(0, "1.000GB") + &block(0, "1.001GB")))).contains(&"graph-growth"));
    assert_eq!(tags(&explained(&(block(0, "1.000GB") + &block(0, "1.000GB")))), Vec::<&str>::new());
    assert_eq!(tags(&explained(&(block(0, "1.000GB") + &block(1, "2.000GB")))), Vec::<&str>::new());
    assert_eq!(explained(&block(0, "1.000GB"))["format"], "N1");
}

#[test]
fn the_kernel_s_own_figures_decide() {
    let pool = |needed: u64| {
        format!(
            "neuron:mc_alloc: device mempool [0:0] total 1000 occupied 900 needed {needed} available - main gen pool 5\n"
        )
    };
    assert_eq!(tags(&explained(&pool(101))), ["capacity"]);
    assert_eq!(tags(&explained(&pool(100))), ["fragmentation-or-alignment"]);
    let read = explained("nd3 usage:\n neuron: pid 77 open count 2\n");
    assert_eq!(read["kernel"][0], json!({"kind": "open_count", "pid": 77, "count": 2, "device": 3}));
}

#[test]
fn versions_that_do_not_fit_together() {
    let read =
        explained(&line(1, 1, "This runtime (id: 8) is not compatible with the installed driver (10 to 11)"));
    assert_eq!(tags(&read), ["driver-mismatch"]);
    assert_eq!(
        (count(&read, "failures"), &read["compat"]),
        (0, &json!({"runtime_id": 8, "driver_min": 10, "driver_max": 11}))
    );
    assert_eq!(read["answers"][0]["cause"], "driver_mismatch");
}

#[test]
fn a_log_with_nothing_known_is_empty() {
    for log in ["", "hello\n\nworld", "ps aux | grep x\n", "ERROR something else\n"] {
        let facts = neuron_explain::read(&mut log.as_bytes()).unwrap();
        assert!(facts.is_empty(), "{log}: {facts:?}");
    }
}
