//! Engine and queue state, as the registers tell it (`spec/udma.md` 5 and 11).

use crate::engine::Udma;
use crate::error::{Reason, UdmaError};
use crate::mmio::Mmio;
use crate::queue::QueueStatus;
use crate::regs::{self, Direction, queue};

/// What an engine direction reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EngineState {
    /// Never returned by a read; what an engine is before its first state set.
    Disable = 0,
    /// Nothing in progress.
    Idle = 1,
    /// Work in progress.
    Normal = 2,
    /// Stopped on an error.
    Abort = 3,
    /// Not reported by this engine.
    Reset = 4,
}

/// A state that software may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettableState {
    /// Finish the current packet, then stop all queues.
    Disable,
    /// Run.
    Normal,
    /// Stop at once.
    Abort,
}

impl SettableState {
    /// The state with this number of the C enum (0, 2, 3).
    ///
    /// # Errors
    /// EINVAL for every other number, before any write.
    pub const fn from_raw(raw: u32) -> Result<Self, UdmaError> {
        match raw {
            0 => Ok(Self::Disable),
            2 => Ok(Self::Normal),
            3 => Ok(Self::Abort),
            _ => Err(UdmaError::Invalid(Reason::State)),
        }
    }

    const fn request(self) -> u32 {
        match self {
            Self::Normal => 1 << 0,
            Self::Disable => 1 << 1,
            Self::Abort => 1 << 2,
        }
    }
}

/// Ring registers of one direction: the three that name its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRegisters {
    /// Bus address of the ring, low 6 bits cleared.
    pub base: u64,
    /// Descriptors.
    pub length: u32,
}

/// A snapshot of one direction of one queue (`spec/abi.md` 6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// The status register.
    pub hw_status: u32,
    /// What software last did to the queue.
    pub sw_status: QueueStatus,
    /// Ring memory.
    pub ring: RingRegisters,
    /// Head index.
    pub head: u32,
    /// Tail index.
    pub tail: u32,
    /// Completion ring base, unmasked.
    pub completion_base: u64,
    /// Completion head index.
    pub completion_head: u32,
}

const LOW_BASE: u32 = !0x3f;

fn address(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Udma {
    /// Asks both directions for a state: M2S first, then S2M.
    ///
    /// # Errors
    /// EIO if a write fails.
    pub fn set_state(&self, mmio: &impl Mmio, state: SettableState) -> Result<(), UdmaError> {
        for direction in [Direction::Tx, Direction::Rx] {
            mmio.write32(self.base() + direction.block() + regs::CHANGE_STATE, state.request())?;
        }
        Ok(())
    }

    /// Reads the state of (TX, RX), in the driver's order of reads.
    ///
    /// # Errors
    /// EIO if a read fails.
    pub fn state(&self, mmio: &impl Mmio) -> Result<(EngineState, EngineState), UdmaError> {
        let tx = mmio.read32(self.base() + Direction::Tx.block() + regs::STATE)?;
        let rx = mmio.read32(self.base() + Direction::Rx.block() + regs::STATE)?;
        let stream_counts = self.stream_enabled(mmio)?;
        Ok((fold(tx, true), fold(rx, stream_counts)))
    }

    /// Whether S2M's stream field counts. The engine says disabled only with all
    /// three bits set; enabled queues that disagree win.
    fn stream_enabled(&self, mmio: &impl Mmio) -> Result<bool, UdmaError> {
        const DISABLE_FLUSH_STOP: u32 = 1 << 0 | 1 << 4 | 1 << 8;
        const PREFETCH: u32 = 1 << 16;
        const STREAM: u32 = 1 << 17;
        let engine = mmio.read32(self.base() + regs::S2M_STREAM_CFG)?;
        let engine_enabled = engine & DISABLE_FLUSH_STOP != DISABLE_FLUSH_STOP;
        for qid in 0..self.num_queues() {
            let cfg = self.base() + Direction::Rx.queue_block(qid) + queue::CFG;
            let in_use = mmio.read32(cfg)? & (PREFETCH | STREAM) != 0;
            if in_use && mmio.read32(cfg)? & STREAM != 0 {
                return Ok(true);
            }
        }
        // Queues that say disabled against an engine that says enabled: enabled.
        Ok(engine_enabled)
    }

    /// Base and length of (TX, RX), read from the registers: six reads, TX first.
    ///
    /// # Errors
    /// EINVAL for a queue number out of range, EIO at the first failing read.
    pub fn ring_registers(
        &self,
        mmio: &impl Mmio,
        qid: u32,
    ) -> Result<(RingRegisters, RingRegisters), UdmaError> {
        self.check_qid(qid)?;
        let one = |direction: Direction| -> Result<RingRegisters, UdmaError> {
            let block = self.base() + direction.queue_block(qid);
            let high = mmio.read32(block + queue::DRBP_HIGH)?;
            let low = mmio.read32(block + queue::DRBP_LOW)?;
            let length = mmio.read32(block + queue::DRL)? & queue::INDEX;
            Ok(RingRegisters { base: address(high, low & LOW_BASE), length })
        };
        Ok((one(Direction::Tx)?, one(Direction::Rx)?))
    }

    /// Snapshots (TX, RX) of a queue: nine reads per direction, TX first.
    ///
    /// # Errors
    /// EINVAL for a queue number out of range, EIO at the first failing read.
    pub fn queue_snapshot(
        &self,
        mmio: &impl Mmio,
        qid: u32,
    ) -> Result<(QueueSnapshot, QueueSnapshot), UdmaError> {
        let one = |direction: Direction| -> Result<QueueSnapshot, UdmaError> {
            let sw_status = self.queue(direction, qid)?.status();
            let block = self.base() + direction.queue_block(qid);
            let read = |register: u64| mmio.read32(block + register);
            let hw_status = read(queue::STATUS)?;
            let length = read(queue::DRL)? & queue::INDEX;
            let high = read(queue::DRBP_HIGH)?;
            let low = read(queue::DRBP_LOW)? & LOW_BASE;
            let completion_high = read(queue::CRBP_HIGH)?;
            let completion_low = read(queue::CRBP_LOW)?;
            Ok(QueueSnapshot {
                hw_status,
                sw_status,
                ring: RingRegisters { base: address(high, low), length },
                head: read(queue::DRHP)? & queue::INDEX,
                tail: read(queue::DRTP)? & queue::INDEX,
                completion_base: address(completion_high, completion_low),
                completion_head: read(queue::CRHP)? & queue::INDEX,
            })
        };
        Ok((one(Direction::Tx)?, one(Direction::Rx)?))
    }
}

/// Folds the four 2-bit fields of a state register.
fn fold(register: u32, stream_counts: bool) -> EngineState {
    const COMPLETION: u32 = 0;
    const STREAM: u32 = 4;
    const DATA_READ: u32 = 8;
    const PREFETCH: u32 = 12;
    let counted = [COMPLETION, DATA_READ, PREFETCH]
        .into_iter()
        .chain(stream_counts.then_some(STREAM))
        .map(|shift| register >> shift & 3);
    let mut state = EngineState::Idle;
    for field in counted {
        match field {
            2 => return EngineState::Abort,
            1 => state = EngineState::Normal,
            _ => {}
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_aborted_field_is_an_abort_and_idle_needs_all_idle() {
        assert_eq!(fold(0, true), EngineState::Idle);
        assert_eq!(fold(0x1111, true), EngineState::Normal);
        assert_eq!(fold(0x2111, true), EngineState::Abort);
        assert_eq!(fold(0x0020, false), EngineState::Idle);
        assert_eq!(fold(0x0020, true), EngineState::Abort);
    }

    #[test]
    fn only_three_states_can_be_asked_for() {
        for raw in [1, 4, 5, u32::MAX] {
            assert_eq!(SettableState::from_raw(raw), Err(UdmaError::Invalid(Reason::State)));
        }
        assert_eq!(SettableState::from_raw(3), Ok(SettableState::Abort));
    }
}
