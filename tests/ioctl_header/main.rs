//! `include/neuron_mem/neuron_ioctl.h` against `neuron-abi`: every command word, every struct with the place of each
//! field, every number. Read as text anywhere; read by a C compiler where there is one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod compiled;
mod facts;
mod text;

/// What `libnrt`'s tests run programs with. The rest of it is about that library.
#[allow(dead_code, reason = "the library is theirs")]
#[path = "../../crates/neuron-nrt/tests/c/compiler.rs"]
mod compiler;

use std::collections::BTreeSet;
use std::path::PathBuf;

use facts::Facts;
use text::Header;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn header() -> Header {
    Header::parse(&std::fs::read_to_string(root().join("include/neuron_mem/neuron_ioctl.h")).unwrap())
}

/// Fails with what one side has and the other has not.
fn assert_same<T: Ord + std::fmt::Debug>(header: &[T], rust: &[T]) {
    let (header, rust): (BTreeSet<_>, BTreeSet<_>) = (header.iter().collect(), rust.iter().collect());
    let only = |one: &BTreeSet<_>, other| format!("{:#?}", one.difference(other).collect::<Vec<_>>());
    assert!(header == rust, "header: {}\nRust: {}", only(&header, &rust), only(&rust, &header));
}

#[test]
fn the_header_has_every_command_and_no_other() {
    let (header, rust) = (header().commands, Facts::new().commands);
    assert!(rust.len() > 90, "{}", rust.len());
    assert_same(&header, &rust);
}

#[test]
fn every_struct_has_its_fields_where_rust_has_them() {
    let (header, rust) = (header().structs, Facts::new().structs);
    assert!(rust.len() > 70, "{}", rust.len());
    assert_same(&header, &rust);
}

#[test]
fn every_number_is_rusts() {
    assert_same(&header().constants, &Facts::new().constants);
}

#[test]
fn text_that_is_no_header_is_not_taken_for_one() {
    let shifted =
        Header::parse("struct neuron_x {\n    uint32_t a;\n    uint64_t b;\n    uint8_t c[3][2];\n};\n");
    let fields = [("a", 0, 4), ("b", 8, 8), ("c", 16, 6)].map(|(name, at, size)| (name.to_owned(), at, size));
    assert_eq!(shifted.structs, [("neuron_x".to_owned(), 24, fields.to_vec())]);
    let word = Header::parse("#define NEURON_IOC_X NEURON_IOC_VALUE_(3, 7, uint16_t) /* a */\n");
    assert_eq!(word.commands, [("X".to_owned(), 0xc002_4e07)]);
}
