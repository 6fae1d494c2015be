//! A cache of tensors that gives way: when an allocation finds no room, the failure handler drops the oldest ones
//! until it does.
//!
//!     cargo run -p neuron-dmem --example survive_oom

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_abi::memory::UsageType;
use neuron_dmem::{AllocFailure, AllocRequest, Allocator, AllocatorKind, Answer, DeviceMemory, Dmem, Setup};
use neuron_ndl::{Device, software::Machine};

const GIB: u64 = 1 << 30;

/// Tensors that can be made again, the oldest first.
#[derive(Clone, Default)]
struct Cache(Arc<Mutex<VecDeque<Dmem>>>);

impl Cache {
    fn keep(&self, tensor: Dmem) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(tensor);
    }

    fn evict(&self) -> Option<Dmem> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::default();
    let evicting = cache.clone();
    let handler = move |failure: &AllocFailure<'_>| match evicting.evict() {
        Some(tensor) => {
            println!("attempt {}: {}", failure.attempt, failure.error);
            println!("  dropping {}", tensor.hint().unwrap_or("a tensor"));
            Answer::Retry
        }
        None => Answer::GiveUp,
    };

    let machine = Machine::new("trn1.2xlarge")?;
    let setup = Setup::default().on_failure(Arc::new(handler));
    let memory = DeviceMemory::with(Device::open(&machine, 0)?, setup)?;
    let model = Allocator::labelled(&memory, AllocatorKind::Model, 0, "llama")?;
    for number in 0..5 {
        let hint = format!("cached.{number}");
        cache.keep(model.allocate(&AllocRequest::device(2 * GIB, UsageType::Tensor).hint(&hint))?);
    }

    let batch = model.allocate(&AllocRequest::device(8 * GIB, UsageType::Tensor).hint("batch"))?;
    println!("{} is at {:#x}\n", batch.hint().unwrap_or_default(), batch.pa());

    // More than there is, whatever goes: the error is the last one, and says how often it was tried.
    let error = model.allocate(&AllocRequest::device(12 * GIB, UsageType::Tensor).hint("too large"));
    let error = error.err().ok_or("there is no room for it")?;
    println!("given up after {} retries: {error}", error.retries());
    Ok(())
}
