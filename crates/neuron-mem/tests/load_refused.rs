//! `load` asked for what cannot be: by its arguments, or by a model that does not fit.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

mod common;

use std::cell::Cell;
use std::path::Path;

use common::Folder;
use common::run::{Ran, command as command_line, load, load_args, neuron_mem};
use neuron_mem::exit::Exit;
use neuron_mem::load as command;

const GIB: u64 = 1 << 30;
/// What firmware keeps of each HBM.
const RESERVE: u64 = 16 << 20;

#[test]
fn what_the_instance_does_not_have_is_a_usage_error() {
    for (options, words) in [
        ("--cores 2", &["the device has no core 2; it has 0, 1"][..]),
        ("--cores 0-2", &["no core 2"]),
        ("--instance trn2.48xlarge --cores 8", &["no core 8; it has 0, 1, 2, 3, 4, 5, 6, 7"]),
        ("--device 1", &["trn1.2xlarge has 1 device", "there is no device 1"]),
        ("--instance inf2.24xlarge --device 6", &["inf2.24xlarge has 6 device", "there is no device 6"]),
        ("--device 256", &["there is no device 256"]),
        ("--instance trn9.huge", &["unknown instance type \"trn9.huge\"", "trn1.2xlarge", "trn2.48xlarge"]),
        ("--fault explode", &["unknown fault \"explode\"", "abort", "flip"]),
        ("--fault abort:when=3", &["fault \"abort\" has no key \"when\""]),
        ("--fault abort:nth=soon", &["nth=\"soon\": a number from 1"]),
        ("--fault late-id", &["fault \"late-id\" needs reads=NUMBER"]),
        ("--fault nth=3", &["\"nth=3\" belongs to no fault"]),
    ] {
        neuron_mem(&format!("load {options}")).refused(words);
        neuron_mem(&format!("load --json {options}")).refused(words);
    }
}

#[test]
fn wrong_usage_is_told_before_anything_is_said_of_the_model() {
    for options in ["--cores 2", "--device 1", "--instance trn9.huge", "--fault explode"] {
        load(Path::new("/nonexistent/model.safetensors"), options).refused(&[]);
    }
}

/// Loads with an abort planned for the first transfer: were a byte copied before everything fits, the
/// exit code would be the transfer's.
fn does_not_fit(path: &Path, options: &str, words: &[&str]) {
    let ran = load(path, &format!("{options} --fault abort:nth=1")).failed(Exit::DoesNotFit, words);
    assert!(
        ran.stderr.contains("\n  everything allocated was freed: driver counters back to "),
        "{}",
        ran.stderr
    );
    let ran = load(path, &format!("{options} --json")).failed(Exit::DoesNotFit, words);
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_tensor_larger_than_every_pool_is_named_with_the_room_there_is() {
    let folder = Folder::new();
    let path = folder.sparse("m.safetensors", &[("small", 4096), ("huge", 20 * GIB)]);
    let room = |used: u64| {
        let main = 15 * GIB - used;
        format!(
            "no room for 21474836480 bytes: {used} bytes used, main pool left {main} bytes (largest hole {main}), \
             small pool left 1073741824 bytes (largest hole 1073741824)"
        )
    };
    // The largest tensor is placed first, on the first core; the small one goes to the other.
    let tensor = "tensor `huge` (21,474,836,480 B (20.0 GiB)) cannot be allocated";
    does_not_fit(&path, "", &[tensor, "neuron0 HBM 0 has", &room(RESERVE)]);

    let path = folder.sparse("m.safetensors", &[("huge", 20 * GIB)]);
    does_not_fit(&path, "--cores 1", &[tensor, "neuron0 HBM 1 has", &room(RESERVE)]);
    let device = "--instance inf2.48xlarge --device 11";
    does_not_fit(&path, device, &[tensor, "neuron11 HBM 0 has", &room(RESERVE)]);
}

/// The report follows what the message promises, and its files are named.
#[test]
fn a_model_that_does_not_fit_has_a_report_and_leaves_its_files_where_asked() {
    let folder = Folder::new();
    let path = folder.sparse("m.safetensors", &[("a", 9 * GIB), ("b", 9 * GIB)]);
    let run = |dumps: &Path| {
        let mut command = command_line("load --cores 1");
        command.arg(&path).env("NEURON_RT_OOM_DUMP_DIRECTORY", dumps);
        Ran::from(command.output().unwrap())
    };
    let dumps = folder.join("dumps");
    std::fs::create_dir(&dumps).unwrap();
    let asked =
        "out of memory on neuron0 HBM 1: core 1 asked for 9,663,676,416 B (9.0 GiB) of model constants `b`";
    let ran = run(&dumps).failed(
        Exit::DoesNotFit,
        &[
            &format!(
                "\n  everything allocated was freed: driver counters back to 50331648 bytes\n\n{asked}\n"
            ),
            "\ncause      HBM 1 has 7,499,415,552 B (7.0 GiB) left, 2.0 GiB less than was asked for; ",
            "\nroom       main  pool   6.0 GiB of  15.0 GiB left, largest hole 6.0 GiB\n",
            "\nowners       9.0 GiB  `a` (model constants)\n",
            &format!(
                "\ngrowth     +9.0 GiB since the load of `{}` began (model constants +9.0 GiB)\n",
                path.display()
            ),
            "\nusage      core 1   9.0 GiB: model constants 9.0 GiB\n",
        ],
    );
    let mut names: Vec<_> = std::fs::read_dir(&dumps)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 4, "{names:?}");
    for (name, start) in names.iter().zip([
        "neuron_mem_log_device_0_hbm_1_",
        "neuron_mem_report_device_0_",
        "neuron_mem_table_device_0_nc_1.log",
        "nrt_mem_log_device_0_",
    ]) {
        assert!(name.starts_with(start), "{names:?}");
        assert!(ran.stderr.contains(&*dumps.join(name).to_string_lossy()), "{name} in {}", ran.stderr);
    }

    let nowhere =
        run(&folder.join("nowhere")).failed(Exit::DoesNotFit, &[asked, "\nfiles      cannot write "]);
    assert_eq!(nowhere.stderr.matches("cannot write ").count(), 4);
}

#[test]
fn a_model_larger_than_the_instance_is_refused_at_the_first_tensor_without_room() {
    let folder = Folder::new();
    let names: Vec<String> = (0..20).map(|i| format!("layer.{i}")).collect();
    let tensors: Vec<_> = names.iter().map(|name| (name.as_str(), 2 * GIB)).collect();
    let path = folder.sparse("m.safetensors", &tensors);
    // Seven go to each HBM; the next finds the rest of the main pool, and the small pool untouched.
    let (used, left) = (14 * GIB + RESERVE, GIB - RESERVE);
    let room = format!(
        "neuron0 HBM 0 has no room for 2147483648 bytes: {used} bytes used, main pool left {left} bytes \
         (largest hole {left}), small pool left 1073741824 bytes (largest hole 1073741824)"
    );
    does_not_fit(&path, "", &["tensor `layer.14` (2,147,483,648 B (2.0 GiB)) cannot be allocated", &room]);
}

#[test]
fn a_model_too_large_for_one_core_fits_on_two() {
    let folder = Folder::new();
    let path = folder.sparse("m.safetensors", &[("a", 9 * GIB), ("b", 9 * GIB)]);
    does_not_fit(&path, "--cores 0", &["tensor `b` (9,663,676,416 B (9.0 GiB))", "neuron0 HBM 0 has"]);
    // On both, the load gets past its two allocations, to the step where it is told to stop.
    let steps = Cell::new(0);
    let stop = || {
        steps.set(steps.get() + 1);
        steps.get() > 2
    };
    let failure = command::run(&load_args(&path, ""), &stop, &mut Vec::new()).unwrap_err();
    assert_eq!(failure.exit(), Exit::Interrupted, "{failure}");
}
