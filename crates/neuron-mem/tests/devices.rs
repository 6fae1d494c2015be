//! `devices`: every catalogued instance has what its product page and spec say.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use common::run::neuron_mem;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What all devices of a product have.
struct Product {
    generation: &'static str,
    cores: u64,
    engines: u64,
    hbm_size: u64,
    hbm_bases: &'static [u64],
    /// (engine, queue) of each core.
    h2t_rings: &'static [(u64, u64)],
}

/// Trainium and Inferentia2: 2 cores and 32 GiB.
const V2: Product = Product {
    generation: "V2",
    cores: 2,
    engines: 34,
    hbm_size: 16 * GIB,
    hbm_bases: &[0, 0x10_0000_0000],
    h2t_rings: &[(32, 0), (33, 0)],
};

/// Trainium2: 8 cores and 96 GiB.
const V3: Product = Product {
    generation: "V3",
    cores: 8,
    engines: 132,
    hbm_size: 24 * GIB,
    hbm_bases: &[0, 0x40_0000_0000, 0x8000_0000_0000, 0x8040_0000_0000],
    h2t_rings: &[(128, 0), (128, 1), (129, 0), (129, 1), (130, 0), (130, 1), (131, 0), (131, 1)],
};

/// (instance, devices, product)
const INSTANCES: [(&str, u64, &Product); 9] = [
    ("inf2.xlarge", 1, &V2),
    ("inf2.8xlarge", 1, &V2),
    ("inf2.24xlarge", 6, &V2),
    ("inf2.48xlarge", 12, &V2),
    ("trn1.2xlarge", 1, &V2),
    ("trn1.32xlarge", 16, &V2),
    ("trn1n.32xlarge", 16, &V2),
    ("trn2.3xlarge", 1, &V3),
    ("trn2.48xlarge", 16, &V3),
];

impl Product {
    fn device(&self, index: u64) -> Value {
        let hbms = self.hbm_bases.iter().enumerate().map(|(index, base)| {
            json!({
                "index": index,
                "base": base,
                "size": self.hbm_size,
                "firmware_reserve": 16 * MIB,
                "main_pool": self.hbm_size - GIB,
                "small_pool": GIB,
            })
        });
        let rings = self
            .h2t_rings
            .iter()
            .enumerate()
            .map(|(core, (engine, queue))| json!({ "core": core, "engine": engine, "queue": queue }));
        json!({
            "index": index,
            "cores": self.cores,
            "hbms": hbms.collect::<Vec<_>>(),
            "engines": self.engines,
            "h2t_rings": rings.collect::<Vec<_>>(),
        })
    }
}

#[test]
fn the_instances_tested_here_are_all_there_are() {
    let names: Vec<&str> = INSTANCES.iter().map(|(name, ..)| *name).collect();
    let known = format!("error: unknown instance type \"none\"; known: {}\n", names.join(", "));
    let ran = neuron_mem("devices --instance none");
    assert_eq!(ran.stderr, known);
    ran.refused(&[]);
}

#[test]
fn json_has_the_published_figures_of_every_instance() {
    for (name, devices, product) in INSTANCES {
        let out = neuron_mem(&format!("devices --instance {name} --json")).done();
        assert_eq!(out.matches('\n').count(), 1, "{out}");
        let expected = json!({
            "backend": "software",
            "instance": name,
            "generation": product.generation,
            "devices": (0..devices).map(|index| product.device(index)).collect::<Vec<_>>(),
        });
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), expected, "{name}");
    }
}

#[test]
fn text_is_the_same_for_each_device_but_for_its_index() {
    for (name, devices, product) in INSTANCES {
        let text = neuron_mem(&format!("devices --instance {name}")).done();
        let opening = format!(
            "backend software, instance {name}\ngeneration {}, devices: {devices}\n",
            product.generation
        );
        let Some(rest) = text.strip_prefix(&opening) else { panic!("{text}") };
        let about = |index: u64| {
            format!("\ndevice {index}: cores: {}, DMA engines: {}\n", product.cores, product.engines)
        };
        let mut parts = rest.split("\ndevice ").skip(1).map(|part| format!("\ndevice {part}"));
        let Some(first) = parts.next() else { panic!("{text}") };
        let tables = first.strip_prefix(&about(0)).unwrap();
        for index in 1..devices {
            assert_eq!(parts.next().unwrap(), format!("{}{tables}", about(index)), "{name}");
        }
        assert_eq!(parts.next(), None);
        for base in product.hbm_bases {
            assert_eq!(tables.matches(&format!(" {base:#x} |")).count(), 1, "{tables}");
        }
        // Column titles, a rule, and a row for each.
        let rows = product.hbm_bases.len() + product.h2t_rings.len() + 4;
        assert_eq!(tables.lines().filter(|line| line.starts_with('|')).count(), rows, "{tables}");
    }
}

#[test]
fn text_without_arguments_is_trn1s() {
    let expected = "\
backend software, instance trn1.2xlarge
generation V2, devices: 1

device 0: cores: 2, DMA engines: 34

| hbm |         base |                        size |        firmware reserve |                   main pool |                small pool |
|-----|--------------|-----------------------------|-------------------------|-----------------------------|---------------------------|
| 0   |          0x0 | 17,179,869,184 B (16.0 GiB) | 16,777,216 B (16.0 MiB) | 16,106,127,360 B (15.0 GiB) | 1,073,741,824 B (1.0 GiB) |
| 1   | 0x1000000000 | 17,179,869,184 B (16.0 GiB) | 16,777,216 B (16.0 MiB) | 16,106,127,360 B (15.0 GiB) | 1,073,741,824 B (1.0 GiB) |

| H2T ring of core | engine | queue |
|------------------|--------|-------|
|                0 |     32 |     0 |
|                1 |     33 |     0 |
";
    assert_eq!(neuron_mem("devices").done(), expected);
}
