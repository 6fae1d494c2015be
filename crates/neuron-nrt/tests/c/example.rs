//! `examples/c`, as the documentation says to build it.

use std::process::Command;

use crate::compiler::{Compiler, is_there, root, run};

/// What the example prints on the default instance.
const PRINTED: &str = "2 cores\n\
    read back: bytes of a tensor, moved by descriptors and doorbells\n\
    at its address: BYTES of a tensor, moved by descriptors and doorbells\n\
    in use on core 0: 1048576 of 17163091968 bytes\n\
    beyond the end: NRT_INVALID\n\
    in use after freeing: 0\n";

#[test]
fn the_example_does_what_it_says() {
    let Some(compiler) = Compiler::find() else { return };
    let program = compiler.link(&root().join("examples/c/tensors.c"));
    assert_eq!(run(&mut Compiler::clean(&program)), PRINTED);
    let on_trn2 = run(Compiler::clean(&program).env("NEURON_MEM_INSTANCE", "trn2.48xlarge"));
    assert!(on_trn2.starts_with("64 cores\n"), "{on_trn2}");
}

#[test]
fn pkg_config_says_how_to_build_it() {
    let Some(compiler) = Compiler::find() else { return };
    if !is_there("pkg-config") {
        println!("skipped: there is no pkg-config");
        return;
    }
    let template = std::fs::read_to_string(root().join("examples/c/neuron-mem-nrt.pc.in")).unwrap();
    let prefix = compiler.folder().to_str().unwrap();
    let described = template.replace("@PREFIX@", prefix).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    compiler.source("neuron-mem-nrt.pc", &described);
    std::os::unix::fs::symlink(root().join("include"), compiler.folder().join("include")).unwrap();
    let asked = |options: &[&str]| {
        let mut command = Command::new("pkg-config");
        run(command.args(options).arg("neuron-mem-nrt").env("PKG_CONFIG_PATH", compiler.folder()))
    };
    assert_eq!(asked(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    let program = compiler.folder().join("tensors");
    let flags = asked(&["--cflags", "--libs"]);
    let source = root().join("examples/c/tensors.c");
    run(Command::new("cc").arg(source).args(flags.split_whitespace()).arg("-o").arg(&program));
    assert_eq!(run(Compiler::clean(&program).env("LD_LIBRARY_PATH", compiler.lib())), PRINTED);
}

#[test]
fn cmake_builds_it() {
    let Some(compiler) = Compiler::find() else { return };
    if !is_there("cmake") {
        println!("skipped: there is no cmake");
        return;
    }
    let config = compiler.lib().join("cmake/neuron-mem-nrt");
    std::fs::create_dir_all(&config).unwrap();
    let example = root().join("examples/c");
    std::fs::copy(example.join("neuron-mem-nrt-config.cmake"), config.join("neuron-mem-nrt-config.cmake"))
        .unwrap();
    std::os::unix::fs::symlink(root().join("include"), compiler.folder().join("include")).unwrap();
    let build = compiler.folder().join("build");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", compiler.folder().display());
    run(Command::new("cmake").arg("-S").arg(&example).arg("-B").arg(&build).arg(prefix));
    run(Command::new("cmake").arg("--build").arg(&build));
    assert_eq!(run(&mut Compiler::clean(&build.join("tensors"))), PRINTED);
}
