//! `load` where all is well: what it reports of models of all kinds, on all kinds of instances.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::collections::BTreeMap;

use common::run::{Loaded, load, load_args, neuron_mem};
use common::{DTYPES, Folder, noise};
use neuron_mem::load as command;
use neuron_mem::model::{Model, Tensor};
use neuron_mem::spread::spread;
use proptest::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

const MIB: u64 = 1 << 20;

/// What each core holds after `sizes` were spread over `cores`, by core, cores with nothing left out.
fn by_core(sizes: &[u64], cores: &[u32]) -> Vec<(u32, u64)> {
    let mut loads = BTreeMap::new();
    for (size, place) in sizes.iter().zip(spread(sizes, cores.len())) {
        *loads.entry(cores[place]).or_insert(0) += size;
    }
    loads.into_iter().filter(|&(_, bytes)| bytes > 0).collect()
}

#[test]
fn load_alone_moves_the_built_in_model_to_trn1_and_back() {
    let text = neuron_mem("load").done();
    let expected = "\
backend software, instance trn1.2xlarge
model built-in transformer, seed 0: 93 tensors, 99,898,368 B (95.3 MiB)

| device | hbm | core | category        |      bytes |     size |
|--------|-----|------|-----------------|------------|----------|
| 0      | 0   | 0    | model constants | 49,949,696 | 47.6 MiB |
| 0      | 1   | 1    | model constants | 49,948,672 | 47.6 MiB |
| total  |     |      |                 | 99,898,368 | 95.3 MiB |

allocated  99,962,880 B (95.3 MiB)
copied     99,898,368 B (95.3 MiB) in
verified   93 tensors
freed      driver counters back to
";
    // How long it took, and what else the driver holds, are not the model's.
    let stable = text.lines().map(|line| match line {
        line if line.starts_with("copied ") => line.split_inclusive(" in").next().unwrap(),
        line if line.starts_with("freed ") => line.split_inclusive(" back to").next().unwrap(),
        line => line,
    });
    assert_eq!(stable.map(|line| format!("{line}\n")).collect::<String>(), expected, "{text}");
}

#[test]
fn the_built_in_model_loads_on_any_device_of_any_instance() {
    let model = Model::synthetic(0).unwrap();
    let sizes: Vec<u64> = model.tensors().iter().map(Tensor::bytes).collect();
    for (instance, device, cores, cores_per_hbm) in [
        ("inf2.xlarge", 0, 2, 1),
        ("inf2.24xlarge", 5, 2, 1),
        ("trn1.2xlarge", 0, 2, 1),
        ("trn1.32xlarge", 15, 2, 1),
        ("trn2.3xlarge", 0, 8, 2),
        ("trn2.48xlarge", 0, 8, 2),
    ] {
        let ran = neuron_mem(&format!("load --instance {instance} --device {device} --json"));
        let loaded = Loaded::of(&ran.done(), &sizes);
        assert_eq!(loaded.instance, instance);
        assert!(loaded.verified);
        assert!(loaded.usage.iter().all(|usage| usage.device == device));
        let all: Vec<u32> = (0..cores).collect();
        let expected: Vec<_> = by_core(&sizes, &all)
            .into_iter()
            .map(|(core, bytes)| (core / cores_per_hbm, core, bytes))
            .collect();
        assert_eq!(loaded.places(), expected, "{instance}");
    }
}

#[test]
fn a_mapped_file_loads_the_same_with_and_without_a_bounce() {
    let folder = Folder::new();
    let sizes = [("a", 3 * MIB + 5), ("b", 1), ("c", 70_000)];
    let path = folder.tensors("m.safetensors", &sizes);
    for transfer in ["auto", "staged", "zerocopy"] {
        for execution in ["threaded", "inline"] {
            let options =
                format!("--instance trn2.48xlarge --transfer {transfer} --execution {execution} --json");
            let loaded = Loaded::of(&load(&path, &options).done(), &sizes.map(|(_, bytes)| bytes));
            assert!(loaded.verified, "{options}");
        }
    }
}

#[test]
fn without_verification_nothing_is_called_verified() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("w", 5000)]);
    assert!(!Loaded::of(&load(&path, "--no-verify --json").done(), &[5000]).verified);
    let text = load(&path, "--no-verify").done();
    assert!(text.contains("\nverified   nothing, as asked\n"), "{text}");
}

#[test]
fn only_the_cores_asked_for_hold_anything() {
    let folder = Folder::new();
    let sizes = [3 * MIB, 5 * MIB, 7 * MIB, 100, 2 * MIB + 1];
    let tensors: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().zip(sizes).collect();
    let path = folder.tensors("m.safetensors", &tensors);

    let loaded = Loaded::of(&load(&path, "--cores 1 --json").done(), &sizes);
    assert_eq!(loaded.places(), [(1, 1, sizes.iter().sum())]);

    for (list, cores) in [("0,2-3", [0, 2, 3]), ("7,2,0", [7, 2, 0])] {
        let ran = load(&path, &format!("--instance trn2.3xlarge --cores {list} --json"));
        let loaded = Loaded::of(&ran.done(), &sizes);
        assert!(loaded.verified);
        let expected: Vec<_> =
            by_core(&sizes, &cores).into_iter().map(|(core, bytes)| (core / 2, core, bytes)).collect();
        assert_eq!(expected.len(), 3);
        assert_eq!(loaded.places(), expected, "{list}");
    }
}

#[test]
fn every_dtype_loads_and_tensors_without_data_are_listed() {
    let data: Vec<Vec<u8>> = DTYPES.iter().map(|dtype| noise(dtype.bitsize())).collect();
    let views = DTYPES.iter().zip(&data).flat_map(|(&dtype, data)| {
        [
            (format!("{dtype}.full"), TensorView::new(dtype, vec![2, 4], data).unwrap()),
            (format!("{dtype}.empty"), TensorView::new(dtype, vec![3, 0, 8], &[]).unwrap()),
        ]
    });
    let bytes = safetensors::serialize(views, None).unwrap();
    let folder = Folder::new();
    let path = folder.raw("m.safetensors", &bytes);

    let sizes: Vec<u64> = data.iter().flat_map(|data| [data.len() as u64, 0]).collect();
    assert!(Loaded::of(&load(&path, "--json").done(), &sizes).verified);
    let text = load(&path, "").done();
    for dtype in DTYPES {
        let listed = format!("tensor `{dtype}.empty` has no data and takes no memory\n");
        assert_eq!(text.matches(&listed).count(), 1, "{text}");
    }
    assert_eq!(text.matches("has no data").count(), DTYPES.len());
    assert!(text.contains("\nverified   22 tensors\n"), "{text}");
}

#[test]
fn a_model_of_nothing_but_empty_tensors_takes_no_memory() {
    let folder = Folder::new();
    for (tensors, sizes) in [(&[][..], &[][..]), (&[("a", 0), ("b", 0)], &[0, 0])] {
        let loaded = Loaded::of(&load(&folder.tensors("m.safetensors", tensors), "--json").done(), sizes);
        assert_eq!((loaded.allocated_bytes, loaded.bytes_per_second), (0, 0));
        assert!(loaded.usage.is_empty() && loaded.verified);
    }
}

#[test]
fn a_folder_of_shards_loads_as_one_model() {
    let folder = Folder::new();
    folder.tensors("m-00001-of-00003.safetensors", &[("a", 70_000), ("b", 1)]);
    folder.tensors("m-00002-of-00003.safetensors", &[("c", MIB + 1)]);
    folder.tensors("m-00003-of-00003.safetensors", &[("d", 0), ("e", 4096), ("f", 12)]);
    let sizes = [70_000, 1, MIB + 1, 0, 4096, 12];
    let shards = [1, 1, 2, 3, 3, 3].map(|shard| format!("m-0000{shard}-of-00003.safetensors"));
    let map: Vec<_> =
        ["a", "b", "c", "d", "e", "f"].into_iter().zip(shards.iter().map(String::as_str)).collect();
    let index = folder.index(&map, sizes.iter().sum());

    for path in [folder.path(), &index] {
        assert!(Loaded::of(&load(path, "--json").done(), &sizes).verified);
        let text = load(path, "").done();
        let model = format!("\nmodel `{}` (3 shards): 6 tensors, ", index.display());
        assert!(text.contains(&model), "{text}");
        assert!(text.contains("\ntensor `d` has no data and takes no memory\n"), "{text}");
    }
}

#[test]
fn oddities_of_a_model_are_noted_and_do_not_stop_the_load() {
    let folder = Folder::new();
    folder.shard("s.safetensors", &["a", "extra"]);
    let index = folder.index(&[("a", "s.safetensors")], 99);
    let text = load(&index, "").done();
    assert!(
        text.contains("\nnote: 1 tensor in the shards but not in the index, left out: `extra`\n"),
        "{text}"
    );
    assert!(
        text.contains("\nnote: the index gives a total_size of 99 bytes, its tensors have 4\n"),
        "{text}"
    );
    assert!(text.contains("\nverified   1 tensor\n"), "{text}");
}

#[test]
fn names_in_any_script_are_shown_as_they_are() {
    let folder = Folder::new();
    let path = folder.tensors("模型.safetensors", &[("слой.0.權重", 100), ("層.空🦀", 0)]);
    let text = load(&path, "").done();
    assert!(text.contains("模型.safetensors`: 2 tensors, 100 B\n"), "{text}");
    assert!(text.contains("\ntensor `層.空🦀` has no data and takes no memory\n"), "{text}");
    assert!(text.contains("\nverified   1 tensor\n"), "{text}");
}

/// A dtype and how many elements; 8 of any dtype are whole bytes.
fn any_tensor() -> impl Strategy<Value = (Dtype, usize)> {
    let edge = prop::sample::select(vec![0, 1, 4095, 4096, 4097, 65_536, (1 << 20) + 1]);
    prop_oneof![
        (edge.prop_map(|bytes| (Dtype::U8, bytes))),
        (prop::sample::select(&DTYPES[..]), (0usize..40_000).prop_map(|count| count * 8)),
    ]
}

fn any_cores() -> impl Strategy<Value = (&'static str, Vec<u32>)> {
    let of = |instance, cores: u32| {
        let all = (0..cores).collect::<Vec<u32>>();
        let some = prop::sample::subsequence(all, 1..=cores as usize).prop_shuffle();
        some.prop_map(move |cores| (instance, cores))
    };
    prop_oneof![of("trn1.2xlarge", 2), of("trn2.3xlarge", 8)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_model_on_any_cores_comes_back_equal_and_leaves_nothing(
        tensors in prop::collection::vec(any_tensor(), 0..12),
        (instance, cores) in any_cores(),
        execution in prop::sample::select(vec!["inline", "threaded"]),
    ) {
        let sizes: Vec<u64> =
            tensors.iter().map(|(dtype, count)| (count * dtype.bitsize() / 8) as u64).collect();
        let data = noise(sizes.iter().copied().max().unwrap_or(0) as usize);
        let views = tensors.iter().zip(&sizes).enumerate().map(|(i, (&(dtype, count), &bytes))| {
            (format!("t{i}"), TensorView::new(dtype, vec![count], &data[..bytes as usize]).unwrap())
        });
        let folder = Folder::new();
        let path = folder.raw("m.safetensors", &safetensors::serialize(views, None).unwrap());
        let list = cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let options = format!("--instance {instance} --cores {list} --execution {execution} --json");

        let mut out = Vec::new();
        command::run(&load_args(&path, &options), &|| false, &mut out).unwrap();
        let loaded = Loaded::of(&String::from_utf8(out).unwrap(), &sizes);
        prop_assert!(loaded.verified);
        // safetensors sorts its tensors, so the sizes in file order are the model's.
        let model = Model::open(&path).unwrap();
        let in_order: Vec<u64> = model.tensors().iter().map(Tensor::bytes).collect();
        let held: Vec<_> = loaded.places().iter().map(|&(_, core, bytes)| (core, bytes)).collect();
        prop_assert_eq!(held, by_core(&in_order, &cores));
    }
}
