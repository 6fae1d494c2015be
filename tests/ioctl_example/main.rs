//! `examples/c/ioctl.c` itself, word for word, on the driver: its system calls on the device are messages to this
//! process, by a few functions that are linked before libc's. So the sequence is known to be right where no device
//! node is. Needs a C compiler.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod peer;

/// What `libnrt`'s tests run programs with. The rest of it is about that library.
#[allow(dead_code, reason = "the library is theirs")]
#[path = "../../crates/neuron-nrt/tests/c/compiler.rs"]
mod compiler;

use std::path::{Path, PathBuf};
use std::process::Command;

use compiler::{is_there, run};
use neuron_driver::introspect::FlavourView;
use neuron_driver::pool::PoolParams;
use neuron_driver::{Held, Params};
use neuron_softdev::Product;
use neuron_tests::rig::Rig;
use peer::{Ended, Peer};
use tempfile::TempDir;

/// The program, or `None`, with the reason printed, where there is no C compiler. In CI there has to be one.
fn example() -> Option<(TempDir, PathBuf)> {
    if !is_there("cc") {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI needs a C compiler: install cc");
        println!("skipped: there is no C compiler (cc)");
        return None;
    }
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (shim, program) = (folder.path().join("shim.o"), folder.path().join("ioctl"));
    run(Command::new("cc").args(["-std=c11", "-c", "-o"]).arg(&shim).arg(here.join("ioctl_example/shim.c")));
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(root.join("include"));
    run(command.arg(root.join("examples/c/ioctl.c")).arg(&shim).arg("-o").arg(&program));
    Some((folder, program))
}

fn ended(rig: &Rig, program: &Path, arguments: &[&str]) -> Ended {
    Peer::start(program, arguments).serve(rig)
}

fn allocated(rig: &Rig) -> u64 {
    (0..rig.geometry().hbm.len() as u32).map(|hbm| rig.device().pools().hbm(hbm).unwrap().allocated).sum()
}

/// Nothing of a process is on any queue.
fn queues_are_free(rig: &Rig) -> bool {
    rig.device().introspect().iter().all(|queue| queue.held_by.is_none())
}

#[test]
fn every_step_is_right_on_every_generation_and_nothing_is_left() {
    let Some((_folder, program)) = example() else { return };
    for (product, architecture, runtimes) in
        [(Product::Trn1, 2, "5 to 7"), (Product::Trn2, 3, "10 to 11"), (Product::Trn3, 4, "10 to 11")]
    {
        let rig = Rig::new(product).unwrap();
        let before = allocated(&rig);
        let ended = ended(&rig, &program, &[]);
        assert_eq!((ended.code, ended.errors.as_str()), (0, ""), "{product:?}");
        let first =
            format!("device: architecture v{architecture}, revision 1, features 0x1ff, runtimes {runtimes}");
        assert!(ended.output.starts_with(&first), "{}", ended.output);
        for step in [
            "allocated 1048576 bytes of device memory: handle 2 at 0x1000000\n",
            "MEM_COPY: 8192 bytes",
            "MEM_COPY64: 8192 bytes",
            "MEM_COPY_ASYNC64: 65536 bytes, wait handle 1\n",
            "MEM_BUF_COPY, MEM_BUF_COPY64: 100001 bytes",
            "MEMSET, MEMSET64: 140000 bytes\n",
            "DMA_QUEUE_INIT: engine 0, queue 5, 64 slots\n",
            "copied 12288 bytes with descriptors of our own\nfreed: 4 chunks\n",
        ] {
            assert!(ended.output.contains(step), "{step}\n{}", ended.output);
        }
        // It freed its chunks; what it bound to the queue went with its process.
        assert!(ended.left.iter().all(|held| matches!(held, Held::Queue(_))), "{:?}", ended.left);
        assert_eq!((allocated(&rig), queues_are_free(&rig)), (before, true));
    }
}

#[test]
fn what_it_leaves_is_told_and_the_next_one_finds_nothing_of_it() {
    let Some((_folder, program)) = example() else { return };
    let rig = Rig::new(Product::Trn2).unwrap();
    let before = allocated(&rig);
    for _ in 0..3 {
        let ended = ended(&rig, &program, &["leave"]);
        assert_eq!((ended.code, ended.errors.as_str()), (0, ""));
        assert!(ended.output.ends_with("left: 4 chunks, queue 5 of engine 0\n"), "{}", ended.output);
        let [Held::Memory(device), host @ .., Held::Queue(queue)] = &ended.left[..] else {
            panic!("{:?}", ended.left)
        };
        assert_eq!((device.hbm, device.size, device.core), (Some(0), 1 << 20, 0));
        let sizes: Vec<_> = host
            .iter()
            .filter_map(|held| match held {
                Held::Memory(block) => Some((block.hbm, block.size)),
                _ => None,
            })
            .collect();
        assert_eq!(sizes.len(), 3);
        assert_eq!(sizes.iter().map(|(_, size)| size).sum::<u64>(), 65536 + 2 * 4096);
        assert_eq!((queue.engine, queue.queue, queue.flavour), (0, 5, FlavourView::Model));
        assert_eq!((allocated(&rig), queues_are_free(&rig)), (before, true));
    }
}

#[test]
fn a_wrong_byte_is_not_passed_over() {
    let Some((_folder, program)) = example() else { return };
    for (fault, message) in [
        ("flip:engine=0,queue=5", "the queue's copies: wrong bytes\n"),
        ("flip:engine=32", "MEM_COPY: wrong bytes\n"),
        ("flip:engine=32,nth=2", "MEM_COPY64: wrong bytes\n"),
    ] {
        let rig = Rig::with(Product::Trn1, Params::default(), fault).unwrap();
        let ended = ended(&rig, &program, &[]);
        assert_eq!((ended.code, ended.errors.as_str()), (1, message), "{fault}");
    }
}

#[test]
fn a_refusal_is_told_with_its_errno() {
    let Some((_folder, program)) = example() else { return };
    let pools = PoolParams { hbm_bytes: Some(16 << 20), ..PoolParams::default() };
    let rig = Rig::with(Product::Trn1, Params { pools, ..Params::default() }, "").unwrap();
    let full = ended(&rig, &program, &[]);
    assert_eq!(
        (full.code, full.errors.as_str()),
        (1, "MEM_ALLOC_V2MT64: Cannot allocate memory (errno 12)\n")
    );
    assert_eq!(full.left.len(), 1, "its first chunk");
    let rig = Rig::new(Product::Trn1).unwrap();
    let _others: Vec<_> = (1..=16).map(|pid| rig.client(-pid).unwrap()).collect();
    let busy = ended(&rig, &program, &[]);
    assert_eq!((busy.code, busy.errors.as_str()), (1, "/dev/neuron0: Device or resource busy (errno 16)\n"));
    assert_eq!(ended(&rig, &program, &["stay"]).code, 2);
}
