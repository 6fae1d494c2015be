//! Trees with anything in them: a finding at most, never a panic or a wait.

use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::process::Command;

use neuron_abi::errno::Errno;
use neuron_ndl::diagnosis::{Status, Subject, examine, explain_open_error};
use neuron_ndl::environment::{BackendName, Reading};
use proptest::prelude::*;

use super::answers::{Answers, Says};
use super::tree::Tree;

/// Every file that is read.
const FILES: [&str; 14] = [
    "sys/module/neuron/version",
    "sys/bus/pci/devices/0000:00:1e.0/vendor",
    "sys/bus/pci/devices/0000:00:1e.0/device",
    "sys/class/neuron_device/neuron0/info/architecture/instance_type",
    "sys/class/neuron_device/neuron0/reset",
    "proc/self/status",
    "proc/self/limits",
    "proc/self/cgroup",
    "proc/meminfo",
    "proc/77/comm",
    "proc/77/fd/3",
    "etc/passwd",
    "etc/group",
    "dev/neuron0",
];

fn look(tree: &Tree) {
    let roots = tree.roots();
    let (answers, _end) = Answers::of(&[Says::No(Errno::EBUSY)]);
    for name in BackendName::LOCAL {
        let subject = Subject::new(answers.clone(), name, roots.nodes()).environment(Reading::default());
        let diagnosis = examine(&subject, &roots);
        assert!(!diagnosis.usable());
        for check in &diagnosis.checks {
            let text = format!("{}{}", check.found, check.advice.as_deref().unwrap_or_default());
            assert!(!text.chars().any(char::is_control), "{check:?}");
            assert!(check.status != Status::Failed || check.advice.is_some(), "{check:?}");
        }
    }
    for errno in [Errno::ENOENT, Errno::EACCES, Errno::EPERM, Errno::EBUSY] {
        assert!(!explain_open_error(&roots, 0, errno).chars().any(char::is_control));
    }
    assert!(!roots.instance().unwrap_or_default().chars().any(char::is_control));
}

#[test]
fn folders_pipes_and_loops_where_files_should_be() {
    for path in FILES {
        let tree = Tree::empty();
        fs::create_dir_all(tree.path(path)).unwrap();
        look(&tree);
        look(&Tree::empty().link(path, "nowhere"));
        let tree = Tree::empty();
        let name = tree.path(path);
        symlink_to_itself(&name);
        look(&tree);
        // Reading a pipe would wait for a writer.
        let tree = Tree::empty();
        assert!(Command::new("mkfifo").arg(tree.path(path)).status().unwrap().success());
        look(&tree);
    }
}

fn symlink_to_itself(path: &std::path::Path) {
    std::os::unix::fs::symlink(path, path).unwrap();
}

#[test]
fn files_without_an_end() {
    for path in FILES {
        look(&Tree::empty().file(path, vec![b'x'; 3 << 20]));
        look(&Tree::empty().file(path, "1\n".repeat(1 << 20)));
        // A device that never ends is none of the files that are read.
        look(&Tree::empty().link(path, "/dev/zero"));
    }
}

#[test]
fn names_that_are_no_text() {
    let tree = Tree::trn1(1);
    for folder in ["proc", "sys/bus/pci/devices", "sys/class/neuron_device", "dev"] {
        let name = std::ffi::OsString::from_vec(vec![0xff, b'1', 0x1b, b'\n']);
        let at = tree.path(folder).join(name);
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("vendor"), "0x1d0f\n").unwrap();
        fs::write(at.join("device"), "0x7164\n").unwrap();
    }
    look(&tree.without("proc/self/status"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_any_file_are_no_panic(
        contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), FILES.len()),
    ) {
        let tree = FILES.into_iter().zip(contents).fold(Tree::empty(), |tree, (path, bytes)| tree.file(path, bytes));
        look(&tree);
    }

    /// Right keys, wrong values: as far into the readers as can be.
    #[test]
    fn any_value_behind_a_known_key_is_no_panic(values in prop::collection::vec("[0-9a-f xk:B\\-]{0,24}", 9)) {
        let v = |at: usize| values[at].as_str();
        let status = format!("Uid:{}\nGid:\t0 {}\nGroups:{}\nCapEff:{}\n", v(0), v(1), v(2), v(3));
        let tree = Tree::trn1(1)
            .file("proc/self/status", status)
            .file("proc/self/limits", format!("Max locked memory {}\n", v(4)))
            .file("proc/meminfo", format!("MemAvailable:{}kB\n", v(5)))
            .file("etc/group", format!("{}:{}\n", v(6), v(7)))
            .file("sys/bus/pci/devices/0000:00:1e.0/vendor", v(8));
        look(&tree);
    }
}
