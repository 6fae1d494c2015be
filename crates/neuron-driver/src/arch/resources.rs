//! Parts of a device that processes map by a cookie of their own instead of a chunk's
//! address (`spec/abi.md` 9.2): semaphores and state buffers of cores, TopSPs, whole HBMs.
//! Tables only; mapping them is [`ioctl::mmap`](crate::ioctl::mmap)'s business.

use neuron_abi::enums::{Block, Resource};

/// One mappable part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmapResource {
    /// The mmap offset that names it: a key, not always an address.
    pub cookie: u64,
    /// Bytes; a mapping must ask for exactly this many.
    pub bytes: u64,
    /// Where it is.
    pub place: BarPlace,
    /// Whether a mapping may be written.
    pub writable: bool,
}

/// An offset in one of the function's BARs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarPlace {
    /// Registers and on-chip memory.
    Bar0(u64),
    /// HBM.
    Bar4(u64),
}

/// Rows of the sheet's table: blocks of one kind, evenly spaced.
#[derive(Debug)]
pub(super) struct Group {
    block: Block,
    resource: Resource,
    /// First block number, and how many.
    ids: (u32, u32),
    /// Cookie of the first block, and the distance to the next.
    cookie: (u64, u64),
    bytes: u64,
    /// Place of the first block, and the distance to the next.
    place: (BarPlace, u64),
}

impl Group {
    fn at(&self, index: u32) -> MmapResource {
        let index = u64::from(index);
        let (place, stride) = self.place;
        MmapResource {
            cookie: self.cookie.0 + index * self.cookie.1,
            bytes: self.bytes,
            place: match place {
                BarPlace::Bar0(offset) => BarPlace::Bar0(offset + index * stride),
                BarPlace::Bar4(offset) => BarPlace::Bar4(offset + index * stride),
            },
            writable: self.resource != Resource::All,
        }
    }

    fn all(&self) -> impl Iterator<Item = MmapResource> {
        (0..self.ids.1).map(|index| self.at(index))
    }
}

/// The part with this name; `None` if the generation has no such entry.
pub(super) fn named(groups: &[Group], block: u32, id: u32, resource: u32) -> Option<MmapResource> {
    let named = groups.iter().filter(|group| group.block.raw() == block && group.resource.raw() == resource);
    named
        .filter_map(|group| {
            let index = id.checked_sub(group.ids.0)?;
            (index < group.ids.1).then(|| group.at(index))
        })
        .next()
}

/// The part with exactly this cookie and size.
pub(super) fn keyed(groups: &[Group], cookie: u64, bytes: u64) -> Option<MmapResource> {
    let mut all = groups.iter().flat_map(Group::all);
    all.find(|resource| resource.cookie == cookie && resource.bytes == bytes)
}

/// Events and semaphores of a core or TopSP.
const SEMAPHORES: u64 = 0x2000;
/// A core's state buffer.
const SBUF: u64 = 0x200_0000;
/// A TopSP.
const TOPSP: u64 = 0x40_0000;
/// Distance between the windows of two cores, and between their cookies.
const CORE: u64 = 0x400_0000;
/// Where a core's window has its events and semaphores.
const CORE_SEMAPHORES: u64 = 0x270_0000;

const fn core(resource: Resource, cookie: u64, bytes: u64, window: u64, count: u32) -> Group {
    Group {
        block: Block::Tpb,
        resource,
        ids: (0, count),
        cookie: (cookie, CORE),
        bytes,
        place: (BarPlace::Bar0(window), CORE),
    }
}

/// One run of TopSPs; each is there twice, as semaphores and as a whole, with one cookie.
const fn topsp(resource: Resource, ids: (u32, u32), cookie: (u64, u64), window: u64) -> Group {
    Group {
        block: Block::TopSp,
        resource,
        ids,
        cookie,
        bytes: if matches!(resource, Resource::All) { TOPSP } else { SEMAPHORES },
        place: (BarPlace::Bar0(window), TOPSP),
    }
}

const fn hbm(id: u32, base: u64, bytes: u64) -> Group {
    Group {
        block: Block::Hbm,
        resource: Resource::Dmem,
        ids: (id, 1),
        cookie: (base, 0),
        bytes,
        place: (BarPlace::Bar4(id as u64 * 0x10_0000_0000), 0),
    }
}

pub(super) static V2: [Group; 4] = [
    core(Resource::Semaphore, 0xfff_c270_0000, SEMAPHORES, CORE_SEMAPHORES, 2),
    core(Resource::Sbuf, 0xfff_c000_0000, SBUF, 0, 2),
    topsp(Resource::Semaphore, (0, 6), (0xfff_d000_0000, TOPSP), 0x1000_0000),
    topsp(Resource::All, (0, 6), (0xfff_d000_0000, TOPSP), 0x1000_0000),
];

pub(super) static V3: [Group; 10] = v3(0x6_0000_0000);
pub(super) static V4: [Group; 10] = v3(0x9_0000_0000);

/// The cookies of cores are spaced as their windows are, although their bases on the bus
/// are not. TopSPs 8..15 are the hardware's 10..17.
const fn v3(hbm_bytes: u64) -> [Group; 10] {
    const CORES: u64 = 0x20_0000_0000;
    const CORE_WINDOWS: u64 = 0xd000_0000;
    const LOW: ((u32, u32), (u64, u64), u64) = ((0, 8), (0x82_8000_0000, 0x4000_0000), 0xf000_0000);
    const HIGH: ((u32, u32), (u64, u64), u64) = ((8, 8), (0x8082_8000_0000, 0x4000_0000), 0xf280_0000);
    [
        core(Resource::Semaphore, CORES + CORE_SEMAPHORES, SEMAPHORES, CORE_WINDOWS + CORE_SEMAPHORES, 8),
        core(Resource::Sbuf, CORES, SBUF, CORE_WINDOWS, 8),
        topsp(Resource::Semaphore, LOW.0, LOW.1, LOW.2),
        topsp(Resource::All, LOW.0, LOW.1, LOW.2),
        topsp(Resource::Semaphore, HIGH.0, HIGH.1, HIGH.2),
        topsp(Resource::All, HIGH.0, HIGH.1, HIGH.2),
        hbm(0, 0, hbm_bytes),
        hbm(1, 0x40_0000_0000, hbm_bytes),
        hbm(2, 0x8000_0000_0000, hbm_bytes),
        hbm(3, 0x8040_0000_0000, hbm_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use neuron_abi::arch::Generation;

    use super::*;
    use crate::arch::Arch;

    const ALL: [(Generation, &[Group]); 3] =
        [(Generation::V2, &V2), (Generation::V3, &V3), (Generation::V4, &V4)];

    #[test]
    fn a_cookie_and_a_size_name_one_part() {
        for (generation, groups) in ALL {
            let keys: Vec<_> =
                groups.iter().flat_map(Group::all).map(|part| (part.cookie, part.bytes)).collect();
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "{generation:?}");
            for (cookie, bytes) in keys {
                assert_eq!(keyed(groups, cookie, bytes).unwrap().cookie, cookie);
                assert_eq!(keyed(groups, cookie, bytes + 4096), None);
            }
        }
    }

    #[test]
    fn entries_are_the_sheets() {
        let part = |generation: Generation, block: Block, id, resource: Resource| {
            let arch = Arch::of(generation);
            arch.resource(block.raw(), id, resource.raw()).map(|part| (part.cookie, part.bytes, part.place))
        };
        let bar0 = BarPlace::Bar0;
        for (generation, block, id, resource, expected) in [
            (
                Generation::V2,
                Block::Tpb,
                1,
                Resource::Semaphore,
                Some((0xfff_c670_0000, 0x2000, bar0(0x670_0000))),
            ),
            (
                Generation::V2,
                Block::TopSp,
                5,
                Resource::All,
                Some((0xfff_d140_0000, 0x40_0000, bar0(0x1140_0000))),
            ),
            (Generation::V2, Block::Tpb, 2, Resource::Sbuf, None),
            (Generation::V2, Block::Hbm, 0, Resource::Dmem, None),
            (Generation::V3, Block::Tpb, 7, Resource::Sbuf, Some((0x20_1c00_0000, SBUF, bar0(0xec00_0000)))),
            (
                Generation::V3,
                Block::TopSp,
                9,
                Resource::Semaphore,
                Some((0x8082_c000_0000, 0x2000, bar0(0xf2c0_0000))),
            ),
            (Generation::V3, Block::TopSp, 16, Resource::All, None),
            (
                Generation::V4,
                Block::Hbm,
                3,
                Resource::Dmem,
                Some((0x8040_0000_0000, 0x9_0000_0000, BarPlace::Bar4(0x30_0000_0000))),
            ),
        ] {
            assert_eq!(
                part(generation, block, id, resource),
                expected,
                "{generation:?} {block} {id} {resource}"
            );
        }
    }

    #[test]
    fn an_hbm_part_is_the_channel_through_its_window() {
        for generation in [Generation::V3, Generation::V4] {
            let arch = Arch::of(generation);
            for (id, range) in (0..).zip(arch.geometry().hbm) {
                let part = arch.resource(Block::Hbm.raw(), id, Resource::Dmem.raw()).unwrap();
                let offset = arch.geometry().bar4_offset(range.base, range.size).unwrap();
                assert_eq!(
                    (part.cookie, part.bytes, part.place),
                    (range.base, range.size, BarPlace::Bar4(offset))
                );
            }
        }
    }
}
