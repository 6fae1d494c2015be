//! A picture of a trace agrees with what came of it.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fmt::Write as _;

use neuron_replay::outcome::ColumnOutcome;
use neuron_replay::picture::{Picture, picture};
use neuron_replay::replay::Options;
use neuron_replay::run;
use neuron_replay::scenario::Scenario;
use neuron_replay::trace::{Format, Reader};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// What came of a trace, and its picture behind a line.
fn pictured(trace: &str, line: impl Fn(&ColumnOutcome) -> u64) -> (ColumnOutcome, Picture) {
    let scenario = Scenario::named("trn1.2xlarge").unwrap();
    let reader = || Reader::new(trace.as_bytes(), Format::Native).unwrap();
    let options = Options::default();
    let outcome = run(&mut reader(), std::slice::from_ref(&scenario), &options, None).unwrap();
    let column = outcome.columns.into_iter().next().unwrap();
    let picture = picture(&mut reader(), &scenario, line(&column), column.peak_line).unwrap();
    (column, picture)
}

#[test]
fn a_picture_has_what_was_there_behind_its_line_and_no_more() {
    let trace = concat!(
        "{\"v\":1}\n",
        "{\"event\":\"alloc\",\"id\":1,\"size\":1048576,\"usage\":\"WEIGHT\",\"owner\":\"a\",\"hint\":\"w\"}\n",
        "{\"event\":\"alloc\",\"id\":2,\"size\":5000,\"usage\":\"TENSOR\",\"hbm\":1,\"core\":1,\"owner\":\"b\"}\n",
        "{\"event\":\"free\",\"id\":1}\n",
        "{\"event\":\"alloc\",\"id\":3,\"size\":4096,\"usage\":\"TENSOR\",\"owner\":\"a\"}\n",
    );
    let (column, behind) = pictured(trace, |column| column.peak_line);
    assert_eq!((column.peak_line, behind.line), (3, 3));
    let mut categories = behind.categories.clone();
    categories.sort_unstable();
    assert_eq!(categories, ["model constants", "tensors"]);
    let there: Vec<_> = behind.hbms.iter().map(|hbm| (hbm.device, hbm.hbm, hbm.blocks.len())).collect();
    assert_eq!(there, [(0, 0, 1), (0, 1, 1)]);
    let weight = &behind.hbms[0].blocks[0];
    assert_eq!((weight.bytes, &*weight.owner, &*weight.hint), (MIB, "a", "w"));
    assert_eq!(behind.hbms[1].blocks[0].bytes, 8192, "whole pages");
    let used: Vec<(u64, u64)> =
        behind.steps.iter().map(|step| (step.line, step.bytes.iter().sum())).collect();
    assert_eq!(used, [(2, MIB), (3, MIB + 5000), (4, 5000), (5, 9096)]);

    let (_, end) = pictured(trace, |_| 99);
    assert_eq!((end.line, end.hbms.len()), (5, 2), "a line behind the end is the last");
    assert_eq!(end.hbms.iter().flat_map(|hbm| &hbm.blocks).count(), 2);
}

proptest! {
    #[test]
    fn blocks_are_apart_inside_their_hbm_and_the_peak_is_among_the_steps(
        sizes in prop::collection::vec((1u64..3000, any::<bool>(), 0usize..8), 1..200)
    ) {
        let (mut trace, mut living) = (String::from("{\"v\":1}\n"), Vec::<u64>::new());
        for (id, (size, other, pick)) in (1..).zip(sizes) {
            if living.len() > pick {
                writeln!(trace, "{{\"event\":\"free\",\"id\":{}}}", living.remove(pick)).unwrap();
            }
            let (size, hbm) = (size * 100_000, u8::from(other));
            writeln!(
                trace,
                "{{\"event\":\"alloc\",\"id\":{id},\"size\":{size},\"hbm\":{hbm},\"core\":{hbm},\"usage\":\"TENSOR\"}}"
            )
            .unwrap();
            living.push(id);
        }
        let (column, picture) = pictured(&trace, |column| column.peak_line);
        let mut total = 0;
        for hbm in &picture.hbms {
            let mut blocks: Vec<_> = hbm.blocks.iter().map(|held| (held.pa, held.bytes)).collect();
            blocks.sort_unstable();
            prop_assert!(blocks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            let inside = |&(pa, bytes): &(u64, u64)| {
                pa >= hbm.range.base && pa + bytes <= hbm.range.base + hbm.range.size
            };
            prop_assert!(blocks.iter().all(inside));
            total += blocks.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
        prop_assert!(total >= column.peak_device_bytes);
        let most = picture.steps.iter().map(|step| step.bytes.iter().sum::<u64>()).max();
        prop_assert_eq!(most, Some(column.peak_device_bytes));
        prop_assert!(picture.steps.windows(2).all(|pair| pair[0].line < pair[1].line));
    }
}
