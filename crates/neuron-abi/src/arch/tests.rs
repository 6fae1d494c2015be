//! The tables and address arithmetic against spec/arch.md, spec/mempool.md 2 and recorded driver values.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const GENERATIONS: [&Geometry; 3] =
    [Generation::V2.geometry(), Generation::V3.geometry(), Generation::V4.geometry()];

#[test]
fn counts_are_the_specs() {
    let counts = GENERATIONS.map(|g| (g.cores, g.device_nc_map, g.dice, g.hbm.len(), g.engines(), g.topsps));
    assert_eq!(counts, [(2, 0x3, 1, 2, 34, 6), (8, 0xff, 2, 4, 132, 16), (8, 0xff, 2, 4, 132, 16)]);
}

#[test]
fn tables_agree_with_themselves() {
    for (geometry, &generation) in GENERATIONS.into_iter().zip(Generation::ALL) {
        assert_eq!(geometry.generation, generation);
        assert_eq!(geometry.device_nc_map.count_ones(), geometry.cores);
        assert_eq!(geometry.cores / geometry.cores_per_hbm, geometry.hbm.len() as u32);
        let first = geometry.cores * geometry.engines_per_core;
        assert_eq!(geometry.h2t_engines, (first..geometry.engines()).collect::<Vec<_>>());
        assert!(geometry.engines() <= ENGINE_SLOTS);
    }
}

#[test]
fn generations_carry_the_abi_numbers() {
    assert_eq!(Generation::ALL.iter().map(|g| g.raw()).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!((Generation::from_raw(0), Generation::from_raw(1)), (None, None));
}

#[test]
fn cores_pair_up_on_an_hbm_from_v3_on() {
    let hbms = |g: &Geometry| (0..9).map(|core| g.hbm_of_core(core)).collect::<Vec<_>>();
    let [v2, v3, v4] = GENERATIONS;
    assert_eq!(hbms(v2)[..3], [Some(0), Some(1), None]);
    assert_eq!(hbms(v3), [Some(0), Some(0), Some(1), Some(1), Some(2), Some(2), Some(3), Some(3), None],);
    assert_eq!(hbms(v4), hbms(v3));
}

#[test]
fn v3_pools_are_where_the_driver_put_them() {
    let main: Vec<_> = (0..5).map(|hbm| Generation::V3.geometry().main_pool(hbm)).collect();
    assert_eq!(
        main,
        [
            Some(0..0x5_c000_0000),
            Some(0x40_0000_0000..0x45_c000_0000),
            Some(0x8000_0000_0000..0x8005_c000_0000),
            Some(0x8040_0000_0000..0x8045_c000_0000),
            None,
        ],
    );
    assert_eq!(Generation::V3.geometry().small_pool(1), Some(0x45_c000_0000..0x46_0000_0000));
}

#[test]
fn room_for_large_blocks_is_what_hosts_report() {
    // spec/dmem.md 5.3, in bytes.
    let room = |g: &Geometry| {
        let pool = g.main_pool(0).unwrap();
        pool.end - pool.start - FIRMWARE_RESERVE
    };
    assert_eq!(room(Generation::V2.geometry()), 16_089_350_144);
    assert_eq!(room(Generation::V3.geometry()), 24_679_284_736);
}

#[test]
fn the_pools_cut_an_hbm_in_two() {
    for hbm in GENERATIONS.iter().flat_map(|g| g.hbm) {
        assert_eq!(hbm.main_pool().start, hbm.range().start);
        assert_eq!(hbm.main_pool().end, hbm.small_pool().start);
        assert_eq!(hbm.small_pool().end, hbm.range().end);
        assert_eq!(hbm.small_pool().end - hbm.small_pool().start, SMALL_POOL_SIZE);
        assert_eq!(hbm.firmware_reserve(), hbm.base..hbm.base + 0x100_0000);
    }
}

#[test]
fn a_memory_no_larger_than_the_small_pool_is_all_main_pool() {
    let tiny = HbmRange { base: 0x1000_0000, size: SMALL_POOL_SIZE };
    assert_eq!(tiny.main_pool(), tiny.range());
    assert!(tiny.small_pool().is_empty());
}

#[test]
fn bar4_windows_follow_each_other_by_the_generations_stride() {
    let [v2, v3, v4] = GENERATIONS;
    assert_eq!(v2.bar4_offset(0x1234, 1), Some(0x1234));
    assert_eq!(v2.bar4_offset(0x10_0000_1000, 0x1000), Some(0x4_0000_1000));
    assert_eq!(v3.bar4_offset(0x8000_0000_0010, 16), Some(0x20_0000_0010));
    assert_eq!(v4.bar4_offset(0x8048_ffff_ffff, 1), Some(0x38_ffff_ffff));
    assert_eq!(v3.bar4_offset(0x8048_ffff_ffff, 1), None, "past V3's 24 GiB");
}

#[test]
fn the_last_bytes_of_an_hbm_are_in_bar4() {
    let v2 = Generation::V2.geometry();
    assert_eq!(v2.bar4_offset(0x3_ffff_f000, 0x1000), Some(0x3_ffff_f000));
    assert_eq!(v2.bar4_offset(0x3_ffff_f000, 0x1001), None);
    assert_eq!(v2.bar4_offset(0x4_0000_0000, 1), None);
    assert_eq!(v2.bar4_offset(0, 0x4_0000_0000), Some(0));
    assert_eq!(v2.bar4_offset(u64::MAX, u64::MAX), None);
}

#[test]
fn each_generation_has_its_own_host_test() {
    let [v2, v3, v4] = GENERATIONS;
    let host = 0x1234_5000;
    assert!(v2.is_host_address(1 << 44 | host));
    assert!(!v2.is_host_address(1 << 45 | 1 << 44 | host), "V2 looks at five bits");
    assert!(!v2.is_host_address(1 << 48 | 1 << 44 | host));
    assert!(v2.is_host_address(1 << 49 | 1 << 44 | host), "and at no higher one");
    assert!(!v2.is_host_address(host));
    for v in [v3, v4] {
        assert!(v.is_host_address(1 << 46 | host));
        assert!(v.is_host_address(1 << 47 | 1 << 46 | host), "V3 looks at one bit");
        assert!(!v.is_host_address(1 << 44 | host));
    }
    for geometry in GENERATIONS {
        for hbm in geometry.hbm {
            assert!(!geometry.is_host_address(hbm.base), "{:#x}", hbm.base);
            assert!(!geometry.is_host_address(hbm.range().end - 1), "{:#x}", hbm.base);
        }
    }
}

#[test]
fn v2_programs_cores_and_topsps_but_not_hbm() {
    let v2 = Generation::V2.geometry();
    assert!(v2.may_program(0xfff_c000_0000, 0x800_0000));
    assert!(!v2.may_program(0xfff_c000_0000, 0x800_0001));
    assert!(v2.may_program(0xfff_d17f_ffff, 1));
    assert!(!v2.may_program(0xfff_d180_0000, 1));
    assert!(!v2.may_program(0x100_0000, 64));
}

#[test]
fn v3_programs_cores_topsps_and_hbm() {
    let v3 = Generation::V3.geometry();
    assert!(v3.may_program(0x8070_0000_0000, 0x8_0400_0000), "last core");
    assert!(v3.may_program(0x84_c000_0000, 0x40_0000), "TopSP 9: {:#x}", 0x82_8000_0000u64 + 9 * 0x4000_0000);
    assert!(v3.may_program(0x8082_8000_0000, 4), "TopSP 10");
    assert!(!v3.may_program(0x8082_8000_0000, 0x40_0001));
    assert!(v3.may_program(0x8052_034b_fffc, 4), "the last of the other blocks");
    assert!(v3.may_program(0x100_0000, 64), "HBM");
    assert!(v3.may_program(0x5_ffff_ffff, 1));
    assert!(!v3.may_program(0x6_0000_0000, 1));
    assert!(Generation::V4.geometry().may_program(0x6_0000_0000, 1), "V4's HBM is larger");
    assert_eq!(v3.on_chip.len(), 8 + 20 + 4);
}

#[test]
fn on_chip_blocks_overlap_neither_each_other_nor_hbm_nor_the_host() {
    for geometry in GENERATIONS {
        let mut ranges: Vec<_> = geometry.on_chip.iter().map(|r| r.base..r.base + r.size).collect();
        ranges.extend(geometry.hbm.iter().map(HbmRange::range));
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{:?}", geometry.generation);
        assert!(geometry.on_chip.iter().all(|region| !geometry.is_host_address(region.base)));
    }
}

#[test]
fn compatible_runtimes_are_told_per_generation() {
    let ranges = GENERATIONS.map(|g| (g.compat.min, g.compat.max));
    assert_eq!(ranges, [(5, 7), (10, 11), (10, 11)]);
    let [v2, v3, _] = GENERATIONS.map(|g| g.compat);
    assert!(v2.overlaps(v2) && !v2.overlaps(v3) && !v3.overlaps(v2));
    assert!(v2.overlaps(CompatRange { min: 7, max: 9 }));
}

#[test]
fn pci_ids_tell_the_product() {
    let product = |device| Product::from_pci(VENDOR_ID, device).map(|p| (p.instance, p.generation));
    assert_eq!(product(0x7164), Some(("Trn1", Generation::V2)));
    assert_eq!(product(0x7264), Some(("Inf2", Generation::V2)));
    assert_eq!(product(0x7364), Some(("Trn2", Generation::V3)));
    assert_eq!(product(0x7564), Some(("Trn3", Generation::V4)));
    assert_eq!(product(0x7565), Some(("Trn3", Generation::V4)));
    assert_eq!(product(0x7064), None);
    assert_eq!(Product::from_pci(0x8086, 0x7164), None);
    assert_eq!((Product::INF2.device_arch, Product::INF2.core_arch), ("v3", "v2"));
}

#[test]
fn the_revision_tells_models_from_silicon() {
    assert_eq!(Target::from_revision(240), Target::Emulator);
    assert_eq!(Target::from_revision(255), Target::Qemu);
    assert_eq!(Target::from_revision(0), Target::Silicon);
}

fn geometry() -> impl Strategy<Value = &'static Geometry> {
    prop::sample::select(GENERATIONS.as_slice())
}

proptest! {
    #[test]
    fn bar4_keeps_distances_inside_an_hbm_and_windows_apart(
        geometry in geometry(), a: u64, b: u64, hbm_a: prop::sample::Index, hbm_b: prop::sample::Index,
    ) {
        let place = |hbm: prop::sample::Index, offset: u64| {
            let hbm = hbm.get(geometry.hbm);
            hbm.base + offset % hbm.size
        };
        let (a, b) = (place(hbm_a, a), place(hbm_b, b));
        let (in_a, in_b) = (geometry.bar4_offset(a, 1).unwrap(), geometry.bar4_offset(b, 1).unwrap());
        prop_assert_eq!(a == b, in_a == in_b);
        if geometry.hbm_holding(a, 1) == geometry.hbm_holding(b, 1) {
            prop_assert_eq!(a.wrapping_sub(b), in_a.wrapping_sub(in_b));
        }
    }

    #[test]
    fn a_range_is_mapped_only_if_its_first_and_last_byte_are_in_one_hbm(
        geometry in geometry(), pa: u64, size in 1u64..,
    ) {
        for pa in [pa, pa % (1 << 48), pa % (48 << 30)] {
            let last = pa.checked_add(size - 1);
            let whole = last.is_some_and(|last| {
                let first_hbm = geometry.hbm_holding(pa, 1);
                first_hbm.is_some() && first_hbm == geometry.hbm_holding(last, 1)
            });
            prop_assert_eq!(geometry.bar4_offset(pa, size).is_some(), whole);
        }
    }
}

#[test]
fn device_addresses_are_own_memory_and_chip_and_a_neighbours_through_its_window() {
    for geometry in GENERATIONS {
        for base in std::iter::once(0).chain(geometry.neighbours.iter().map(|window| window.base)) {
            for hbm in geometry.hbm {
                let end = base + hbm.base + hbm.size;
                assert!(geometry.has_device_address(base + hbm.base, hbm.size));
                assert!(geometry.has_device_address(end - 1, 1));
                assert!(!geometry.has_device_address(end - 1, 2));
            }
            for region in geometry.on_chip {
                assert!(geometry.has_device_address(base + region.base, region.size));
            }
        }
        assert!(!geometry.has_device_address(u64::MAX, 1));
        assert!(!geometry.has_device_address(geometry.host_base, 1));
    }
    assert!(!Generation::V2.geometry().has_device_address(0x10_0000_0000_0000, 1));
}
