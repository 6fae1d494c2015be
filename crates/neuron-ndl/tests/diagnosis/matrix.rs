//! Tree by tree: which checks say what.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use neuron_abi::errno::Errno;
use neuron_ndl::diagnosis::{Check, Diagnosis, Folder, Status, Subject, examine};
use neuron_ndl::environment::{BackendName, Environment, Reading};
use neuron_ndl::software::Machine;
use neuron_ndl::testing::{Age, OldDriver, kernel_over};

use super::answers::{Answers, Driver, Says};
use super::tree::Tree;
use Status::{Failed, NotApplicable, Ok as Fine, Warning};

const OPENS: Says = Says::Yes(Driver { versions: None, features: None, architecture: None });

fn diagnose(tree: &Tree, says: &[Says]) -> Diagnosis {
    diagnose_in(tree, says, Reading::default())
}

fn diagnose_in(tree: &Tree, says: &[Says], environment: Reading) -> Diagnosis {
    let (answers, _end) = Answers::of(says);
    let roots = tree.roots();
    let subject = Subject::new(answers, BackendName::Kernel, roots.nodes()).environment(environment);
    examine(&subject.patience(Duration::from_secs(60)), &roots)
}

fn environment(set: &[(&str, &str)]) -> Reading {
    Environment::read(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
}

/// The checks of a name.
fn named<'a>(diagnosis: &'a Diagnosis, name: &str) -> Vec<&'a Check> {
    diagnosis.checks.iter().filter(|check| check.name == name).collect()
}

/// Checks that the only check of this name is like this; words of its sentence or its advice.
#[track_caller]
fn says(diagnosis: &Diagnosis, name: &str, status: Status, words: &[&str]) {
    let [check] = named(diagnosis, name)[..] else { panic!("not one {name}: {diagnosis:#?}") };
    is(check, status, words);
}

#[track_caller]
fn is(check: &Check, status: Status, words: &[&str]) {
    assert_eq!(check.status, status, "{check:#?}");
    for word in words {
        let there = check.found.contains(word) || check.advice.as_deref().unwrap_or_default().contains(word);
        assert!(there, "no {word:?} in {check:#?}");
    }
    assert_eq!(check.advice.is_some(), matches!(status, Warning | Failed), "{check:#?}");
}

#[test]
fn a_machine_as_it_should_be_has_nothing_to_say() {
    let tree = Tree::trn1(2);
    let (user, group) = tree.owner(0);
    let permission = format!("neuron0, neuron1: mode 0666, user {user}, group {group}");
    let diagnosis = diagnose(&tree, &[OPENS; 2]);
    assert!(diagnosis.usable());
    let lines: Vec<_> = diagnosis.checks.iter().map(|check| (check.name, check.found.as_str())).collect();
    assert_eq!(
        lines,
        [
            ("backend", "kernel: the devices of this machine"),
            ("pci", "on the PCI bus: 2 Trainium1"),
            ("module", "the kernel module neuron is loaded, version 2.27.4.0"),
            ("nodes", "in /dev: neuron0, neuron1"),
            ("permission", &permission),
            ("open", "neuron0, neuron1: opens"),
            (
                "version",
                "neuron0, neuron1: V2; the driver works with versions 5 to 7, this program speaks 5 to 7"
            ),
            ("features", "neuron0, neuron1: the driver has every feature that is used here"),
            ("memlock", "no limit of locked memory; huge pages are not needed"),
            ("variables", "no variable is set that decides how devices are used"),
            ("device", "can be used: neuron0, neuron1"),
        ]
    );
    assert!(diagnosis.checks.iter().all(|check| check.status == Fine && check.advice.is_none()));
}

#[test]
fn findings_are_an_array_of_objects_to_programs() {
    let json = serde_json::to_value(diagnose(&Tree::empty(), &[])).unwrap();
    let module = &json["checks"][2];
    assert_eq!((&module["name"], &module["status"]), (&"module".into(), &"not_applicable".into()));
    assert!(module["found"].is_string() && module["advice"].is_null(), "{module}");
}

#[test]
fn no_device_at_all() {
    // Amazon's network and disk have the same vendor.
    let tree = Tree::empty().pci("0000:00:05.0", "0x1d0f", "0xec20", Some("ena")).pci(
        "0000:00:04.0",
        "0x1d0f",
        "0x8061",
        Some("nvme"),
    );
    let diagnosis = diagnose(&tree, &[]);
    assert!(!diagnosis.usable());
    says(&diagnosis, "pci", Failed, &["no Neuron device on the PCI bus", "trn1", "software backend"]);
    says(&diagnosis, "module", NotApplicable, &["not loaded", "no device for it"]);
    says(&diagnosis, "nodes", NotApplicable, &[]);
    for name in ["permission", "open", "version", "features"] {
        says(&diagnosis, name, NotApplicable, &["no device to ask"]);
    }
    says(&diagnosis, "device", Failed, &["no device can be used"]);

    let inside = diagnose(&Tree::empty().file(".dockerenv", ""), &[]);
    says(&inside, "pci", Failed, &["look on the host"]);
}

#[test]
fn a_generation_that_no_driver_here_serves() {
    let tree = Tree::empty().pci("0000:00:1f.0", "0x1d0f", "0x7064", None);
    says(&diagnose(&tree, &[]), "pci", Failed, &["1 Inferentia1", "not supported", "inf2"]);
}

#[test]
fn a_missing_module() {
    let tree = || Tree::empty().pci("0000:00:1e.0", "0x1d0f", "0x7364", None);
    let diagnosis = diagnose(&tree(), &[]);
    says(&diagnosis, "pci", Fine, &["1 Trainium2"]);
    says(&diagnosis, "module", Failed, &["not loaded", "sudo modprobe neuron", "aws-neuronx-dkms"]);
    says(&diagnosis, "nodes", NotApplicable, &["come with the module"]);
    says(&diagnose(&tree().file("run/.containerenv", ""), &[]), "module", Failed, &["on the host"]);
}

#[test]
fn a_module_without_devices() {
    let tree = Tree::empty().pci("0000:00:1e.0", "0x1d0f", "0x7164", Some("neuron")).module("2.27.4.0");
    let diagnosis = diagnose(&tree, &[]);
    says(&diagnosis, "module", Fine, &["version 2.27.4.0"]);
    says(&diagnosis, "nodes", Failed, &["loaded, but has no device", "dmesg"]);
}

#[test]
fn a_device_that_another_driver_has() {
    let tree = Tree::empty().pci("0000:00:1e.0", "0x1d0f", "0x7164", Some("vfio-pci")).module("2.27.4.0");
    let words = ["1 of 1 devices", "0000:00:1e.0 has driver vfio-pci", "/drivers/vfio-pci/unbind"];
    says(&diagnose(&tree, &[]), "module", Failed, &words);
    let tree = Tree::trn1(1).pci("0000:09:1e.0", "0x1d0f", "0x7164", None);
    says(&diagnose(&tree, &[OPENS]), "module", Warning, &["1 of 2 devices", "no driver", "dmesg"]);
}

#[test]
fn a_version_that_is_not_shown_or_odd() {
    let tree = Tree::trn1(1).without("sys/module/neuron/version");
    says(&diagnose(&tree, &[OPENS]), "module", Fine, &["its version is not shown"]);
    let tree = Tree::trn1(1).file("sys/module/neuron/version", b"2\x1b[2J\xff\nmore\n");
    says(&diagnose(&tree, &[OPENS]), "module", Fine, &["version 2\\u{1b}[2J\u{fffd}"]);
}

#[test]
fn nodes_that_were_not_passed_into_a_container() {
    for (sign, words) in
        [(".dockerenv", "/.dockerenv is there"), ("run/.containerenv", "/run/.containerenv is there")]
    {
        let tree = Tree::trn1(2).without("dev").file(sign, "");
        let diagnosis = diagnose(&tree, &[]);
        let words = [words, "neuron0, neuron1", "--device /dev/neuron0 --device /dev/neuron1"];
        says(&diagnosis, "nodes", Failed, &words);
        assert!(!diagnosis.usable());
    }
    let pod = "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope\n";
    let tree = Tree::trn1(6).without("dev").file("proc/self/cgroup", pod);
    says(&diagnose(&tree, &[]), "nodes", Failed, &["names kubepods", "and so on", "device plugin"]);
    // One of two passed in: that one can be used.
    let tree = Tree::trn1(2).without("dev/neuron1").file(".dockerenv", "");
    let diagnosis = diagnose(&tree, &[OPENS]);
    says(&diagnosis, "nodes", Warning, &["neuron1: the driver has it", "--device /dev/neuron1"]);
    says(&diagnosis, "device", Fine, &["neuron0"]);
    assert!(diagnosis.usable());
}

#[test]
fn nodes_that_udev_did_not_make() {
    let tree = Tree::trn1(2).without("dev").file("proc/self/cgroup", "0::/user.slice\n");
    says(&diagnose(&tree, &[]), "nodes", Failed, &["/dev does not", "udevadm trigger"]);
}

#[test]
fn a_node_that_is_left_over() {
    let tree = Tree::trn1(1).node(5);
    let mut answers = [Says::No(Errno::ENXIO); 6];
    answers[0] = OPENS;
    let diagnosis = diagnose(&tree, &answers);
    says(&diagnosis, "nodes", Warning, &["neuron5: in /dev, but the driver does not show it"]);
    let [good, bad] = named(&diagnosis, "open")[..] else { panic!("{diagnosis:#?}") };
    is(good, Fine, &["neuron0: opens"]);
    is(bad, Warning, &["neuron5: ENXIO", "left over", "modprobe"]);
    assert!(diagnosis.usable());

    let tree = Tree::empty().process(1000, &[], 0).node(0);
    let diagnosis = diagnose(&tree, &[Says::No(Errno::ENXIO)]);
    says(&diagnosis, "pci", NotApplicable, &["it is hidden here"]);
    says(&diagnosis, "module", Warning, &["/sys/module/neuron is not there, though neuron0 is"]);
    says(&diagnosis, "open", Failed, &["left over"]);
}

#[test]
fn a_file_where_a_node_should_be() {
    let tree = Tree::trn1(1).without("dev/neuron0").node_with_mode(0, 0o666);
    says(
        &diagnose(&tree, &[Says::No(Errno::ENXIO)]),
        "nodes",
        Failed,
        &["neuron0", "no device node", "remove it"],
    );
}

#[test]
fn a_node_that_this_user_may_not_open() {
    let tree = |mode: u32| Tree::trn1(1).without("dev/neuron0").node_with_mode(0, mode);
    let (user, group) = tree(0o600).owner(0);
    let (other, refused) = (user + 1, [Says::No(Errno::EACCES)]);
    let names = |tree: Tree| {
        let entry = |name: &str, id: u32| format!("root:x:{}:\n{name}:x:{id}:\n", id + 7);
        tree.file("etc/passwd", entry("owner", user)).file("etc/group", entry("neuron", group))
    };
    for (mode, words) in [
        (0o600, ["mode 0600, user owner, group neuron", "chmod 666 /dev/neuron0", "MODE=\"0666\""]),
        (0o640, ["mode 0640, user owner, group neuron", "chmod 666 /dev/neuron0", "udev"]),
    ] {
        let diagnosis = diagnose(&names(tree(mode).process(other, &[], 0)), &refused);
        says(&diagnosis, "permission", Failed, &words);
        says(&diagnosis, "open", Failed, &words[..1]);
    }
    // The group that may is told, unless it is root's.
    let diagnosis = diagnose(&names(tree(0o660).process(other, &[], 0)), &refused);
    let add = if group == 0 { "chmod 666" } else { "usermod -aG neuron $USER" };
    says(&diagnosis, "permission", Failed, &["mode 0660", "may not read and write it", add]);
    let diagnosis = diagnose(&tree(0o660).process(other, &[], 0).file(".dockerenv", ""), &refused);
    let add =
        if group == 0 { "start the container as user 0".to_owned() } else { format!("--group-add {group}") };
    says(&diagnosis, "permission", Failed, &[&add]);
    // Those who may: owner, group, everybody, and who is above permissions.
    for (mode, who) in
        [(0o600, (user, vec![], 0)), (0o660, (other, vec![group], 0)), (0o666, (other, vec![], 0)), {
            (0o600, (other, vec![], 2))
        }]
    {
        let diagnosis = diagnose(&tree(mode).process(who.0, &who.1, who.2), &[OPENS]);
        says(&diagnosis, "permission", Fine, &[]);
    }
}

#[test]
fn a_permission_that_the_mode_does_not_explain() {
    let tree = Tree::trn1(1);
    says(
        &diagnose(&tree, &[Says::No(Errno::EACCES)]),
        "open",
        Failed,
        &["its node allows it", "user namespace"],
    );
    let tree = tree.file(".dockerenv", "");
    says(
        &diagnose(&tree, &[Says::No(Errno::EPERM)]),
        "open",
        Failed,
        &["but not the right to it", "--device"],
    );
    // What opens is permitted, whoever asks.
    let tree = Tree::trn1(1).without("proc");
    let diagnosis = diagnose(&tree, &[OPENS]);
    says(&diagnosis, "permission", Fine, &["who asks cannot be told"]);
    says(&diagnosis, "memlock", NotApplicable, &[]);
}

#[test]
fn all_slots_are_taken() {
    let tree = Tree::trn1(2)
        .holder(42, "python3", &["/dev/null", "/dev/neuron0"])
        .holder(7, "neuron-\u{1b}top", &["/dev/neuron0"])
        .holder(43, "other", &["/dev/neuron1", "/dev/neuron00"])
        .file("proc/44/comm", "hidden\n")
        .file("proc/not-a-process/comm", "x\n");
    let diagnosis = diagnose(&tree, &[Says::No(Errno::EBUSY), OPENS]);
    let [busy, good] = named(&diagnosis, "open")[..] else { panic!("{diagnosis:#?}") };
    let holders = "held by 7 (neuron-\\u{1b}top), 42 (python3) (one process is hidden; root sees it)";
    is(busy, Warning, &["neuron0: all 16 process slots", holders, "end one of these"]);
    is(good, Fine, &["neuron1"]);
    assert!(diagnosis.usable());
}

#[test]
fn a_device_in_reset_is_told_and_not_waited_for() {
    let tree = Tree::trn1(1).file("sys/class/neuron_device/neuron0/reset", "0\n");
    for (tree, words) in [(tree, "is being reset"), (Tree::trn1(1), "opening has waited for 0.01 s")] {
        let (answers, _end) = Answers::of(&[Says::Never]);
        let subject = Subject::new(answers, BackendName::Kernel, vec![0]);
        // Opening never answers, so how long is waited decides nothing; the other lane answers.
        let diagnosis = examine(&subject.patience(Duration::from_millis(10)), &tree.roots());
        says(&diagnosis, "open", Failed, &[words, "wait and look again"]);
        assert!(!diagnosis.usable());
    }
}

#[test]
fn a_driver_of_another_time() {
    for (versions, status, words) in [
        (
            Some(Ok((4, 2))),
            Failed,
            &[
                "too old: it works with versions 2 to 4, this program speaks 5 to 7",
                "update the driver (aws-neuronx-dkms)",
            ][..],
        ),
        (Some(Ok((9, 8))), Failed, &["too new: it works with versions 8 to 9", "update this program"]),
        (Some(Ok((5, 2))), Fine, &[]),
        (Some(Ok((9, 7))), Fine, &[]),
        (Some(Ok((u32::MAX, 0))), Fine, &[]),
        (Some(Err(Errno::EINVAL)), NotApplicable, &["does not say which versions"]),
        (Some(Err(Errno::EIO)), Failed, &["does not answer as one of Neuron devices", "EIO"]),
    ] {
        let says_it = Says::Yes(Driver { versions, ..Driver::default() });
        let diagnosis = diagnose(&Tree::trn1(1), &[says_it]);
        says(&diagnosis, "version", status, words);
        assert_eq!(diagnosis.usable(), status != Failed, "{versions:?}");
    }
    let unknown = Says::Yes(Driver { architecture: Some(Ok(9)), ..Driver::default() });
    says(
        &diagnose(&Tree::trn1(1), &[unknown]),
        "version",
        Failed,
        &["a generation we do not know", "update this program"],
    );
    // Something else behind the node.
    let other = Says::Yes(Driver { architecture: Some(Err(Errno::ENOTTY)), ..Driver::default() });
    let diagnosis = diagnose(&Tree::trn1(1), &[other]);
    says(&diagnosis, "version", Failed, &["ENOTTY", "belongs to the module neuron"]);
    says(&diagnosis, "features", NotApplicable, &[]);
}

#[test]
fn features_that_are_missing_say_what_is_done_instead() {
    for (features, words) in [
        (Ok(0xff), &["lacks ZEROCOPY: copies go through a bounce buffer"][..]),
        (
            Err(Errno::EINVAL),
            &["lacks the driver info: which forms", "; CONTIGUOUS_SCRATCHPAD: the scratchpad is paged"],
        ),
        (Ok(0), &["asynchronous copies: each piece of a copy is waited for", "64-bit copies: ", "DMABUF: "]),
        (Ok(u64::MAX), &["every feature"]),
    ] {
        let driver = Driver { features: Some(features), ..Driver::default() };
        let diagnosis = diagnose(&Tree::trn1(1), &[Says::Yes(driver)]);
        says(&diagnosis, "features", Fine, words);
        assert!(diagnosis.usable());
    }
}

#[test]
fn little_locked_memory_is_a_warning() {
    for (limit, status) in [("524287", Warning), ("524288", Fine), ("0", Warning), ("what", NotApplicable)] {
        let limits = format!("Limit\nMax locked memory         {limit}      unlimited   bytes\n");
        let diagnosis = diagnose(&Tree::trn1(1).file("proc/self/limits", limits), &[OPENS]);
        says(&diagnosis, "memlock", status, &[]);
        assert!(diagnosis.usable());
    }
}

#[test]
fn a_wrong_variable_keeps_programs_from_every_device() {
    for (set, words) in [
        (&[("NEURON_RT_VISIBLE_CORES", "0,2")][..], &["NEURON_RT_VISIBLE_CORES is `0,2`", "entry `2`"][..]),
        (&[("NEURON_RT_VISIBLE_CORES", "0-4")], &["not there: cores 0 to 3 on 2 devices"]),
        (&[("NEURON_RT_NUM_CORES", "5")], &["cores 0 to 3 on 2 devices"]),
        (&[("NEURON_RT_MAP_HBM", "maybe")], &["NEURON_RT_MAP_HBM is `maybe`"]),
    ] {
        let diagnosis = diagnose_in(&Tree::trn1(2), &[OPENS; 2], environment(set));
        says(&diagnosis, "variables", Failed, words);
        says(&diagnosis, "device", Fine, &[]);
        assert!(!diagnosis.usable());
    }
    let idle = environment(&[("NEURON_RT_VISIBLE_CORES", "0"), ("NEURON_RT_NUM_CORES", "1")]);
    let diagnosis = diagnose_in(&Tree::trn1(2), &[OPENS; 2], idle);
    says(&diagnosis, "variables", Warning, &["NEURON_RT_NUM_CORES has no effect"]);
    assert!(diagnosis.usable());
    let right = environment(&[("NEURON_RT_VISIBLE_CORES", "0-3")]);
    let diagnosis = diagnose_in(&Tree::trn1(2), &[OPENS; 2], right);
    says(&diagnosis, "variables", Fine, &["NEURON_RT_VISIBLE_CORES=0-3"]);
}

#[test]
fn folders_are_looked_at_before_files_are_lost() {
    let tree = Tree::trn1(1).file("file", "");
    let folder = |path: PathBuf, bytes, required| Folder { variable: "THE_FOLDER", path, bytes, required };
    let cases = [
        (folder(tree.path("dev"), 1, true), Fine, "MiB free"),
        (folder(tree.path("nowhere"), 1, false), Warning, "make it, or set THE_FOLDER"),
        (folder(tree.path("nowhere"), 1, true), Failed, "nowhere (THE_FOLDER)"),
        (folder(tree.path("file"), 1, false), Warning, "is no folder"),
        (folder(tree.path("dev"), u64::MAX, true), Failed, "free some"),
        (folder(tree.path("dev"), u64::MAX, false), Warning, "17592186044416 are needed"),
    ];
    for (folder, status, word) in cases {
        let (answers, _end) = Answers::of(&[OPENS]);
        let subject = Subject::new(answers, BackendName::Kernel, vec![0]).folders(vec![folder]);
        says(&examine(&subject, &tree.roots()), "folder", status, &[word]);
    }
}

#[test]
fn the_software_machine_needs_none_of_it() {
    let tree = Tree::empty().file("proc/meminfo", "MemAvailable: 300000 kB\n");
    let diagnose = |tree: &Tree| {
        let machine = Arc::new(Machine::new("trn2.3xlarge").unwrap());
        let subject = Subject::new(machine, BackendName::Software, vec![0]);
        examine(&subject.problems(vec!["THE_VARIABLE is wrong".to_owned()]), &tree.roots())
    };
    let diagnosis = diagnose(&tree);
    for name in ["pci", "module", "nodes", "permission"] {
        says(&diagnosis, name, NotApplicable, &["the software machine has none"]);
    }
    says(&diagnosis, "open", Fine, &["neuron0: opens"]);
    says(&diagnosis, "version", Fine, &["V3", "10 to 11"]);
    says(&diagnosis, "memory", Fine, &["292 MiB", "/dev/shm does not matter"]);
    says(&diagnosis, "variables", Failed, &["THE_VARIABLE is wrong"]);

    let tree = tree.file("proc/meminfo", "MemAvailable: 2000 kB\n").node(0).node(1);
    let diagnosis = diagnose(&tree);
    says(&diagnosis, "memory", Warning, &["1 MiB"]);
    let [backend] = named(&diagnosis, "backend")[..] else { panic!("{diagnosis:#?}") };
    let advice = "this machine has neuron0, neuron1: --backend kernel or NEURON_MEM_BACKEND=kernel uses them";
    assert_eq!((backend.status, backend.advice.as_deref()), (Fine, Some(advice)));
}

#[test]
fn a_backend_asked_for_by_name_beats_the_variable() {
    let set = environment(&[("NEURON_MEM_BACKEND", "software")]);
    let diagnosis = diagnose_in(&Tree::trn1(1), &[OPENS], set);
    says(&diagnosis, "variables", Warning, &["NEURON_MEM_BACKEND is software, but kernel was asked for"]);
}

#[test]
fn the_kernel_backend_on_older_drivers_says_what_they_lack() {
    for (age, lacks) in [
        (Age::BeforeDriverInfo, &["the driver info"]),
        (Age::V2_24_7, &["lacks ZEROCOPY: "]),
        (Age::V2_27_4, &["every feature"]),
    ] {
        let kernel = kernel_over(OldDriver::new(Machine::new("trn1.2xlarge").unwrap(), age));
        let subject = Subject::new(Arc::new(kernel), BackendName::Kernel, vec![0]);
        let diagnosis = examine(&subject, &Tree::trn1(1).roots());
        assert!(diagnosis.usable(), "{age:?} {diagnosis:#?}");
        says(&diagnosis, "features", Fine, lacks);
    }
}
