//! Bringing one engine up: the register writes of `spec/udma.md` 3, in their order.

use crate::engine::Udma;
use crate::error::{Reason, UdmaError};
use crate::mmio::Mmio;
use crate::regs::{self, Direction, group};
use crate::{QUEUES, queue};

/// Packet limits the engine accepts (`spec/udma.md` 1).
const PACKET_LIMITS: core::ops::RangeInclusive<u32> = 8..=128;
const AXI_TIMEOUT_AT_INIT: u32 = 0x05f5_e100;
const ALL: u32 = u32::MAX;

/// What a generation, and the engine's place in it, put into the sequence
/// (`spec/arch.md` 2, 5.1, 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineParams {
    /// Offset of the engine's registers in BAR0.
    pub base: u64,
    /// Offset of its SDMA wrapper block in BAR0, if it is to be written.
    pub wrapper: Option<u64>,
    /// Wrapper broadcast registers (group, last-node mask), written first.
    pub broadcast: Option<(u32, u32)>,
    /// Wrapper register 0x800, written last of the wrapper's.
    pub wrapper_0x800: Option<u32>,
    /// Depth of the data FIFO, beats.
    pub data_fifo_beats: u32,
    /// Which of the two sets of outstanding-read limits.
    pub reserve_max_read_axi_id: bool,
    /// S2M outstanding writes 2, bits 9:0.
    pub outstanding_writes_2: Option<u32>,
    /// Abort the queue on an AXI error.
    pub axi_error_abort: bool,
    /// Offset of the interrupt block in which ring-id errors are masked.
    pub mask_ring_id_errors: Option<u64>,
    /// Descriptors in a packet, 8..=128.
    pub packet_limit: u32,
    /// Queues in use, at most 16.
    pub queues: u32,
}

impl EngineParams {
    /// An engine at `base` with none of what differs between generations: for tests
    /// and examples.
    pub const fn bare(base: u64) -> Self {
        Self {
            base,
            wrapper: None,
            broadcast: None,
            wrapper_0x800: None,
            data_fifo_beats: 1024,
            reserve_max_read_axi_id: true,
            outstanding_writes_2: None,
            axi_error_abort: false,
            mask_ring_id_errors: None,
            packet_limit: 65,
            queues: QUEUES as u32,
        }
    }
}

/// A register block: offsets are added to where it starts.
struct Block<'a, M>(&'a M, u64);

impl<M: Mmio> Block<'_, M> {
    fn write(&self, offset: u64, value: u32) -> Result<(), UdmaError> {
        Ok(self.0.write32(self.1 + offset, value)?)
    }

    fn write_all(&self, writes: &[(u64, u32)]) -> Result<(), UdmaError> {
        writes.iter().try_for_each(|&(offset, value)| self.write(offset, value))
    }

    /// Reads, changes, writes; returns what was written.
    fn modify(&self, offset: u64, change: impl FnOnce(u32) -> u32) -> Result<u32, UdmaError> {
        let value = change(self.0.read32(self.1 + offset)?);
        self.write(offset, value)?;
        Ok(value)
    }
}

impl Udma {
    /// Brings the engine up, or up again. All queues are enabled as configured before;
    /// none is programmed.
    ///
    /// # Errors
    /// EINVAL for limits out of range, before any write; EIO when a register access
    /// fails, which leaves the engine to be initialised again.
    pub fn init(&mut self, mmio: &impl Mmio, params: &EngineParams) -> Result<(), UdmaError> {
        if !PACKET_LIMITS.contains(&params.packet_limit) {
            return Err(UdmaError::Invalid(Reason::PacketLimit));
        }
        if params.queues as usize > QUEUES {
            return Err(UdmaError::Invalid(Reason::QueueCount));
        }
        if let (Some(wrapper), Some((broadcast, last_node))) = (params.wrapper, params.broadcast) {
            Block(mmio, wrapper).write_all(&[(0x100, broadcast), (0x104, last_node)])?;
        }
        self.attach(mmio, params)?;
        let engine = Block(mmio, params.base);
        limits(&engine, params)?;
        interrupts(&engine)?;
        engine.write(regs::S2M_COMP_CFG, 0x1004)?;
        self.reset_shadows();
        prefetch(&engine, params.packet_limit)?;
        if let Some(wrapper) = params.wrapper {
            wrapper_block(&Block(mmio, wrapper), params.wrapper_0x800)?;
        }
        if params.axi_error_abort {
            axi_error_abort(&engine)?;
        }
        if let Some(fis) = params.mask_ring_id_errors {
            mask_ring_id_errors(&engine, &Block(mmio, fis))?;
        }
        Ok(())
    }
}

/// Steps 2 to 15: FIFO, outstanding transactions, timeouts, address selectors.
fn limits<M: Mmio>(engine: &Block<'_, M>, params: &EngineParams) -> Result<(), UdmaError> {
    let (reads, s2m_reads) = match params.reserve_max_read_axi_id {
        true => (0x0000_086f, 0x0040_0008),
        false => (0x2080_8080, 0x0040_0080),
    };
    engine.write_all(&[
        (regs::M2S_DATA_FIFO, params.data_fifo_beats | 0x100_0000),
        (regs::OUTSTANDING, reads),
        (regs::AXI_TIMEOUT, AXI_TIMEOUT_AT_INIT),
        (regs::M2S_APPL_ACK, 0),
        (regs::M2S_PKT_LEN_CFG, 0x010f_ffff),
        (regs::M2S_STREAM_CFG, 0x0000_0102),
    ])?;
    for qid in 0..QUEUES as u32 {
        engine.write(regs::address_high(qid, 0), ALL)?;
    }
    engine.write_all(&[(regs::M2S_DATA_RD_CFG, 0x0001_0008), (regs::S2M_APPL_ACK, 0)])?;
    for qid in 0..QUEUES as u32 {
        for selector in 1..=3 {
            engine.write(regs::address_high(qid, selector), ALL)?;
        }
    }
    engine
        .write_all(&[(regs::S2M + regs::OUTSTANDING, s2m_reads), (regs::OUTSTANDING_WRITES, 0x4080_4080)])?;
    if let Some(limit) = params.outstanding_writes_2 {
        engine.modify(regs::OUTSTANDING_WRITES_2, |old| old & !0x3ff | limit & 0x3ff)?;
    }
    engine.modify(regs::SPARE, |old| old & !1)?;
    Ok(())
}

/// Steps 16 and 17: which events interrupt, which abort.
fn interrupts<M: Mmio>(engine: &Block<'_, M>) -> Result<(), UdmaError> {
    let primary = regs::primary_group(3);
    let shared = regs::secondary_group(2);
    for (side, events, primary_mask) in [
        (regs::secondary_group(0), 0xf000_0000_u32, 0xffff_faff_u32),
        (regs::secondary_group(1), 0x0000_10f8, 0xffff_f9ff),
    ] {
        // The shared group takes what belongs to this side only.
        let shared_events = if side == regs::secondary_group(0) { 0xffff_ffc0 } else { 0xffff_f03f };
        engine.write_all(&[
            (side + group::CONTROL, 0x28),
            (primary + group::CONTROL, 0x28),
            (side + group::ABORT_MASK, events),
            (shared + group::ABORT_MASK, shared_events),
            (side + group::MASK_CLEAR, events),
            (shared + group::MASK_CLEAR, shared_events),
            (primary + group::MASK_CLEAR, primary_mask),
        ])?;
    }
    Ok(())
}

/// Step 20: descriptor prefetch and bursts.
fn prefetch<M: Mmio>(engine: &Block<'_, M>, packet_limit: u32) -> Result<(), UdmaError> {
    let cfg_3 = packet_limit << 8 | 8 << 4 | 1;
    engine.write_all(&[
        (regs::M2S_PREF_CFG_2, packet_limit | 1 << 16),
        (regs::PREF_CFG_3, cfg_3),
        (regs::S2M + regs::PREF_CFG_3, cfg_3),
        (regs::DESC_RD_CFG_3, 0x0001_0008),
        (regs::S2M + regs::DESC_RD_CFG_3, 0x0001_0008),
    ])
}

/// Step 21: read and write reordering and event acceleration on.
fn wrapper_block<M: Mmio>(wrapper: &Block<'_, M>, at_0x800: Option<u32>) -> Result<(), UdmaError> {
    wrapper.write_all(&[(0x1c, 1), (0x20, 1), (0x00, 1)])?;
    match at_0x800 {
        Some(value) => wrapper.write(0x800, value),
        None => Ok(()),
    }
}

/// Step 22, V2: an AXI error aborts the queue instead of hanging it.
fn axi_error_abort<M: Mmio>(engine: &Block<'_, M>) -> Result<(), UdmaError> {
    for table in 0..6 {
        for entry in [1, 2, 3, 9, 10, 11] {
            engine.write(regs::axi_error_table(table, entry), 0xf)?;
        }
    }
    for table in 0..6 {
        for qid in 0..QUEUES as u32 {
            let control = regs::axi_error_control(table);
            engine.write_all(&[(control, qid << 3 | 7), (control + 4, 0x10)])?;
        }
    }
    for errors in regs::AXI_ERROR_GROUPS {
        engine.write_all(&[
            (errors + group::CONTROL, 0x28),
            (errors + group::ABORT_MASK, 0),
            (errors + group::MASK_CLEAR, 0),
        ])?;
    }
    engine.write(regs::AXI_TIMEOUT, ALL)
}

/// Step 22, V3 and V4: a wrong phase in a runtime's ring does not stop the engine.
fn mask_ring_id_errors<M: Mmio>(engine: &Block<'_, M>, fis: &Block<'_, M>) -> Result<(), UdmaError> {
    for (side, bit) in [(regs::secondary_group(0), 1 << 17), (regs::secondary_group(1), 1 << 11)] {
        let mask = engine.modify(side + group::MASK, |old| old | bit)?;
        engine.write(side + group::ABORT_MASK, mask)?;
    }
    fis.modify(0x90, |old| old | 1 << 11)?;
    fis.modify(0xd0, |old| old | 1 << 2)?;
    engine.modify(regs::ERR_LOG_MASK, |old| old | 1 << 17)?;
    engine.modify(regs::S2M + regs::ERR_LOG_MASK, |old| old | 1 << 11)?;
    Ok(())
}

impl Udma {
    /// Step 1: every queue learns where it is and is enabled, TX then RX, queue by queue.
    fn attach(&mut self, mmio: &impl Mmio, params: &EngineParams) -> Result<(), UdmaError> {
        self.place(params.base, params.queues);
        for qid in 0..QUEUES as u32 {
            for direction in [Direction::Tx, Direction::Rx] {
                let block = params.base + direction.queue_block(qid);
                self.queue_mut(direction, qid)?.attach(block, mmio)?;
            }
        }
        Ok(())
    }

    /// Step 19.
    fn reset_shadows(&mut self) {
        self.all_queues().for_each(queue::Queue::reset_shadows);
    }
}
