//! The counters: which there are, and which of them an event moves (`dma_mem_log_t`,
//! `spec/dmem.md` 1.4).
//!
//! The runtime's are HBMs and cores by usage type with a total, in rows of 23. Ours beside
//! them, because a peak cannot be had from other peaks: the report's categories, the whole
//! device, and host memory, which moves none of the others.

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};

use super::entry::Entry;

/// HBMs that are counted.
pub const CHANNELS: usize = 4;
/// Cores that are counted.
pub const CORES: usize = 8;
/// Counters of a core: its usage types and, last, its total.
pub(super) const COLUMNS: usize = UsageType::COUNT + 1;

const MATRIX: usize = CHANNELS;
const CATEGORIES: usize = MATRIX + CORES * COLUMNS;
/// All device memory.
pub(super) const DEVICE: usize = CATEGORIES + Aggregate::COUNT;
/// All host memory.
pub(super) const HOST: usize = DEVICE + 1;
/// Number of counters.
pub(super) const COUNT: usize = HOST + 1;

/// Counter of an HBM.
pub(crate) fn channel(hbm: u32) -> Option<usize> {
    let hbm = hbm as usize;
    (hbm < CHANNELS).then_some(hbm)
}

/// Counter of a core and column: usage type, or [`UsageType::COUNT`] for the total.
pub(crate) fn of_core(core: u32, column: usize) -> Option<usize> {
    let core = core as usize;
    (core < CORES && column < COLUMNS).then_some(MATRIX + core * COLUMNS + column)
}

/// Counter of a category.
pub(super) const fn category(category: Aggregate) -> usize {
    CATEGORIES + category.index()
}

/// Counters that an event moves, each by its charged bytes.
pub(super) fn moved_by(entry: &Entry) -> [Option<usize>; 5] {
    match entry.location {
        MemLocation::Device => [
            channel(entry.channel),
            of_core(entry.core, entry.usage.index()),
            of_core(entry.core, UsageType::COUNT),
            Some(category(entry.usage.aggregate())),
            Some(DEVICE),
        ],
        _ => [Some(HOST), None, None, None, None],
    }
}

/// A counter in words, for messages.
pub(super) fn name(meter: usize) -> String {
    if meter < MATRIX {
        return format!("HBM {meter}");
    }
    if meter < CATEGORIES {
        let (core, column) = ((meter - MATRIX) / COLUMNS, (meter - MATRIX) % COLUMNS);
        let usage = u32::try_from(column).ok().and_then(UsageType::from_raw);
        return format!("core {core}, {}", usage.map_or("total", UsageType::name));
    }
    let aggregate = u32::try_from(meter - CATEGORIES).ok().and_then(Aggregate::from_raw);
    match (aggregate, meter) {
        (Some(category), _) => category.name().to_owned(),
        (None, DEVICE) => "all device memory".to_owned(),
        (None, _) => "all host memory".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of 22 would make each total overwrite the next core's first counter
    /// (seed 000 §5, quirk).
    #[test]
    fn seed_000_a_cores_total_is_no_other_cores_counter() {
        let mut seen = std::collections::HashSet::new();
        let cores = (0..CORES as u32).flat_map(|core| (0..COLUMNS).map(move |column| of_core(core, column)));
        let others = (0..CHANNELS as u32).map(channel);
        let categories = Aggregate::ALL.iter().map(|&of| Some(category(of)));
        for meter in cores.chain(others).chain(categories).chain([Some(DEVICE), Some(HOST)]) {
            assert!(seen.insert(meter.unwrap()), "{meter:?}");
        }
        assert_eq!((seen.len(), COLUMNS), (COUNT, 23));
        assert!(seen.iter().all(|&meter| meter < COUNT));
        assert_eq!((of_core(8, 0), of_core(0, 23), channel(4)), (None, None, None));
    }

    #[test]
    fn every_counter_has_a_name_of_its_own() {
        let names: std::collections::HashSet<_> = (0..COUNT).map(name).collect();
        assert_eq!(names.len(), COUNT);
        assert_eq!(name(of_core(7, 22).unwrap()), "core 7, total");
    }
}
