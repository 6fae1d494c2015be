//! Where everything is, per generation: BARs, engines, HBM, on-chip blocks, the host tag.
//!
//! One table per generation (`tables`) and the [`Geometry`] made from it for one product and PCI revision.
//! Nothing here acts: the device reads the numbers, the registers' behaviour is elsewhere. These facts are the
//! device's own reading of `spec/device.md` 1 and `spec/arch.md` 1, 2, 4, 5, 9, 10; they are deliberately not
//! shared with any driver, so that comparing the two means something.

mod tables;

use thiserror::Error;

/// Bytes of one engine's UDMA register block (`spec/udma.md` 2).
pub const ENGINE_BLOCK_SIZE: u64 = 0x4_0000;
/// Queues of one engine (`spec/udma.md` 1).
pub const QUEUES_PER_ENGINE: u8 = 16;
/// Vendor id of every product.
pub const VENDOR_ID: u16 = 0x1d0f;
/// PCI revision of silicon: the default. Any value but [`REVISION_QEMU`] and [`REVISION_EMULATOR`] means it.
pub const REVISION_SILICON: u8 = 1;
/// PCI revision that puts the vendor's driver in its "qemu" mode (`spec/device.md` 1).
pub const REVISION_QEMU: u8 = 255;
/// PCI revision of the hardware emulator. Not built here: its geometry comes from module parameters.
pub const REVISION_EMULATOR: u8 = 240;

const GIB: u64 = 1 << 30;

/// A product: what the PCI device id tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// Trainium1, device id 0x7164.
    Trn1,
    /// Inferentia2, device id 0x7264. Trn1's geometry.
    Inf2,
    /// Trainium2, device id 0x7364.
    Trn2,
    /// Trainium3, device id 0x7564. Trn2's geometry with 36 GiB per HBM channel.
    Trn3,
}

impl Product {
    /// PCI device id (`spec/arch.md` 1).
    #[must_use]
    pub const fn device_id(self) -> u16 {
        match self {
            Self::Trn1 => 0x7164,
            Self::Inf2 => 0x7264,
            Self::Trn2 => 0x7364,
            Self::Trn3 => 0x7564,
        }
    }

    /// The generation the product belongs to.
    #[must_use]
    pub const fn generation(self) -> Generation {
        match self {
            Self::Trn1 | Self::Inf2 => Generation::V2,
            Self::Trn2 => Generation::V3,
            Self::Trn3 => Generation::V4,
        }
    }
}

/// Device generation, with the driver's numbers (`spec/arch.md` 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Generation {
    /// Trn1 and Inf2.
    V2 = 2,
    /// Trn2.
    V3 = 3,
    /// Trn3.
    V4 = 4,
}

/// One HBM channel: a range of device addresses and the place of the same bytes in BAR4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HbmChannel {
    /// First device address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Offset of the first byte in BAR4.
    pub bar4: u64,
}

/// Engines whose register blocks lie at a fixed stride.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineGroup {
    /// Number of the first engine.
    pub first: u16,
    /// Engines in the group.
    pub count: u16,
    /// Offset of the first UDMA block in the register BAR.
    pub base: u64,
    /// Distance between blocks.
    pub stride: u64,
    /// Offset of the first engine's SDMA wrapper block.
    pub wrapper: u64,
    /// Distance between wrapper blocks.
    pub wrapper_stride: u64,
    /// Bytes of a wrapper block.
    pub wrapper_size: u64,
}

/// What an on-chip block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnChipKind {
    /// The window of a NeuronCore, by core number.
    Core(u8),
    /// A TopSP, by its number in the address space.
    TopSp(u8),
    /// Memory without a known owner.
    Other,
}

/// On-chip memory: reachable through the register BAR, by DMA, or both (`spec/arch.md` 5.3, 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnChipBlock {
    /// What it is.
    pub kind: OnChipKind,
    /// Offset of its window in the register BAR, if it has one.
    pub window: Option<u64>,
    /// Its bus address for DMA, if it has one.
    pub bus: Option<u64>,
    /// Bytes.
    pub size: u64,
    /// Offset in the block of the event and semaphore registers (0x2000 bytes), if it has them.
    pub semaphores: Option<u64>,
}

/// What one reset request covers: bit sets over cores, cores' engines, TopSPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetScope {
    /// The whole device: all engines, all blocks. The other fields are then all ones.
    pub device: bool,
    /// Bit n: core n's window.
    pub cores: u32,
    /// Bit n: the sixteen engines core n owns.
    pub core_engines: u32,
    /// Bit n: TopSP n, numbered as in the address space.
    pub top_sps: u32,
}

impl ResetScope {
    /// Everything.
    pub const DEVICE: Self = Self { device: true, cores: !0, core_engines: !0, top_sps: !0 };

    /// Whether `engine` is reset. A core's reset leaves the shared H2T engines alone.
    #[must_use]
    pub fn covers_engine(&self, engine: u16) -> bool {
        self.device || self.core_engines.checked_shr(u32::from(engine) / 16).is_some_and(|bits| bits & 1 == 1)
    }

    /// Whether the on-chip block is reset.
    #[must_use]
    pub fn covers_block(&self, kind: OnChipKind) -> bool {
        let bit = |set: u32, n: u8| set.checked_shr(u32::from(n)).is_some_and(|bits| bits & 1 == 1);
        match kind {
            OnChipKind::Core(n) => bit(self.cores, n),
            OnChipKind::TopSp(n) => bit(self.top_sps, n),
            OnChipKind::Other => self.device,
        }
    }
}

/// Why a geometry cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// The emulator's geometry is set by module parameters, not by facts.
    #[error("PCI revision 240 (hardware emulator) is not supported: use 1 for silicon or 255 for qemu mode")]
    Emulator,
    /// [`REVISION_QEMU`] on V3 and later: the channel size becomes a quarter of BAR4, a power of two.
    #[error("HBM channel of {size} bytes: qemu mode needs a power of two from 64 MiB to 64 GiB")]
    QemuHbmSize {
        /// The size asked for.
        size: u64,
    },
}

/// The geometry of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Product.
    pub product: Product,
    /// PCI revision id.
    pub revision: u8,
    /// NeuronCores.
    pub cores: u8,
    /// TopSPs in the address space (more than software uses on V3).
    pub top_sps: u8,
    /// BAR that holds the registers: 0, or 2 on V2 in qemu mode.
    pub register_bar: u8,
    /// Bytes of the register BAR.
    pub register_bar_size: u64,
    /// Bytes of BAR4, a power of two: HBM, with gaps on V3 and later.
    pub bar4_size: u64,
    /// ORed into a host physical address to make its bus address.
    pub host_tag: u64,
    /// A bus address is the host's if masked with this it equals `host_tag`.
    pub host_mask: u64,
    /// Offset of the firmware's register page ("misc RAM") in the register BAR.
    pub misc_ram: u64,
    /// Reset register of qemu mode, an offset in the register BAR.
    pub qemu_reset: Option<u64>,
    /// Engine register blocks.
    pub engine_groups: &'static [EngineGroup],
    /// HBM channels, ascending.
    pub hbm: Vec<HbmChannel>,
    /// On-chip blocks.
    pub on_chip: Vec<OnChipBlock>,
}

impl Geometry {
    /// Geometry of `product` with PCI `revision`. `qemu_hbm_size` is the size of an HBM channel and only
    /// looked at in qemu mode on V3 and later, where software takes a quarter of BAR4 for it.
    ///
    /// # Errors
    /// Revision 240, and a qemu channel size that is no power of two from 64 MiB to 64 GiB (the bounds are
    /// our choice: room for the firmware's 16 MiB, and the channel's address slot).
    pub fn new(product: Product, revision: u8, qemu_hbm_size: u64) -> Result<Self, GeometryError> {
        if revision == REVISION_EMULATOR {
            return Err(GeometryError::Emulator);
        }
        let generation = product.generation();
        let table = generation.table();
        let qemu = revision == REVISION_QEMU;
        let (size, slot) = if qemu && generation != Generation::V2 {
            if !qemu_hbm_size.is_power_of_two() || !((64 << 20)..=64 * GIB).contains(&qemu_hbm_size) {
                return Err(GeometryError::QemuHbmSize { size: qemu_hbm_size });
            }
            (qemu_hbm_size, qemu_hbm_size)
        } else {
            (table.hbm_size, table.hbm_slot)
        };
        let slots = (0u64..).map(|i| i * slot);
        let hbm: Vec<_> = table
            .hbm_bases
            .iter()
            .zip(slots)
            .map(|(&address, bar4)| HbmChannel { address, size, bar4 })
            .collect();
        Ok(Self {
            product,
            revision,
            cores: table.cores,
            top_sps: table.top_sps,
            register_bar: if qemu { table.qemu_register_bar } else { 0 },
            register_bar_size: table.register_bar_size,
            bar4_size: slot * hbm.len() as u64,
            host_tag: table.host_tag,
            host_mask: table.host_mask,
            misc_ram: table.misc_ram,
            qemu_reset: qemu.then_some(table.qemu_reset),
            engine_groups: table.engines,
            hbm,
            on_chip: (table.on_chip)(),
        })
    }

    /// The generation.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.product.generation()
    }

    /// Bytes of all HBM channels.
    #[must_use]
    pub fn hbm_bytes(&self) -> u64 {
        self.hbm.iter().map(|channel| channel.size).sum()
    }

    /// Engines with registers.
    #[must_use]
    pub fn engine_count(&self) -> u16 {
        self.engine_groups.iter().map(|group| group.count).sum()
    }

    /// Offset of an engine's UDMA block in the register BAR.
    #[must_use]
    pub fn engine_base(&self, engine: u16) -> Option<u64> {
        self.engine_groups.iter().find_map(|group| {
            let index = engine.checked_sub(group.first).filter(|&i| i < group.count)?;
            Some(group.base + u64::from(index) * group.stride)
        })
    }

    /// The engine whose UDMA block holds `offset`, and the offset in the block.
    #[must_use]
    pub fn engine_at(&self, offset: u64) -> Option<(u16, u32)> {
        self.engine_groups.iter().find_map(|group| {
            let (engine, within) = index_in(offset, group, group.base, group.stride)?;
            (within < ENGINE_BLOCK_SIZE).then_some((engine, within as u32))
        })
    }

    /// The engine that `offset` belongs to: its UDMA block or its SDMA wrapper.
    #[must_use]
    pub fn engine_owning(&self, offset: u64) -> Option<u16> {
        self.engine_groups.iter().find_map(|group| {
            let block = index_in(offset, group, group.base, group.stride)
                .filter(|(_, within)| *within < ENGINE_BLOCK_SIZE);
            let wrapper = || {
                index_in(offset, group, group.wrapper, group.wrapper_stride)
                    .filter(|(_, within)| *within < group.wrapper_size)
            };
            block.or_else(wrapper).map(|(engine, _)| engine)
        })
    }

    /// Host physical address of a bus address that carries the host tag (`spec/arch.md` 4).
    #[must_use]
    pub fn host_address(&self, bus: u64) -> Option<u64> {
        (bus & self.host_mask == self.host_tag).then_some(bus & !self.host_tag)
    }

    /// What a core reset map word covers (`spec/arch.md` 10).
    ///
    /// Which TopSPs belong to bit n + 16 of V3's map is not established; our choice is the two of core n's
    /// share on its own die: hardware numbers 2 (n mod 4) and the next, + 10 for cores 4 to 7.
    #[must_use]
    pub fn reset_scope(&self, map: u32) -> ResetScope {
        let (mut cores, mut core_engines, mut top_sps) = (0, 0, 0);
        for n in 0..u32::from(self.cores) {
            let bit = |at: u32| map >> at & 1 == 1;
            if self.generation() == Generation::V2 {
                if bit(n) {
                    cores |= 1 << n;
                    core_engines |= 1 << n;
                }
                top_sps |= (map >> (8 + 3 * n) & 7) << (3 * n);
            } else {
                cores |= u32::from(bit(n)) << n;
                core_engines |= u32::from(bit(n + 8)) << n;
                if bit(n + 16) {
                    top_sps |= 3 << (n / 4 * 10 + n % 4 * 2);
                }
            }
        }
        ResetScope { device: false, cores, core_engines, top_sps }
    }
}

fn index_in(offset: u64, group: &EngineGroup, base: u64, stride: u64) -> Option<(u16, u64)> {
    let distance = offset.checked_sub(base)?;
    let total = stride * u64::from(group.count);
    (distance < total).then(|| (group.first + (distance / stride) as u16, distance % stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTS: [Product; 4] = [Product::Trn1, Product::Inf2, Product::Trn2, Product::Trn3];

    fn silicon(product: Product) -> Geometry {
        Geometry::new(product, REVISION_SILICON, 0).unwrap()
    }

    #[test]
    fn every_engine_base_decodes_to_its_engine() {
        for product in PRODUCTS {
            let geometry = silicon(product);
            for engine in 0..geometry.engine_count() {
                let base = geometry.engine_base(engine).unwrap();
                assert_eq!(geometry.engine_at(base), Some((engine, 0)));
                assert_eq!(geometry.engine_at(base + 0x3_fffc), Some((engine, 0x3_fffc)));
                assert_eq!(geometry.engine_owning(base), Some(engine));
                assert!(base + ENGINE_BLOCK_SIZE <= geometry.register_bar_size);
            }
            assert_eq!(geometry.engine_base(geometry.engine_count()), None);
            assert_eq!(geometry.engine_at(geometry.misc_ram), None);
        }
    }

    #[test]
    fn engine_bases_are_the_known_ones() {
        let (v2, v3) = (silicon(Product::Trn1), silicon(Product::Trn2));
        assert_eq!(v2.engine_count(), 34);
        assert_eq!(v3.engine_count(), 132);
        for (engine, base) in [(0, 0x3000_0000), (17, 0x3074_0000), (32, 0x3060_0000), (33, 0x30d0_0000)] {
            assert_eq!(v2.engine_base(engine), Some(base));
        }
        for (engine, base) in [(31, 0x83f0_0000), (32, 0x9400_0000), (97, 0xb410_0000), (131, 0x4690_0000)] {
            assert_eq!(v3.engine_base(engine), Some(base));
        }
        assert_eq!(v2.engine_owning(0x3040_0100 + 3 * 0x7000), Some(3));
        assert_eq!(v3.engine_owning(0x8204_0800), Some(0));
    }

    #[test]
    fn on_chip_blocks_and_engines_overlap_nowhere() {
        for product in PRODUCTS {
            let geometry = silicon(product);
            let mut spans: Vec<(u64, u64)> =
                geometry.on_chip.iter().filter_map(|b| Some((b.window?, b.window? + b.size))).collect();
            spans.extend((0..geometry.engine_count()).map(|e| {
                let base = geometry.engine_base(e).unwrap();
                (base, base + ENGINE_BLOCK_SIZE)
            }));
            spans.push((geometry.misc_ram, geometry.misc_ram + 0x1000));
            spans.sort_unstable();
            assert!(spans.windows(2).all(|w| w[0].1 <= w[1].0), "{product:?}");
            assert!(spans.last().unwrap().1 <= geometry.register_bar_size);

            let mut bus: Vec<(u64, u64)> =
                geometry.on_chip.iter().filter_map(|b| Some((b.bus?, b.bus? + b.size))).collect();
            bus.extend(geometry.hbm.iter().map(|c| (c.address, c.address + c.size)));
            bus.sort_unstable();
            assert!(bus.windows(2).all(|w| w[0].1 <= w[1].0), "{product:?}");
            assert!(bus.iter().all(|&(start, end)| {
                geometry.host_address(start).is_none() && geometry.host_address(end - 1).is_none()
            }));
        }
    }

    #[test]
    fn hbm_and_bar4_sizes_are_the_published_ones() {
        let of = |product| {
            let g = silicon(product);
            (g.hbm_bytes() / GIB, g.bar4_size / GIB, g.hbm[1].bar4 / GIB)
        };
        assert_eq!(of(Product::Trn1), (32, 32, 16));
        assert_eq!(of(Product::Inf2), (32, 32, 16));
        assert_eq!(of(Product::Trn2), (96, 256, 64));
        assert_eq!(of(Product::Trn3), (144, 256, 64));
    }

    #[test]
    fn host_test_follows_the_generation() {
        let (v2, v3) = (silicon(Product::Trn1), silicon(Product::Trn2));
        assert_eq!(v2.host_address((1 << 44) | 0x1234), Some(0x1234));
        assert_eq!(v2.host_address(0xfff_c000_0000), None);
        assert_eq!(v2.host_address(3 << 44), None);
        assert_eq!(v3.host_address((1 << 46) | 0x1234), Some(0x1234));
        assert_eq!(v3.host_address(1 << 47), None);
    }

    #[test]
    fn core_reset_maps_name_a_core_its_engines_and_its_top_sps() {
        let v2 = silicon(Product::Trn1).reset_scope(0x701);
        assert_eq!((v2.cores, v2.core_engines, v2.top_sps), (1, 1, 0b111));
        assert!(v2.covers_engine(15) && !v2.covers_engine(16) && !v2.covers_engine(32));
        let v3 = silicon(Product::Trn2).reset_scope(0x1_0101);
        assert_eq!((v3.cores, v3.core_engines, v3.top_sps), (1, 1, 0b11));
        let last = silicon(Product::Trn2).reset_scope(0x80_8080);
        assert_eq!((last.cores, last.core_engines, last.top_sps), (0x80, 0x80, 3 << 16));
        assert!(last.covers_engine(127) && !last.covers_engine(128) && ResetScope::DEVICE.covers_engine(131));
    }

    #[test]
    fn qemu_mode_moves_the_registers_and_sizes_hbm_by_bar4() {
        let v2 = Geometry::new(Product::Trn1, REVISION_QEMU, 0).unwrap();
        assert_eq!((v2.register_bar, v2.qemu_reset), (2, Some(0x3064_7010)));
        let v3 = Geometry::new(Product::Trn2, REVISION_QEMU, 4 * GIB).unwrap();
        assert_eq!((v3.register_bar, v3.bar4_size, v3.hbm[3].bar4), (0, 16 * GIB, 12 * GIB));
        assert_eq!(
            Geometry::new(Product::Trn2, REVISION_QEMU, 3 * GIB),
            Err(GeometryError::QemuHbmSize { size: 3 * GIB })
        );
        assert_eq!(Geometry::new(Product::Trn1, REVISION_EMULATOR, 0), Err(GeometryError::Emulator));
    }
}
