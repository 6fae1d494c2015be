//! Writes a timeline of a few allocations and copies on two cores, to be opened in https://ui.perfetto.dev or
//! chrome://tracing.
//!
//!     cargo run -p neuron-dmem --example timeline -- target/timeline.json

use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_dmem::trace::chrome::ChromeTrace;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, DmemError, Setup};
use neuron_ndl::{Device, software::Machine};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("name the file to write")?;
    let timeline = Arc::new(ChromeTrace::create(path)?);
    let machine = Machine::new("trn1.2xlarge")?;
    let setup = Setup::default().trace(timeline.clone());
    let memory = DeviceMemory::with(Device::open(&machine, 0)?, setup)?;

    std::thread::scope(|scope| {
        let work = [0, 1].map(|core| {
            let memory = &memory;
            scope.spawn(move || -> Result<(), DmemError> {
                let model = Allocator::labelled(memory, AllocatorKind::Model, core, "llama")?;
                let mut buffer = vec![7; 5 << 20];
                for layer in 0..4 {
                    let hint = format!("layer.{layer}");
                    let size = buffer.len() as u64;
                    let weight =
                        model.allocate(&AllocRequest::device(size, UsageType::Weight).hint(&hint))?;
                    weight.write(0, &buffer)?;
                    weight.read(0, &mut buffer)?;
                }
                Ok(())
            })
        });
        work.into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;

    let written = timeline.finish()?;
    println!("{} events in {}", written.events, written.path.display());
    Ok(())
}
