//! `--backend` and what the environment says: the kernel backend over a driver without a kernel, in process; the
//! command on whatever machine this is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod common;

use clap::Parser as _;
use common::Folder;
use common::run::{Loaded, Ran, command, load_args, neuron_mem};
use neuron_mem::cli::{Cli, Command, DevicesArgs, RingsArgs, TraceCopyArgs};
use neuron_mem::exit::Exit;
use neuron_mem::machine::Machine;
use neuron_mem::render::rings::Selection;
use neuron_mem::{devices, load, rings, trace};
use neuron_ndl::diagnosis::Roots;
use neuron_ndl::environment::Environment;
use neuron_ndl::kernel::Kernel;
use neuron_ndl::software;
use neuron_ndl::testing::{Age, OldDriver, kernel_over};
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// The kernel's devices as those of an instance, and a `/sys` that shows what they are.
fn kernel(instance: &str, age: Age) -> (Machine, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let about = folder.path().join("sys/class/neuron_device/neuron0/info/architecture");
    std::fs::create_dir_all(&about).unwrap();
    std::fs::write(about.join("instance_type"), "Trn1\n").unwrap();
    let driver = OldDriver::new(software::Machine::new(instance).unwrap(), age);
    (Machine::kernel(kernel_over(driver), Roots::below(folder.path())), folder)
}

/// A machine without devices.
fn nothing() -> (Machine, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (kernel, roots) = (Kernel::at(folder.path().join("dev")), Roots::below(folder.path()));
    (Machine::kernel(kernel, roots), folder)
}

fn parse(words: &str) -> Command {
    Cli::try_parse_from(["neuron-mem"].into_iter().chain(words.split_whitespace())).unwrap().command
}

fn devices_args(options: &str) -> DevicesArgs {
    match parse(&format!("devices {options}")) {
        Command::Devices(args) => args,
        other => panic!("{other:?}"),
    }
}

fn rings_args(options: &str) -> RingsArgs {
    match parse(&format!("rings {options}")) {
        Command::Rings(args) => args,
        other => panic!("{other:?}"),
    }
}

fn trace_args(options: &str) -> TraceCopyArgs {
    match parse(&format!("trace-copy {options}")) {
        Command::TraceCopy(args) => args,
        other => panic!("{other:?}"),
    }
}

fn environment(set: &[(&str, &str)]) -> Environment {
    Environment::from_variables(|name| {
        set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    })
    .unwrap()
}

/// Loads two tensors and returns what was reported.
fn loaded(machine: &Machine, options: &str, set: &[(&str, &str)]) -> Loaded {
    let folder = Folder::new();
    let sizes = [3 * MIB + 4, 70_000];
    let path = folder.tensors("m.safetensors", &[("a", sizes[0]), ("b", sizes[1])]);
    let args = load_args(&path, &format!("{options} --json"));
    let mut out = Vec::new();
    load::on(machine, &environment(set), &args, &|| false, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    // The helper knows the software backend alone.
    let loaded = Loaded::of(&out.replace("\"kernel\"", "\"software\""), &sizes);
    assert!(loaded.verified, "{out}");
    assert_eq!(out.contains("\"kernel\""), machine.name().to_string() == "kernel", "{out}");
    loaded
}

fn refused(machine: &Machine, options: &str, set: &[(&str, &str)]) -> String {
    let folder = Folder::new();
    let args = load_args(&folder.tensors("m.safetensors", &[("a", 4096)]), options);
    let mut out = Vec::new();
    let failure = load::on(machine, &environment(set), &args, &|| false, &mut out).unwrap_err();
    assert_eq!((failure.exit(), out.as_slice()), (Exit::Usage, &[][..]), "{failure}");
    failure.to_string()
}

#[test]
fn a_model_loads_through_the_kernel_backend_on_drivers_of_every_age() {
    for age in Age::ALL {
        let (machine, _folder) = kernel("trn1.2xlarge", age);
        // The variable asks for the generation before the device is open.
        let loaded = loaded(&machine, "", &[("NEURON_RT_VISIBLE_CORES", "0-1")]);
        assert_eq!(loaded.instance, "Trn1", "as the driver calls it");
        assert_eq!(loaded.places().len(), 2);
    }
    let (machine, _folder) = kernel("trn2.3xlarge", Age::V2_27_4);
    loaded(&machine, "", &[("NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE", "0x2000")]);
}

#[test]
fn devices_of_the_kernel_are_shown_as_the_software_ones_are() {
    let (machine, _folder) = kernel("trn1.32xlarge", Age::V2_27_4);
    let json = |machine: &Machine| {
        let mut out = Vec::new();
        devices::on(machine, &devices_args("--json"), &mut out).unwrap();
        serde_json::from_slice::<Value>(&out).unwrap()
    };
    let found = json(&machine);
    assert_eq!((&found["backend"], &found["instance"]), (&"kernel".into(), &"Trn1".into()));
    let soft = json(&Machine::software("trn1.32xlarge", software::MachineOptions::default()).unwrap());
    assert_eq!((&found["devices"], &found["generation"]), (&soft["devices"], &soft["generation"]));
    assert_eq!(found["devices"].as_array().unwrap().len(), 16);
    let mut out = Vec::new();
    devices::on(&machine, &devices_args(""), &mut out).unwrap();
    assert!(out.starts_with(b"backend kernel, instance Trn1\ngeneration V2, devices: 16\n"));
}

#[test]
fn a_driver_that_cannot_list_its_memory_leaves_the_reserve_unknown() {
    let (machine, _folder) = kernel("trn1.2xlarge", Age::BeforeChunkList);
    let mut out = Vec::new();
    devices::on(&machine, &devices_args("--json"), &mut out).unwrap();
    let found: Value = serde_json::from_slice(&out).unwrap();
    let hbm = &found["devices"][0]["hbms"][1];
    assert_eq!((&hbm["firmware_reserve"], &hbm["index"]), (&Value::Null, &1.into()));
    out.clear();
    devices::on(&machine, &devices_args(""), &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap().matches("|                ? |").count(), 2);
}

#[test]
fn rings_and_copies_of_the_kernel_say_what_only_the_software_machine_shows() {
    let (machine, _folder) = kernel("trn1.2xlarge", Age::V2_27_4);
    let device = machine.open(0).unwrap();
    let report = rings::report(&rings_args("--engine 32"), &machine, &device).unwrap();
    assert_eq!((report.backend.as_str(), report.owners_shown), ("kernel", false));
    assert_eq!(report.selection, Selection::Programmed);
    let queue = &report.engines[0].queues[0];
    assert_eq!((queue.tx.size, &queue.owner, queue.tx.cursor), (8192, &None, None));
    assert!(
        report.text().contains("?: the driver behind this backend does not show it"),
        "{}",
        report.text()
    );

    let report = trace::report(&trace_args("64K"), &machine, &device).unwrap();
    assert!(report.equal && report.doorbells.is_none());
    assert!(report.text().contains("not shown by the driver behind this backend"));
}

#[test]
fn what_only_a_machine_without_hardware_has_is_refused_by_name() {
    for (line, option) in [
        ("devices --instance trn1.2xlarge", "--instance"),
        ("devices --sysfs target/never", "--sysfs"),
        ("load --instance trn1.2xlarge", "--instance"),
        ("load --fault abort:nth=1", "--fault"),
        ("load --execution threaded", "--execution"),
        ("rings --instance trn1.2xlarge", "--instance"),
        ("trace-copy 1 --instance trn1.2xlarge", "--instance"),
        ("doctor --instance trn1.2xlarge", "--instance"),
    ] {
        let words = [option, "is for the software backend", "--backend software"];
        neuron_mem(&format!("{line} --backend kernel")).refused(&words);
        let set = command(line).env("NEURON_MEM_BACKEND", "kernel").output().unwrap();
        Ran::from(set).refused(&words);
    }
    // What was asked for by name counts, not what is set.
    let set = command("devices --instance inf2.xlarge --backend software")
        .env("NEURON_MEM_BACKEND", "kernel")
        .output();
    assert!(Ran::from(set.unwrap()).done().starts_with("backend software, instance inf2.xlarge\n"));
}

#[test]
fn the_environment_names_the_machine_unless_the_command_line_does() {
    for (line, instance) in [("devices", "trn2.3xlarge"), ("devices --instance inf2.xlarge", "inf2.xlarge")] {
        let ran = Ran::from(command(line).env("NEURON_MEM_INSTANCE", "trn2.3xlarge").output().unwrap());
        assert!(ran.done().starts_with(&format!("backend software, instance {instance}\n")));
    }
}

#[test]
fn a_machine_without_devices_says_so_and_what_to_do() {
    let (machine, _folder) = nothing();
    let mut out = Vec::new();
    let failure = devices::on(&machine, &devices_args(""), &mut out).unwrap_err();
    assert_eq!((failure.exit(), out.as_slice()), (Exit::Device, &[][..]));
    let text = failure.to_string();
    for words in
        ["there is no Neuron device on the PCI bus; use an instance", "neuron-mem doctor --backend kernel"]
    {
        assert!(text.contains(words), "{text}");
    }
    let failure = machine.open(3).unwrap_err();
    assert_eq!(failure.exit(), Exit::Device);
    let text = failure.to_string();
    for words in ["neuron3: opening the device: ENOENT", "\n  there is no Neuron device on the PCI bus"] {
        assert!(text.contains(words), "{text}");
    }
}

/// Whatever machine this is: devices that open, or a sentence and the device exit code.
#[test]
fn the_kernel_backend_of_this_machine_shows_devices_or_says_why_not() {
    for line in ["devices", "rings", "load", "trace-copy 64K", "doctor"] {
        let ran = neuron_mem(&format!("{line} --backend kernel"));
        match ran.code {
            Some(0) => assert!(ran.stdout.starts_with("backend kernel"), "{}", ran.stdout),
            _ => {
                let said = ran.failed(Exit::Device, &[]);
                let words =
                    if line == "doctor" { "not in order: " } else { "`neuron-mem doctor --backend kernel`" };
                assert!(said.stderr.contains(words), "{}", said.stderr);
            }
        }
    }
}

#[test]
fn a_wrong_variable_is_a_usage_error_that_names_it() {
    for (variable, value, words) in [
        ("NEURON_MEM_BACKEND", "cuda", "software, kernel"),
        ("NEURON_MEM_BACKEND", "unix:", "unix:PATH"),
        ("NEURON_MEM_INSTANCE", "trn9.huge", "trn2.48xlarge"),
        ("NEURON_RT_VISIBLE_CORES", "0,2", "entry `2`"),
        (
            "NEURON_RT_VISIBLE_CORES",
            "0-2",
            "entry `0-2` names a core that is not there: cores 0 to 1 on 1 device",
        ),
        ("NEURON_RT_NUM_CORES", "3", "cores 0 to 1 on 1 device"),
        ("NEURON_LOGICAL_NC_CONFIG", "4", "1 or 2"),
        ("NEURON_RT_DBG_ZEROCOPY", "maybe", "1 or true"),
        ("NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE", "4K", "a number of bytes"),
        ("NEURON_SCRATCHPAD_PAGE_SIZE", "100", "a multiple of 512"),
        ("NEURON_RT_DEBUG_MEMLOG_MAX_SIZE", "many", "a whole number of events"),
    ] {
        let ran = Ran::from(command("load").env(variable, value).output().unwrap());
        ran.refused(&[variable, value, words]);
    }
    for line in ["devices", "rings", "trace-copy 1"] {
        let ran = Ran::from(command(line).env("NEURON_MEM_BACKEND", "cuda").output().unwrap());
        ran.refused(&["NEURON_MEM_BACKEND", "`cuda`"]);
        // What a command does not follow cannot stop it.
        let set = command(line).env("NEURON_RT_VISIBLE_CORES", "x").output().unwrap();
        Ran::from(set).done();
    }
}

#[test]
fn a_load_goes_to_the_cores_that_are_visible() {
    let trn1 = Machine::software("trn1.32xlarge", software::MachineOptions::default()).unwrap();
    let place = |machine: &Machine, options: &str, set: &[(&str, &str)]| {
        let loaded = loaded(machine, options, set);
        let cores: Vec<u32> = loaded.places().iter().map(|(_, core, _)| *core).collect();
        (loaded.usage[0].device, cores)
    };
    let visible = |list| [("NEURON_RT_VISIBLE_CORES", list)];
    assert_eq!(place(&trn1, "", &[]), (0, vec![0, 1]));
    assert_eq!(place(&trn1, "", &visible("1")), (0, vec![1]));
    // Two cores to a device: 5 is the second of device 2.
    assert_eq!(place(&trn1, "", &visible("5")), (2, vec![1]));
    assert_eq!(place(&trn1, "", &visible("4-5")), (2, vec![0, 1]));
    assert_eq!(place(&trn1, "--device 1", &visible("3-4")), (1, vec![1]));
    // A list that names cores of more than one device: those of the first.
    assert_eq!(place(&trn1, "", &visible("3-9")), (1, vec![1]));
    // The arguments count first.
    assert_eq!(place(&trn1, "--cores 0", &visible("5")), (0, vec![0]));
    assert_eq!(place(&trn1, "--cores all --device 3", &visible("5")), (3, vec![0, 1]));
    // A number is one of any cores.
    assert_eq!(place(&trn1, "--device 7", &[("NEURON_RT_NUM_CORES", "1")]), (7, vec![0]));
    assert_eq!(place(&trn1, "", &[("NEURON_RT_NUM_CORES", "32")]), (0, vec![0, 1]));

    let words = refused(&trn1, "--device 0", &visible("4-5"));
    assert!(words.contains("leaves no core of neuron0: it has cores 0 to 1"), "{words}");
    let words = refused(&trn1, "", &visible("31,32"));
    assert!(words.contains("entry `32`") && words.contains("cores 0 to 31 on 16 devices"), "{words}");

    // On trn2 a logical core is two, unless one is asked for.
    let trn2 = Machine::software("trn2.48xlarge", software::MachineOptions::default()).unwrap();
    assert_eq!(place(&trn2, "", &visible("5")), (1, vec![2, 3]));
    let single = [("NEURON_RT_VISIBLE_CORES", "9"), ("NEURON_LOGICAL_NC_CONFIG", "1")];
    assert_eq!(place(&trn2, "", &single), (1, vec![1]));
}

#[test]
fn the_backend_that_is_set_is_taken_where_none_is_asked_for() {
    let ran = command("devices --json").env("NEURON_MEM_BACKEND", "software").output().unwrap();
    let json: Value = serde_json::from_str(&Ran::from(ran).done()).unwrap();
    assert_eq!(json["backend"], "software");
    let ran = Ran::from(command("doctor --json").env("NEURON_MEM_BACKEND", "kernel").output().unwrap());
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["backend"], ran.code == Some(0)), (&"kernel".into(), json["usable"] == true));
}
