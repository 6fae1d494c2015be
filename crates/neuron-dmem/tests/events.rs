//! The trace of events: what is in it of copies, of batches, of refusals, and of two sides of memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_dmem::batch::{self, Batch, Operation};
use neuron_dmem::trace::events::{EventTrace, Header};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
use neuron_ndl::software::Machine;
use neuron_ndl::{Device, HostBytes};

/// The lines that `run` leaves behind the header, without their times.
fn traced(instance: &str, run: impl FnOnce(&Arc<DeviceMemory>)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    let trace = Arc::new(EventTrace::create(&path, &Header::of("test", None)).unwrap());
    let machine = Machine::new(instance).unwrap();
    let setup = Setup::default().trace(trace.clone()).trace_clock(Arc::new(|| 7));
    run(&DeviceMemory::with(Device::open(&machine, 0).unwrap(), setup).unwrap());
    trace.close().unwrap();
    let lines = std::fs::read_to_string(&path).unwrap();
    lines.lines().skip(1).map(|line| line.replace(",\"time\":7}", "}")).collect()
}

/// Where the device copies the batches by one call, and where they go piece by piece.
#[test]
fn a_batch_is_one_copy_of_each_memory_in_it() {
    for instance in ["trn1.2xlarge", "trn2.3xlarge"] {
        let lines = traced(instance, |memory| {
            let model = Allocator::new(memory, AllocatorKind::Model, 0).unwrap();
            let [a, b] = [1 << 20, 4096]
                .map(|size| model.allocate(&AllocRequest::device(size, UsageType::Tensor)).unwrap());
            let piece = |offset, bytes| Operation { offset, buffer: HostBytes::Plain(bytes) };
            let (first, second) = ([piece(0, &[1; 100]), piece(4096, &[2; 5000])], [piece(8, &[3; 8])]);
            let batches = [
                Batch { dmem: &a, offset: 0, operations: &first },
                Batch { dmem: &b, offset: 0, operations: &second },
            ];
            batch::copy_in(&batches).unwrap();
            let outside = [piece(4096, &[0; 1])];
            batch::copy_in(&[Batch { dmem: &b, offset: 0, operations: &outside }]).unwrap_err();
            b.read(0, &mut [0; 16]).unwrap();
            b.write(4090, &[0; 16]).unwrap_err();
        });
        let copies: Vec<&str> =
            lines.iter().filter(|line| line.contains("\"copy\"")).map(String::as_str).collect();
        assert_eq!(
            copies,
            [
                r#"{"event":"copy","id":1,"direction":"in","bytes":5100}"#,
                r#"{"event":"copy","id":2,"direction":"in","bytes":8}"#,
                r#"{"event":"copy","id":2,"direction":"out","bytes":16}"#,
            ],
            "{instance}: what is refused before it begins is no copy"
        );
    }
}

#[test]
fn a_model_is_loaded_and_unloaded_and_what_it_asks_for_in_vain_is_refused() {
    let lines = traced("trn1.2xlarge", |memory| {
        let model = Allocator::labelled(memory, AllocatorKind::Model, 1, "m").unwrap();
        let host = model.allocate(&AllocRequest::host(4096, UsageType::Io)).unwrap();
        model.allocate(&AllocRequest::device(40 << 30, UsageType::Weight).hint("w")).unwrap_err();
        drop(host);
        drop(model);
    });
    let place = |line: &str| line.split(",\"pa\":").next().unwrap().trim_end_matches('}').to_owned();
    let lines: Vec<String> = lines.iter().map(|line| place(line)).collect();
    assert_eq!(
        lines,
        [
            r#"{"event":"load","graph":"m""#,
            r#"{"event":"alloc","id":1,"size":4096,"align":0,"location":"host","hbm":0,"core":1,"usage":"IO","owner":"m""#,
            r#"{"event":"alloc","id":2,"size":42949672960,"align":0,"location":"device","hbm":1,"core":1,"usage":"WEIGHT","owner":"m","hint":"w","refused":true"#,
            r#"{"event":"free","id":1"#,
            r#"{"event":"unload","graph":"m""#,
        ]
    );
}
