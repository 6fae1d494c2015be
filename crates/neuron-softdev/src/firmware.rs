//! The firmware's page of registers ("misc RAM"): identity, power, reset, mailbox (`spec/device.md` 2).
//!
//! The page is plain memory with presets, but for the registers below. What stands behind two of them is
//! elsewhere: the reset word's states in [`crate::reset`], messages in [`crate::mailbox`].

use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::DeviceConfig;
use crate::engine::Engines;
use crate::geometry::{Geometry, ResetScope};
use crate::mailbox::{self, Served};
use crate::regs::RegisterFile;
use crate::reset::{ResetUnit, Ring};

/// Bytes of the page.
const PAGE_SIZE: u64 = 0x1000;

// Offsets in the page.
const API_VERSION: u64 = 0x000;
const ROUTING_ID: u64 = 0x024;
const SERIAL_LOW: u64 = 0x038;
const SERIAL_HIGH: u64 = 0x03c;
const POWER: [u64; 2] = [0x054, 0x058];
const RESET_MAP: u64 = 0x1d8;
const RESET: u64 = 0x1ec;
const REQUEST_HIGH: u64 = 0x1f0;
const REQUEST_LOW: u64 = 0x1f4;
const RESPONSE_HIGH: u64 = 0x1f8;
const RESPONSE_LOW: u64 = 0x1fc;
const DOORBELL: u64 = 0x800;
const STATUS: u64 = 0x808;

/// What a register that isn't ready reads as.
const NOT_READY: u32 = 0xdead_beef;
/// Status word: in reset.
const STATUS_BUSY: u32 = 1 << 3;

/// The device without its firmware: what the page's registers act on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) registers: &'a RegisterFile,
    pub(crate) engines: &'a Engines,
}

impl Machine<'_> {
    /// Resets engines and blocks in `scope`: queues stop, engine registers read 0, events and semaphores are
    /// 0. Memory keeps its content.
    fn reset(&self, scope: ResetScope) {
        self.engines.reset(scope);
        self.registers.clear(|offset| {
            self.geometry.engine_owning(offset).is_some_and(|engine| scope.covers_engine(engine))
        });
        self.engines.shared.bus.on_chip.reset(scope);
        self.engines.shared.counters.resets.increment();
    }
}

/// The page's behaviour.
#[derive(Debug)]
pub(crate) struct Firmware {
    base: u64,
    unit: ResetUnit,
    /// Power sample counters. A sample is taken whenever somebody looks.
    samples: [AtomicU32; 2],
}

impl Firmware {
    pub(crate) fn new(geometry: &Geometry, registers: &RegisterFile, config: &DeviceConfig) -> Self {
        let base = geometry.misc_ram;
        for (offset, value) in [
            (API_VERSION, config.firmware_api_version),
            (ROUTING_ID, config.routing_id),
            (SERIAL_LOW, config.serial as u32),
            (SERIAL_HIGH, (config.serial >> 32) as u32),
            (POWER[0], config.power.into()),
            (POWER[1], config.power.into()),
        ] {
            registers.write(base + offset, value);
        }
        Self { base, unit: ResetUnit::new(config.reset_polls), samples: Default::default() }
    }

    /// Offset in the page of an offset in the register BAR.
    pub(crate) fn offset(&self, bar_offset: u64) -> Option<u64> {
        bar_offset.checked_sub(self.base).filter(|&offset| offset < PAGE_SIZE)
    }

    pub(crate) fn read(&self, machine: &Machine<'_>, offset: u64) -> u32 {
        let plain = machine.registers.read(self.base + offset);
        match offset {
            ROUTING_ID if machine.engines.shared.faults.routing_id_is_late() => NOT_READY,
            RESET => self.unit.read(),
            STATUS if self.unit.read_busy() => plain | STATUS_BUSY,
            _ => match POWER.iter().zip(&self.samples).find(|(power, _)| **power == offset) {
                Some((_, samples)) => plain & 0xffff | samples.fetch_add(1, Ordering::Relaxed) << 16,
                None => plain,
            },
        }
    }

    pub(crate) fn write(&self, machine: &Machine<'_>, offset: u64, value: u32) {
        machine.registers.write(self.base + offset, value);
        match offset {
            RESET => self.unit.write(value),
            // Software writes 1; any other value but 0 is taken for a ring too (our choice).
            DOORBELL if value != 0 => self.ring(machine),
            _ => {}
        }
    }

    /// Qemu mode's reset register was written: a reset at once, of the device unless the reset word asks for
    /// the cores of the map (our choice: what the driver writes besides is not established).
    pub(crate) fn qemu_reset(&self, machine: &Machine<'_>) {
        self.unit.write(match machine.registers.read(self.base + RESET) {
            2 => 2,
            _ => 1,
        });
        self.ring(machine);
        machine.registers.write(self.base + RESET, 0);
    }

    /// The doorbell, shared by resets and the mailbox: a reset that was asked for comes first.
    fn ring(&self, machine: &Machine<'_>) {
        let word = |offset| machine.registers.read(self.base + offset);
        let shared = &machine.engines.shared;
        match self.unit.ring(&shared.faults) {
            Ring::Device => machine.reset(ResetScope::DEVICE),
            Ring::Cores => machine.reset(machine.geometry.reset_scope(word(RESET_MAP))),
            Ring::Ignored => {}
            Ring::NotReset => {
                let address = |high, low| u64::from(word(high)) << 32 | u64::from(word(low));
                let request = address(REQUEST_HIGH, REQUEST_LOW);
                let response = address(RESPONSE_HIGH, RESPONSE_LOW);
                match mailbox::serve(&shared.bus.view(), request, response) {
                    Ok(served) => {
                        shared.counters.mailbox_requests.increment();
                        if served == Served::Metric {
                            shared.counters.metric_posts.increment();
                        }
                    }
                    Err(_) => shared.counters.mailbox_errors.increment(),
                }
            }
        }
    }
}
