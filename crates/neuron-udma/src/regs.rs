//! The register map of one engine, offsets from its base (`spec/udma.md` 2).
//! Only offsets and bits live here; sequences are in [`init`](crate::init) and
//! [`queue`](crate::queue).

/// One of a queue's two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// M2S: reads the source.
    Tx,
    /// S2M: writes the destination.
    Rx,
}

impl Direction {
    /// Offset of the direction's engine-wide registers.
    pub const fn block(self) -> u64 {
        match self {
            Self::Tx => 0,
            Self::Rx => S2M,
        }
    }

    /// Offset of queue `qid`'s block.
    pub const fn queue_block(self, qid: u32) -> u64 {
        self.block() + 0x1000 + qid as u64 * 0x1000
    }

    /// Offset of the completion configuration in a queue block.
    pub const fn comp_cfg(self) -> u64 {
        match self {
            Self::Tx => 0xa0,
            Self::Rx => 0x54,
        }
    }

    /// Offset of the queue's software control (bit 8 resets it) in a queue block.
    pub const fn q_sw_ctrl(self) -> u64 {
        match self {
            Self::Tx => 0xb0,
            Self::Rx => 0x64,
        }
    }
}

/// S2M registers.
pub const S2M: u64 = 0x20000;

/// Registers of one queue, the same in both directions.
pub mod queue {
    /// Configuration; see [`CFG_ENABLE`].
    pub const CFG: u64 = 0x20;
    /// Ring status.
    pub const STATUS: u64 = 0x24;
    /// Ring base, low half; bits 31:6 valid.
    pub const DRBP_LOW: u64 = 0x28;
    /// Ring base, high half.
    pub const DRBP_HIGH: u64 = 0x2c;
    /// Ring length in descriptors, 24 bits.
    pub const DRL: u64 = 0x30;
    /// Head: next descriptor to fetch, bits 23:0; ring id in 31:30.
    pub const DRHP: u64 = 0x34;
    /// Doorbell: adds to the tail.
    pub const DRTP_INC: u64 = 0x38;
    /// Tail, same packing as the head.
    pub const DRTP: u64 = 0x3c;
    /// Current descriptor pointer.
    pub const DCP: u64 = 0x40;
    /// Completion ring base, low half.
    pub const CRBP_LOW: u64 = 0x44;
    /// Completion ring base, high half.
    pub const CRBP_HIGH: u64 = 0x48;
    /// Completion head.
    pub const CRHP: u64 = 0x4c;
    /// Rate-limit mask (TX only); bit 2 masks the internal pause on a DMB.
    pub const RLIMIT_MASK: u64 = 0x74;

    /// Prefetch (16) and scheduling (17) enabled.
    pub const CFG_ENABLE: u32 = 0x3_0000;
    /// Bits 25:24, set at reset.
    pub const CFG_RESET: u32 = 3 << 24;
    /// Value of the software copy of the rate-limit mask after engine init.
    pub const RLIMIT_RESET: u32 = 7;
    /// Rate-limit mask bit 2.
    pub const RLIMIT_PAUSE_ON_DMB: u32 = 1 << 2;
    /// `q_sw_ctrl`: reset the queue.
    pub const RESET: u32 = 1 << 8;
    /// 24-bit index field of head, tail and length.
    pub const INDEX: u32 = 0xff_ffff;
}

/// Read-boundary configuration of M2S data.
pub const M2S_DATA_RD_CFG: u64 = 0x118;
/// Descriptor read configuration 3, per direction.
pub const DESC_RD_CFG_3: u64 = 0x11c;
/// Outstanding transaction limits; reads for S2M.
pub const OUTSTANDING: u64 = 0x124;
/// S2M outstanding writes.
pub const OUTSTANDING_WRITES: u64 = S2M + 0x128;
/// S2M outstanding writes 2 (bits 9:0).
pub const OUTSTANDING_WRITES_2: u64 = S2M + 0x12c;
/// State, per direction; four 2-bit fields.
pub const STATE: u64 = 0x200;
/// Change-state request, per direction.
pub const CHANGE_STATE: u64 = 0x204;
/// Error log mask, per direction.
pub const ERR_LOG_MASK: u64 = 0x20c;
/// S2M stream configuration.
pub const S2M_STREAM_CFG: u64 = S2M + 0x250;
/// M2S packet length: bits 19:0 maximum, bit 24 length 0 means 64 KiB.
pub const M2S_PKT_LEN_CFG: u64 = 0x254;
/// M2S stream configuration.
pub const M2S_STREAM_CFG: u64 = 0x258;
/// M2S prefetch configuration 2.
pub const M2S_PREF_CFG_2: u64 = 0x304;
/// Prefetch configuration 3, per direction.
pub const PREF_CFG_3: u64 = 0x308;
/// M2S data FIFO: depth in beats, packet limit in bits 31:16.
pub const M2S_DATA_FIFO: u64 = 0x310;
/// M2S completion application acknowledge timeout.
pub const M2S_APPL_ACK: u64 = 0x408;
/// S2M completion configuration.
pub const S2M_COMP_CFG: u64 = S2M + 0x380;
/// S2M application acknowledge timeout.
pub const S2M_APPL_ACK: u64 = S2M + 0x38c;

/// Primary interrupt group `g` (0..=3).
pub const fn primary_group(g: u64) -> u64 {
    0x38000 + g * 0x40
}
/// Secondary interrupt group `g` (0 M2S, 1 S2M, 2 shared).
pub const fn secondary_group(g: u64) -> u64 {
    0x3a000 + g * 0x40
}
/// Registers of an interrupt group.
pub mod group {
    /// Cause.
    pub const CAUSE: u64 = 0x00;
    /// Mask.
    pub const MASK: u64 = 0x10;
    /// Mask clear.
    pub const MASK_CLEAR: u64 = 0x18;
    /// Control.
    pub const CONTROL: u64 = 0x28;
    /// Abort mask.
    pub const ABORT_MASK: u64 = 0x30;
}
/// AXI timeout.
pub const AXI_TIMEOUT: u64 = 0x3a300;
/// AXI error detection table `i` (0..=6), entry `k`.
pub const fn axi_error_table(i: u64, k: u64) -> u64 {
    0x3a900 + i * 0x40 + k * 4
}
/// AXI error control `i`: table address, table data at +4.
pub const fn axi_error_control(i: u64) -> u64 {
    0x3ab00 + i * 8
}
/// The AXI error interrupt groups that are armed to abort, in address order.
pub const AXI_ERROR_GROUPS: [u64; 6] = [0x3ad00, 0x3ae00, 0x3af00, 0x3b000, 0x3b100, 0x3b200];
/// Spare register; bit 0 turns completion-head reporting off.
pub const SPARE: u64 = 0x3b460;
/// Address-high selector `n` (0 TX, 1..=3 RX) of queue `q`.
pub const fn address_high(q: u32, n: u64) -> u64 {
    0x3c400 + q as u64 * 0x40 + n * 4
}
