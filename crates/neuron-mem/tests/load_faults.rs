//! `load` on a device that fails: the exit code, what the message names, and that nothing stays allocated.
//! Each transfer that never completes waits out the driver's real poll budget, longer on a busy machine, so
//! there are few of them and they are small.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use common::Folder;
use common::run::{Loaded, load, neuron_mem};
use neuron_mem::exit::Exit;

const FREED: &str = "\n  everything allocated was freed: driver counters back to ";
const KIB: u64 = 1 << 10;

#[test]
fn an_aborted_transfer_names_its_tensor_and_leaves_nothing() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 8), ("b", 8), ("в🦀\u{7f}", 8)]);
    let ran = load(&path, "--cores 0 --fault abort:nth=3 --execution inline").failed(
        Exit::Device,
        &[
            "error: tensor `в🦀\\u{7f}` cannot be copied\n",
            "caused by: Copy from buffer to memory failed after 0 of 8 bytes (в🦀\\u{7f})\n",
            "ETIMEDOUT (110)",
            FREED,
        ],
    );
    assert_eq!(ran.stdout, "backend software, instance trn1.2xlarge\n");
    assert!(!ran.stderr.chars().any(|c| c.is_control() && c != '\n'), "{:?}", ran.stderr);
}

#[test]
fn a_transfer_aborted_while_reading_back_says_so() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 8), ("b", 8), ("c", 8)]);
    let words =
        ["tensor `b` cannot be copied\n", "Copy from memory  to buffer failed", "ETIMEDOUT (110)", FREED];
    let ran = load(&path, "--cores 0 --fault abort:nth=5 --json").failed(Exit::Device, &words);
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_hung_engine_times_out() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 8), ("b", 8), ("c", 8)]);
    let words =
        ["tensor `b` cannot be copied\n", "Copy from buffer to memory failed", "ETIMEDOUT (110)", FREED];
    load(&path, "--cores 0 --fault hang:nth=2").failed(Exit::Device, &words);
}

#[test]
fn a_dropped_kick_is_made_up_for_by_the_next_or_times_out() {
    let folder = Folder::new();
    // Two chunks, so two kicks, before the copy waits.
    let path = folder.tensors("m.safetensors", &[("a", 64 * KIB)]);
    let loaded = load(&path, "--fault drop-kick:nth=1 --json").done();
    assert!(Loaded::of(&loaded, &[64 * KIB]).verified);
    let words = ["tensor `a` cannot be copied\n", "ETIMEDOUT (110)", FREED];
    load(&path, "--fault drop-kick:nth=2").failed(Exit::Device, &words);
}

#[test]
fn a_failed_bring_up_names_the_device_and_the_step() {
    // The second is the status word in the mailbox of V2 (spec/arch.md 5.3).
    for (options, device, step) in [
        ("--fault read:nth=1", 0, "reading the routing id"),
        ("--fault read:offset=0x30fa0808", 0, "resetting the device"),
        ("--fault read:engine=33", 0, "bringing up the cores"),
        ("--instance trn2.48xlarge --device 15 --fault read:engine=131", 15, "bringing up the cores"),
    ] {
        let words = format!("error: neuron{device} cannot be brought up\n  caused by: {step}: EIO (5)");
        let ran = neuron_mem(&format!("load {options}")).failed(Exit::Device, &[&words]);
        assert_eq!(ran.stdout, "");
        // The failed step is the whole chain of causes, told once.
        assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    }
}

#[test]
fn a_device_that_is_only_late_is_waited_for() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 8)]);
    assert!(
        Loaded::of(&load(&path, "--fault late-id:reads=2;busy-reset:reads=3 --json").done(), &[8]).verified
    );
}

#[test]
fn a_flipped_bit_is_found_in_its_tensor_and_no_other() {
    let folder = Folder::new();
    let names = ["a", "b", "c", "d"];
    let path = folder.tensors("m.safetensors", &names.map(|name| (name, 8)));
    // Writes to the device come first, then the writes of what is read back.
    for (write, name) in (1..).zip([names, names].concat()) {
        let options = format!("--cores 0 --execution inline --fault flip:nth={write}");
        let words = [format!("error: read back different from what was loaded: `{name}`\n")];
        let ran = load(&path, &options).failed(Exit::Mismatch, &[&words[0]]);
        assert_eq!(ran.stderr, words[0]);
        assert!(ran.stdout.starts_with("backend software, instance trn1.2xlarge\nmodel "), "{}", ran.stdout);
        let lines = format!(
            "\nverified   1 tensor read back different: `{name}`\nfreed      driver counters back to "
        );
        assert!(ran.stdout.contains(&lines), "{}", ran.stdout);
    }
}

#[test]
fn every_tensor_that_differs_is_named_and_json_is_still_printed() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 8), ("b", 8), ("c", 8)]);
    let ran = load(&path, "--cores 0 --json --fault flip:nth=1;flip:nth=3")
        .failed(Exit::Mismatch, &["read back different from what was loaded: `a`, `c`\n"]);
    let loaded = Loaded::of(&ran.stdout, &[8, 8, 8]);
    assert!(!loaded.verified);
}

#[test]
fn a_flipped_bit_goes_unnoticed_without_verification() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 8)]);
    assert!(!Loaded::of(&load(&path, "--no-verify --json --fault flip").done(), &[8]).verified);
}

#[test]
fn zero_copy_where_it_is_not_offered_says_what_works() {
    let folder = Folder::new();
    let path = folder.tensors("m.safetensors", &[("a", 8)]);
    let words = [
        "tensor `a` cannot be copied\n",
        "copying without a bounce: EINVAL (22)",
        "zerocopy_trn1_override is set; --transfer staged works\n",
        FREED,
    ];
    load(&path, "--transfer zerocopy").failed(Exit::Device, &words);
}
