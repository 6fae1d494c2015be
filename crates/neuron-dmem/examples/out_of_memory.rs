//! Fills an HBM, is refused, prints the report in each form, frees a block and goes on.
//!
//!     cargo run -p neuron-dmem --example out_of_memory

use neuron_abi::memory::UsageType;
use neuron_dmem::report::{DumpOptions, Files, Form, Origin};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
use neuron_ndl::{Device, software::Machine};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::new("trn2.3xlarge")?;
    let memory = DeviceMemory::new(Device::open(&machine, 0)?);
    let runtime = Allocator::new(&memory, AllocatorKind::Global, 2)?;
    let model = Allocator::labelled(&memory, AllocatorKind::Model, 2, "decoder")?;

    let weights = AllocRequest::device(9 << 30, UsageType::Weight).hint("layers");
    let _weights = model.allocate(&weights)?;
    let mut caches = Vec::new();
    for hint in ["kv.0", "kv.1", "kv.2"] {
        caches.push(runtime.allocate(&AllocRequest::device(4 << 30, UsageType::Tensor).hint(hint))?);
    }

    let more = AllocRequest::device(4 << 30, UsageType::Tensor).aligned(1 << 24).hint("kv.3");
    let error = runtime.allocate(&more).err().ok_or("the HBM has room for one more")?;
    println!("{error}\n");
    let report = error.report().ok_or("a full HBM has a report")?;
    println!("{}", report.human());
    println!("{}", report.failure_log(Origin::current(), &Files::default(), Form::Categories));
    println!("{}", serde_json::to_string(report)?);

    // Files only where the environment says so: the default would be /tmp.
    if std::env::var_os("NEURON_RT_OOM_DUMP_DIRECTORY").is_some() {
        let files = report.write_files(&memory.events(), &DumpOptions::from_env());
        println!("\n{}", files.human());
    }

    drop(caches.pop());
    let cache = runtime.allocate(&more)?;
    println!("\nafter kv.2 was freed: kv.3 is at {:#x}", cache.pa());
    Ok(())
}
