//! Every errno of opening, explained.

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;
use neuron_ndl::diagnosis::{explain_open_error, generation};
use neuron_ndl::software::Machine;

use super::answers::{Answers, Says};
use super::tree::Tree;

#[track_caller]
fn explained(tree: &Tree, index: u8, errno: Errno, words: &[&str]) {
    let text = explain_open_error(&tree.roots(), index, errno);
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    assert!(text.contains("; "), "what is the case, then what to do: {text}");
}

#[test]
fn a_device_that_is_not_there_says_which_are_or_why_there_is_none() {
    let enoent = Errno::ENOENT;
    explained(&Tree::empty(), 0, enoent, &["no Neuron device on the PCI bus", "software backend"]);
    let bus = || Tree::empty().pci("0000:00:1e.0", "0x1d0f", "0x7164", None);
    explained(&bus(), 0, enoent, &["the kernel module neuron is not loaded", "sudo modprobe neuron"]);
    explained(&bus().module("1"), 0, enoent, &["has no device", "dmesg"]);
    explained(
        &Tree::trn1(2),
        7,
        enoent,
        &["there is no neuron7; in /dev: neuron0, neuron1", "use one that is there"],
    );
    explained(
        &Tree::trn1(2).without("dev"),
        7,
        enoent,
        &["there is no neuron7; the driver has neuron0, neuron1"],
    );
    let inside = Tree::trn1(2).without("dev/neuron1").file(".dockerenv", "");
    explained(&inside, 1, enoent, &["neuron1: the driver has it", "container", "--device /dev/neuron1"]);
    explained(&inside, 2, enoent, &["there is no neuron2", "--device /dev/neuron2"]);
}

#[test]
fn every_other_errno_has_a_cause_and_advice() {
    let tree = Tree::trn1(1).holder(5, "a", &["/dev/neuron0"]);
    for (errno, words) in [
        (Errno::EBUSY, &["all 16 process slots", "5 (a)"][..]),
        (Errno::EINTR, &["being reset", "try again"]),
        (Errno::EINVAL, &["its last reset failed", "modprobe"]),
        (Errno::ENODEV, &["no driver is behind it"]),
        (Errno::ENXIO, &["no driver is behind it"]),
        (Errno::EMFILE, &["ulimit -n"]),
        (Errno::ENOMEM, &["16 MiB of host memory"]),
        (Errno::EPERM, &["control group"]),
        (Errno::EACCES, &["its node allows it"]),
        (Errno::EIO, &["EIO (5)", "dmesg"]),
    ] {
        explained(&tree, 0, errno, words);
    }
    for &errno in Errno::NAMED {
        for tree in [&tree, &Tree::empty()] {
            explained(tree, 63, errno, &[]);
        }
    }
    assert!(explain_open_error(&Tree::empty().roots(), 0, Errno::new(4000).unwrap()).contains("errno 4000"));
}

#[test]
fn a_holder_that_nobody_sees_is_said_to_be_unseen() {
    explained(&Tree::trn1(1), 0, Errno::EBUSY, &["held by no process that can be seen from here"]);
    let crowd = (100..120).fold(Tree::trn1(1), |tree, pid| tree.holder(pid, "p", &["/dev/neuron0"]));
    explained(&crowd, 0, Errno::EBUSY, &["100 (p), 101 (p)", "115 (p) and 4 more"]);
}

#[test]
fn asking_for_the_generation_takes_no_slot() {
    let machine = Machine::new("trn2.3xlarge").unwrap();
    assert_eq!(generation(&machine, 0), Ok(Generation::V3));
    assert_eq!(generation(&machine, 1).unwrap_err().errno, Errno::ENOENT);
    // The lane that takes a slot never opens here, the other does.
    let (answers, _end) = Answers::of(&[Says::Never]);
    assert_eq!(generation(answers.as_ref(), 0), Ok(Generation::V2));
}
