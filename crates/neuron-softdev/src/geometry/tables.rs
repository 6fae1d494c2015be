//! The numbers: one table per generation (`spec/device.md` 1, `spec/arch.md` 2, 4, 5, 9).

use super::{ENGINE_BLOCK_SIZE, EngineGroup, GIB, Generation, OnChipBlock, OnChipKind};

impl Generation {
    pub(super) const fn table(self) -> &'static Table {
        match self {
            Self::V2 => &V2,
            Self::V3 => &V3,
            Self::V4 => &V4,
        }
    }
}

/// The constants of a generation. `Geometry` adds what product and revision decide.
pub(super) struct Table {
    pub(super) cores: u8,
    pub(super) top_sps: u8,
    pub(super) register_bar_size: u64,
    pub(super) host_tag: u64,
    pub(super) host_mask: u64,
    pub(super) misc_ram: u64,
    pub(super) hbm_bases: &'static [u64],
    pub(super) hbm_size: u64,
    pub(super) hbm_slot: u64,
    pub(super) engines: &'static [EngineGroup],
    pub(super) qemu_register_bar: u8,
    pub(super) qemu_reset: u64,
    pub(super) on_chip: fn() -> Vec<OnChipBlock>,
}

const V2: Table = Table {
    cores: 2,
    top_sps: 6,
    register_bar_size: GIB,
    host_tag: 1 << 44,
    host_mask: 0x1_f000_0000_0000,
    misc_ram: 0x30fa_0000,
    hbm_bases: &[0, 1 << 36],
    hbm_size: 16 * GIB,
    hbm_slot: 16 * GIB,
    engines: &[
        v2_engines(0, 16, 0x3000_0000, 0x3040_0000),
        v2_engines(16, 16, 0x3070_0000, 0x30b0_0000),
        v2_engines(32, 1, 0x3060_0000, 0x3064_0000),
        v2_engines(33, 1, 0x30d0_0000, 0x30d4_0000),
    ],
    qemu_register_bar: 2,
    qemu_reset: 0x3064_7010,
    on_chip: v2_blocks,
};

/// Engines of V2: blocks and wrappers side by side, in two arrays.
const fn v2_engines(first: u16, count: u16, base: u64, wrapper: u64) -> EngineGroup {
    EngineGroup {
        first,
        count,
        base,
        stride: ENGINE_BLOCK_SIZE,
        wrapper,
        wrapper_stride: 0x7000,
        wrapper_size: 0x7000,
    }
}

/// Engines of V3 and V4: the wrapper lies in the engine's own stride.
const fn v3_engines(first: u16, count: u16, base: u64) -> EngineGroup {
    EngineGroup {
        first,
        count,
        base,
        stride: 0x10_0000,
        wrapper: base + ENGINE_BLOCK_SIZE,
        wrapper_stride: 0x10_0000,
        wrapper_size: 0x10_0000 - ENGINE_BLOCK_SIZE,
    }
}

const V3: Table = Table {
    cores: 8,
    top_sps: 20,
    register_bar_size: 4 * GIB,
    host_tag: 1 << 46,
    host_mask: 1 << 46,
    misc_ram: 0x06c8_4000,
    hbm_bases: &[0, 1 << 38, 1 << 47, (1 << 47) + (1 << 38)],
    hbm_size: 24 * GIB,
    hbm_slot: 64 * GIB,
    engines: &[
        v3_engines(0, 32, 0x8200_0000),
        v3_engines(32, 32, 0x9400_0000),
        v3_engines(64, 32, 0xa200_0000),
        v3_engines(96, 32, 0xb400_0000),
        v3_engines(128, 1, 0x0680_0000),
        v3_engines(129, 1, 0x0690_0000),
        v3_engines(130, 1, 0x4680_0000),
        v3_engines(131, 1, 0x4690_0000),
    ],
    qemu_register_bar: 0,
    qemu_reset: 0x0630_0010,
    on_chip: v3_blocks,
};

const V4: Table = Table { hbm_size: 36 * GIB, ..V3 };

/// A core's window in the register BAR, and where its events and semaphores are (`spec/arch.md` 5.3).
const CORE_WINDOW: u64 = 0x400_0000;
const CORE_SEMAPHORES: u64 = 0x270_0000;
/// A TopSP's window; its events and semaphores are at its start (`spec/abi.md` 9.2).
const TOP_SP_WINDOW: u64 = 0x40_0000;
const TOP_SP_SEMAPHORES: u64 = 0;

/// V2: the DMA regions are the register BAR's windows under another address.
fn v2_blocks() -> Vec<OnChipBlock> {
    let cores = (0..V2.cores).map(|n| {
        let at = u64::from(n) * CORE_WINDOW;
        OnChipBlock {
            kind: OnChipKind::Core(n),
            window: Some(at),
            bus: Some(0xfff_c000_0000 + at),
            size: CORE_WINDOW,
            semaphores: Some(CORE_SEMAPHORES),
        }
    });
    let top_sps = (0..V2.top_sps).map(|n| {
        let at = u64::from(n) * TOP_SP_WINDOW;
        OnChipBlock {
            kind: OnChipKind::TopSp(n),
            window: Some(0x1000_0000 + at),
            bus: Some(0xfff_d000_0000 + at),
            size: TOP_SP_WINDOW,
            semaphores: Some(TOP_SP_SEMAPHORES),
        }
    });
    cores.chain(top_sps).collect()
}

/// V3 and V4: a TopSP's DMA region is its window; which part of a core's region its window shows is not
/// established, so the two are apart.
fn v3_blocks() -> Vec<OnChipBlock> {
    let windows = (0..V3.cores).map(|n| OnChipBlock {
        kind: OnChipKind::Core(n),
        window: Some(0xd000_0000 + u64::from(n) * CORE_WINDOW),
        bus: None,
        size: CORE_WINDOW,
        semaphores: Some(CORE_SEMAPHORES),
    });
    let core_bases = [
        0x20_0000_0000,
        0x30_0000_0000,
        0x60_0000_0000,
        0x70_0000_0000,
        0x8020_0000_0000,
        0x8030_0000_0000,
        0x8060_0000_0000,
        0x8070_0000_0000,
    ];
    let cores = (0..).zip(core_bases).map(|(n, bus)| OnChipBlock {
        kind: OnChipKind::Core(n),
        window: None,
        bus: Some(bus),
        size: 0x8_0400_0000,
        semaphores: None,
    });
    let top_sps = (0..V3.top_sps).map(|n| {
        let (die, i) = (n / 10, u64::from(n % 10));
        let (window, bus) =
            if die == 0 { (0xf000_0000, 0x82_8000_0000) } else { (0xf280_0000, 0x8082_8000_0000) };
        OnChipBlock {
            kind: OnChipKind::TopSp(n),
            window: Some(window + i * TOP_SP_WINDOW),
            bus: Some(bus + i * 0x4000_0000),
            size: TOP_SP_WINDOW,
            semaphores: Some(TOP_SP_SEMAPHORES),
        }
    });
    let others =
        [0x12_0000_0000, 0x52_0000_0000, 0x8012_0000_0000, 0x8052_0000_0000].map(|bus| OnChipBlock {
            kind: OnChipKind::Other,
            window: None,
            bus: Some(bus),
            size: 0x34c_0000,
            semaphores: None,
        });
    windows.chain(cores).chain(top_sps).chain(others).collect()
}
