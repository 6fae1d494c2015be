//! Two models share weights: each has a reference, and the memory goes with the last of them,
//! though the model that allocated it is long gone. And what a careless teardown leaves alive.
//!
//!     cargo run -p neuron-dmem --example share

use neuron_abi::memory::UsageType;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, GcList};
use neuron_ndl::{Device, software::Machine};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::new("trn2.3xlarge")?;
    let memory = DeviceMemory::new(Device::open(&machine, 0)?);
    let encoder = Allocator::labelled(&memory, AllocatorKind::Model, 0, "encoder")?;
    let decoder = Allocator::labelled(&memory, AllocatorKind::Model, 1, "decoder")?;

    // The encoder's embeddings, on a list of all that its load allocated.
    let mut load = GcList::new();
    let weights = AllocRequest::device(64 << 20, UsageType::Weight).hint("embeddings");
    let embeddings = encoder.allocate_listed(&weights, &mut load)?;
    embeddings.write(0, &[42; 4096])?;
    encoder.allocate_listed(&AllocRequest::device(8 << 20, UsageType::DmaRing).hint("rings"), &mut load)?;
    println!("loaded: {} bytes on HBM 0", memory.usage().channel(0));

    // The decoder takes a reference of its own. It is listed nowhere new.
    let mut borrowed = GcList::new();
    borrowed.add(&embeddings);
    drop(embeddings);
    println!("handles of the encoder: {}, of the decoder: {}", encoder.live().len(), decoder.live().len());

    // The encoder is unloaded: its list lets go of everything, and only the rings are freed.
    load.free();
    println!("encoder unloaded: {} bytes on HBM 0", memory.usage().channel(0));
    println!("{}", encoder.destroy());

    let mut byte = [0];
    borrowed.iter().next().ok_or("the decoder holds it")?.read(4095, &mut byte)?;
    println!("the decoder still reads {}", byte[0]);
    for left in memory.left_alive() {
        println!(
            "alive without its allocator: {} bytes, counted for core {}",
            left.device_bytes(),
            left.core
        );
    }

    borrowed.free();
    println!("decoder unloaded: {} bytes on HBM 0", memory.usage().channel(0));
    println!("{}; alive without an allocator: {}", decoder.destroy(), memory.left_alive().len());
    Ok(())
}
