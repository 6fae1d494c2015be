//! Registers with no device behind them, as the recorder of the cases had them: they read
//! as zero until something is written, and an engine's state shows what was asked of it.
//! Queues never run, so this is also the machine on which copies time out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::arch::Generation;
use neuron_driver::arch::Arch;
use neuron_driver::hw::{DmaMemory, Hardware, Identity};
use neuron_ndl::software::HostMemory;
use neuron_softdev::Product;
use neuron_udma::{MmioError, regs};

/// A silicon revision: neither emulator nor qemu.
const REVISION: u8 = 1;

/// The product that stands for a generation.
pub const fn product(generation: Generation) -> Product {
    match generation {
        Generation::V2 => Product::Trn1,
        Generation::V3 => Product::Trn2,
        Generation::V4 => Product::Trn3,
    }
}

/// Register memory of one device.
pub struct Registers {
    identity: Identity,
    /// Change-state register of each engine's directions, and the state register beside it.
    states: HashMap<u64, u64>,
    host: Option<Arc<HostMemory>>,
    values: Mutex<HashMap<u64, u32>>,
}

impl Registers {
    /// Registers of a generation's device. Without `host` there is no memory to allocate.
    pub fn new(generation: Generation, host: Option<Arc<HostMemory>>) -> Self {
        let arch = Arch::of(generation);
        let states = (0..arch.engines())
            .filter_map(|engine| arch.engine_base(engine))
            .flat_map(|base| [base, base + regs::S2M])
            .map(|direction| (direction + regs::CHANGE_STATE, direction + regs::STATE))
            .collect();
        let identity = Identity { device_id: product(generation).device_id(), revision: REVISION };
        Self { identity, states, host, values: Mutex::default() }
    }

    /// Puts a value in, as if the device had done so.
    pub fn preload(&self, offset: u64, value: u32) {
        self.values().insert(offset, value);
    }

    fn values(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a state register shows after a request: the state in all four fields.
const fn shown(request: u32) -> u32 {
    match request {
        1 => 0x1111,
        4 => 0x2222,
        _ => 0,
    }
}

impl Hardware for Registers {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn read(&self, offset: u64) -> Result<u32, MmioError> {
        Ok(self.values().get(&offset).copied().unwrap_or(0))
    }

    fn write(&self, offset: u64, value: u32) -> Result<(), MmioError> {
        let mut values = self.values();
        values.insert(offset, value);
        if let Some(state) = self.states.get(&offset) {
            values.insert(*state, shown(value));
        }
        Ok(())
    }

    fn bar_size(&self, _bar: u8) -> u64 {
        0
    }

    fn dma_alloc(&self, bytes: u64) -> Option<DmaMemory> {
        self.host.as_ref()?.allocate(bytes)
    }

    fn dma_free(&self, memory: &DmaMemory) {
        if let Some(host) = &self.host {
            host.free(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_keep_what_is_written_and_read_zero_before() {
        let registers = Registers::new(Generation::V2, None);
        assert_eq!(registers.read(0x3000_1020), Ok(0));
        registers.write(0x3000_1020, 7).unwrap();
        registers.preload(0x3000_1024, 9);
        assert_eq!((registers.read(0x3000_1020), registers.read(0x3000_1024)), (Ok(7), Ok(9)));
        assert!(registers.dma_alloc(4096).is_none());
    }

    #[test]
    fn a_requested_state_shows_in_its_own_direction() {
        let registers = Registers::new(Generation::V3, None);
        let base = Arch::of(Generation::V3).engine_base(128).unwrap();
        registers.write(base + 0x204, 1).unwrap();
        registers.write(base + 0x2_0204, 4).unwrap();
        assert_eq!((registers.read(base + 0x200), registers.read(base + 0x2_0200)), (Ok(0x1111), Ok(0x2222)));
        registers.write(base + 0x204, 2).unwrap();
        assert_eq!((registers.read(base + 0x200), registers.read(base + 0x2_0200)), (Ok(0), Ok(0x2222)));
    }
}
