//! [`Geometry`]: the per-generation table, and the address arithmetic that needs nothing else.
//!
//! Addresses and sizes are bytes; an address is a device physical address unless said otherwise.

use super::{FIRMWARE_RESERVE, Generation, SMALL_POOL_SIZE};
use core::ops::Range;

const GIB: u64 = 1 << 30;

/// Counts and addresses of one generation (spec/arch.md 2, 4, 5, 9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The generation this describes.
    pub generation: Generation,
    /// NeuronCores per device (`nc_per_device`).
    pub cores: u32,
    /// Cores that exist, one bit each (`device_nc_map`).
    pub device_nc_map: u32,
    /// Dies per device.
    pub dice: u32,
    /// Cores that use an HBM by default.
    pub cores_per_hbm: u32,
    /// DMA engines owned by each core; core n owns engines n * this and up.
    pub engines_per_core: u32,
    /// The engines between host and device (H2T), which follow the cores' engines.
    pub h2t_engines: &'static [u32],
    /// Cores that share an H2T engine, each with a queue of its own.
    pub cores_per_h2t_engine: u32,
    /// TopSPs in use per device.
    pub topsps: u32,
    /// HBMs, by channel number.
    pub hbm: &'static [HbmRange],
    /// ORed into the physical address of host memory to make it a DMA address (`pci_host_base`).
    pub host_base: u64,
    /// Address bits that decide whether a DMA address is the host's: see
    /// [`is_host_address`](Geometry::is_host_address).
    pub host_mask: u64,
    /// Distance in BAR4 between the windows of neighbouring HBMs.
    pub bar4_stride: u64,
    /// Runtime ids this generation's driver works with.
    pub compat: CompatRange,
    /// On-chip blocks on the device's bus: what PROGRAM_ENGINE may write besides HBM (spec/arch.md 9).
    pub on_chip: &'static [Region],
    /// Whether PROGRAM_ENGINE may write HBM too.
    pub program_hbm: bool,
    /// Windows in which neighbouring devices' address maps show (spec/arch.md 4). Their sizes are our
    /// reading: each ends where the next begins.
    pub neighbours: &'static [Region],
}

/// One HBM channel's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HbmRange {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
}

/// A range of on-chip addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
}

/// Runtime ids, both ends included (spec/arch.md 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompatRange {
    /// Oldest.
    pub min: u32,
    /// Newest.
    pub max: u32,
}

impl CompatRange {
    /// Whether the two ranges have an id in common.
    pub const fn overlaps(self, other: CompatRange) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

impl HbmRange {
    /// All addresses.
    pub const fn range(&self) -> Range<u64> {
        self.base..self.base + self.size
    }

    /// Whether the `size` bytes at `pa` lie inside, up to the very last byte.
    ///
    /// The shipped driver refuses a range that ends exactly at the end; this is the correct test
    /// (spec/arch.md 5).
    pub const fn contains(&self, pa: u64, size: u64) -> bool {
        holds(self.base, self.size, pa, size)
    }

    /// Addresses of the main pool, with the firmware's reserve at its start (spec/mempool.md 2).
    pub const fn main_pool(&self) -> Range<u64> {
        self.base..self.small_pool().start
    }

    /// Addresses of the small pool; empty for a memory no larger than the small pool would be
    /// (spec/mempool.md 2).
    pub const fn small_pool(&self) -> Range<u64> {
        let small = if SMALL_POOL_SIZE < self.size { SMALL_POOL_SIZE } else { 0 };
        self.base + self.size - small..self.base + self.size
    }

    /// Addresses the firmware keeps, at the start of the main pool.
    pub const fn firmware_reserve(&self) -> Range<u64> {
        self.base..self.base + FIRMWARE_RESERVE
    }
}

impl Region {
    /// Whether the `size` bytes at `address` lie inside.
    pub const fn contains(&self, address: u64, size: u64) -> bool {
        holds(self.base, self.size, address, size)
    }
}

/// Whether `[address, address + size)` lies in `[base, base + room)`, without overflow.
const fn holds(base: u64, room: u64, address: u64, size: u64) -> bool {
    address >= base && size <= room && address - base <= room - size
}

impl Geometry {
    /// DMA engines in use: the cores' and then the H2T ones, numbered from 0 without a hole.
    pub const fn engines(&self) -> u32 {
        self.cores * self.engines_per_core + self.h2t_engines.len() as u32
    }

    /// HBM that core `core` uses by default; `None` if there is no such core (spec/arch.md 3).
    pub const fn hbm_of_core(&self, core: u32) -> Option<u32> {
        if core < self.cores { Some(core / self.cores_per_hbm) } else { None }
    }

    /// Engine and queue of core `core`'s default H2T ring (spec/arch.md 3). Core numbers up to 7 are legal
    /// on every generation: those beyond the last core use the last engine.
    pub fn h2t_ring(&self, core: u32) -> (u32, u32) {
        let place = (core / self.cores_per_h2t_engine) as usize;
        let engine = self.h2t_engines.get(place).or(self.h2t_engines.last()).copied().unwrap_or_default();
        (engine, core % self.cores_per_h2t_engine)
    }

    /// Memory of channel `hbm`; `None` if there is no such channel.
    pub fn hbm(&self, hbm: u32) -> Option<&'static HbmRange> {
        self.hbm.get(usize::try_from(hbm).ok()?)
    }

    /// Main pool of channel `hbm` as [`HbmRange::main_pool`]; `None` if there is no such channel.
    pub fn main_pool(&self, hbm: u32) -> Option<Range<u64>> {
        self.hbm(hbm).map(HbmRange::main_pool)
    }

    /// Small pool of channel `hbm`; `None` if there is no such channel.
    pub fn small_pool(&self, hbm: u32) -> Option<Range<u64>> {
        self.hbm(hbm).map(HbmRange::small_pool)
    }

    /// Channel whose memory holds the `size` bytes at `pa`.
    pub fn hbm_holding(&self, pa: u64, size: u64) -> Option<u32> {
        (0..).zip(self.hbm).find(|(_, hbm)| hbm.contains(pa, size)).map(|(index, _)| index)
    }

    /// Offset in BAR4 of the `size` bytes at `pa`; `None` unless one HBM holds them all
    /// (spec/arch.md 5).
    pub fn bar4_offset(&self, pa: u64, size: u64) -> Option<u64> {
        let index = self.hbm_holding(pa, size)?;
        Some(pa - self.hbm(index)?.base + u64::from(index) * self.bar4_stride)
    }

    /// Whether a DMA address is the host's, by this generation's own test (spec/arch.md 4).
    ///
    /// V2 compares the five bits 48..44 with the host base; V3 and V4 look at bit 46 alone.
    pub const fn is_host_address(&self, pa: u64) -> bool {
        pa & self.host_mask == self.host_base
    }

    /// Whether the `size` bytes at `address` are in the device's memory or on its chip, or, through a
    /// neighbour's window, in a neighbour's: all that a descriptor may name besides the host.
    pub fn has_device_address(&self, address: u64, size: u64) -> bool {
        let own = |address| {
            self.hbm_holding(address, size).is_some()
                || self.on_chip.iter().any(|region| region.contains(address, size))
        };
        let windows = self.neighbours.iter().filter(|window| window.contains(address, size));
        own(address) || windows.map(|window| address - window.base).any(own)
    }

    /// Whether PROGRAM_ENGINE may write the `size` bytes at `address` (spec/arch.md 9).
    pub fn may_program(&self, address: u64, size: u64) -> bool {
        self.on_chip.iter().any(|region| region.contains(address, size))
            || self.program_hbm && self.hbm_holding(address, size).is_some()
    }
}

pub(super) const V2: Geometry = Geometry {
    generation: Generation::V2,
    cores: 2,
    device_nc_map: 0x3,
    dice: 1,
    cores_per_hbm: 1,
    engines_per_core: 16,
    h2t_engines: &[32, 33],
    cores_per_h2t_engine: 1,
    topsps: 6,
    hbm: &[HbmRange { base: 0, size: 16 * GIB }, HbmRange { base: 0x10_0000_0000, size: 16 * GIB }],
    host_base: 1 << 44,
    host_mask: 0x1_f000_0000_0000,
    bar4_stride: 0x4_0000_0000,
    compat: CompatRange { min: 5, max: 7 },
    on_chip: &[
        Region { base: 0xfff_c000_0000, size: 0x800_0000 }, // both core windows
        Region { base: 0xfff_d000_0000, size: 0x180_0000 }, // the six TopSPs
    ],
    program_hbm: false,
    neighbours: &[],
};

pub(super) const V3: Geometry = Geometry {
    generation: Generation::V3,
    cores: 8,
    device_nc_map: 0xff,
    dice: 2,
    cores_per_hbm: 2,
    engines_per_core: 16,
    h2t_engines: &[128, 129, 130, 131],
    cores_per_h2t_engine: 2,
    topsps: 16,
    hbm: &v3_hbm(24 * GIB),
    host_base: 1 << 46,
    host_mask: 1 << 46,
    bar4_stride: 0x10_0000_0000,
    compat: CompatRange { min: 10, max: 11 },
    on_chip: &V3_ON_CHIP,
    program_hbm: true,
    neighbours: &[
        neighbour(0x10_0000_0000_0000),
        neighbour(0x14_0000_0000_0000),
        neighbour(0x18_0000_0000_0000),
        neighbour(0x1c_0000_0000_0000),
    ],
};

/// V3 with larger HBM, as far as this table goes (spec/arch.md 11).
pub(super) const V4: Geometry = Geometry { generation: Generation::V4, hbm: &v3_hbm(36 * GIB), ..V3 };

const fn neighbour(base: u64) -> Region {
    Region { base, size: 0x4_0000_0000_0000 }
}

const fn v3_hbm(size: u64) -> [HbmRange; 4] {
    [
        HbmRange { base: 0, size },
        HbmRange { base: 0x40_0000_0000, size },
        HbmRange { base: 0x8000_0000_0000, size },
        HbmRange { base: 0x8040_0000_0000, size },
    ]
}

/// Eight cores, two banks of ten TopSPs, four more blocks (spec/arch.md 9).
const V3_ON_CHIP: [Region; 32] = {
    const CORES: [u64; 8] = [
        0x20_0000_0000,
        0x30_0000_0000,
        0x60_0000_0000,
        0x70_0000_0000,
        0x8020_0000_0000,
        0x8030_0000_0000,
        0x8060_0000_0000,
        0x8070_0000_0000,
    ];
    const TOPSP_BANKS: [u64; 2] = [0x82_8000_0000, 0x8082_8000_0000];
    const TOPSPS_PER_BANK: usize = 10;
    const TOPSP_STRIDE: u64 = 0x4000_0000;
    const OTHERS: [u64; 4] = [0x12_0000_0000, 0x52_0000_0000, 0x8012_0000_0000, 0x8052_0000_0000];

    let mut regions = [Region { base: 0, size: 0 }; 32];
    let mut filled = 0;
    let mut i = 0;
    while i < CORES.len() {
        regions[filled] = Region { base: CORES[i], size: 0x8_0400_0000 };
        filled += 1;
        i += 1;
    }
    i = 0;
    while i < TOPSP_BANKS.len() * TOPSPS_PER_BANK {
        let bank = TOPSP_BANKS[i / TOPSPS_PER_BANK];
        let base = bank + (i % TOPSPS_PER_BANK) as u64 * TOPSP_STRIDE;
        regions[filled] = Region { base, size: 0x40_0000 };
        filled += 1;
        i += 1;
    }
    i = 0;
    while i < OTHERS.len() {
        regions[filled] = Region { base: OTHERS[i], size: 0x34c_0000 };
        filled += 1;
        i += 1;
    }
    assert!(filled == regions.len());
    regions
};
