//! The device as the recorder of the sessions had it: registers that only keep what is
//! written, with engines behind them that move bytes, and host pages handed out by the
//! recorder's rule. So every value read can be compared, and every byte moved.

use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_abi::arch::Generation;
use neuron_driver::hw::{DmaMemory, Hardware, Identity};
use neuron_ndl::software::SoftHardware;
use neuron_udma::MmioError;
use vm_memory::VolatileSlice;

use super::Registers;

/// PCI revision that the recorder's device reported.
const REVISION: u8 = 0;

/// Where host memory is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// At the lowest address where it fits.
    Lowest,
    /// The same, but a request too large for every hole starts at the highest address used
    /// so far, also where the last hole ends there and could have grown.
    LowestOrTop,
}

/// Registers in front of a device.
pub struct Mirror {
    registers: Registers,
    device: SoftHardware,
    placement: Placement,
    /// First address above all that was ever allocated.
    top: Mutex<u64>,
}

impl Mirror {
    /// Puts registers of a generation in front of `device`, which is one of it.
    pub fn new(generation: Generation, device: SoftHardware, placement: Placement) -> Self {
        Self { registers: Registers::new(generation, None), device, placement, top: Mutex::default() }
    }

    fn top(&self) -> MutexGuard<'_, u64> {
        self.top.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory that does not lie across `top`, where the lowest that fits would. The holes
    /// below are filled meanwhile.
    fn allocate_above(&self, bytes: u64, top: u64) -> Option<DmaMemory> {
        let mut fillers = Vec::new();
        let found = loop {
            let Some(memory) = self.device.dma_alloc(bytes) else { break None };
            let (start, end) = (memory.address(), memory.address() + bytes);
            if start >= top || end <= top {
                break Some(memory);
            }
            self.device.dma_free(&memory);
            match self.device.dma_alloc(top - start) {
                Some(filler) => fillers.push(filler),
                None => break None,
            }
        };
        fillers.iter().for_each(|filler| self.device.dma_free(filler));
        found
    }
}

impl Hardware for Mirror {
    fn identity(&self) -> Identity {
        Identity { revision: REVISION, ..self.registers.identity() }
    }

    fn read(&self, offset: u64) -> Result<u32, MmioError> {
        self.registers.read(offset)
    }

    fn write(&self, offset: u64, value: u32) -> Result<(), MmioError> {
        self.registers.write(offset, value)?;
        self.device.write(offset, value)
    }

    fn bar_size(&self, bar: u8) -> u64 {
        self.device.bar_size(bar)
    }

    fn window(&self, offset: u64, bytes: u64) -> Option<VolatileSlice<'_>> {
        self.device.window(offset, bytes)
    }

    fn dma_alloc(&self, bytes: u64) -> Option<DmaMemory> {
        let mut top = self.top();
        let memory = match self.placement {
            Placement::Lowest => self.device.dma_alloc(bytes),
            Placement::LowestOrTop => self.allocate_above(bytes, *top),
        }?;
        *top = (memory.address() + bytes).max(*top);
        Some(memory)
    }

    fn dma_free(&self, memory: &DmaMemory) {
        self.device.dma_free(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::registers::product;
    use neuron_driver::arch::Arch;
    use neuron_ndl::software::HostMemory;
    use neuron_softdev::{Device, DeviceConfig};
    use std::sync::Arc;

    const PAGE: u64 = 4096;

    fn mirror(placement: Placement) -> (Mirror, Arc<HostMemory>) {
        let host = Arc::new(HostMemory::new().unwrap());
        let device = Device::new(DeviceConfig::new(product(Generation::V2))).unwrap();
        (Mirror::new(Generation::V2, SoftHardware::new(device, Arc::clone(&host)), placement), host)
    }

    #[test]
    fn registers_show_what_was_written_and_nothing_of_the_device() {
        let (mirror, _host) = mirror(Placement::Lowest);
        let tail = Arch::of(Generation::V2).engine_base(32).unwrap() + 0x1038;
        mirror.write(tail, 7).unwrap();
        assert_eq!((mirror.read(tail), mirror.read(tail + 4)), (Ok(7), Ok(0)));
        assert!(mirror.bar_size(4) > 0);
    }

    #[test]
    fn the_last_hole_grows_by_one_rule_and_not_by_the_other() {
        for (placement, grows) in [(Placement::Lowest, true), (Placement::LowestOrTop, false)] {
            let (mirror, host) = mirror(placement);
            let blocks = [4, 1, 2].map(|pages| mirror.dma_alloc(pages * PAGE).unwrap());
            let start = blocks[0].address();
            mirror.dma_free(&blocks[0]);
            mirror.dma_free(&blocks[2]);
            let too_large = mirror.dma_alloc(5 * PAGE).unwrap();
            let wanted = if grows { start + 5 * PAGE } else { start + 7 * PAGE };
            assert_eq!(too_large.address(), wanted, "{placement:?}");
            let fits = mirror.dma_alloc(2 * PAGE).unwrap();
            assert_eq!(fits.address(), start, "{placement:?}");
            assert_eq!(host.in_use(), 8 * PAGE, "nothing else is kept");
        }
    }
}
