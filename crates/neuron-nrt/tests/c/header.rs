//! `include/neuron_mem/nrt.h` against the library: sizes, offsets, numbers, names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

use neuron_abi::status::NrtStatus;
use nrt::layout::{
    AllocationInfo, BatchOperation, InstanceInfo, MemoryStats, TensorBatch, TensorInfo, TensorInfoArray,
    Version,
};

use crate::compiler::{Compiler, is_there, root, run};

fn header() -> String {
    std::fs::read_to_string(root().join("include/neuron_mem/nrt.h")).unwrap()
}

/// The header without its comments.
fn code() -> String {
    let header = header();
    let mut parts = header.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |code, part| code + part.split_once("*/").unwrap().1)
}

/// What the header declares as functions.
fn declared() -> BTreeSet<String> {
    let code = code();
    let word = |text: &str| -> String {
        let rest = text.trim_end().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
        rest.unwrap_or_default().to_owned()
    };
    code.split('(').map(word).filter(|name| name.starts_with("nrt_")).collect()
}

/// A C expression and its value here.
type Facts = Vec<(String, i128)>;

macro_rules! structure {
    ($facts:ident, $c:literal, $rust:ty { $($field:ident),+ }) => {
        $facts.push((concat!("sizeof(", $c, ")").to_owned(), size_of::<$rust>() as i128));
        $facts.push((concat!("_Alignof(", $c, ")").to_owned(), align_of::<$rust>() as i128));
        $($facts.push((
            concat!("offsetof(", $c, ", ", stringify!($field), ")").to_owned(),
            offset_of!($rust, $field) as i128,
        ));)+
    };
}

fn structures() -> Facts {
    let mut facts = Facts::new();
    structure!(facts, "nrt_tensor_batch_op_t", BatchOperation { offset, size, buffer });
    structure!(facts, "nrt_tensor_batch_t", TensorBatch { tensor, ops, num_ops });
    structure!(
        facts,
        "nrt_tensor_device_allocation_info_t",
        AllocationInfo { physical_address, size, hbm_index }
    );
    structure!(facts, "nrt_vnc_memory_stats_t", MemoryStats { bytes_used, bytes_limit });
    structure!(facts, "nrt_instance_info_t", InstanceInfo { family, size, arch_name, device_revision });
    structure!(
        facts,
        "nrt_version_t",
        Version { rt_major, rt_minor, rt_patch, rt_maintenance, rt_detail, git_hash }
    );
    structure!(facts, "nrt_tensor_info_t", TensorInfo { name, usage, size, dtype, shape, ndim });
    structure!(facts, "nrt_tensor_info_array_t", TensorInfoArray { tensor_count, tensor_array });
    facts
}

/// Sizes and offsets as `spec/nrt-abi.md` 3 has them, so that the two do not drift together.
const SPEC: [(&str, i128); 27] = [
    ("sizeof(nrt_tensor_batch_op_t)", 24),
    ("offsetof(nrt_tensor_batch_op_t, buffer)", 16),
    ("sizeof(nrt_tensor_batch_t)", 24),
    ("offsetof(nrt_tensor_batch_t, num_ops)", 16),
    ("sizeof(nrt_tensor_device_allocation_info_t)", 24),
    ("offsetof(nrt_tensor_device_allocation_info_t, hbm_index)", 16),
    ("sizeof(nrt_vnc_memory_stats_t)", 16),
    ("offsetof(nrt_vnc_memory_stats_t, bytes_limit)", 8),
    ("sizeof(nrt_instance_info_t)", 32),
    ("_Alignof(nrt_instance_info_t)", 4),
    ("offsetof(nrt_instance_info_t, arch_name)", 8),
    ("offsetof(nrt_instance_info_t, device_revision)", 24),
    ("sizeof(nrt_version_t)", 224),
    ("offsetof(nrt_version_t, rt_maintenance)", 24),
    ("offsetof(nrt_version_t, rt_detail)", 32),
    ("offsetof(nrt_version_t, git_hash)", 160),
    ("sizeof(nrt_tensor_info_t)", 296),
    ("offsetof(nrt_tensor_info_t, usage)", 256),
    ("offsetof(nrt_tensor_info_t, size)", 264),
    ("offsetof(nrt_tensor_info_t, dtype)", 272),
    ("offsetof(nrt_tensor_info_t, shape)", 280),
    ("offsetof(nrt_tensor_info_t, ndim)", 288),
    ("offsetof(nrt_tensor_info_array_t, tensor_array)", 8),
    ("sizeof(NRT_STATUS)", 4),
    ("sizeof(nrt_tensor_placement_t)", 4),
    ("sizeof(nrt_framework_type_t)", 4),
    ("sizeof(nrt_dtype_t)", 4),
];

/// Every enumerator, as `spec/nrt-abi.md` 2 numbers it: ascending from 0 after the prefix, but for
/// statuses.
fn enumerators() -> Facts {
    let families = [
        "UNKNOWN",
        "INF1",
        "TRN1",
        "TRN1N",
        "INF2",
        "TRN2",
        "TRN2N",
        "INF2E",
        "TRN2P",
        "TRN2U",
        "TRN2E",
        "TRN2EU",
        "TRN2AC",
        "TRN2UAC",
        "TRN3",
        "TRN3PDS98",
        "TRN3E",
        "TRN3N",
        "TRN3EN",
    ];
    let sizes = ["1XL", "2XL", "4XL", "6XL", "8XL", "24XL", "32XL", "48XL", "3XL", "UNKNOWN"];
    let types = [
        "UNKNOWN", "UINT64", "INT8", "UINT8", "INT16", "UINT16", "BFLOAT16", "FLOAT16", "INT32", "UINT32",
        "FLOAT32", "FP32R", "INT64", "FP8_E3", "FP8_E4", "FP8_E5",
    ];
    let frameworks = ["INVALID", "NO_FW", "TENSORFLOW", "PYTORCH", "MXNET", "PRECHECK"];
    let groups: [(&str, &[&str]); 6] = [
        ("NRT_TENSOR_PLACEMENT_", &["DEVICE", "HOST", "VIRTUAL"]),
        ("NRT_FRAMEWORK_TYPE_", &frameworks),
        ("NRT_DTYPE_", &types),
        ("NRT_TENSOR_USAGE_", &["INPUT", "OUTPUT"]),
        ("NRT_INSTANCE_", &families),
        ("NRT_INSTANCE_SIZE_", &sizes),
    ];
    let numbered = groups.into_iter().flat_map(|(prefix, names)| {
        names.iter().enumerate().map(move |(value, name)| (format!("{prefix}{name}"), value as i128))
    });
    let statuses = NrtStatus::ALL.iter().map(|status| (status.name().to_owned(), status.raw().into()));
    let others = [("NRT_DTYPE_INVALID", 0), ("NRT_INSTANCE_SIZE_NUM", 9)];
    let others = others.map(|(name, value)| (name.to_owned(), value));
    numbered.chain(statuses).chain(others).collect()
}

#[test]
fn sizes_offsets_and_numbers_are_the_librarys() {
    let Some(compiler) = Compiler::find() else { return };
    let spec = SPEC.map(|(name, value)| (name.to_owned(), value));
    let facts: Facts = structures().into_iter().chain(enumerators()).chain(spec).collect();
    let mut program = String::from("#include <nrt/nrt.h>\n#include <stdio.h>\nint main(void) {\n");
    for (expression, _) in &facts {
        writeln!(program, "    printf(\"%lld\\n\", (long long)({expression}));").unwrap();
    }
    program += "    return 0;\n}\n";
    let program = compiler.link(&compiler.source("facts.c", &program));
    let told = run(&mut Compiler::clean(&program));
    let told: Vec<i128> = told.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(told.len(), facts.len());
    for ((expression, here), there) in facts.iter().zip(told) {
        assert_eq!(*here, there, "{expression}");
    }
}

#[test]
fn no_enumerator_of_the_header_is_unknown_here() {
    let known: BTreeMap<String, i128> = enumerators().into_iter().collect();
    let code = code();
    let lines = code.lines().map(str::trim).filter(|line| line.starts_with("NRT_"));
    let mut count = 0;
    for (name, value) in lines.filter_map(|line| line.trim_end_matches(',').split_once(" = ")) {
        assert_eq!(known.get(name), value.parse().ok().as_ref(), "{name}");
        count += 1;
    }
    assert_eq!(count, known.len());
}

#[test]
fn every_function_of_the_header_is_exported() {
    let Some(compiler) = Compiler::find() else { return };
    let declared = declared();
    assert!(declared.contains("nrt_init") && declared.len() > 50, "{declared:?}");
    let mut program = String::from("#include <nrt/nrt.h>\n#include <stdio.h>\ntypedef void (*any)(void);\n");
    program += "int main(void) {\n    any all[] = {\n";
    for name in &declared {
        writeln!(program, "        (any){name},").unwrap();
    }
    program += "    };\n    printf(\"%zu\\n\", sizeof all / sizeof *all);\n    return 0;\n}\n";
    let program = compiler.link(&compiler.source("all.c", &program));
    assert_eq!(run(&mut Compiler::clean(&program)).trim(), declared.len().to_string());
}

#[test]
fn every_exported_function_is_in_the_header_and_nothing_else_is_exported() {
    let Some(compiler) = Compiler::find() else { return };
    if !is_there("nm") {
        println!("skipped: there is no nm");
        return;
    }
    let listed =
        run(Command::new("nm").args(["-D", "--defined-only"]).arg(compiler.lib().join("libnrt.so.1")));
    let exported: BTreeSet<String> =
        listed.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect();
    assert_eq!(exported, declared());
}

#[test]
fn it_compiles_in_every_dialect_and_under_every_name() {
    let Some(compiler) = Compiler::find() else { return };
    let names =
        ["nrt", "nrt_status", "nrt_experimental", "nrt_version", "nrt_async", "nrt_profile", "nrt_sys_trace"];
    let all: String = names.iter().map(|name| format!("#include <nrt/{name}.h>\n")).collect();
    let source = compiler.source("all_names.c", &(all + "int main(void) { return NRT_SUCCESS; }\n"));
    let plus = compiler.source("all_names.cc", &std::fs::read_to_string(&source).unwrap());
    let check = |program: &str, dialect: &str, source: &std::path::Path| {
        let mut command = Command::new(program);
        command.args([dialect, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
        run(command.arg(root().join("include")).arg(source));
    };
    for dialect in ["-std=c99", "-std=c11", "-std=c17", "-std=c2x"] {
        check("cc", dialect, &source);
    }
    if is_there("c++") {
        check("c++", "-std=c++17", &plus);
    } else {
        println!("left out: there is no C++ compiler");
    }
}
