//! A case with one wrong value fails.

use neuron_abi::arch::Generation;
use serde_json::{Value, json};

use super::claims::session::Form;
use super::{Checker, claims};
use crate::kinds::tests::{Fields, cases, every_change_is_noticed, is};

fn ring_case(file: &str, matches: impl Fn(&Fields) -> bool) -> Fields {
    cases(file).into_iter().find(|case| matches(case)).unwrap()
}

fn noticed(generation: Generation, case: &Fields, changes: &[(&str, Value)]) {
    let file = if generation == Generation::V2 { "v2/ring.jsonl" } else { "v3/ring.jsonl" };
    let checker = Checker::new(generation, file).unwrap();
    every_change_is_noticed(case, changes, |case| checker.check(case));
}

#[test]
fn a_bring_up_case_with_one_wrong_value_fails() {
    let case = ring_case("v2/ring.jsonl", |case| is(case, "case", "init_ncs"));
    let changes = [
        ("/steps/0/ret", json!(-22)),
        ("/steps/0/engine_init_order/3", json!(4)),
        ("/steps/0/mmio/100/3", json!("0x77")),
        ("/steps/0/mmio_fnv", json!("0x77")),
        ("/steps/0/mmio_count", json!(7)),
        ("/steps/0/h2t_engine_queue_block_writes/40/3", json!("0x77")),
        ("/steps/0/init_done/0", json!(0)),
        ("/table/queues/0/tx", json!("0x100018411000")),
        ("/table/queues/1/marker", json!("0x100018451000")),
        ("/table/queues/0/size", json!(0)),
        ("/table/queues/0/owner", json!(1)),
        ("/table/h2t_engines/1", json!(31)),
    ];
    noticed(Generation::V2, &case, &changes);
}

#[test]
fn a_bring_up_case_whose_rings_moved_is_still_compared() {
    let case = ring_case("v3/ring.jsonl", |case| {
        is(case, "case", "init_ncs") && is(case, "version", "2.25.4") && case["steps"][1]["nc_map"] == "0x1"
    });
    let changes = [
        ("/steps/2/ret", json!(-22)),
        ("/steps/2/mmio_fnv", json!("0x77")),
        // The ring's length: only its address may be another one.
        ("/steps/2/h2t_engine_queue_block_writes/5/3", json!("0x1000")),
        ("/steps/2/init_done/0", json!(0)),
        // A ring that did not move.
        ("/table/queues/1/tx", json!("0x400018639000")),
        ("/table/queues/0/owner", json!(1)),
    ];
    noticed(Generation::V3, &case, &changes);
}

#[test]
fn an_exit_case_with_one_wrong_value_fails() {
    let case = ring_case("v2/ring.jsonl", |case| {
        is(case, "case", "process_exit") && is(case, "version", "2.25.4") && is(case, "seed", 402)
    });
    let owner = |pid: i32| {
        case["before"]["queues"].as_array().unwrap().iter().position(|queue| queue["owner"] == pid)
    };
    let other = format!("/exit_1001/table/queues/{}/owner", owner(1002).unwrap());
    let changes = [
        ("/inits/0/6", json!(-22)),
        ("/dummy_ring", json!("0x100018401000")),
        ("/before/queues/0/tx", json!("0x3c0001000")),
        ("/before/queues/0/owner", json!(1002)),
        ("/exit_1001/mmio/0/3", json!("0x7")),
        ("/exit_1002/mmio/0/2", json!("0x30242075")),
        ("/exit_1001/table/queues/0/tx", json!("0x3c0019000")),
        (&other, json!(0)),
        ("/exit_1001/table/h2t_engines/0", json!(31)),
    ];
    noticed(Generation::V2, &case, &changes);
}

#[test]
fn a_bind_case_with_one_wrong_value_fails() {
    let case = ring_case("v3/ring.jsonl", |case| is(case, "note", "device rings"));
    let changes = [
        ("/ret", json!(-22)),
        ("/owner", json!(0)),
        ("/mmio/5/3", json!("0x200")),
        ("/rx/pa", json!("0x4001001000")),
        ("/tx/host", json!(1)),
        ("/qid", json!(7)),
    ];
    noticed(Generation::V3, &case, &changes);
    let case =
        ring_case("v3/ring.jsonl", |case| is(case, "note", "tx count larger than its chunk is accepted"));
    noticed(Generation::V3, &case, &[("/ret", json!(-1)), ("/tx_count", json!(64))]);
    let case = ring_case("v3/ring.jsonl", |case| is(case, "note", "count 16"));
    noticed(Generation::V3, &case, &[("/ret", json!(-1)), ("/owner", json!(77))]);
}

#[test]
fn a_query_or_doorbell_case_with_one_wrong_value_fails() {
    let find = |name: &str, ret: i32| {
        ring_case("v2/ring.jsonl", |case| is(case, "case", name) && is(case, "ret", ret))
    };
    let state = [("/tx_state", json!(1)), ("/rx_state", json!(0)), ("/num_queues", json!(15))];
    noticed(Generation::V2, &find("engine_get_state", 0), &state);
    let state = [("/mmio/1/2", json!("0x10")), ("/then/tx_state", json!(3)), ("/then/revision", json!(3))];
    noticed(Generation::V2, &find("engine_set_state", 0), &state);
    let queue = [
        ("/tx/base", json!("0x10")),
        ("/rx/head", json!("0x10")),
        ("/rx/sw_status", json!(1)),
        ("/tx/completion_base", json!("0x10")),
        ("/mmio/4/2", json!("0x10")),
    ];
    noticed(Generation::V2, &find("queue_get_state", 0), &queue);
    noticed(
        Generation::V2,
        &find("queue_get_state", -5),
        &[("/ret", json!(0)), ("/fail_read_index", json!(17))],
    );
    let info = [("/tx_pa", json!("0x10")), ("/rx_size", json!(2048)), ("/rx_found", json!(0))];
    noticed(Generation::V2, &find("descriptor_info", 0), &info);
    noticed(Generation::V2, &find("descriptor_info", -5), &[("/ret", json!(0))]);
    noticed(Generation::V2, &find("copy_start", 0), &[("/ret", json!(-22)), ("/mmio/0/3", json!("0x2"))]);
    noticed(Generation::V2, &find("copy_start", -1), &[("/ret", json!(-5)), ("/rx", json!(1))]);
    let acknowledged = [("/tx_next_cdesc", json!(7)), ("/rx_next_cdesc", json!(7)), ("/ret", json!(-22))];
    noticed(Generation::V2, &find("ack_completed", 0), &acknowledged);
}

/// Pointer to a field of the first step of a case that `matches`.
fn at(case: &Fields, matches: impl Fn(&Value) -> bool, field: &str) -> String {
    let step = case["steps"].as_array().unwrap().iter().position(matches).unwrap();
    format!("/steps/{step}/{field}")
}

#[test]
fn a_clean_case_with_one_wrong_value_fails() {
    let checker = claims::Checker::new(Generation::V2, Form::Clean).unwrap();
    let binds =
        |step: &Value| step["op"] == "queue_init" && !step["mmio_fnv"].is_null() && !step["rings"].is_null();
    let case = ring_case("v2/ring_clean.jsonl", |case| {
        let steps = case["steps"].as_array().unwrap();
        let has = |op: &str| steps.iter().any(|step| step["op"] == op);
        ["copy", "memcpy", "request", "release"].into_iter().all(has) && steps.iter().any(binds)
    });
    let step = |op: &'static str, field| at(&case, move |step| step["op"] == op, field);
    let bound = |field| at(&case, binds, field);
    let changes = [
        ("/dummy_ring", json!("0x10")),
        ("/chunks/b", json!("0x10")),
        ("/chunks/d/1", json!("0x10")),
        (&step("request", "ret"), json!(-1)),
        (&step("request", "qid"), json!(9)),
        (&step("request", "rings/0/5"), json!("0x10")),
        (&step("request", "rings/0/3"), json!(7)),
        (&step("copy", "dst_fnv"), json!("0x10")),
        (&step("copy", "src_fill"), json!(0)),
        (&step("copy", "mmio/0/3"), json!("0x77")),
        (&step("copy", "after/tx/next_cdesc"), json!(77)),
        (&step("memcpy", "dst_fnv"), json!("0x10")),
        (&step("memcpy", "after/rx/ring_id"), json!(2)),
        (&bound("mmio_fnv"), json!("0x10")),
        (&bound("rings/0/4"), json!(7)),
        (&bound("pid"), json!(7)),
        (&step("release", "ret"), json!(-114)),
    ];
    every_change_is_noticed(&case, &changes, |case| checker.check(case));
}

#[test]
fn a_case_that_parts_is_compared_until_then_and_at_the_step_where_it_does() {
    let checker = claims::Checker::new(Generation::V2, Form::Dynamic).unwrap();
    let named = |name: &'static str| ring_case("v2/ring_dynamic.jsonl", move |case| is(case, "case", name));
    let case = named("service_rings");
    let changes = [
        ("/steps/2/rings/2/4", json!(7)),
        // The exit: recorded as leaving everything. A table that changed would be news.
        ("/steps/3/rings/1/4", json!(7)),
        ("/steps/0/h2t", json!(1)),
    ];
    every_change_is_noticed(&case, &changes, |case| checker.check(case));
    let case = named("close_frees_h2t_and_service");
    let changes = [("/steps/3/rings_later/0/4", json!(7)), ("/steps/2/mmio/3/3", json!("0x10"))];
    every_change_is_noticed(&case, &changes, |case| checker.check(case));
    let case = named("queue_init_collision");
    let changes =
        [("/steps/5/rings/2/4", json!(2000)), ("/steps/5/ret", json!(-114)), ("/steps/1/ret", json!(0))];
    every_change_is_noticed(&case, &changes, |case| checker.check(case));
}
