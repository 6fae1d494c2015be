//! What differs between generations of the device, as the driver needs it: tables and
//! a few predicates (`spec/arch.md`). No other module asks which generation it runs on.
//!
//! Facts that clients share (cores, memory ranges, host tag) are in
//! [`neuron_abi::arch`]; [`Arch::geometry`] reaches them.

mod resources;
mod v2;
mod v3;

use neuron_abi::arch::{Generation, Geometry};
use neuron_udma::regs::{Direction, queue};
use neuron_udma::{Barrier, EngineParams};

pub use resources::{BarPlace, MmapResource};

/// Engine slots of a device, all generations (`spec/arch.md` 2).
pub const ENGINE_SLOTS: u32 = 132;
/// Core-owned engines of one core.
pub const ENGINES_PER_CORE: u32 = 16;
/// Queues of an engine.
pub const QUEUES: u32 = neuron_udma::QUEUES as u32;
/// Descriptors of a packet, and one more (`spec/arch.md` 2).
const PACKET_LIMIT: u32 = 65;
/// Bytes of a core's window in BAR0.
const CORE_WINDOW: u64 = 0x400_0000;
/// The queue of an engine that NX cores drive.
const NX_QUEUE: u32 = 14;

/// One generation's policy.
#[derive(Debug)]
pub struct Arch {
    /// Which one.
    pub generation: Generation,
    /// BAR0 offset of the firmware's mailbox RAM.
    pub misc_ram: u64,
    /// ORed into the address of a device ring bound to AXI port 1.
    pub port_1_base: u64,
    /// How long to wait for a copy.
    pub wait: WaitPolicy,
    /// A copy that times out while a reset runs is tried again.
    pub retries_in_reset_window: bool,
    /// How zero-copy writes to the device are ordered; reads are not.
    pub zero_copy_write: ZeroCopyOrder,
    /// A reset request is handed in again after this long, µs: (device, core).
    pub reset_reissue: (u64, u64),
    /// A reset that was not taken up by then has failed, µs.
    pub reset_deadline: u64,
    /// Bits of the reset map word that one core owns.
    pub reset_map: fn(core: u32) -> u32,
    /// BAR0 offset of core 0's window; those of the others follow it.
    core_windows: u64,
    /// Whether the firmware takes power profiles.
    pub takes_power_profiles: bool,
    resources: &'static [resources::Group],
    data_fifo_beats: u32,
    reserve_max_read_axi_id: bool,
    axi_error_abort: bool,
    outstanding_writes_2: Option<u32>,
    wrapper_0x800: Option<u32>,
    engine_blocks: fn(engine: u32) -> Option<EngineBlocks>,
    is_nx_engine: fn(engine: u32) -> bool,
    inits_h2t_engine: fn(core: u32, map: u32) -> bool,
    host_connected: fn(hbm: u32) -> [u32; 16],
}

/// Where an engine's registers are in BAR0, and what is written beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineBlocks {
    udma: u64,
    wrapper: u64,
    /// Interrupt block, for engines whose ring-id errors are masked.
    fis: Option<u64>,
    /// Wrapper broadcast registers, where they are written.
    broadcast: Option<(u32, u32)>,
}

/// Poll budgets (`spec/arch.md` 6), microseconds.
#[derive(Clone, Copy, Debug)]
pub struct WaitPolicy {
    /// Estimate per data descriptor.
    pub per_descriptor: u64,
    /// Taken off the estimate for the first wait.
    pub slack: u64,
    /// Budget in multiples of the estimate. 100 in driver 2.24.7, and on V3 and later
    /// 400 since 2.25.4; users get the longer one.
    pub factor: u64,
}

impl WaitPolicy {
    /// (first wait, following budget) for `descriptors` including the marker. At least
    /// two descriptors exist whenever something is waited for; fewer count as two.
    pub const fn budget(&self, descriptors: u32, asynchronous: bool) -> (u64, u64) {
        let data = if descriptors < 2 { 1 } else { descriptors - 1 } as u64;
        let estimate = self.per_descriptor * data;
        let first = if asynchronous { 1 } else { estimate - self.slack };
        // What the first wait took is off the budget, so the asynchronous form has more.
        let following = (estimate * self.factor - first) * 100;
        (first, following)
    }
}

/// Ordering of the last transfer of a zero-copy write (`spec/arch.md` 7).
#[derive(Clone, Copy, Debug)]
pub struct ZeroCopyOrder {
    /// Its last data descriptor.
    pub data: Barrier,
    /// Its marker.
    pub marker: Barrier,
}

/// Ordering of a copy's descriptors (`spec/arch.md` 7): the last data descriptor of a
/// batch is a write barrier, nothing else is ordered.
pub const BATCH_LAST: Barrier = Barrier::Write;
/// Ordering of all other descriptors and of the marker.
pub const BATCH_OTHER: Barrier = Barrier::None;

impl Arch {
    /// The generation of this name.
    pub fn of(generation: Generation) -> &'static Self {
        match generation {
            Generation::V2 => &v2::ARCH,
            Generation::V3 => &v3::V3,
            Generation::V4 => &v3::V4,
        }
    }

    /// Cores, memory ranges, host tag.
    pub fn geometry(&self) -> &'static Geometry {
        self.generation.geometry()
    }

    /// Engines that exist: the cores' first, then the H2T ones.
    pub fn engines(&self) -> u32 {
        self.geometry().engines()
    }

    /// Core-owned engines: what the process-exit scan covers first.
    pub fn core_engines(&self) -> u32 {
        self.geometry().cores * ENGINES_PER_CORE
    }

    /// BAR0 offset of an engine's registers; `None` for slots without hardware.
    pub fn engine_base(&self, engine: u32) -> Option<u64> {
        (self.engine_blocks)(engine).map(|blocks| blocks.udma)
    }

    /// What engine init writes for this engine; `None` for slots without hardware.
    pub fn engine_params(&self, engine: u32) -> Option<EngineParams> {
        let blocks = (self.engine_blocks)(engine)?;
        Some(EngineParams {
            base: blocks.udma,
            wrapper: Some(blocks.wrapper),
            broadcast: blocks.broadcast,
            wrapper_0x800: self.wrapper_0x800,
            data_fifo_beats: self.data_fifo_beats,
            reserve_max_read_axi_id: self.reserve_max_read_axi_id,
            outstanding_writes_2: self.outstanding_writes_2,
            axi_error_abort: self.axi_error_abort,
            mask_ring_id_errors: blocks.fis,
            packet_limit: PACKET_LIMIT,
            queues: QUEUES,
        })
    }

    /// Engines of a core.
    pub const fn engines_of_core(&self, core: u32) -> std::ops::Range<u32> {
        core * ENGINES_PER_CORE..(core + 1) * ENGINES_PER_CORE
    }

    /// The engine that copies between host and device for a core. Core numbers up to 7
    /// are legal on every generation (`spec/dma-op.md` 2).
    pub fn h2t_engine(&self, core: u32) -> u32 {
        self.geometry().h2t_ring(core).0
    }

    /// The queue of that engine which the driver keeps for the core.
    pub fn default_queue(&self, core: u32) -> u32 {
        self.geometry().h2t_ring(core).1
    }

    /// Whether a queue of an engine that hosts H2T rings is a default one.
    pub fn is_default_queue(&self, used_for_h2t: bool, qid: u32) -> bool {
        used_for_h2t && qid < self.geometry().cores_per_h2t_engine
    }

    /// Whether NX cores drive this queue; the driver never resets it.
    pub fn is_nx_queue(&self, engine: u32, qid: u32) -> bool {
        qid == NX_QUEUE && (self.is_nx_engine)(engine % ENGINES_PER_CORE)
    }

    /// Whether bringing up `core` as part of `map` also initialises its H2T engine.
    pub fn inits_h2t_engine(&self, core: u32, map: u32) -> bool {
        (self.inits_h2t_engine)(core, map)
    }

    /// Engines with host connectivity for one HBM.
    pub fn host_connected_engines(&self, hbm: u32) -> [u32; 16] {
        (self.host_connected)(hbm)
    }

    /// BAR0 offset of a core's window: state buffer, events, semaphores (`spec/arch.md` 5.3).
    pub const fn core_window(&self, core: u32) -> u64 {
        self.core_windows + core as u64 * CORE_WINDOW
    }

    /// The mappable part of this block, number and kind; `None` without such an entry.
    pub fn resource(&self, block: u32, id: u32, resource: u32) -> Option<MmapResource> {
        resources::named(self.resources, block, id, resource)
    }

    /// The mappable part with exactly this cookie and size.
    pub fn resource_at(&self, cookie: u64, bytes: u64) -> Option<MmapResource> {
        resources::keyed(self.resources, cookie, bytes)
    }

    /// BAR0 ranges (offset, bytes) that user processes may not write
    /// (`spec/dma-op.md` 10).
    pub fn is_write_blocked(&self, offset: u64, bytes: u64) -> bool {
        let overlaps = |register: u64| offset < register + 4 && register < offset.saturating_add(bytes);
        if BLOCKED_MISC.iter().any(|&register| overlaps(self.misc_ram + register)) {
            return true;
        }
        (0..self.engines()).filter_map(|engine| self.engine_base(engine)).any(|base| {
            // The last queue block of RX ends the area that can matter.
            let end = base + Direction::Rx.queue_block(QUEUES);
            offset < end
                && base < offset.saturating_add(bytes)
                && [Direction::Tx, Direction::Rx].into_iter().any(|direction| {
                    (0..QUEUES).any(|qid| {
                        let block = base + direction.queue_block(qid);
                        BLOCKED_QUEUE.iter().any(|&register| overlaps(block + register))
                    })
                })
        })
    }
}

/// Registers of a queue block that user processes may not write.
pub const BLOCKED_QUEUE: [u64; 5] =
    [queue::DRBP_LOW, queue::DRBP_HIGH, queue::DRTP_INC, queue::CRBP_LOW, queue::CRBP_HIGH];
/// Registers of the mailbox RAM that user processes may not write.
pub const BLOCKED_MISC: [u64; 5] = [0x1f0, 0x1f4, 0x1f8, 0x1fc, 0x800];

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of `spec/arch.md` 6.
    #[test]
    fn poll_budgets_match_the_sheet() {
        let v2 = &Arch::of(Generation::V2).wait;
        assert_eq!(v2.budget(2, false), (1, 39900));
        assert_eq!(v2.budget(4, false), (9, 119_100));
        assert_eq!(v2.budget(2, true), (1, 39900));
        assert_eq!(v2.budget(4, true), (1, 119_900));
        assert_eq!(v2.budget(2033, false), (8125, 80_467_500));
        let v3 = &Arch::of(Generation::V3).wait;
        assert_eq!(v3.budget(2, false), (1, 79900));
        assert_eq!(v3.budget(2033, false), (4063, 162_153_700));
        let old = WaitPolicy { factor: 100, ..*v3 };
        assert_eq!(old.budget(2033, false), (4063, 40_233_700));
    }

    #[test]
    fn a_lone_descriptor_does_not_underflow_the_budget() {
        let wait = &Arch::of(Generation::V2).wait;
        assert_eq!(wait.budget(1, false), wait.budget(2, false));
        assert_eq!(wait.budget(0, true), wait.budget(2, true));
    }

    #[test]
    fn any_overlap_with_a_doorbell_is_blocked() {
        let arch = Arch::of(Generation::V2);
        let doorbell = 0x3000_1038;
        for offset in doorbell - 3..doorbell + 4 {
            assert!(arch.is_write_blocked(offset, 4), "{offset:#x}");
        }
        assert!(!arch.is_write_blocked(doorbell + 4, 4));
        assert!(arch.is_write_blocked(arch.misc_ram + 0x800, 4));
    }
}
