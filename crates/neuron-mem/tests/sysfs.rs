//! `devices --sysfs`: the tree on the disk is that of `spec/sysfs.md`, and nothing else is touched.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use common::Folder;
use common::run::{Ran, command};
use neuron_mem::exit::Exit;
use neuron_mem::tree::MANIFEST;
use serde_json::Value;

const NODE: &str = "sys/devices/virtual/neuron_device/neuron0";

fn devices(options: &str, folder: &Path) -> Ran {
    Ran::from(command(&format!("devices {options}")).arg("--sysfs").arg(folder).output().unwrap())
}

/// (mode, content) of every file below a folder by path, and links as (0, target).
fn read(root: &Path) -> BTreeMap<String, (u32, String)> {
    fn walk(root: &Path, at: &Path, found: &mut BTreeMap<String, (u32, String)>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let about = fs::symlink_metadata(&path).unwrap();
            if about.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(name, (0, target.to_str().unwrap().to_owned()));
            } else if about.is_dir() {
                walk(root, &path, found);
            } else {
                let mode = about.permissions().mode() & 0o7777;
                found.insert(name, (mode, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

/// The tables of `spec/sysfs.md` 2 to 4 for a Trainium nobody uses, but for the memory counters.
fn expected_node() -> BTreeMap<String, (u32, &'static str)> {
    const STATUS: &str = "success failure timeout exec_bad_input hw_error execute_completed_with_error \
        execute_completed_with_num_error generic_error resource_error resource_nc_error \
        execute_failed_to_queue invalid_error unsupported_neff_version oob_error hw_collectives_error \
        hw_hbm_ue_error hw_nc_ue_error hw_dma_abort_error execute_sw_nq_overflow \
        execute_sw_semaphore_error execute_sw_event_error execute_sw_psum_collision \
        execute_sw_sequencer_fatal hw_repairable_hbm_ue_error";
    const OTHER: &str =
        "model_load_count reset_req_count reset_fail_count inference_count flop_count nc_time_in_use";
    let mut expected = BTreeMap::from([
        ("reset".to_owned(), (0o600, "1\n")),
        ("core_count".to_owned(), (0o400, "2")),
        ("connected_devices".to_owned(), (0o400, "\n")),
        ("info/notify_delay".to_owned(), (0o644, "-1\n")),
        ("info/serial_number".to_owned(), (0o644, "5d00716400000001\n")),
        ("info/architecture/arch_type".to_owned(), (0o644, "NDv2\n")),
        ("info/architecture/instance_type".to_owned(), (0o644, "Trn1\n")),
        ("info/architecture/device_name".to_owned(), (0o644, "Trainium1\n")),
        ("stats/hardware/sram_ecc_uncorrected".to_owned(), (0o644, "0\n")),
        ("stats/hardware/mem_ecc_uncorrected".to_owned(), (0o644, "0\n")),
        ("stats/hardware/mem_ecc_repairable_uncorrected".to_owned(), (0o644, "0\n")),
        ("stats/power/utilization".to_owned(), (0o644, "POWER_STATUS_NO_DATA,0,0.00,0.00,0.00\n")),
    ]);
    for core in ["neuron_core0", "neuron_core1"] {
        let mut add = |path: String, content| {
            let twice = expected.insert(format!("{core}/{path}"), (0o644, content));
            assert_eq!(twice, None);
        };
        add("info/architecture/arch_type".into(), "NCv2\n");
        add(
            "stats/tensor_engine/pe_cntrs".into(),
            "xrow_grp,mm_active,wl_active,idle\n0,0,0,0\n1,0,0,0\n2,0,0,0\n3,0,0,0\n",
        );
        for (group, names) in [("status", STATUS), ("other_info", OTHER)] {
            for name in names.split_whitespace() {
                add(format!("stats/{group}/{name}/total"), "0\n");
                add(format!("stats/{group}/{name}/present"), "0\n");
            }
        }
    }
    expected
}

const HOST: &str =
    "dma_buffers tensors constants application_memory driver_memory notifications dma_rings uncategorized";
const DEVICE: &str = "model_code tensors constants model_shared_scratchpad runtime_memory driver_memory \
    collectives nonshared_scratchpad notifications dma_rings uncategorized";

#[test]
fn the_tree_of_a_trainium_is_the_sheets() {
    let folder = Folder::new();
    devices("", folder.path()).done();
    let mut found = read(folder.path());
    let manifest = found.remove(MANIFEST).unwrap();
    let mut listed: Vec<_> = manifest.1.lines().map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, found.keys().cloned().collect::<Vec<_>>());

    let link = found.remove("sys/class/neuron_device/neuron0").unwrap();
    assert_eq!(link, (0, "../../devices/virtual/neuron_device/neuron0".to_owned()));
    assert_eq!(fs::read_to_string(folder.join("sys/class/neuron_device/neuron0/core_count")).unwrap(), "2");
    let version = found.remove("sys/module/neuron/version").unwrap();
    assert_eq!(version, (0o444, "2.27.4.0\n".to_owned()));
    // What stands once is tested where it is written.
    let (node, once): (BTreeMap<_, _>, BTreeMap<_, _>) =
        found.into_iter().partition(|(path, _)| path.starts_with(NODE));
    assert!(once.keys().all(|path| {
        path.starts_with("sys/class/neuron_device/") || path.starts_with("sys/module/neuron/parameters/")
    }));

    let (memory, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
        node.into_iter().partition(|(path, _)| path.contains("/memory_usage/"));
    let rest: BTreeMap<_, _> = rest
        .iter()
        .map(|(path, (mode, content))| {
            (path.strip_prefix(&format!("{NODE}/")).unwrap().to_owned(), (*mode, content.as_str()))
        })
        .collect();
    assert_eq!(rest, expected_node());

    let mut folders: Vec<_> =
        HOST.split_whitespace().map(|name| format!("stats/memory_usage/host_mem/{name}")).collect();
    for core in 0..2 {
        let usage = format!("neuron_core{core}/stats/memory_usage");
        folders.extend([format!("{usage}/host_mem"), format!("{usage}/device_mem")]);
        folders.extend(DEVICE.split_whitespace().map(|name| format!("{usage}/device_mem/{name}")));
    }
    let counters: Vec<_> = folders
        .iter()
        .flat_map(|folder| ["total", "present", "peak"].map(|name| format!("{NODE}/{folder}/{name}")))
        .collect();
    assert_eq!(memory.len(), counters.len());
    for path in &counters {
        let (mode, content) = &memory[path];
        let number: u64 = content.strip_suffix('\n').unwrap().parse().unwrap();
        assert_eq!((*mode, content), (0o644, &format!("{number}\n")), "{path}");
    }
    // The carve-out, and none of this process's own buffers.
    for core in 0..2 {
        let at = format!("{NODE}/neuron_core{core}/stats/memory_usage/device_mem");
        for path in [format!("{at}/total"), format!("{at}/peak"), format!("{at}/driver_memory/total")] {
            assert_eq!(memory[&path].1, "16777216\n", "{path}");
        }
    }
}

#[test]
fn every_device_of_an_instance_has_its_node_and_its_neighbours() {
    let folder = Folder::new();
    let report = devices("--instance trn1.32xlarge --json", folder.path()).done();
    let report: Value = serde_json::from_str(&report).unwrap();
    let found = read(folder.path());
    let links = found.values().filter(|(mode, _)| *mode == 0).count();
    assert_eq!((links, &report["sysfs"]["links"]), (16, &16.into()));
    // Beside the files there is the manifest.
    assert_eq!(report["sysfs"]["files"].as_u64().unwrap() as usize, found.len() - links - 1);
    assert_eq!(report["sysfs"]["folder"], folder.path().to_str().unwrap());
    for index in 0..16 {
        let node = format!("sys/devices/virtual/neuron_device/neuron{index}");
        assert_eq!(found[&format!("{node}/connected_devices")].1.split(", ").count(), 4, "{node}");
    }
}

#[test]
fn text_tells_what_was_written_and_is_otherwise_as_without() {
    let folder = Folder::new();
    let text = devices("", folder.path()).done();
    let plain = Ran::from(command("devices").output().unwrap()).done();
    let told = text.strip_prefix(&plain).unwrap();
    assert!(told.starts_with("\nwritten    "), "{told}");
    assert!(told.ends_with(&format!(" files and 1 link below `{}`\n", folder.path().display())), "{told}");
}

#[test]
fn a_tree_is_written_again_over_one_of_another_instance() {
    let folder = Folder::new();
    devices("--instance inf2.48xlarge", folder.path()).done();
    devices("", folder.path()).done();
    let again = read(folder.path());
    let fresh = Folder::new();
    devices("", &fresh.join("new")).done();
    assert_eq!(again, read(&fresh.join("new")));
}

#[test]
fn a_folder_with_anything_else_is_refused_and_left_alone() {
    let folder = Folder::new();
    folder.raw("thesis.tex", b"mine");
    devices("", folder.path())
        .refused(&["is not empty: it has `thesis.tex`", "name a new or an empty folder"]);
    assert_eq!(read(folder.path()).len(), 1);
    let file = folder.join("thesis.tex");
    devices("", &file).refused(&["thesis.tex` is not a folder"]);
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_folder_that_cannot_be_made_is_named_with_the_reason() {
    let folder = Folder::new();
    folder.raw("file", b"");
    let ran = devices("", &folder.join("file/tree"));
    let ran = ran.failed(Exit::Output, &["cannot look at `", "/file/tree`", "caused by: Not a directory"]);
    assert_eq!(ran.stdout, "", "nothing is reported that was not done");
    // Nobody, the owner of everything included, makes folders there.
    devices("", Path::new("/proc/neuron-mem/tree"))
        .failed(Exit::Output, &["cannot create `/proc/neuron-mem/tree`", "caused by: No such file"]);
}
