//! What the driver needs from the machine it runs on: registers, memory that a device
//! can reach, and time. The software machine and a recorder in tests stand behind the
//! same traits; nothing else in this crate knows which one it is.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use neuron_udma::{Mmio, MmioError, RingMemory};
use vm_memory::{Bytes, MmapRegion, VolatileMemory, VolatileSlice};

/// What probe reads from the PCI configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PCI device id.
    pub device_id: u16,
    /// PCI revision id; 240 and 255 are an emulator and qemu (`spec/arch.md` 1).
    pub revision: u8,
}

/// The machine under one device.
pub trait Hardware: Send + Sync {
    /// PCI ids of the device.
    fn identity(&self) -> Identity;

    /// Reads a 32-bit register of BAR0.
    fn read(&self, offset: u64) -> Result<u32, MmioError>;

    /// Writes a 32-bit register of BAR0.
    fn write(&self, offset: u64, value: u32) -> Result<(), MmioError>;

    /// Bytes of a BAR, 0 if the device has none.
    fn bar_size(&self, bar: u8) -> u64;

    /// `bytes` of BAR4 at `offset`, for the processor to write; `None` where there is no
    /// memory, or none that can be mapped, as on a machine that does not say otherwise.
    fn window(&self, offset: u64, bytes: u64) -> Option<VolatileSlice<'_>> {
        let _unused = (offset, bytes);
        None
    }

    /// Contiguous host memory for DMA, page aligned, `bytes` a multiple of the page;
    /// `None` when there is no such block. Contents are undefined.
    fn dma_alloc(&self, bytes: u64) -> Option<DmaMemory>;

    /// Gives memory back. No engine may still reach it.
    fn dma_free(&self, memory: &DmaMemory);
}

/// Host memory that a device can reach. Engines write it at any time, so it is never
/// a `&[u8]`: all access is volatile or atomic.
#[derive(Clone, Debug)]
pub struct DmaMemory {
    region: Arc<MmapRegion>,
    offset: usize,
    len: usize,
    address: u64,
}

impl DmaMemory {
    /// `len` bytes at `offset` of `region`, which the device reaches at host physical
    /// `address` (without the generation's host tag). `None` if they are not inside.
    pub fn new(region: Arc<MmapRegion>, offset: usize, len: usize, address: u64) -> Option<Self> {
        region.get_slice(offset, len).ok()?;
        Some(Self { region, offset, len, address })
    }

    /// Host physical address, untagged.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Mapping that holds it, and where in the mapping.
    pub const fn region(&self) -> (&Arc<MmapRegion>, usize) {
        (&self.region, self.offset)
    }

    /// Part of it; `None` if it reaches outside.
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        let address = self.address.checked_add(offset as u64)?;
        Some(Self { region: Arc::clone(&self.region), offset: self.offset + offset, len, address })
    }

    /// The bytes, for volatile access. Empty if the mapping is shorter than promised,
    /// which the constructor excludes.
    pub fn slice(&self) -> VolatileSlice<'_> {
        match self.region.get_slice(self.offset, self.len) {
            Ok(slice) => slice,
            Err(_) => VolatileSlice::from(&mut [][..]),
        }
    }

    /// Fills it with one byte value.
    pub fn fill(&self, value: u8) {
        let block = [value; 4096];
        let slice = self.slice();
        let mut done = 0;
        while let Ok(rest) = slice.offset(done) {
            if rest.is_empty() {
                break;
            }
            rest.copy_from(&block);
            done += block.len().min(rest.len());
        }
    }
}

/// Ring memory as the UDMA layer wants it.
#[derive(Clone, Copy, Debug)]
pub struct RingSlice<'a>(pub VolatileSlice<'a>);

impl RingMemory for RingSlice<'_> {
    #[inline]
    fn store(&self, index: u32, descriptor: [u8; 16]) -> bool {
        let offset = index as usize * neuron_udma::DESCRIPTOR_SIZE;
        self.0.write_obj(u128::from_ne_bytes(descriptor), offset).is_ok()
    }
}

/// BAR0 of a machine as the UDMA layer wants it.
#[derive(Clone, Copy)]
pub struct Bar0<'a>(pub &'a dyn Hardware);

impl Mmio for Bar0<'_> {
    fn read32(&self, offset: u64) -> Result<u32, MmioError> {
        self.0.read(offset)
    }

    fn write32(&self, offset: u64, value: u32) -> Result<(), MmioError> {
        self.0.write(offset, value)
    }
}

/// Time, injected so that tests decide how it passes.
pub trait Clock: Send + Sync {
    /// Microseconds since some start.
    fn now(&self) -> u64;

    /// Waits about this long on the processor: what a driver does between two looks at a
    /// marker.
    fn delay(&self, microseconds: u64);

    /// As [`delay`](Self::delay), but lets others run meanwhile: for polls that have gone
    /// on for a while. A software engine may be waiting for this very processor.
    fn relax(&self, microseconds: u64) {
        self.delay(microseconds);
    }

    /// Sleeps at least this long.
    fn sleep(&self, microseconds: u64);

    /// Sleeps this long, or until `signal` is raised for the first time after `seen`. A
    /// clock that cannot be woken sleeps it out.
    fn sleep_unless(&self, microseconds: u64, signal: &Signal, seen: u64) {
        if signal.raised() == seen {
            self.sleep(microseconds);
        }
    }
}

/// Wakes who waits for a change. Look at [`raised`](Self::raised), then at what may change,
/// then sleep: a change in between is not missed.
#[derive(Debug, Default)]
pub struct Signal {
    raised: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    fn count(&self) -> MutexGuard<'_, u64> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it was raised.
    pub fn raised(&self) -> u64 {
        *self.count()
    }

    /// Wakes all who wait.
    pub fn raise(&self) {
        *self.count() += 1;
        self.changed.notify_all();
    }

    fn wait(&self, seen: u64, time: Duration) {
        let waited = self.changed.wait_timeout_while(self.count(), time, |raised| *raised == seen);
        drop(waited);
    }
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn delay(&self, microseconds: u64) {
        let end = Instant::now() + Duration::from_micros(microseconds);
        while Instant::now() < end {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }

    fn relax(&self, microseconds: u64) {
        let end = Instant::now() + Duration::from_micros(microseconds);
        std::thread::yield_now();
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }

    fn sleep(&self, microseconds: u64) {
        std::thread::sleep(Duration::from_micros(microseconds));
    }

    fn sleep_unless(&self, microseconds: u64, signal: &Signal, seen: u64) {
        signal.wait(seen, Duration::from_micros(microseconds));
    }
}

/// A clock that only moves when somebody waits: polls that would take minutes end at
/// once, and the same way every time.
#[derive(Debug, Default)]
pub struct VirtualClock(std::sync::atomic::AtomicU64);

impl Clock for VirtualClock {
    fn now(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn delay(&self, microseconds: u64) {
        self.0.fetch_add(microseconds, std::sync::atomic::Ordering::Relaxed);
    }

    fn sleep(&self, microseconds: u64) {
        self.delay(microseconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: usize) -> DmaMemory {
        DmaMemory::new(Arc::new(MmapRegion::new(bytes).unwrap()), 0, bytes, 0x1000).unwrap()
    }

    #[test]
    fn parts_stay_inside_and_carry_their_address() {
        let memory = memory(8192);
        let part = memory.part(4096, 4096).unwrap();
        assert_eq!((part.address(), part.len()), (0x2000, 4096));
        assert!(memory.part(4096, 4097).is_none());
        assert!(memory.part(usize::MAX, 2).is_none());
    }

    #[test]
    fn a_raised_signal_ends_a_sleep_that_would_last_an_hour() {
        let signal = Signal::default();
        let seen = signal.raised();
        std::thread::scope(|scope| {
            scope.spawn(|| signal.raise());
            SystemClock::default().sleep_unless(3_600_000_000, &signal, seen);
        });
        assert_eq!(signal.raised(), seen + 1);
    }

    #[test]
    fn fill_reaches_every_byte_of_an_odd_length() {
        let memory = memory(8192).part(1, 5000).unwrap();
        memory.fill(0xa5);
        let mut bytes = vec![0u8; 5000];
        memory.slice().copy_to(&mut bytes);
        assert!(bytes.iter().all(|&byte| byte == 0xa5));
    }

    #[test]
    fn a_descriptor_outside_the_ring_is_refused() {
        let memory = memory(64);
        let ring = RingSlice(memory.slice());
        assert!(ring.store(3, [7; 16]));
        assert!(!ring.store(4, [7; 16]));
    }
}
