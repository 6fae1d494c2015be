//! Limits a core to a part of its HBM, a model and a kind of memory to less, changes the limits while memory is in
//! use, and prints who has how much of each.
//!
//!     cargo run -p neuron-dmem --example budgets

use neuron_abi::memory::{Aggregate, UsageType};
use neuron_dmem::budget::{Budget, BudgetUse};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
use neuron_ndl::{Device, software::Machine};

const MIB: u64 = 1 << 20;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::new("trn1.2xlarge")?;
    let memory = DeviceMemory::new(Device::open(&machine, 0)?);
    let model = Allocator::labelled(&memory, AllocatorKind::Model, 0, "llama")?;
    let runtime = Allocator::new(&memory, AllocatorKind::Global, 0)?;

    // Four fifths of what the core's HBM has: what a fraction per process does elsewhere.
    let range = memory.device().geometry().hbm(0).ok_or("there is an HBM 0")?;
    let pool = range.main_pool();
    let budgets = memory.budgets();
    budgets.limit(Budget::Core(0), Some((pool.end - pool.start) / 5 * 4))?;
    budgets.limit(model.budget(), Some(96 * MIB))?;
    budgets.limit(Budget::Usage(UsageType::Tensor), Some(64 * MIB))?;

    let _weights = model.allocate(&AllocRequest::device(80 * MIB, UsageType::Weight).hint("layers"))?;
    let mut caches = Vec::new();
    for hint in ["kv.0", "kv.1", "kv.2"] {
        let request = AllocRequest::device(30 * MIB, UsageType::Tensor).hint(hint);
        match runtime.allocate(&request) {
            Ok(cache) => caches.push(cache),
            Err(error) => println!("{error}\n"),
        }
    }
    match model.allocate(&AllocRequest::device(20 * MIB, UsageType::Weight).hint("head")) {
        Ok(_) => return Err("the model has only 16 MiB left".into()),
        Err(error) => println!("{error}\n"),
    }

    // Less than is in use: nothing is taken away, and nothing more is given.
    budgets.limit(Budget::Usage(UsageType::Tensor), Some(40 * MIB))?;
    let tensor = AllocRequest::device(MIB, UsageType::Tensor).hint("small");
    let refusal = runtime.allocate(&tensor).err().ok_or("tensors are over budget")?;
    println!("{} bytes too many\n", refusal.refusal().ok_or("a budget refused it")?.missing());
    drop(caches.pop());
    let _small = runtime.allocate(&tensor)?;

    for (name, budget) in [
        ("core 0", Budget::Core(0)),
        ("model", model.budget()),
        ("tensors", Budget::Usage(UsageType::Tensor)),
    ] {
        let BudgetUse { limit, in_use } = budgets.get(budget);
        println!("{name:8} {:5} of {:5} MiB", in_use / MIB, limit.unwrap_or(0) / MIB);
    }
    let statistics = memory.statistics();
    let tensors = statistics.category(Aggregate::Tensors);
    println!("\ntensors  {} MiB now, {} at most", tensors.current / MIB, tensors.peak / MIB);
    for owner in &statistics.owners {
        println!("{:?} {:?}: {} MiB", owner.owner.kind, owner.owner.label, owner.amount.current / MIB);
    }
    Ok(())
}
