//! The device: the doors through which its owner reaches it.
//!
//! Here an access is checked and sent to whom it concerns: configuration space, an engine's register, the
//! firmware's page, an on-chip window, plain register memory, HBM. What each of them does is its module's.

use std::sync::{Arc, Mutex};

use crate::bus::Bus;
use crate::config::{DeviceConfig, Execution};
use crate::counters::Counters;
use crate::dma_table::DmaTable;
use crate::doorbells::Doorbells;
use crate::engine::{Direction, Engines, QueueError, QueueId, Shared};
use crate::error::{AccessError, DeviceError};
use crate::fault::Faults;
use crate::firmware::{Firmware, Machine};
use crate::geometry::Geometry;
use crate::hbm::Bar4;
use crate::onchip::OnChipRange;
use crate::pci::ConfigSpace;
use crate::regs::RegisterFile;
use crate::scheduler::Scheduler;
use crate::sync::lock;
use crate::worker::Workers;

/// A Neuron device: one PCI function. Shared by all threads that access it.
///
/// Dropping the last reference stops and joins its workers; descriptors they had not begun are not executed.
#[derive(Debug)]
pub struct Device {
    // Before `engines`: workers end first.
    _workers: Option<Workers>,
    geometry: Arc<Geometry>,
    config_space: Mutex<ConfigSpace>,
    registers: RegisterFile,
    firmware: Firmware,
    engines: Arc<Engines>,
}

impl Device {
    /// Makes a device in its power-on state. It costs address space but next to no memory until it is used.
    ///
    /// # Errors
    /// A revision without geometry, zero workers, or a host that refuses memory or threads.
    pub fn new(config: DeviceConfig) -> Result<Arc<Self>, DeviceError> {
        let geometry = Geometry::new(config.product, config.revision, config.qemu_hbm_size)?;
        let geometry = Arc::new(geometry);
        let workers = match config.execution {
            Execution::Inline => 0,
            Execution::Threaded { workers: 0 } => return Err(DeviceError::NoWorkers),
            Execution::Threaded { workers } => workers,
        };
        let registers = RegisterFile::new();
        let firmware = Firmware::new(&geometry, &registers, &config);
        let shared = Shared {
            bus: Bus::new(geometry.clone(), config.populate, workers > 0).map_err(DeviceError::Memory)?,
            faults: Faults::new(&config.faults),
            counters: Default::default(),
            doorbells: Default::default(),
        };
        let scheduler = (workers > 0).then(Scheduler::default);
        let engines = Arc::new(Engines::new(geometry.engine_count(), shared, scheduler));
        let workers = (workers > 0).then(|| Workers::start(&engines, workers)).transpose();
        Ok(Arc::new(Self {
            _workers: workers.map_err(DeviceError::Thread)?,
            config_space: Mutex::new(ConfigSpace::new(&geometry)),
            geometry,
            registers,
            firmware,
            engines,
        }))
    }

    /// Where everything is.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Reads `width` (1, 2 or 4) bytes of configuration space at a naturally aligned offset. Anything else
    /// reads as all ones.
    #[must_use]
    pub fn config_read(&self, offset: u16, width: u8) -> u32 {
        lock(&self.config_space).read(offset, width)
    }

    /// Writes `width` (1, 2 or 4) bytes of configuration space at a naturally aligned offset. Anything else
    /// is ignored, and so are bits that are read-only.
    pub fn config_write(&self, offset: u16, width: u8, value: u32) {
        lock(&self.config_space).write(offset, width, value);
    }

    /// Bytes of a BAR, 0 if the function doesn't have it.
    #[must_use]
    pub fn bar_size(&self, bar: u8) -> u64 {
        match bar {
            4 => self.geometry.bar4_size,
            bar if bar == self.geometry.register_bar => self.geometry.register_bar_size,
            _ => 0,
        }
    }

    /// Reads a 32-bit register, or a word of HBM in BAR4. Ordered as an acquire.
    ///
    /// # Errors
    /// [`AccessError`]: misaligned, outside, a gap between HBM channels, an injected error.
    pub fn bar_read(&self, bar: u8, offset: u64) -> Result<u32, AccessError> {
        if !self.is_register(bar, offset)? {
            use std::sync::atomic::Ordering;
            use vm_memory::Bytes;
            let word = self.bar4().slice(offset, 4)?.load(0, Ordering::Acquire);
            return word.map_err(|_| AccessError::Gap { bar, offset });
        }
        let engine = self.geometry.engine_at(offset);
        if self.faults().read_fails(offset, engine) {
            return Err(AccessError::Injected { bar, offset });
        }
        if let Some(value) = engine.and_then(|(engine, within)| self.engines.read(engine, within)) {
            return Ok(value);
        }
        if let Some(within) = self.firmware.offset(offset) {
            return Ok(self.firmware.read(&self.machine(), within));
        }
        if engine.is_none()
            && let Some(place) = self.engines.shared.bus.on_chip.at_window(offset)
        {
            return Ok(place.read_word());
        }
        Ok(self.registers.read(offset))
    }

    /// Writes a 32-bit register, or a word of HBM in BAR4. Ordered as a release: memory written before it is
    /// seen by what it sets going. With [`Execution::Inline`] that has ended when this returns.
    ///
    /// # Errors
    /// [`AccessError`]: misaligned, outside, a gap between HBM channels.
    pub fn bar_write(&self, bar: u8, offset: u64, value: u32) -> Result<(), AccessError> {
        if !self.is_register(bar, offset)? {
            use std::sync::atomic::Ordering;
            use vm_memory::Bytes;
            let stored = self.bar4().slice(offset, 4)?.store(value, 0, Ordering::Release);
            return stored.map_err(|_| AccessError::Gap { bar, offset });
        }
        if let Some((engine, within)) = self.geometry.engine_at(offset) {
            if !self.engines.write(engine, within, value) {
                self.registers.write(offset, value);
            }
        } else if let Some(within) = self.firmware.offset(offset) {
            self.firmware.write(&self.machine(), within, value);
        } else if let Some(place) = self.engines.shared.bus.on_chip.at_window(offset) {
            place.write_word(value);
        } else if self.geometry.qemu_reset == Some(offset) {
            // Reads 0 at once: done.
            self.firmware.qemu_reset(&self.machine());
        } else {
            self.registers.write(offset, value);
        }
        Ok(())
    }

    /// Whether an access goes to the register BAR; the alternative is BAR4.
    fn is_register(&self, bar: u8, offset: u64) -> Result<bool, AccessError> {
        let size = self.bar_size(bar);
        if size == 0 {
            return Err(AccessError::NoSuchBar { bar });
        }
        if !offset.is_multiple_of(4) {
            return Err(AccessError::Misaligned { bar, offset });
        }
        if offset >= size {
            return Err(AccessError::OutOfRange { bar, offset, size });
        }
        Ok(bar == self.geometry.register_bar)
    }

    fn machine(&self) -> Machine<'_> {
        Machine { geometry: &self.geometry, registers: &self.registers, engines: &self.engines }
    }

    /// HBM as BAR4 shows it: files to map, slices of the device's own mapping.
    #[must_use]
    pub fn bar4(&self) -> Bar4<'_> {
        self.engines.shared.bus.hbm.bar4()
    }

    /// The file behind `len` bytes at `offset` of the register BAR, for mapping; `None` unless one core or
    /// TopSP shows all of them there.
    #[must_use]
    pub fn on_chip_range(&self, offset: u64, len: u64) -> Option<OnChipRange> {
        self.engines.shared.bus.on_chip.window_range(offset, len)
    }

    /// Replaces the table of host memory the device may reach. Waits for nobody: a queue in the middle of its
    /// work goes on with the old table for a few megabytes at most, and keeps that table's mappings alive so
    /// long. Call [`quiesce`](Self::quiesce) to be sure that it is out of use.
    pub fn set_dma_table(&self, table: DmaTable) {
        self.engines.shared.bus.set_table(table);
    }

    /// The device's faults: add, remove, count.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.engines.shared.faults
    }

    /// What the device counted so far. Descriptors and bytes are counted when a job of up to a few megabytes
    /// ends, so while a queue runs they lag behind its head.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.engines.shared.counters.snapshot()
    }

    /// The last doorbells the device heard, in order. One stands here before the work it announces is begun.
    #[must_use]
    pub fn doorbells(&self) -> Doorbells {
        self.engines.shared.doorbells.snapshot()
    }

    /// Why a direction of a queue stands still, since its last reset. `None` also if there is no such queue.
    #[must_use]
    pub fn queue_error(&self, engine: u16, queue: u8, direction: Direction) -> Option<QueueError> {
        self.engines.error(QueueId { engine, queue }, direction)
    }

    /// Waits until no queue has work that could be done: everything announced before the call has been
    /// executed, or cannot be (no RX descriptor for it, queue disabled, stopped by an error, hung).
    pub fn quiesce(&self) {
        self.engines.quiesce();
    }
}
