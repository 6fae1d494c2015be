//! Hardware in front of a software device that counts what the driver asks of it, and
//! fails the n-th call of a kind. It writes nothing down: a life of a driver runs on it
//! thousands of times.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use neuron_driver::hw::{DmaMemory, Hardware, Identity};
use neuron_ndl::software::SoftHardware;
use neuron_udma::MmioError;

/// What a driver asks of hardware, and may not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A register read.
    Read,
    /// A register write.
    Write,
    /// A block of host memory.
    Memory,
}

/// Counts calls of one kind.
#[derive(Debug, Default)]
struct Counter {
    seen: AtomicU64,
    /// Number of the call that fails; 0 for none.
    fails: AtomicU64,
}

impl Counter {
    fn strikes(&self) -> bool {
        let number = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        number == self.fails.load(Ordering::Relaxed)
    }
}

/// Hardware that fails on demand.
pub struct Failing {
    inner: SoftHardware,
    reads: Counter,
    writes: Counter,
    blocks: Counter,
    memory_refused: AtomicBool,
}

impl Failing {
    /// In front of `inner`; nothing fails yet.
    pub fn new(inner: SoftHardware) -> Self {
        Self {
            inner,
            reads: Counter::default(),
            writes: Counter::default(),
            blocks: Counter::default(),
            memory_refused: AtomicBool::new(false),
        }
    }

    const fn counter(&self, call: Call) -> &Counter {
        match call {
            Call::Read => &self.reads,
            Call::Write => &self.writes,
            Call::Memory => &self.blocks,
        }
    }

    /// Counts calls of this kind from here, and fails the `nth` of them, once; 0 for none.
    pub fn fail(&self, call: Call, nth: u64) {
        let counter = self.counter(call);
        counter.seen.store(0, Ordering::Relaxed);
        counter.fails.store(nth, Ordering::Relaxed);
    }

    /// Calls of this kind since [`fail`](Self::fail), or since it was made.
    pub fn seen(&self, call: Call) -> u64 {
        self.counter(call).seen.load(Ordering::Relaxed)
    }

    /// Whether the call that was chosen has failed.
    pub fn has_failed(&self, call: Call) -> bool {
        let nth = self.counter(call).fails.load(Ordering::Relaxed);
        nth != 0 && self.seen(call) >= nth
    }

    /// Refuses all host memory from now on, or no longer: the system has none left.
    pub fn refuse_memory(&self, refused: bool) {
        self.memory_refused.store(refused, Ordering::Relaxed);
    }
}

impl Hardware for Failing {
    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn read(&self, offset: u64) -> Result<u32, MmioError> {
        if self.reads.strikes() { Err(MmioError { offset }) } else { self.inner.read(offset) }
    }

    /// A write that fails does not reach the device.
    fn write(&self, offset: u64, value: u32) -> Result<(), MmioError> {
        if self.writes.strikes() { Err(MmioError { offset }) } else { self.inner.write(offset, value) }
    }

    fn bar_size(&self, bar: u8) -> u64 {
        self.inner.bar_size(bar)
    }

    fn dma_alloc(&self, bytes: u64) -> Option<DmaMemory> {
        let refused = self.blocks.strikes() || self.memory_refused.load(Ordering::Relaxed);
        if refused { None } else { self.inner.dma_alloc(bytes) }
    }

    fn dma_free(&self, memory: &DmaMemory) {
        self.inner.dma_free(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use neuron_ndl::software::HostMemory;
    use neuron_softdev::{DeviceConfig, Product};

    #[test]
    fn the_chosen_call_of_a_kind_fails_once_and_others_do_not() {
        let device = neuron_softdev::Device::new(DeviceConfig::new(Product::Trn1)).unwrap();
        let failing = Failing::new(SoftHardware::new(device, Arc::new(HostMemory::new().unwrap())));
        failing.fail(Call::Read, 2);
        assert!(failing.read(0).is_ok() && !failing.has_failed(Call::Read));
        assert!(failing.write(0, 1).is_ok());
        assert_eq!(failing.read(4), Err(MmioError { offset: 4 }));
        assert!(failing.read(4).is_ok() && failing.has_failed(Call::Read));
        assert_eq!((failing.seen(Call::Read), failing.seen(Call::Write)), (3, 1));
        failing.fail(Call::Memory, 1);
        assert!(failing.dma_alloc(4096).is_none());
        let block = failing.dma_alloc(4096).unwrap();
        failing.refuse_memory(true);
        assert!(failing.dma_alloc(4096).is_none());
        failing.dma_free(&block);
    }
}
