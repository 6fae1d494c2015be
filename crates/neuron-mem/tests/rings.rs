//! `rings`: what is shown of the queues of a device, on a backend that shows all and on one that shows only
//! what ioctls do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod common;

use std::sync::Arc;

use clap::Parser as _;
use common::run::neuron_mem;
use neuron_abi::memory::Category;
use neuron_mem::cli::{Cli, Command, RingsArgs};
use neuron_mem::render::rings::{Flavour, Selection};
use neuron_mem::{machine, rings};
use neuron_ndl::software::{Machine, MachineOptions};
use neuron_ndl::{AllocRequest, CopyRequest, Device};
use serde_json::{Value, json};

/// A machine's first device after a copy of 200,000 bytes to core 1's HBM.
fn used(abi_only: bool) -> Arc<Device> {
    let options = MachineOptions { abi_only, ..MachineOptions::default() };
    let device = Device::open(&Machine::with_options("trn1.2xlarge", options).unwrap(), 0).unwrap();
    let allocate = |host: bool, category| {
        let request =
            AllocRequest { size: 200_000, align: 0, host, hbm: u32::from(!host), core: 1, category };
        device.allocate(request).unwrap()
    };
    let (host, hbm) = (allocate(true, Category::TensorsHost), allocate(false, Category::TensorsDevice));
    let (source_offset, destination_offset, bytes) = (0, 0, 200_000);
    device
        .copy(CopyRequest { source: &host, destination: &hbm, source_offset, destination_offset, bytes })
        .unwrap();
    device
}

/// What the device is told to be of.
fn software() -> machine::Machine {
    machine::Machine::software("trn1.2xlarge", MachineOptions::default()).unwrap()
}

fn args(options: &str) -> RingsArgs {
    match Cli::try_parse_from(["neuron-mem", "rings"].into_iter().chain(options.split_whitespace())) {
        Ok(Cli { command: Command::Rings(args) }) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_machine_that_came_up_shows_the_default_ring_of_each_core() {
    let expected = "\
backend software, instance trn1.2xlarge
device 0: 2 of 544 queues of 34 engines: those in use; --all lists the others

engine 32: TX idle, RX idle

| queue | flavour     | owner  | core |    | size | next | done | id | in flight | head | tail |
|-------|-------------|--------|------|----|------|------|------|----|-----------|------|------|
| 0     | H2T default | driver | 0    | TX | 8192 |    0 |    0 |  1 |         0 |    0 |    0 |
|       |             |        |      | RX | 8192 |    0 |    0 |  1 |         0 |    0 |    0 |

engine 33: TX idle, RX idle

| queue | flavour     | owner  | core |    | size | next | done | id | in flight | head | tail |
|-------|-------------|--------|------|----|------|------|------|----|-----------|------|------|
| 0     | H2T default | driver | 1    | TX | 8192 |    0 |    0 |  1 |         0 |    0 |    0 |
|       |             |        |      | RX | 8192 |    0 |    0 |  1 |         0 |    0 |    0 |
";
    assert_eq!(neuron_mem("rings").done(), expected);
}

#[test]
fn the_page_shows_what_the_command_prints() {
    let page = include_str!("../../../docs/rings.md");
    let block = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(block, neuron_mem("rings").done());
}

#[test]
fn every_instance_shows_a_default_ring_for_each_core_of_any_device() {
    for (instance, device, engines, cores) in
        [("inf2.24xlarge", 5, 34, 2), ("trn1.32xlarge", 15, 34, 2), ("trn2.3xlarge", 0, 132, 8)]
    {
        let out = neuron_mem(&format!("rings --instance {instance} --device {device} --json")).done();
        assert_eq!(out.matches('\n').count(), 1);
        let json: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&json["device"], &json["engine_count"]), (&json!(device), &json!(engines)), "{instance}");
        let engines = json["engines"].as_array().unwrap();
        let queues: Vec<&Value> =
            engines.iter().flat_map(|engine| engine["queues"].as_array().unwrap()).collect();
        assert_eq!(queues.len(), cores, "{instance}");
        for (queue, core) in queues.iter().zip(0..) {
            assert_eq!(queue["owner"]["flavour"], "h2t_default");
            assert_eq!((&queue["owner"]["core"], &queue["owner"]["owner"]), (&json!(core), &json!(0)));
        }
    }
}

/// The keys that `docs/rings.md` lists, and no others.
#[test]
fn json_keys_are_the_documented_ones() {
    let json: Value = serde_json::from_str(&neuron_mem("rings --json").done()).unwrap();
    let expected = json!({
        "backend": "software",
        "instance": "trn1.2xlarge",
        "device": 0,
        "selection": "in_use",
        "owners_shown": true,
        "engine_count": 34,
        "queue_count": 544,
        "engines": ([32_usize, 33].map(|engine| json!({
            "engine": engine,
            "tx_state": 1,
            "rx_state": 1,
            "queues": [{
                "queue": 0,
                "owner": {
                    "flavour": "h2t_default",
                    "owner": 0,
                    "held_by": null,
                    "core": engine - 32,
                    "is_h2t": true,
                    "is_allocated": false,
                    "is_owner_core": engine - 32,
                    "is_nx": false,
                },
                "tx": ring(&json["engines"][engine - 32]["queues"][0]["tx"]["base"]),
                "rx": ring(&json["engines"][engine - 32]["queues"][0]["rx"]["base"]),
            }],
        }))),
    });
    assert_eq!(json, expected);
}

/// A ring nothing was put into. Where it lies is not ours to say, but it is host memory.
fn ring(base: &Value) -> Value {
    assert_eq!(base.as_u64().unwrap() >> 44, 1);
    json!({
        "size": 8192, "base": base, "head": 0, "tail": 0, "hw_status": 0, "sw_status": 2,
        "cursor": {
            "driver_fills": true, "next": 0, "completed": 0, "ring_id": 1, "available": 8176, "in_flight": 0,
        },
    })
}

#[test]
fn one_engine_can_be_asked_for_and_its_unused_queues_too() {
    let text = neuron_mem("rings --engine 3").done();
    assert!(text.ends_with("\ndevice 0: 0 of 16 queues of 1 engine: those in use; --all lists the others\n"));
    let text = neuron_mem("rings --engine 3 --all").done();
    assert!(text.contains("\ndevice 0: all 16 queues of 1 engine\n\nengine 3: TX idle, RX idle\n"), "{text}");
    assert_eq!(text.matches("| unused ").count(), 16, "{text}");
    let json: Value = serde_json::from_str(&neuron_mem("rings --all --json").done()).unwrap();
    let queues =
        json["engines"].as_array().unwrap().iter().map(|engine| engine["queues"].as_array().unwrap().len());
    assert_eq!((json["selection"].as_str(), queues.sum::<usize>()), (Some("all"), 544));
}

#[test]
fn text_fits_100_columns() {
    for options in ["", "--instance trn2.48xlarge", "--instance trn2.48xlarge --all"] {
        let text = neuron_mem(&format!("rings {options}")).done();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{options}");
    }
}

#[test]
fn a_copy_shows_in_its_cores_ring_alone() {
    let report = rings::report(&args(""), &software(), &used(false)).unwrap();
    let [idle, used] = &report.engines[..] else { panic!("{report:?}") };
    assert_eq!((idle.queues[0].tx.tail, used.queues[0].tx.tail), (0, 5));
    let queue = &used.queues[0];
    assert_eq!(
        queue.owner.as_ref().map(|owner| (owner.flavour, owner.core)),
        Some((Flavour::H2tDefault, Some(1)))
    );
    for ring in [queue.tx, queue.rx] {
        let cursor = ring.cursor.unwrap();
        assert_eq!((cursor.next, cursor.completed, cursor.in_flight), (5, 5, Some(0)));
        assert_eq!((ring.head, ring.tail), (5, 5));
    }
}

#[test]
fn a_backend_without_introspection_lists_the_queues_with_a_ring_and_says_what_is_missing() {
    let device = used(true);
    let report = rings::report(&args(""), &software(), &device).unwrap();
    assert_eq!((report.selection, report.owners_shown), (Selection::Programmed, false));
    let places: Vec<_> = report.engines.iter().map(|engine| (engine.engine, engine.queues.len())).collect();
    assert_eq!(places, [(32, 1), (33, 1)]);
    let queue = &report.engines[1].queues[0];
    assert_eq!((&queue.owner, queue.tx.cursor, queue.tx.tail, queue.tx.size), (&None, None, 5, 8192));
    assert!(report.text().contains("\n?: the driver behind this backend does not show it\n"));
    let all = rings::report(&args("--all"), &software(), &device).unwrap();
    assert_eq!((all.selection, all.engines.len(), all.queue_count), (Selection::All, 34, 544));
}

#[test]
fn what_the_machine_does_not_have_is_a_usage_error() {
    neuron_mem("rings --engine 34").refused(&["neuron0 has engines 0 to 33, so there is no engine 34"]);
    neuron_mem("rings --engine 4294967295 --instance trn2.3xlarge").refused(&["engines 0 to 131"]);
    neuron_mem("rings --device 1").refused(&["trn1.2xlarge has 1 device(s)"]);
    neuron_mem("rings --device 256").refused(&["there is no device 256"]);
    neuron_mem("rings --instance none").refused(&["unknown instance type \"none\""]);
    neuron_mem("rings --engine=-1").refused(&["invalid value '-1'"]);
}
