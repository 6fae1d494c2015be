//! Categories against spec/mempool.md 8, projections against the byte tables of spec/dmem.md 2.3.

use super::*;
use std::string::ToString;
use std::vec::Vec;

/// The source's tables as printed, usage types 0..21.
const PRINTED_HOST: [u32; 22] = [4, 1, 1, 4, 1, 4, 3, 6, 4, 1, 1, 20, 2, 1, 4, 20, 20, 4, 17, 17, 17, 17];
const PRINTED_DEVICE: [u32; 22] =
    [12, 8, 8, 12, 8, 12, 10, 16, 12, 8, 8, 11, 9, 8, 12, 14, 15, 12, 18, 18, 18, 18];
/// The aggregate row as printed: it has lost one 0 in its run near index 2..4 and slid down.
const PRINTED_AGGREGATE: [u32; 22] = [5, 0, 0, 5, 5, 1, 11, 5, 0, 0, 3, 2, 0, 5, 10, 4, 5, 9, 7, 6, 8, 0];

fn doubtful(usage: UsageType) -> Option<DoubtfulUsage> {
    DOUBTFUL_PAIR.into_iter().find(|doubt| doubt.usage == usage)
}

#[test]
fn host_categories_are_the_printed_ones_but_for_the_doubtful_pair() {
    for (&usage, printed) in UsageType::ALL.iter().zip(PRINTED_HOST) {
        let printed = Category::from_raw(printed); // 20 is none: refused on the host
        match doubtful(usage) {
            None => assert_eq!(usage.host_category(), printed, "{usage}"),
            Some(doubt) => {
                assert_eq!(Some(doubt.printed.0), printed, "{usage}");
                assert_eq!(usage.host_category(), Some(doubt.used.0), "{usage}");
            }
        }
    }
}

#[test]
fn device_categories_are_the_printed_ones_but_for_the_doubtful_pair() {
    for (&usage, printed) in UsageType::ALL.iter().zip(PRINTED_DEVICE) {
        let printed = Category::from_raw(printed).unwrap();
        match doubtful(usage) {
            None => assert_eq!(usage.device_category(), printed, "{usage}"),
            Some(doubt) => {
                assert_eq!(doubt.printed.1, printed, "{usage}");
                assert_eq!(usage.device_category(), doubt.used.1, "{usage}");
            }
        }
    }
}

#[test]
fn aggregates_are_the_printed_row_with_its_zero_put_back() {
    let mut restored = PRINTED_AGGREGATE.to_vec();
    restored.insert(2, 0);
    assert_eq!(restored.pop(), Some(0));
    let ours: Vec<_> = UsageType::ALL.iter().map(|usage| usage.aggregate().raw()).collect();
    assert_eq!(ours, restored);
}

#[test]
fn three_usages_are_refused_on_the_host() {
    let refused: Vec<_> = UsageType::ALL.iter().filter(|u| u.host_category().is_none()).collect();
    assert_eq!(refused, [&UsageType::Scratchpad, &UsageType::Cc, &UsageType::ScratchpadNotShared]);
}

#[test]
fn projections_stay_at_their_location() {
    for usage in UsageType::ALL {
        assert_eq!(usage.device_category().location(), MemLocation::Device, "{usage}");
        if let Some(category) = usage.host_category() {
            assert_eq!(category.location(), MemLocation::Host, "{usage}");
        }
    }
}

#[test]
fn instructions_of_every_engine_are_code() {
    use UsageType::*;
    for usage in [InstrPe, InstrAct, InstrPool, InstrDve, InstrSp] {
        assert_eq!(usage.device_category(), Category::CodeDevice);
        assert_eq!(usage.aggregate(), Aggregate::ModelCode);
    }
    assert_eq!(Io.device_category(), Category::MiscDevice);
}

#[test]
fn counts_are_those_of_the_lists() {
    assert_eq!(UsageType::ALL.len(), UsageType::COUNT);
    assert_eq!(Aggregate::ALL.len(), Aggregate::COUNT);
    assert_eq!(Category::ALL.len() as u32, Category::COUNT);
    assert_eq!(UsageType::DmaRingCollectives.index(), 21);
}

#[test]
fn every_column_of_the_report_is_fed() {
    for aggregate in Aggregate::ALL {
        assert!(UsageType::ALL.iter().any(|usage| usage.aggregate() == *aggregate), "{aggregate}");
    }
}

#[test]
fn host_categories_are_0_to_6_and_17() {
    let host: Vec<_> =
        Category::ALL.iter().filter(|c| c.location() == MemLocation::Host).map(|c| c.raw()).collect();
    assert_eq!(host, [0, 1, 2, 3, 4, 5, 6, 17]);
}

#[test]
fn unknown_numbers_count_as_the_locations_unknown() {
    for raw in [20, 21, u32::MAX] {
        assert_eq!(Category::accounted(raw, true), Category::UnknownHost);
        assert_eq!(Category::accounted(raw, false), Category::UnknownDevice);
    }
    assert_eq!(Category::accounted(9, true), Category::TensorsDevice, "not checked against the location");
    assert_eq!((Category::unknown(true).raw(), Category::unknown(false).raw()), (0, 7));
}

#[test]
fn sysfs_nodes_stand_below_their_location_and_only_the_scratchpads_share_one() {
    for category in Category::ALL {
        let parent = match category.location() {
            MemLocation::Host => "host_mem/",
            _ => "device_mem/",
        };
        assert!(category.sysfs_node().starts_with(parent), "{category}");
    }
    let mut nodes: Vec<_> = Category::ALL.iter().map(|c| c.sysfs_node()).collect();
    nodes.sort_unstable();
    let shared: Vec<_> = nodes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert_eq!(shared, ["device_mem/model_shared_scratchpad"]);
}

#[test]
fn names_are_those_of_reports_and_headers() {
    assert_eq!(UsageType::ScratchpadNotShared.to_string(), "SCRATCHPAD_NOT_SHARED");
    assert_eq!(UsageType::ScratchpadNotShared.label(), "scratchpad");
    assert_eq!(UsageType::DmaRing.label(), "dma rings runtime");
    assert_eq!(Aggregate::from_raw(9).map(Aggregate::name), Some("dma rings runtime"));
    assert_eq!(Category::NotificationHost.to_string(), "NOTIFICATION_HOST");
    assert_eq!(MemLocation::from_raw(2), Some(MemLocation::Device));
}
