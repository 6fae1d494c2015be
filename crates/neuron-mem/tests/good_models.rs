//! Models that are fine, however odd: every dtype, no data, shards, huge and strange files.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use common::{DTYPES, Folder, entry, model_bytes};
use neuron_mem::model::{Model, ModelError, Source, Tensor};
use proptest::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    let Some(data) = tensor.data() else { return Vec::new() };
    let mut bytes = vec![0; data.len()];
    data.copy_to(&mut bytes[..]);
    bytes
}

fn names(model: &Model) -> Vec<&str> {
    model.tensors().iter().map(Tensor::name).collect()
}

#[test]
fn every_dtype_keeps_its_name_shape_and_bytes() {
    for (i, dtype) in DTYPES.into_iter().enumerate() {
        let bytes: Vec<u8> = (0..dtype.bitsize()).map(|b| (b + i) as u8).collect();
        let view = TensorView::new(dtype, vec![2, 4], &bytes).unwrap();
        let folder = Folder::new();
        let path = folder.raw("m.safetensors", &safetensors::serialize([("w", view)], None).unwrap());

        let model = Model::open(&path).unwrap();
        let [tensor] = model.tensors() else { panic!("{dtype}: {:?}", names(&model)) };
        assert_eq!(tensor.dtype(), dtype.to_string());
        assert_eq!(tensor.shape(), [2, 4]);
        assert_eq!(tensor.bytes(), dtype.bitsize() as u64, "{dtype}");
        assert_eq!(bytes_of(tensor), bytes, "{dtype}");
    }
}

#[test]
fn tensors_come_in_the_order_of_their_data() {
    let folder = Folder::new();
    let header = format!(
        "{{{},{},{}}}",
        entry("last", "U8", "[2]", 3, 5),
        entry("first", "U8", "[1]", 0, 1),
        entry("middle", "U16", "[]", 1, 3),
    );
    let model = Model::open(&folder.model("m.safetensors", &header, &[10, 11, 12, 13, 14])).unwrap();
    assert_eq!(names(&model), ["first", "middle", "last"]);
    assert_eq!(
        model.tensors().iter().map(bytes_of).collect::<Vec<_>>(),
        [vec![10], vec![11, 12], vec![13, 14]]
    );
    assert_eq!(model.total_bytes(), 5);
}

#[test]
fn a_tensor_without_elements_has_no_data() {
    let folder = Folder::new();
    let header = format!("{{{},{}}}", entry("none", "F32", "[3,0]", 0, 0), entry("w", "U8", "[1]", 0, 1));
    let model = Model::open(&folder.model("m.safetensors", &header, &[9])).unwrap();
    assert_eq!(names(&model), ["none", "w"]);
    assert_eq!((model.tensors()[0].bytes(), model.tensors()[0].shape()), (0, &[3, 0][..]));
    assert!(model.tensors()[0].data().is_none());
}

#[test]
fn a_model_without_tensors_is_one() {
    let folder = Folder::new();
    for header in ["{}", r#"{"__metadata__":{"format":"pt"}}"#, r#"{"__metadata__":null}   "#] {
        let model = Model::open(&folder.model("m.safetensors", header, b"")).unwrap();
        assert!(model.tensors().is_empty());
    }
}

#[test]
fn names_of_any_unicode_and_any_length_are_kept() {
    let long = "層.".repeat(100_000);
    let tricky = "a\"b\\c\u{0}\u{1f980}e\u{301}";
    let folder = Folder::new();
    let view = || TensorView::new(Dtype::U8, vec![1], &[1]).unwrap();
    let tensors = ["", tricky, "слой.權重", &long].map(|name| (name.to_owned(), view()));
    let model =
        Model::open(&folder.raw("m.safetensors", &safetensors::serialize(tensors, None).unwrap())).unwrap();
    let mut found = names(&model);
    found.sort_by_key(|name| name.len());
    assert_eq!(found, ["", tricky, "слой.權重", &long]);
}

#[test]
fn a_file_is_safetensors_whatever_its_name() {
    let folder = Folder::new();
    let path = folder.shard("5f3c0d", &["w"]);
    let model = Model::open(&path).unwrap();
    assert_eq!(model.source(), &Source::File(path));
    assert_eq!(names(&model), ["w"]);
}

#[test]
fn a_sparse_file_of_20_gib_opens_without_being_read() {
    const DATA: u64 = 20 << 30;
    let folder = Folder::new();
    let header = format!(
        "{{{},{}}}",
        entry("half", "U8", "[10737418240]", 0, DATA / 2),
        entry("rest", "BF16", "[5368709120]", DATA / 2, DATA),
    );
    let path = folder.join("m.safetensors");
    let mut file = File::create(&path).unwrap();
    file.write_all(&model_bytes(&header, &[])).unwrap();
    file.set_len(8 + header.len() as u64 + DATA).unwrap();

    let model = Model::open(&path).unwrap();
    assert_eq!(model.total_bytes(), DATA);
    let rest = model.tensors()[1].data().unwrap();
    let mut last = [1u8; 4];
    rest.offset(rest.len() - 4).unwrap().copy_to(&mut last[..]);
    assert_eq!(last, [0; 4]);
    // Nothing but the header and what was just looked at may be in this process's memory.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kib < 1 << 20, "{peak_kib} KiB");
}

#[test]
fn a_folder_is_its_only_file() {
    let folder = Folder::new();
    folder.raw("config.json", b"{}");
    folder.raw(".partial.safetensors", b"");
    let path = folder.shard("weights.safetensors", &["w"]);
    let model = Model::open(folder.path()).unwrap();
    assert_eq!(model.source(), &Source::File(path));
}

#[test]
fn a_folder_of_shards_is_its_index() {
    let folder = Folder::new();
    folder.shard("m-00002-of-00002.safetensors", &["c"]);
    folder.shard("m-00001-of-00002.safetensors", &["b", "a"]);
    // Lies beside the shards in many repositories, and is not part of the sharded model.
    folder.shard("consolidated.safetensors", &["c", "b", "a"]);
    folder.raw("pytorch_model.bin.index.json", b"{}");
    let index = folder.index(
        &[
            ("a", "m-00001-of-00002.safetensors"),
            ("b", "./m-00001-of-00002.safetensors"),
            ("c", "m-00002-of-00002.safetensors"),
        ],
        12,
    );
    for path in [folder.path(), &index] {
        let model = Model::open(path).unwrap();
        assert_eq!(names(&model), ["b", "a", "c"]);
        assert_eq!(model.tensors().iter().map(bytes_of).collect::<Vec<_>>(), [[0; 4], [1; 4], [0; 4]]);
        assert_eq!(model.source(), &Source::Sharded { index: index.clone(), shards: 2 });
        assert!(model.notes().is_empty(), "{:?}", model.notes());
    }
}

#[test]
fn a_wrong_total_size_and_an_unlisted_tensor_are_only_noted() {
    let folder = Folder::new();
    folder.shard("s.safetensors", &["a", "extra"]);
    let model = Model::open(&folder.index(&[("a", "s.safetensors")], 99)).unwrap();
    assert_eq!(names(&model), ["a"]);
    let [unlisted, size] = model.notes() else { panic!("{:?}", model.notes()) };
    assert_eq!(unlisted, "1 tensor in the shards but not in the index, left out: `extra`");
    assert_eq!(size, "the index gives a total_size of 99 bytes, its tensors have 4");
}

#[test]
fn shards_in_a_folder_below_and_behind_links_are_found() {
    let (folder, store) = (Folder::new(), Folder::new());
    fs::create_dir(folder.join("sub")).unwrap();
    folder.shard("sub/s1.safetensors", &["a"]);
    std::os::unix::fs::symlink(store.shard("blob", &["b"]), folder.join("s2.safetensors")).unwrap();
    let model =
        Model::open(&folder.index(&[("a", "sub/s1.safetensors"), ("b", "s2.safetensors")], 8)).unwrap();
    assert_eq!(names(&model), ["b", "a"]);
}

#[test]
fn a_file_that_shrinks_is_noticed_before_it_is_read() {
    let folder = Folder::new();
    let path = folder.shard("m.safetensors", &["a", "b"]);
    let size = fs::metadata(&path).unwrap().len();
    let model = Model::open(&path).unwrap();
    model.tensors()[1].check_still_there().unwrap();

    OpenOptions::new().write(true).open(&path).unwrap().set_len(size - 1).unwrap();
    let error = model.tensors()[1].check_still_there().unwrap_err();
    assert!(matches!(error, ModelError::Changed { opened, now, .. } if opened == size && now == size - 1));
    assert!(error.to_string().contains("changed while it was being loaded"), "{error}");
}

#[test]
fn a_file_that_is_written_to_is_noticed() {
    let folder = Folder::new();
    let path = folder.shard("m.safetensors", &["a"]);
    let model = Model::open(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(10)).unwrap();
    let error = model.tensors()[0].check_still_there().unwrap_err();
    assert!(error.to_string().contains("modified in between"), "{error}");
}

#[test]
fn a_file_that_is_replaced_or_removed_stays_readable() {
    let folder = Folder::new();
    let path = folder.shard("m.safetensors", &["a", "b"]);
    let model = Model::open(&path).unwrap();
    fs::rename(folder.raw("new", b"other"), &path).unwrap();
    fs::remove_file(&path).unwrap();
    model.tensors()[1].check_still_there().unwrap();
    assert_eq!(bytes_of(&model.tensors()[1]), [1; 4]);
}

#[test]
fn the_built_in_model_is_named_and_shaped_as_a_transformer() {
    let model = Model::synthetic(42).unwrap();
    let tensor = |name: &str| model.tensors().iter().find(|tensor| tensor.name() == name).unwrap();
    let query = tensor("model.layers.0.self_attn.q_proj.weight");
    assert_eq!((query.dtype().as_str(), query.shape()), ("BF16", &[512, 512][..]));
    assert_eq!(query.bytes(), 512 * 512 * 2);
    assert_eq!(tensor("model.layers.9.mlp.down_proj.weight").shape(), [512, 1408]);
    assert_eq!(tensor("model.norm.weight").shape(), [512]);
    assert_eq!(model.tensors()[0].name(), "model.embed_tokens.weight");
    assert_eq!(model.source().to_string(), "built-in transformer, seed 42");
    let unique: std::collections::HashSet<_> = names(&model).into_iter().collect();
    assert_eq!(unique.len(), model.tensors().len());
    for tensor in model.tensors() {
        tensor.check_still_there().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_safetensors_writes_is_what_is_read(
        tensors in prop::collection::btree_map(
            "\\PC{0,12}",
            (prop::sample::select(&DTYPES[..]), prop::collection::vec(0usize..4, 0..4), any::<u8>()),
            0..8,
        ).prop_map(|mut tensors| { tensors.remove("__metadata__"); tensors }),
    ) {
        // A last dimension of 4 makes whole bytes of every dtype.
        let shaped = |shape: &Vec<usize>| [shape.as_slice(), &[4]].concat();
        let data = tensors.iter().map(|(name, (dtype, shape, fill))| {
            let bits = shaped(shape).iter().product::<usize>() * dtype.bitsize();
            (name.clone(), vec![*fill; bits / 8])
        }).collect::<std::collections::BTreeMap<_, _>>();
        let views = tensors.iter().map(|(name, (dtype, shape, _))| {
            (name.clone(), TensorView::new(*dtype, shaped(shape), &data[name]).unwrap())
        });
        let folder = Folder::new();
        let path = folder.raw("m.safetensors", &safetensors::serialize(views, None).unwrap());

        let model = Model::open(&path).unwrap();
        prop_assert_eq!(model.tensors().len(), tensors.len());
        for tensor in model.tensors() {
            let (dtype, shape, _) = &tensors[tensor.name()];
            prop_assert_eq!(tensor.dtype(), dtype.to_string());
            let shape: Vec<u64> = shaped(shape).into_iter().map(|dim| dim as u64).collect();
            prop_assert_eq!(tensor.shape(), shape);
            prop_assert_eq!(&bytes_of(tensor), &data[tensor.name()]);
        }
    }
}
