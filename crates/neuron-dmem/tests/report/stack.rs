//! Reports of refusals on the software device: what the allocator captures, and its files.

use std::sync::Arc;

use neuron_abi::memory::{Aggregate, UsageType};
use neuron_dmem::report::{CauseKind, Chunk, DumpOptions, Event, Form, HbmState, OomReport, Table};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem};
use neuron_ndl::Device;
use neuron_ndl::software::Machine;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn open(instance: &str) -> Arc<DeviceMemory> {
    let machine = Machine::new(instance).unwrap();
    DeviceMemory::new(Device::open(&machine, 0).unwrap())
}

fn model(memory: &Arc<DeviceMemory>, core: u32, label: &str) -> Allocator {
    Allocator::labelled(memory, AllocatorKind::Model, core, label).unwrap()
}

fn weight(size: u64) -> AllocRequest<'static> {
    AllocRequest::device(size, UsageType::Weight)
}

fn allocate(allocator: &Allocator, size: u64) -> Dmem {
    allocator.allocate(&weight(size)).unwrap()
}

fn refused(allocator: &Allocator, request: &AllocRequest<'_>) -> OomReport {
    allocator.allocate(request).unwrap_err().report().unwrap().clone()
}

fn state(report: &OomReport) -> &HbmState {
    report.hbm.as_ref().unwrap()
}

/// The main pool of trn1 has 15 GiB less the firmware's 16 MiB, the small one 1 GiB.
#[test]
fn each_kind_of_cause_is_told_by_the_room_there_is() {
    let memory = open("trn1.2xlarge");
    let allocator = model(&memory, 0, "m");
    let cause = |request: &AllocRequest<'_>, kind: CauseKind, words: &str| {
        let report = refused(&allocator, request);
        assert_eq!(report.cause.kind, kind, "{}", report.human());
        assert!(report.cause.sentence.contains(words), "{}", report.cause.sentence);
        assert!(report.cause.sentence.ends_with('.') && !report.cause.sentence.contains(". "));
    };
    cause(&weight(16 * GIB), CauseKind::LargerThanPool, "is larger than any pool of HBM 0");

    let first = allocate(&allocator, 14 * GIB);
    cause(&weight(3 * GIB), CauseKind::Capacity, "mostly model constants, 15,032,385,536 B (14.0 GiB)");
    cause(&weight(GIB + GIB / 2), CauseKind::PoolSplit, "1,056,964,608 B (1008.0 MiB) left in its main pool");
    drop(first);

    // Blocks of 1 GiB all over the main pool, then every other one is freed.
    let mut blocks: Vec<_> = (0..15).map(|_| allocate(&allocator, GIB - 2 * MIB)).collect();
    let small = allocate(&allocator, GIB - MIB);
    let rest: Vec<_> = blocks.drain(..).enumerate().filter(|(place, _)| place % 2 == 0).collect();
    assert_eq!(rest.len(), 8);
    cause(&weight(2 * GIB), CauseKind::Fragmentation, "but in pieces of");
    let aligned = weight(GIB - 2 * MIB).aligned(GIB);
    cause(&aligned, CauseKind::Alignment, "but none with 1,071,644,672 B (1022.0 MiB) from a multiple of");
    let report = refused(&allocator, &aligned);
    let main = state(&report).room.unwrap().main;
    assert!(main.largest_hole >= GIB - 2 * MIB && main.largest_aligned_hole < GIB - 2 * MIB, "{main:?}");
    assert!(report.human().contains(", aligned "), "{}", report.human());
    drop((rest, small));
}

#[test]
fn a_report_names_models_and_owners_and_what_came_since_the_load() {
    let memory = open("trn2.3xlarge");
    let global = Allocator::new(&memory, AllocatorKind::Global, 2).unwrap();
    let _code = global.allocate(&AllocRequest::device(1_772_093, UsageType::UcodeLib)).unwrap();
    let first = model(&memory, 2, "first");
    let _weights: Vec<_> = (0..12)
        .map(|i| first.allocate(&weight(GIB + i * 4096).hint(&format!("layer.{i}"))).unwrap())
        .collect();
    let second = model(&memory, 3, "second");
    let _rings: Vec<_> = (0..2)
        .map(|_| second.allocate(&AllocRequest::device(64 * MIB, UsageType::DmaRing).hint("rings")).unwrap())
        .collect();
    let gone = Allocator::new(&memory, AllocatorKind::Global, 2).unwrap();
    let _left = gone.allocate(&AllocRequest::device(4096, UsageType::Tensor).hint("left")).unwrap();
    drop(gone);
    let _other_hbm = model(&memory, 0, "elsewhere").allocate(&weight(GIB)).unwrap();

    let tensor = AllocRequest::device(23 * GIB, UsageType::Tensor).hint("kv");
    let report = refused(&second, &tensor);
    let asked = &report.request;
    assert_eq!(
        (asked.hbm, asked.core, asked.size, asked.hint.as_deref()),
        (Some(1), 3, 23 * GIB, Some("kv"))
    );
    assert_eq!(asked.model.as_ref().map(|model| (model.id, model.name.as_str())), Some((1002, "second")));

    let state = state(&report);
    assert_eq!(state.cores.iter().map(|core| core.core).collect::<Vec<_>>(), [2, 3]);
    let usage = memory.usage();
    for core in &state.cores {
        assert_eq!(core.bytes.total(), usage.core_total(core.core));
    }
    assert_eq!(state.total().total(), usage.channel(1));
    let [first_model] = &state.cores[0].models[..] else { panic!("{:?}", state.cores) };
    let weights = 12 * GIB + 66 * 4096;
    assert_eq!((first_model.model.id, first_model.bytes.total()), (1001, weights));

    // Twelve layers, the rings, the code; the ten largest are named.
    let hints = &state.hints;
    let names: Vec<_> = hints.biggest.iter().map(|owner| owner.hint.as_deref().unwrap()).collect();
    assert_eq!(names[..2], ["layer.11", "layer.10"]);
    assert_eq!((names.len(), hints.other_allocations, hints.unlisted_bytes), (10, 5, 4096));
    let named: u64 = hints.biggest.iter().map(|owner| owner.bytes).sum();
    assert_eq!(named + hints.other_bytes + hints.unlisted_bytes, usage.channel(1));

    let growth = state.growth.as_ref().unwrap();
    assert_eq!((growth.since.name.as_str(), growth.bytes), ("second", 128 * MIB as i64 + 4096));
    let categories: Vec<_> = growth.categories.iter().map(|it| (it.category, it.bytes)).collect();
    assert_eq!(categories, [(Aggregate::Tensors, 4096), (Aggregate::DmaRingsRuntime, 128 * MIB as i64)]);
}

/// What another process has is no usage of ours, and yet it fills the HBM.
#[test]
fn other_processes_are_told_apart_by_the_driver_s_list() {
    let machine = Machine::new("trn1.2xlarge").unwrap();
    let memory = || DeviceMemory::new(Device::open(&machine, 0).unwrap());
    let (ours, theirs) = (memory(), memory());
    let _most = allocate(&model(&theirs, 0, "theirs"), 14 * GIB);
    let report = refused(&model(&ours, 0, "ours"), &weight(4 * GIB));
    assert_eq!(state(&report).others, Some(14 * GIB));
    assert_eq!(state(&report).total().total(), 0);
    let sentence = &report.cause.sentence;
    assert!(sentence.contains("mostly not this process's, 15,032,385,536 B (14.0 GiB)"), "{sentence}");
}

#[test]
fn a_host_failure_has_a_report_without_an_hbm() {
    let memory = open("trn1.2xlarge");
    let report = refused(&model(&memory, 0, ""), &AllocRequest::host(4 * GIB, UsageType::DmaRing));
    assert_eq!((report.cause.kind, report.hbm.is_none()), (CauseKind::HostContiguous, true));
    assert!(report.human().starts_with("out of memory on the host, for neuron0: core 0 asked for"));
}

#[test]
fn the_files_hold_what_the_driver_lists_and_what_lives() {
    let memory = open("trn1.2xlarge");
    let allocator = model(&memory, 0, "m");
    let _weights = allocator.allocate(&weight(14 * GIB + 5).hint("w,1")).unwrap();
    let _host = allocator.allocate(&AllocRequest::host(8192, UsageType::DmaRing)).unwrap();
    let report = refused(&allocator, &weight(2 * GIB));

    let folder = tempfile::tempdir().unwrap();
    let options = DumpOptions { directory: Some(folder.path().to_owned()), form: Form::Verbose };
    let files = report.write_files(&memory.events(), &options);
    assert_eq!(files.problems, Vec::<String>::new());
    let time = report.time.seconds;
    let names = [
        (&files.events, format!("nrt_mem_log_device_0_{time:x}.csv")),
        (&files.chunks, format!("neuron_mem_log_device_0_hbm_0_{time:x}.csv")),
        (&files.table, "neuron_mem_table_device_0_nc_0.log".to_owned()),
        (&files.report, format!("neuron_mem_report_device_0_{time:x}.json")),
    ];
    let texts = names.map(|(path, name)| {
        let path = path.as_ref().unwrap();
        assert_eq!(*path, folder.path().join(name));
        std::fs::read_to_string(path).unwrap()
    });
    let [events, chunks, table, json] = texts;
    let events = Event::read_csv(&events).unwrap();
    let of = |event: &Event| (event.location.name(), event.usage, event.size, event.total_mem_used);
    assert_eq!(
        events.iter().map(of).collect::<Vec<_>>(),
        [("DEVICE", UsageType::Weight, 14 * GIB + 5, 14 * GIB + 5), ("HOST", UsageType::DmaRing, 8192, 0)]
    );
    assert_eq!(events[0].hint, "w,1");
    let listed = memory.device().chunks(0).unwrap();
    let listed: Vec<_> =
        listed.iter().map(|it| Chunk { pa: it.pa, size: it.size, category: it.mem_type }).collect();
    assert_eq!(Chunk::read_csv(&chunks).unwrap(), listed);
    assert_eq!(Table::read_all(&table).unwrap()[0].columns, Form::Verbose.columns());
    assert_eq!(serde_json::from_str::<OomReport>(&json).unwrap().request, report.request);
}

#[test]
fn what_cannot_be_written_is_told_and_the_rest_is() {
    let memory = open("trn1.2xlarge");
    let report = refused(&model(&memory, 0, "m"), &weight(20 * GIB));
    let folder = tempfile::tempdir().unwrap();
    let write = |directory: std::path::PathBuf| {
        report.write_files(&[], &DumpOptions { directory: Some(directory), form: Form::Categories })
    };
    let table = folder.path().join("neuron_mem_table_device_0_nc_0.log");
    std::fs::create_dir(&table).unwrap();
    let files = write(folder.path().to_owned());
    assert_eq!((files.table, files.problems.len()), (None, 1));
    assert!(
        files.problems[0].starts_with(&format!("cannot write {}: ", table.display())),
        "{:?}",
        files.problems
    );
    assert!(files.events.is_some() && files.chunks.is_some() && files.report.is_some());

    assert_eq!(write(folder.path().join("nowhere")).problems.len(), 4);
    let files = write("d".repeat(201).into());
    assert_eq!((files.events, files.problems.len()), (None, 1));
}

/// Names in a folder that everybody may write to can be foreseen.
#[test]
fn a_link_in_place_of_a_file_is_replaced_and_its_target_kept() {
    let memory = open("trn1.2xlarge");
    let report = refused(&model(&memory, 0, "m"), &weight(20 * GIB));
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    std::fs::write(&target, "kept").unwrap();
    let table = folder.path().join("neuron_mem_table_device_0_nc_0.log");
    std::os::unix::fs::symlink(&target, &table).unwrap();
    let options = DumpOptions { directory: Some(folder.path().to_owned()), form: Form::Categories };
    let files = report.write_files(&[], &options);
    assert_eq!((files.problems, files.table.as_ref()), (vec![], Some(&table)));
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
    assert!(!table.is_symlink());
}
