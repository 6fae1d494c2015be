//! The header as a C compiler reads it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::compiler::{is_there, run};
use crate::facts::Facts;
use crate::root;

/// False, with the reason printed, where there is no C compiler. In CI there has to be one.
fn compiler() -> bool {
    let found = is_there("cc");
    assert!(
        found || std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "CI needs a C compiler: install cc"
    );
    if !found {
        println!("skipped: there is no C compiler (cc); the header is read as text only");
    }
    found
}

fn cc(program: &str, dialect: &str) -> Command {
    let mut command = Command::new(program);
    command.args([dialect, "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(root().join("include"));
    command
}

#[test]
fn a_compiler_finds_every_word_field_and_number_where_rust_has_it() {
    if !compiler() {
        return;
    }
    let facts = Facts::new();
    let mut expected: Vec<(String, i128)> = facts.constants;
    expected.extend(facts.commands.iter().map(|(name, word)| (format!("NEURON_IOC_{name}"), (*word).into())));
    for (name, size, fields) in facts.structs {
        expected.push((format!("sizeof(struct {name})"), size as i128));
        for (field, offset, bytes) in fields {
            expected.push((format!("offsetof(struct {name}, {field})"), offset as i128));
            expected.push((format!("sizeof(((struct {name} *)0)->{field})"), bytes as i128));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut source = String::from(
        "#include <neuron_mem/neuron_ioctl.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n",
    );
    for (expression, _) in &expected {
        writeln!(source, "    printf(\"%lld\\n\", (long long)({expression}));").unwrap();
    }
    source += "    return 0;\n}\n";
    let (path, program) = (folder.path().join("facts.c"), folder.path().join("facts"));
    std::fs::write(&path, source).unwrap();
    run(cc("cc", "-std=c11").arg(&path).arg("-o").arg(&program));
    let told = run(&mut Command::new(&program));
    let told: Vec<i128> = told.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(told.len(), expected.len());
    let wrong: Vec<_> = expected.iter().zip(&told).filter(|((_, value), told)| value != *told).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn check(program: &str, dialect: &str, source: &Path) {
    run(cc(program, dialect).arg("-fsyntax-only").arg(source));
}

#[test]
fn it_compiles_in_every_dialect_by_itself() {
    if !compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text =
        "#include <neuron_mem/neuron_ioctl.h>\nint main(void) { return (int)NEURON_IOC_DEVICE_RELEASE; }\n";
    let (c, cpp) = (folder.path().join("header.c"), folder.path().join("header.cc"));
    std::fs::write(&c, text).unwrap();
    std::fs::write(&cpp, text).unwrap();
    for dialect in ["-std=c99", "-std=c11", "-std=c17"] {
        check("cc", dialect, &c);
    }
    if is_there("c++") {
        check("c++", "-std=c++17", &cpp);
    } else {
        println!("left out: there is no C++ compiler");
    }
}

#[test]
fn the_example_compiles_without_a_warning() {
    if !compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let example = root().join("examples/c/ioctl.c");
    run(cc("cc", "-std=c11").arg(&example).arg("-o").arg(folder.path().join("ioctl")));
}
