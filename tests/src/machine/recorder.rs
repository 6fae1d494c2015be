//! Hardware in front of other hardware: it writes every register access down, follows
//! the queues, remembers which host memory is where, and can make a read fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::arch::{Generation, Geometry};
use neuron_driver::arch::Arch;
use neuron_driver::hw::{DmaMemory, Hardware, Identity};
use neuron_udma::MmioError;
use neuron_udma::descriptor::Descriptor;
use vm_memory::{Bytes, VolatileSlice};

use super::queues::{Descriptors, Queues};
use super::{Access, Batch};

/// What was recorded since the last [`Recorder::take`].
#[derive(Debug, Default)]
pub struct Recording {
    /// All accesses that succeeded, in order.
    pub accesses: Vec<Access>,
    /// What the doorbells set going.
    pub batches: Vec<Batch>,
}

/// Recording hardware.
pub struct Recorder {
    inner: Arc<dyn Hardware>,
    state: Mutex<State>,
}

struct State {
    accesses: Vec<Access>,
    queues: Queues,
    memory: HostMap,
    /// Reads until the one that fails.
    reads_to_failure: Option<u64>,
    /// No memory is left.
    memory_refused: bool,
}

/// Allocated host memory by physical address.
struct HostMap {
    geometry: &'static Geometry,
    blocks: BTreeMap<u64, DmaMemory>,
}

impl HostMap {
    /// The `len` bytes at a tagged bus address, if one block holds them all.
    fn at(&self, bus: u64, len: u64) -> Option<DmaMemory> {
        if !self.geometry.is_host_address(bus) {
            return None;
        }
        let address = bus & !self.geometry.host_base;
        let (start, block) = self.blocks.range(..=address).next_back()?;
        block.part(usize::try_from(address - start).ok()?, usize::try_from(len).ok()?)
    }
}

impl Descriptors for HostMap {
    fn descriptor(&self, address: u64) -> Option<Descriptor> {
        let mut bytes = [0; 16];
        self.at(address, 16)?.slice().read_slice(&mut bytes, 0).ok()?;
        Some(bytes)
    }
}

impl Recorder {
    /// Records what is done to `inner`, a device of this generation.
    pub fn new(generation: Generation, inner: Arc<dyn Hardware>) -> Self {
        let state = State {
            accesses: Vec::new(),
            queues: Queues::new(Arch::of(generation)),
            memory: HostMap { geometry: generation.geometry(), blocks: BTreeMap::new() },
            reads_to_failure: None,
            memory_refused: false,
        };
        Self { inner, state: Mutex::new(state) }
    }

    /// Takes what was recorded, and starts again.
    pub fn take(&self) -> Recording {
        let mut state = self.state();
        Recording { accesses: std::mem::take(&mut state.accesses), batches: state.queues.take() }
    }

    /// Makes the read after the next `reads` ones fail: 0 is the next. A failed read is
    /// not recorded.
    pub fn fail_read(&self, reads: u64) {
        self.state().reads_to_failure = Some(reads);
    }

    /// Refuses all host memory from now on: the system has none left.
    pub fn refuse_memory(&self) {
        self.state().memory_refused = true;
    }

    /// The `len` bytes of host memory at a tagged bus address, if they are allocated.
    pub fn host_memory(&self, bus: u64, len: u64) -> Option<DmaMemory> {
        self.state().memory.at(bus, len)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hardware for Recorder {
    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn read(&self, offset: u64) -> Result<u32, MmioError> {
        match &mut self.state().reads_to_failure {
            reads @ Some(0) => {
                *reads = None;
                return Err(MmioError { offset });
            }
            Some(reads) => *reads -= 1,
            None => {}
        }
        let access = Access::read(offset, self.inner.read(offset)?);
        let mut state = self.state();
        state.accesses.push(access);
        state.queues.read(access);
        Ok(access.value)
    }

    /// Written down before it takes effect: an inline engine has run when it returns.
    fn write(&self, offset: u64, value: u32) -> Result<(), MmioError> {
        let access = Access::write(offset, value);
        {
            let State { accesses, queues, memory, .. } = &mut *self.state();
            accesses.push(access);
            queues.write(access, memory);
        }
        self.inner.write(offset, value)
    }

    fn bar_size(&self, bar: u8) -> u64 {
        self.inner.bar_size(bar)
    }

    fn window(&self, offset: u64, bytes: u64) -> Option<VolatileSlice<'_>> {
        self.inner.window(offset, bytes)
    }

    fn dma_alloc(&self, bytes: u64) -> Option<DmaMemory> {
        if self.state().memory_refused {
            return None;
        }
        let memory = self.inner.dma_alloc(bytes)?;
        self.state().memory.blocks.insert(memory.address(), memory.clone());
        Some(memory)
    }

    fn dma_free(&self, memory: &DmaMemory) {
        self.state().memory.blocks.remove(&memory.address());
        self.inner.dma_free(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Registers;
    use neuron_ndl::software::HostMemory;

    fn recorder() -> Recorder {
        let host = Arc::new(HostMemory::new().unwrap());
        Recorder::new(Generation::V2, Arc::new(Registers::new(Generation::V2, Some(host))))
    }

    #[test]
    fn the_chosen_read_fails_once_and_is_not_recorded() {
        let recorder = recorder();
        recorder.write(16, 5).unwrap();
        recorder.fail_read(1);
        assert_eq!(recorder.read(16), Ok(5));
        assert_eq!(recorder.read(16), Err(MmioError { offset: 16 }));
        assert_eq!(recorder.read(20), Ok(0));
        let recorded = recorder.take().accesses;
        assert_eq!(recorded, [Access::write(16, 5), Access::read(16, 5), Access::read(20, 0)]);
        assert!(recorder.take().accesses.is_empty());
    }

    #[test]
    fn refused_memory_stays_refused_and_what_was_had_can_be_given_back() {
        let recorder = recorder();
        let block = recorder.dma_alloc(4096).unwrap();
        recorder.refuse_memory();
        recorder.dma_free(&block);
        assert!(recorder.dma_alloc(4096).is_none());
    }

    #[test]
    fn host_memory_is_found_by_tagged_address_while_it_is_allocated() {
        let recorder = recorder();
        let block = recorder.dma_alloc(8192).unwrap();
        let bus = Generation::V2.geometry().host_base | block.address();
        assert_eq!(recorder.host_memory(bus + 4096, 4096).unwrap().address(), block.address() + 4096);
        assert!(recorder.host_memory(bus + 4096, 4097).is_none(), "past the end");
        assert!(recorder.host_memory(block.address(), 1).is_none(), "without the host tag");
        recorder.dma_free(&block);
        assert!(recorder.host_memory(bus, 1).is_none());
    }
}
