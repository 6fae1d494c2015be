//! A machine around a device and a queue worked by hand: what the tests share. No driver's code is used.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "test code")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use neuron_softdev::{Device, DeviceConfig, Direction, DmaMapping, DmaTable, Execution, Product};
use vm_memory::{Bytes, MmapRegion, VolatileMemory};

pub(crate) const REGISTERS: u8 = 0;
/// Host physical address of the machine's memory.
pub(crate) const HOST_BASE: u64 = 0x1000_0000;
/// Bytes of it.
pub(crate) const HOST_SIZE: u64 = 8 << 20;

/// A device and host memory it can reach.
pub(crate) struct Machine {
    pub(crate) device: Arc<Device>,
    pub(crate) host: Arc<MmapRegion>,
    next: AtomicU64,
}

impl Machine {
    pub(crate) fn new(product: Product) -> Self {
        Self::with(DeviceConfig::new(product))
    }

    pub(crate) fn threaded(product: Product, workers: usize) -> Self {
        let mut config = DeviceConfig::new(product);
        config.execution = Execution::Threaded { workers };
        Self::with(config)
    }

    pub(crate) fn faulty(product: Product, faults: &str) -> Self {
        let mut config = DeviceConfig::new(product);
        config.faults = faults.parse().unwrap();
        Self::with(config)
    }

    pub(crate) fn with(config: DeviceConfig) -> Self {
        let device = Device::new(config).unwrap();
        let host = Arc::new(MmapRegion::new(HOST_SIZE as usize).unwrap());
        let machine = Self { device, host, next: AtomicU64::new(0) };
        machine.device.set_dma_table(machine.whole_table());
        machine
    }

    /// A table of all host memory.
    pub(crate) fn whole_table(&self) -> DmaTable {
        self.table(0, HOST_SIZE)
    }

    /// A table of `len` bytes at `offset` of it.
    pub(crate) fn table(&self, offset: u64, len: u64) -> DmaTable {
        let address = HOST_BASE + offset;
        DmaTable::new([DmaMapping { address, len, region: self.host.clone(), offset }]).unwrap()
    }

    /// Page-aligned host memory: its offset.
    pub(crate) fn alloc(&self, len: u64) -> u64 {
        let at = self.next.fetch_add(len.next_multiple_of(4096), Ordering::Relaxed);
        assert!(at + len <= HOST_SIZE, "the machine is out of memory");
        at
    }

    /// Bus address of host memory.
    pub(crate) fn bus(&self, offset: u64) -> u64 {
        self.device.geometry().host_tag | (HOST_BASE + offset)
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        self.host.get_slice(offset as usize, bytes.len()).unwrap().write_slice(bytes, 0).unwrap();
    }

    pub(crate) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.host.get_slice(offset as usize, len).unwrap().read_slice(&mut bytes, 0).unwrap();
        bytes
    }

    /// A 32-bit word, as a poller loads it.
    pub(crate) fn word(&self, offset: u64) -> u32 {
        self.host.as_volatile_slice().load(offset as usize, Ordering::Acquire).unwrap()
    }

    pub(crate) fn set_word(&self, offset: u64, value: u32) {
        self.host.as_volatile_slice().store(value, offset as usize, Ordering::Release).unwrap();
    }

    pub(crate) fn write_hbm(&self, bar4: u64, bytes: &[u8]) {
        self.device.bar4().slice(bar4, bytes.len() as u64).unwrap().write_slice(bytes, 0).unwrap();
    }

    pub(crate) fn read_hbm(&self, bar4: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.device.bar4().slice(bar4, len as u64).unwrap().read_slice(&mut bytes, 0).unwrap();
        bytes
    }

    pub(crate) fn reg(&self, offset: u64) -> u32 {
        self.device.bar_read(REGISTERS, offset).unwrap()
    }

    pub(crate) fn set_reg(&self, offset: u64, value: u32) {
        self.device.bar_write(REGISTERS, offset, value).unwrap();
    }

    pub(crate) fn engine_reg(&self, engine: u16, offset: u64) -> u32 {
        self.reg(self.device.geometry().engine_base(engine).unwrap() + offset)
    }

    pub(crate) fn set_engine_reg(&self, engine: u16, offset: u64, value: u32) {
        self.set_reg(self.device.geometry().engine_base(engine).unwrap() + offset, value);
    }

    /// State registers of an engine: M2S, S2M.
    pub(crate) fn state(&self, engine: u16) -> (u32, u32) {
        (self.engine_reg(engine, 0x200), self.engine_reg(engine, 0x2_0200))
    }
}

/// Where a ring's memory is.
#[derive(Clone, Copy)]
pub(crate) enum RingMemory {
    /// At an offset of host memory.
    Host(u64),
    /// At a BAR4 offset below HBM0's end, where BAR4 offset and device address are the same.
    Hbm0(u64),
}

/// One side's ring and the software cursor into it.
#[derive(Clone, Copy)]
struct Side {
    memory: RingMemory,
    index: u32,
    phase: u32,
    unrung: u32,
}

/// A queue pair worked by hand.
pub(crate) struct Queue<'m> {
    machine: &'m Machine,
    pub(crate) engine: u16,
    pub(crate) queue: u64,
    pub(crate) size: u32,
    sides: [Side; 2],
}

pub(crate) const FIRST: u32 = 1 << 26;
pub(crate) const LAST: u32 = 1 << 27;
pub(crate) const META: u32 = 1 << 23;

/// Base of a queue's block in its engine.
pub(crate) fn block(direction: Direction, queue: u64) -> u64 {
    match direction {
        Direction::M2s => 0x1000 + queue * 0x1000,
        Direction::S2m => 0x2_1000 + queue * 0x1000,
    }
}

impl<'m> Queue<'m> {
    /// Rings of `size` descriptors in host memory, programmed and enabled.
    pub(crate) fn new(machine: &'m Machine, engine: u16, queue: u64, size: u32) -> Self {
        let memory = [0, 1].map(|_| RingMemory::Host(machine.alloc(u64::from(size) * 16)));
        Self::at(machine, engine, queue, size, memory)
    }

    /// Rings in given memory: TX, RX.
    pub(crate) fn at(
        machine: &'m Machine,
        engine: u16,
        queue: u64,
        size: u32,
        memory: [RingMemory; 2],
    ) -> Self {
        let sides = memory.map(|memory| Side { memory, index: 0, phase: 1, unrung: 0 });
        let mut this = Self { machine, engine, queue, size, sides };
        this.program();
        this
    }

    /// Resets, programs and enables both sides, as `spec/udma.md` 4 has it, and starts over.
    pub(crate) fn program(&mut self) {
        for direction in [Direction::M2s, Direction::S2m] {
            let side = &mut self.sides[direction as usize];
            (side.index, side.phase, side.unrung) = (0, 1, 0);
            let base = match side.memory {
                RingMemory::Host(offset) => self.machine.bus(offset),
                RingMemory::Hbm0(address) => address,
            };
            self.set(direction, 0x20, 0x0300_0000);
            match direction {
                Direction::M2s => self.set(direction, 0xb0, 0x100),
                Direction::S2m => self.set(direction, 0x64, 0x100),
            }
            self.set(direction, 0x28, base as u32);
            self.set(direction, 0x2c, (base >> 32) as u32);
            self.set(direction, 0x30, self.size);
            self.set(direction, if direction == Direction::M2s { 0xa0 } else { 0x54 }, 0);
            self.set(direction, 0x20, 0x0303_0000);
        }
    }

    pub(crate) fn set(&self, direction: Direction, offset: u64, value: u32) {
        self.machine.set_engine_reg(self.engine, block(direction, self.queue) + offset, value);
    }

    pub(crate) fn get(&self, direction: Direction, offset: u64) -> u32 {
        self.machine.engine_reg(self.engine, block(direction, self.queue) + offset)
    }

    /// Head and tail registers.
    pub(crate) fn pointers(&self, direction: Direction) -> (u32, u32) {
        (self.get(direction, 0x34), self.get(direction, 0x3c))
    }

    /// Nothing left to fetch on either side.
    pub(crate) fn is_idle(&self) -> bool {
        [Direction::M2s, Direction::S2m].iter().all(|&direction| {
            let (head, tail) = self.pointers(direction);
            head == tail
        })
    }

    pub(crate) fn error(&self, direction: Direction) -> Option<neuron_softdev::QueueError> {
        self.machine.device.queue_error(self.engine, self.queue as u8, direction)
    }

    /// Writes the next descriptor of a side with the phase that is due, XORed with `wrong_phase`.
    fn put(&mut self, direction: Direction, word0: u32, word1: u32, address: u64, wrong_phase: u32) {
        let size = self.size;
        let side = &mut self.sides[direction as usize];
        let word0 = word0 | (side.phase ^ wrong_phase) << 24;
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&word0.to_le_bytes());
        bytes[4..8].copy_from_slice(&word1.to_le_bytes());
        bytes[8..].copy_from_slice(&address.to_le_bytes());
        let at = u64::from(side.index) * 16;
        match side.memory {
            RingMemory::Host(offset) => self.machine.write(offset + at, &bytes),
            RingMemory::Hbm0(address) => self.machine.write_hbm(address + at, &bytes),
        }
        side.unrung += 1;
        side.index = (side.index + 1) % size;
        if side.index == 0 {
            side.phase = (side.phase + 1) & 3;
        }
    }

    /// A TX descriptor with word 0 flags; `len` 65536 is written as 0.
    pub(crate) fn tx(&mut self, flags: u32, len: u32, source: u64) {
        self.put(Direction::M2s, flags | len & 0xffff, 0x0108_0003, source, 0);
    }

    pub(crate) fn rx(&mut self, len: u32, destination: u64) {
        self.put(Direction::S2m, len & 0xffff, 0, destination, 0);
    }

    /// A descriptor pair of equal lengths, a packet of its own.
    pub(crate) fn pair(&mut self, len: u32, source: u64, destination: u64) {
        self.rx(len, destination);
        self.tx(FIRST | LAST, len, source);
    }

    /// A pair in which one side has the phase of another lap.
    pub(crate) fn pair_of_wrong_phase(&mut self, wrong: Direction, len: u32, source: u64, destination: u64) {
        let xor = |direction| if direction == wrong { 3 } else { 0 };
        self.put(Direction::S2m, len & 0xffff, 0, destination, xor(Direction::S2m));
        self.put(Direction::M2s, FIRST | LAST | len & 0xffff, 0x0108_0003, source, xor(Direction::M2s));
    }

    /// Rings one side for what was put there since.
    pub(crate) fn ring(&mut self, direction: Direction) {
        let count = std::mem::take(&mut self.sides[direction as usize].unrung);
        self.set(direction, 0x38, count);
    }

    /// Rings both sides, RX first.
    pub(crate) fn kick(&mut self) {
        self.ring(Direction::S2m);
        self.ring(Direction::M2s);
    }
}

/// Bytes that tell their place.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// CRC-32C, bit by bit: the test's own reading.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}
