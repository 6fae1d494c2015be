//! One direction of one queue: its software state, what a ring must satisfy, and the
//! writes that program it (`spec/udma.md` 4).

use crate::cursor::Cursor;
use crate::error::{Reason, UdmaError};
use crate::mmio::Mmio;
use crate::regs::{Direction, queue};
use crate::{DESCRIPTOR_SIZE, MAX_RING, MIN_RING, RING_ALIGN};

/// What software last did to a queue; numbers as `spec/abi.md` 6.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum QueueStatus {
    /// Never touched.
    #[default]
    Unused = 0,
    /// Disabled.
    Disabled = 1,
    /// Enabled.
    Enabled = 2,
    /// Aborted.
    Aborted = 3,
}

/// Where a ring lies and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingBase {
    /// Bus address, host tag included; `None` when the caller binds no ring (base 0).
    pub base: Option<u64>,
    /// Descriptors.
    pub size: u32,
}

impl RingBase {
    /// A ring of `size` descriptors at bus address `base`.
    pub const fn new(base: u64, size: u32) -> Self {
        Self { base: Some(base), size }
    }

    fn address(self) -> u64 {
        self.base.unwrap_or(0)
    }

    /// The checks done for a pair, which answer -1.
    pub(crate) fn check_pair(self) -> Result<(), UdmaError> {
        if !self.address().is_multiple_of(RING_ALIGN) {
            return Err(UdmaError::Refused(Reason::RingAlignment));
        }
        if !self.size.is_multiple_of(16) {
            return Err(UdmaError::Refused(Reason::RingSize));
        }
        Ok(())
    }

    /// The checks done for a direction, which answer EINVAL.
    pub(crate) fn check_direction(self) -> Result<(), UdmaError> {
        if !(MIN_RING..=MAX_RING).contains(&self.size) {
            return Err(UdmaError::Invalid(Reason::RingSize));
        }
        let bytes = u64::from(self.size) * DESCRIPTOR_SIZE as u64;
        match self.address().checked_add(bytes) {
            Some(end) if end.is_multiple_of(RING_ALIGN) => Ok(()),
            _ => Err(UdmaError::Invalid(Reason::RingAlignment)),
        }
    }
}

/// Software state of one direction of one queue.
#[derive(Debug)]
pub struct Queue {
    direction: Direction,
    block: u64,
    cfg: u32,
    rlimit_mask: u32,
    status: QueueStatus,
    base: u64,
    /// Whether there is ring memory behind `base`.
    has_ring: bool,
    allocatable: bool,
    pub(crate) cursor: Cursor,
}

impl Queue {
    pub(crate) const fn new(direction: Direction) -> Self {
        Self {
            direction,
            block: 0,
            cfg: 0,
            rlimit_mask: 0,
            status: QueueStatus::Unused,
            base: 0,
            has_ring: false,
            allocatable: false,
            cursor: Cursor::new(0),
        }
    }

    /// Software's copy of the configuration register.
    pub const fn cfg(&self) -> u32 {
        self.cfg
    }

    /// What software last did to the queue.
    pub const fn status(&self) -> QueueStatus {
        self.status
    }

    /// Bus address of the ring.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Whether the queue was programmed as one that descriptors are prepared in; kept as
    /// given, also for a queue without a ring.
    pub const fn allocatable(&self) -> bool {
        self.allocatable
    }

    /// Whether [`QueuePair::prepare`](crate::QueuePair::prepare) may put descriptors here.
    pub(crate) const fn takes_descriptors(&self) -> bool {
        self.allocatable && self.has_ring
    }

    /// Cursors.
    pub const fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Step 1 of engine init: enables the queue with whatever the copy held before.
    pub(crate) fn attach(&mut self, block: u64, mmio: &impl Mmio) -> Result<(), UdmaError> {
        self.block = block;
        self.enable(mmio)
    }

    /// Step 19 of engine init: the copies take the registers' reset values.
    pub(crate) const fn reset_shadows(&mut self) {
        self.cfg = queue::CFG_RESET;
        self.rlimit_mask = queue::RLIMIT_RESET;
    }

    fn enable(&mut self, mmio: &impl Mmio) -> Result<(), UdmaError> {
        self.write_cfg(self.cfg | queue::CFG_ENABLE, QueueStatus::Enabled, mmio)
    }

    fn disable(&mut self, mmio: &impl Mmio) -> Result<(), UdmaError> {
        self.write_cfg(self.cfg & !queue::CFG_ENABLE, QueueStatus::Disabled, mmio)
    }

    fn write_cfg(&mut self, cfg: u32, status: QueueStatus, mmio: &impl Mmio) -> Result<(), UdmaError> {
        mmio.write32(self.block + queue::CFG, cfg)?;
        self.cfg = cfg;
        self.status = status;
        Ok(())
    }

    /// Writes the ring into the registers and starts with empty cursors. The ring was
    /// checked before; a failing write leaves the queue disabled in software.
    pub(crate) fn program(
        &mut self,
        mmio: &impl Mmio,
        ring: RingBase,
        allocatable: bool,
    ) -> Result<(), UdmaError> {
        let (block, base) = (self.block, ring.address());
        if self.direction == Direction::Tx {
            mmio.write32(block + queue::RLIMIT_MASK, self.rlimit_mask & !queue::RLIMIT_PAUSE_ON_DMB)?;
        }
        self.disable(mmio)?;
        mmio.write32(block + self.direction.q_sw_ctrl(), queue::RESET)?;
        mmio.write32(block + queue::DRBP_LOW, base as u32)?;
        mmio.write32(block + queue::DRBP_HIGH, (base >> 32) as u32)?;
        mmio.write32(block + queue::DRL, ring.size)?;
        mmio.write32(block + self.direction.comp_cfg(), 0)?;
        self.enable(mmio)?;
        self.base = base;
        self.has_ring = ring.base.is_some();
        self.allocatable = allocatable;
        self.cursor = Cursor::new(ring.size);
        Ok(())
    }
}
