//! Plans by what they say: every byte that is wanted is somewhere, or said to be short.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use neuron_abi::arch::{FIRMWARE_RESERVE, Generation, PAGE_SIZE};
use neuron_plan::{Answer, Ask, Costs, Model, Placement, Planned, Tensor, Term, plan};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const NOTHING: Costs = Costs { microcode: 0, runtime: 0, rings: 0, collectives: 0 };

fn model(sizes: &[u64]) -> Model {
    let tensor = |(i, &bytes): (usize, &u64)| Tensor {
        name: format!("t{i}"),
        dtype: "U8".to_owned(),
        shape: vec![bytes],
        bytes,
    };
    Model { name: "m".to_owned(), tensors: sizes.iter().enumerate().map(tensor).collect() }
}

fn free(instance: &str) -> Ask {
    Ask { costs: NOTHING, ..Ask::on(instance) }
}

fn term(answer: &Answer, term: Term) -> (u64, u64) {
    answer.terms.iter().find(|facts| facts.term == term).map_or((0, 0), |facts| (facts.blocks, facts.bytes))
}

#[test]
fn the_first_block_lies_behind_the_firmware_and_small_ones_in_their_pool() {
    let planned =
        plan(&[model(&[MIB, 100, 512 << 10])], &Ask { cores: Some(vec![1]), ..free("trn1.2xlarge") })
            .unwrap();
    let range = Generation::V2.geometry().hbm(1).unwrap();
    let addresses: Vec<u64> = planned.placed.iter().map(|placed| placed.pa).collect();
    let small = range.small_pool().start;
    assert_eq!(addresses, [range.base + FIRMWARE_RESERVE, small, small + PAGE_SIZE]);
}

#[test]
fn a_full_main_pool_goes_on_in_the_small_one() {
    let ask = Ask { cores: Some(vec![0]), ..free("trn1.2xlarge") };
    let main = 15 * GIB - FIRMWARE_RESERVE;
    let planned = plan(&[model(&[main, GIB - MIB, MIB])], &ask).unwrap();
    let hbm = &planned.answer.hbms[0];
    assert!(planned.answer.fits);
    assert_eq!((hbm.main.left, hbm.small.left, planned.answer.spare_bytes), (0, 0, 0));
    // One page more is one page too many, though the sum of both pools has room for it nowhere.
    let over = plan(&[model(&[main, GIB - MIB, MIB + 1])], &ask).unwrap().answer;
    assert_eq!((over.fits, over.short_bytes), (false, PAGE_SIZE));
    assert_eq!(over.hbms[0].refused.as_ref().unwrap().name, "tensor t2");
}

#[test]
fn a_block_larger_than_every_hole_is_short_by_what_the_hole_lacks() {
    let ask = Ask { cores: Some(vec![0]), ..free("trn1.2xlarge") };
    // Of 15,344 MiB of the main pool the first takes 9000; in the small one are 1024.
    let answer = plan(&[model(&[9000 * MIB, 6500 * MIB])], &ask).unwrap().answer;
    let refused = answer.hbms[0].refused.as_ref().unwrap();
    assert_eq!((refused.term, refused.largest_hole), (Term::Weights, (15 * 1024 - 16 - 9000) * MIB));
    assert_eq!(answer.short_bytes, 6500 * MIB - refused.largest_hole);
    assert_eq!(answer.smallest_instance.unwrap().instance, "inf2.xlarge");
}

#[test]
fn beside_the_tensors_each_logical_and_each_physical_core_has_its_own() {
    let ask = Ask {
        tp: Some(3),
        kv: 3 * GIB + 1,
        scratchpad_page: 64 * MIB,
        scratchpad_private: MIB,
        code: Some(50 * MIB),
        ..Ask::on("trn2.48xlarge")
    };
    let planned = plan(&[model(&[6 * MIB, 7 * MIB])], &ask).unwrap();
    let answer = &planned.answer;
    assert_eq!((answer.cores, answer.lnc, answer.devices), (3, 2, 1));
    // The first divides by three, the second is whole on each.
    assert_eq!(term(answer, Term::Weights), (6, 6 * MIB + 3 * 7 * MIB));
    assert_eq!(term(answer, Term::KvCache), (3, 3 * (GIB + 1)));
    assert_eq!(term(answer, Term::SharedScratchpad), (3, 3 * 64 * MIB));
    assert_eq!(term(answer, Term::PrivateScratchpad), (3, 3 * MIB));
    assert_eq!(term(answer, Term::Code), (3, 150 * MIB));
    assert_eq!(term(answer, Term::Microcode), (6, 6 * 1_772_093));
    assert_eq!(term(answer, Term::Runtime), (6, 6 * 570_368));
    assert_eq!(term(answer, Term::Rings), (6, 6 * 28_672));
    assert_eq!(term(answer, Term::Collectives), (3, 3 * 92_274_688));
    let pages = planned.placed.iter().filter(|placed| placed.block.term == Term::SharedScratchpad);
    assert!(pages.map(|placed| placed.pa % (4 * MIB)).all(|rest| rest == 0));
    assert!(answer.code_counted && answer.fits);
    assert_eq!(
        answer.hbms.iter().map(|hbm| hbm.cores.clone()).collect::<Vec<_>>()[2..],
        [vec![4, 5], vec![]]
    );
}

#[test]
fn a_core_alone_and_tensors_that_are_not_shared_need_no_collectives() {
    let with = |tp, placement| {
        let ask = Ask { tp: Some(tp), placement: Some(placement), kv: 100, ..Ask::on("trn1.2xlarge") };
        let answer = plan(&[model(&[MIB, MIB])], &ask).unwrap().answer;
        (term(&answer, Term::Collectives).1, term(&answer, Term::Weights).1, term(&answer, Term::KvCache).1)
    };
    assert_eq!(with(1, Placement::Shard), (0, 2 * MIB, 100));
    assert_eq!(with(2, Placement::Shard), (92_274_688, 2 * MIB, 100));
    assert_eq!(with(2, Placement::Replicate), (0, 4 * MIB, 200));
    assert_eq!(with(2, Placement::RoundRobin), (0, 2 * MIB, 100));
}

#[test]
fn devices_alike_are_told_each() {
    let ask = Ask { tp: Some(31), ..free("trn1.32xlarge") };
    let Planned { answer, placed } = plan(&[model(&[31 * MIB])], &ask).unwrap();
    assert_eq!((answer.devices, answer.hbms.len()), (16, 32));
    assert_eq!(answer.hbms.iter().map(|hbm| hbm.placed).sum::<u64>(), 31 * MIB);
    assert_eq!(answer.hbms.last().map(|hbm| (hbm.device, hbm.placed)), Some((15, 0)));
    // The last has one core only.
    assert_eq!(placed.iter().map(|placed| placed.device).collect::<Vec<_>>(), [0, 0, 15]);
}

#[test]
fn the_smallest_number_of_cores_and_the_smallest_instance_do_fit_and_one_less_does_not() {
    let models = [model(&[64 * GIB, 20 * GIB])];
    let ask = Ask { tp: Some(2), ..free("trn2.48xlarge") };
    let answer = plan(&models, &ask).unwrap().answer;
    assert!(!answer.fits);
    let tp = answer.smallest_tp.unwrap();
    let fits = |ask: &Ask| plan(&models, ask).unwrap().answer.fits;
    assert!(fits(&Ask { tp: Some(tp), ..ask.clone() }) && !fits(&Ask { tp: Some(tp / 2), ..ask.clone() }));
    let smallest = answer.smallest_instance.unwrap();
    assert_eq!((smallest.instance.as_str(), smallest.tp, smallest.lnc), ("trn2.3xlarge", Some(4), None));
    assert!(fits(&Ask { tp: smallest.tp, ..free(&smallest.instance) }));
}

#[test]
fn a_size_of_logical_cores_that_the_smaller_instances_lack_does_not_rule_them_out() {
    let ask = Ask { lnc: Some(2), tp: Some(1), ..free("trn2.3xlarge") };
    let smallest = plan(&[model(&[MIB])], &ask).unwrap().answer.smallest_instance.unwrap();
    assert_eq!((smallest.instance.as_str(), smallest.lnc), ("inf2.xlarge", None));
}

#[test]
fn no_models_and_models_without_data_fit() {
    for models in [vec![], vec![model(&[])], vec![model(&[0, 0])]] {
        let planned = plan(&models, &free("trn1.2xlarge")).unwrap();
        assert!(planned.answer.fits && planned.placed.is_empty() && planned.answer.terms.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Blocks lie in their HBM and over nothing else; all that is asked is placed or short; what is used is what
    /// was used before and what was placed; a plan that fits has refused nothing.
    #[test]
    fn every_byte_is_somewhere_or_short(
        sizes in prop::collection::vec(prop_oneof![0u64..2 * MIB, 0u64..3 * GIB, 0u64..30 * GIB], 0..40),
        other in prop::collection::vec(0u64..4 * GIB, 0..4),
        placement in prop::sample::select(vec![None, Some(Placement::Shard), Some(Placement::Replicate)]),
        tp in prop::option::of(1u32..5),
        instance in prop::sample::select(vec!["trn1.32xlarge", "trn2.3xlarge"]),
        kv in 0u64..20 * GIB,
        scratchpad_page in 0u64..GIB,
    ) {
        let ask = Ask { placement, tp, kv, scratchpad_page, ..Ask::on(instance) };
        let Planned { answer, placed } = plan(&[model(&sizes), model(&other)], &ask).unwrap();
        prop_assert_eq!(answer.fits, answer.short_bytes == 0);
        prop_assert_eq!(answer.fits, answer.hbms.iter().all(|hbm| hbm.asked == hbm.placed));
        let pages = |bytes: u64| bytes.next_multiple_of(PAGE_SIZE);
        let generation = if instance.starts_with("trn1") { Generation::V2 } else { Generation::V3 };
        let geometry = generation.geometry();
        for hbm in &answer.hbms {
            prop_assert_eq!(hbm.refused.is_some(), hbm.asked > hbm.placed);
            prop_assert_eq!(hbm.refused.is_some(), hbm.short > 0);
            prop_assert_eq!(hbm.main.used + hbm.small.used, hbm.before + hbm.placed);
            prop_assert_eq!(hbm.main.left + hbm.small.left + hbm.main.used + hbm.small.used, hbm.size);
            prop_assert!(hbm.main.largest_aligned_hole <= hbm.main.largest_hole && hbm.main.largest_hole <= hbm.main.left);
            let range = geometry.hbm(hbm.hbm).unwrap();
            let here = placed.iter().filter(|one| (one.device, one.hbm) == (hbm.device, hbm.hbm));
            let mut blocks: Vec<(u64, u64)> = here.map(|one| (one.pa, pages(one.block.bytes))).collect();
            // A device like an earlier one has its blocks there.
            if !blocks.is_empty() {
                prop_assert_eq!(blocks.iter().map(|(_, bytes)| bytes).sum::<u64>(), hbm.placed);
            }
            blocks.sort_unstable();
            prop_assert!(blocks.iter().all(|&(pa, bytes)| range.contains(pa, bytes) && pa >= range.base + FIRMWARE_RESERVE));
            prop_assert!(blocks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        }
    }
}
