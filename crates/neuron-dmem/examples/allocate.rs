//! Allocates device and host memory on a software device, copies to it and back, and shows what
//! is in use meanwhile.
//!
//!     cargo run -p neuron-dmem --example allocate

use neuron_abi::memory::UsageType;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
use neuron_ndl::{Device, software::Machine};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::new("trn1.2xlarge")?;
    let memory = DeviceMemory::new(Device::open(&machine, 0)?);
    let model = Allocator::labelled(&memory, AllocatorKind::Model, 0, "a model")?;

    let weight = model.allocate(&AllocRequest::device(3 << 20, UsageType::Weight).hint("layer.0"))?;
    let aligned = AllocRequest::device(1 << 20, UsageType::Tensor).aligned(1 << 16).hint("kv");
    let kv = model.allocate(&aligned)?;
    let staging = model.allocate(&AllocRequest::host(4096, UsageType::Tensor))?;
    println!("layer.0 is at {:#x}, kv at {:#x} on HBM {}", weight.pa(), kv.pa(), kv.hbm());

    let bytes: Vec<u8> = (0..3 << 20).map(|index| (index % 251) as u8).collect();
    weight.write(0, &bytes)?;
    staging.write(0, &bytes[..4096])?;
    let mut back = vec![0; bytes.len()];
    weight.read(0, &mut back)?;
    assert_eq!(back, bytes);

    let statistics = memory.statistics();
    for owner in &statistics.owners {
        println!("{} has {} bytes, and had {}", owner.owner.label, owner.amount.current, owner.amount.peak);
    }
    drop((weight, kv, staging));
    println!("freed: {} bytes on HBM 0", memory.usage().channel(0));
    Ok(())
}
