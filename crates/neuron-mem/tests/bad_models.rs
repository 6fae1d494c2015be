//! Every kind of bad input, given to the real command: each ends with exit code 3 and its own message.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use common::{Folder, entry, model_bytes};
use neuron_mem::exit::Exit;
use neuron_mem::failure::Failure;
use neuron_mem::model::Model;
use proptest::prelude::*;

/// Runs `neuron-mem load PATH` and checks that it refuses with exit code 3, a message with all of `words`, and
/// nothing on standard output.
fn refused(path: &Path, words: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_neuron-mem")).arg("load").arg(path).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.starts_with("error: "), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in {message:?}");
    }
    assert!(output.stdout.is_empty(), "{:?}", output.stdout);
    assert!(message.len() < 2000, "{} bytes of message", message.len());
}

/// A file of this header and this data is refused with these words, naming the file.
fn header_refused(header: &str, data: &[u8], words: &[&str]) {
    let folder = Folder::new();
    let path = folder.model("m.safetensors", header, data);
    refused(&path, &[&["m.safetensors`: not a usable safetensors file"], words].concat());
}

#[test]
fn a_path_where_nothing_is() {
    let folder = Folder::new();
    refused(&folder.join("nothing.safetensors"), &["nothing.safetensors`: no such file or folder"]);
}

#[test]
fn a_path_through_a_file() {
    let folder = Folder::new();
    let file = folder.raw("file", b"x");
    refused(&file.join("below.safetensors"), &["cannot look at it", "caused by: Not a directory"]);
}

#[test]
fn something_that_is_no_file() {
    refused(Path::new("/dev/null"), &["`/dev/null`: not a regular file"]);
}

#[test]
fn an_empty_file() {
    let folder = Folder::new();
    refused(&folder.raw("m.safetensors", b""), &["caused by: the file is empty"]);
}

#[test]
fn a_file_too_short_for_the_header_length() {
    let folder = Folder::new();
    refused(&folder.raw("m.safetensors", &[1; 7]), &["has 7 bytes, too few for the 8-byte header length"]);
}

#[test]
fn a_header_that_is_cut_off() {
    let folder = Folder::new();
    let mut bytes = model_bytes(&format!("{{{}}}", entry("w", "U8", "[4]", 0, 4)), &[]);
    bytes.truncate(30);
    refused(&folder.raw("m.safetensors", &bytes), &["run past the end of the file (30 bytes)", "truncated"]);
}

#[test]
fn a_header_length_of_every_absurd_size() {
    let folder = Folder::new();
    let over = ["over the format's limit of 100,000,000"];
    for (length, words) in [
        (u64::MAX, &["18,446,744,073,709,551,615", over[0]][..]),
        (u64::MAX - 7, &over),
        (1 << 63, &over),
        (100_000_001, &over),
        (100_000_000, &["the header's 100,000,000 bytes run past the end of the file (10 bytes)"]),
        (3, &["the header's 3 bytes run past the end of the file (10 bytes)"]),
        (0, &["the header is not valid: EOF while parsing"]),
    ] {
        let bytes = [&length.to_le_bytes()[..], b"{}"].concat();
        refused(&folder.raw("m.safetensors", &bytes), words);
    }
}

#[test]
fn a_header_that_is_no_json() {
    header_refused("not json", b"", &["the header is not valid: expected"]);
    header_refused("[]", b"", &["invalid type: sequence, expected an object of tensors by name"]);
    header_refused("{} {}", b"", &["trailing characters"]);
    header_refused(r#"{"w":7}"#, b"", &["tensor `w`: invalid type: integer `7`"]);
}

#[test]
fn a_header_that_is_no_text() {
    let folder = Folder::new();
    let bytes = [&4u64.to_le_bytes()[..], b"{\"\xff}"].concat();
    refused(&folder.raw("m.safetensors", &bytes), &["not UTF-8 (first bad byte at offset 10 of the file)"]);
}

#[test]
fn a_header_nested_deeper_than_any_stack() {
    let open = "[".repeat(1_000_000);
    header_refused(&open, b"", &["the header is not valid"]);
    header_refused(&format!(r#"{{"w":{open}"#), b"", &["the header is not valid"]);
    let member = format!(r#"{{"w":{{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":{open}"#, open = open);
    header_refused(&member, b"", &["the header is not valid"]);
}

#[test]
fn a_header_that_promises_more_data_than_there_is() {
    let header = format!("{{{}}}", entry("w", "F32", "[1024]", 0, 4096));
    header_refused(
        &header,
        &[0; 4095],
        &["tensor `w`: data_offsets 0..4096 are out of range", "holds 4095 bytes"],
    );
}

#[test]
fn data_that_no_tensor_has() {
    header_refused(
        &format!("{{{}}}", entry("w", "U8", "[4]", 0, 4)),
        &[0; 5],
        &["the tensors end at 4 but the file holds 5 bytes of data"],
    );
}

#[test]
fn overlapping_tensors() {
    let header = format!("{{{},{}}}", entry("a", "U8", "[8]", 0, 8), entry("b", "U8", "[8]", 4, 12));
    header_refused(
        &header,
        &[0; 12],
        &["tensor `b`: its data begins at 4, inside tensor `a`, which ends at 8"],
    );
}

#[test]
fn two_tensors_on_the_same_bytes() {
    let header = format!("{{{},{}}}", entry("a", "U8", "[8]", 0, 8), entry("b", "U8", "[8]", 0, 8));
    header_refused(&header, &[0; 8], &["they overlap"]);
}

#[test]
fn a_gap_between_tensors() {
    let header = format!("{{{},{}}}", entry("a", "U8", "[4]", 0, 4), entry("b", "U8", "[4]", 5, 9));
    header_refused(&header, &[0; 9], &["tensor `b`: its data begins at 5, but the data before it ends at 4"]);
}

#[test]
fn reversed_offsets() {
    let header = format!("{{{}}}", entry("w", "U8", "[4]", 4, 0));
    header_refused(&header, &[0; 4], &["tensor `w`: data_offsets 4..0 are reversed"]);
}

#[test]
fn offsets_past_every_file() {
    let max = u64::MAX;
    let header = format!("{{{}}}", entry("w", "U8", "[4]", max - 4, max));
    header_refused(&header, &[0; 4], &["tensor `w`", "out of range"]);
    let header = r#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551616]}}"#;
    header_refused(header, &[0; 4], &["tensor `w`: invalid type: floating point"]);
    let header = r#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[-1,3]}}"#;
    header_refused(header, &[0; 4], &["tensor `w`: invalid value: integer `-1`"]);
}

#[test]
fn a_shape_whose_size_overflows() {
    for shape in ["[4294967296,4294967296]", "[18446744073709551615,2]", "[18446744073709551615]"] {
        let header = format!("{{{}}}", entry("w", "F64", shape, 0, 8));
        header_refused(&header, &[0; 8], &["tensor `w`: the size of shape [", "in F64 overflows"]);
    }
}

#[test]
fn a_shape_that_its_offsets_do_not_span() {
    let header = format!("{{{}}}", entry("w", "BF16", "[3,5]", 0, 32));
    header_refused(&header, &[0; 32], &["shape [3, 5] in BF16 needs 30 bytes, data_offsets 0..32 span 32"]);
}

#[test]
fn sub_byte_elements_that_fill_no_whole_byte() {
    let header = format!("{{{}}}", entry("w", "F4", "[3]", 0, 2));
    header_refused(&header, &[0; 2], &["shape [3] in F4 is 12 bits, not whole bytes"]);
    let header = format!("{{{}}}", entry("w", "F6_E2M3", "[2]", 0, 2));
    header_refused(&header, &[0; 2], &["shape [2] in F6_E2M3 is 12 bits, not whole bytes"]);
}

#[test]
fn a_dtype_the_format_does_not_have() {
    let header = format!("{{{}}}", entry("w", "Q4_K", "[4]", 0, 4));
    header_refused(&header, &[0; 4], &["tensor `w`: unknown dtype `Q4_K`"]);
}

#[test]
fn one_name_twice() {
    let header = format!("{{{},{}}}", entry("w", "U8", "[4]", 0, 4), entry("w", "U8", "[4]", 4, 8));
    header_refused(&header, &[0; 8], &["tensor `w` is listed twice in the header"]);
}

#[test]
fn a_hostile_name_neither_floods_nor_steers_the_terminal() {
    let name = format!("\u{1b}[31m{}", "x".repeat(1 << 20));
    let header =
        format!(r#"{{"\u001b[31m{}":{{"dtype":"U8","shape":[4],"data_offsets":[4,0]}}}}"#, &name[5..]);
    header_refused(&header, &[0; 4], &["tensor `\\u{1b}[31mxxx", "... (1048581 bytes)"]);
}

#[test]
fn a_folder_with_no_model() {
    let folder = Folder::new();
    folder.raw("config.json", b"{}");
    folder.raw("pytorch_model.bin.index.json", b"{}");
    folder.raw(".hidden.safetensors", b"");
    fs::create_dir(folder.join("sub.safetensors")).unwrap();
    refused(folder.path(), &["the folder holds no model"]);
}

#[test]
fn a_folder_with_two_models() {
    let folder = Folder::new();
    folder.shard("b.safetensors", &["w"]);
    folder.shard("a.safetensors", &["w"]);
    refused(folder.path(), &["more than one candidate (`a.safetensors`, `b.safetensors`)", "name the file"]);
}

#[test]
fn a_folder_with_two_indexes() {
    let folder = Folder::new();
    folder.shard("a.safetensors", &["w"]);
    folder.index(&[("w", "a.safetensors")], 4);
    folder.raw("other.index.json", b"{}");
    refused(folder.path(), &["more than one candidate (`model.safetensors.index.json`, `other.index.json`)"]);
}

#[test]
fn a_link_to_nothing() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("gone", folder.join("m.safetensors")).unwrap();
    refused(folder.path(), &["m.safetensors`: no such file or folder"]);
}

#[test]
fn an_index_that_is_none() {
    let folder = Folder::new();
    for (json, words) in [
        ("", "it is not valid: EOF while parsing"),
        ("{}", "it has no `weight_map`, or an empty one"),
        (r#"{"weight_map":{}}"#, "it has no `weight_map`, or an empty one"),
        (r#"{"weight_map":[]}"#, "expected an object of shard file names by tensor name"),
        (r#"{"weight_map":{"w":1}}"#, "weight_map entry `w`: invalid type: integer `1`"),
        (r#"{"weight_map":{"w":"a","w":"b"}}"#, "tensor `w` is listed twice in `weight_map`"),
    ] {
        let path = folder.raw("m.index.json", json.as_bytes());
        refused(&path, &["m.index.json`: not a usable index of shards", words]);
    }
    refused(&folder.raw("config.json", br#"{"hidden_size":4096}"#), &["it has no `weight_map`"]);
}

#[test]
fn an_index_nested_deeper_than_any_stack() {
    let folder = Folder::new();
    let json = format!(r#"{{"metadata":{}"#, "[".repeat(1_000_000));
    refused(&folder.raw("m.index.json", json.as_bytes()), &["recursion limit exceeded"]);
}

#[test]
fn an_index_too_large_to_be_one() {
    let folder = Folder::new();
    let path = folder.join("m.index.json");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    refused(&path, &["it has 1,099,511,627,776 bytes, over the limit of 100,000,000"]);
}

#[test]
fn missing_shards_are_named_all_at_once() {
    let folder = Folder::new();
    folder.shard("s1.safetensors", &["a"]);
    let index = folder.index(
        &[("a", "s1.safetensors"), ("b", "s2.safetensors"), ("c", "s2.safetensors"), ("d", "s3.safetensors")],
        16,
    );
    refused(
        &index,
        &["2 of 3 shards missing (`s2.safetensors`, `s3.safetensors`); put them next to the index"],
    );
}

#[test]
fn a_shard_that_is_malformed_is_named() {
    let folder = Folder::new();
    folder.raw("s1.safetensors", b"");
    let index = folder.index(&[("a", "s1.safetensors")], 4);
    refused(&index, &["s1.safetensors`: not a usable safetensors file", "the file is empty"]);
}

#[test]
fn a_shard_without_its_tensor() {
    let folder = Folder::new();
    folder.shard("s1.safetensors", &["a"]);
    let index = folder.index(&[("a", "s1.safetensors"), ("b", "s1.safetensors")], 8);
    refused(&index, &["tensor `b` is mapped to `s1.safetensors`, which does not hold it"]);
}

#[test]
fn a_tensor_in_two_shards() {
    let folder = Folder::new();
    folder.shard("s1.safetensors", &["a", "b"]);
    folder.shard("s2.safetensors", &["c", "a"]);
    let index =
        folder.index(&[("a", "s1.safetensors"), ("b", "s1.safetensors"), ("c", "s2.safetensors")], 12);
    refused(
        &index,
        &["tensor `a` is mapped to `s1.safetensors` but `s2.safetensors` holds one of that name too"],
    );
}

#[test]
fn a_shard_outside_the_folder() {
    let folder = Folder::new();
    folder.shard("s1.safetensors", &["a"]);
    for escape in ["/etc/passwd", "../s1.safetensors", "x/../../s1.safetensors", ""] {
        let index = folder.index(&[("a", escape)], 4);
        refused(&index, &["tensor `a` is mapped to", "not a path inside the index's folder"]);
    }
}

#[test]
fn a_shard_whose_name_is_no_file_name() {
    let folder = Folder::new();
    let index = folder.raw("m.index.json", br#"{"weight_map":{"a":"x\u0000y"}}"#);
    refused(&index, &["x\\0y`: cannot look at it"]);
    let index = folder.index(&[("a", "sub")], 4);
    fs::create_dir(folder.join("sub")).unwrap();
    refused(&index, &["sub`: not a regular file"]);
}

/// Opens a path and, if it is refused, checks that the refusal is one of ours.
fn open_or_refuse(path: &Path) {
    match Model::open(path) {
        Ok(model) => {
            for tensor in model.tensors() {
                assert_eq!(tensor.data().map_or(0, |data| data.len() as u64), tensor.bytes());
            }
        }
        Err(error) => {
            let failure = Failure::from(error);
            assert_eq!(failure.exit(), Exit::Input);
            assert!(failure.to_string().len() < 2000);
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), index: bool) {
        let folder = Folder::new();
        open_or_refuse(&folder.raw(if index { "m.index.json" } else { "m.safetensors" }, &bytes));
    }

    #[test]
    fn random_headers_are_never_a_panic(header in "[\\[\\]{}:,\"a-fA-F0-9U]{0,80}", data in 0usize..20) {
        let folder = Folder::new();
        open_or_refuse(&folder.model("m.safetensors", &header, &vec![0; data]));
    }

    #[test]
    fn a_valid_file_with_one_byte_changed_or_cut_is_never_a_panic(
        at in any::<prop::sample::Index>(),
        byte: u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let header = format!(
            r#"{{"__metadata__":{{"format":"pt"}},{},{}}}"#,
            entry("a", "BF16", "[2,3]", 0, 12),
            entry("b", "F4", "[0]", 12, 12),
        );
        let mut bytes = model_bytes(&header, &[7; 12]);
        let folder = Folder::new();
        let length = cut.index(bytes.len() + 1);
        open_or_refuse(&folder.raw("cut.safetensors", &bytes[..length]));
        *at.get_mut(&mut bytes) = byte;
        open_or_refuse(&folder.raw("changed.safetensors", &bytes));
    }
}
