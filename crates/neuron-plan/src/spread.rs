//! Which core gets which tensor. Sizes in, core positions out; knows nothing of devices.

/// Spreads items over `cores` by size: largest first, each to the least loaded core so far.
///
/// Item `i` of `sizes` (bytes) goes to the core at position `result[i]`, always below `cores`. Items of equal
/// size keep their order, equally loaded cores are taken lowest first, so the same sizes always spread the
/// same way. The most and the least loaded core differ by no more than the largest item. `cores` of 0 counts
/// as 1.
#[must_use]
pub fn spread(sizes: &[u64], cores: usize) -> Vec<usize> {
    // u128: no sum of u64 sizes in memory can overflow it.
    let mut loads = vec![0u128; cores.max(1)];
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    let size_of = |item: usize| sizes.get(item).copied().unwrap_or(0);
    order.sort_by_key(|&item| std::cmp::Reverse(size_of(item)));

    let mut placed = vec![0; sizes.len()];
    for item in order {
        // `min_by_key` keeps the first of equals: the lowest core.
        let lightest = loads.iter_mut().enumerate().min_by_key(|(_, load)| **load);
        if let (Some((core, load)), Some(place)) = (lightest, placed.get_mut(item)) {
            *load += u128::from(size_of(item));
            *place = core;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_goes_first_and_ties_take_the_lowest_core() {
        assert_eq!(spread(&[1, 5, 3, 3], 2), [0, 0, 1, 1]);
        assert_eq!(spread(&[4, 4, 4, 4], 2), [0, 1, 0, 1]);
    }

    #[test]
    fn one_core_takes_everything() {
        assert_eq!(spread(&[7, 0, 9], 1), [0, 0, 0]);
        assert_eq!(spread(&[7, 0, 9], 0), [0, 0, 0]);
    }

    #[test]
    fn sizes_whose_sum_passes_u64_still_balance() {
        assert_eq!(spread(&[u64::MAX; 4], 2), [0, 1, 0, 1]);
    }

    #[test]
    fn nothing_spreads_to_nothing() {
        assert!(spread(&[], 4).is_empty());
    }

    proptest! {
        #[test]
        fn loads_differ_by_at_most_the_largest_item(
            sizes in prop::collection::vec(0u64..1 << 40, 0..200),
            cores in 1usize..16,
        ) {
            let placed = spread(&sizes, cores);
            prop_assert_eq!(placed.len(), sizes.len());
            let mut loads = vec![0u64; cores];
            for (core, size) in placed.iter().zip(&sizes) {
                loads[*core] += size;
            }
            let gap = loads.iter().max().unwrap() - loads.iter().min().unwrap();
            prop_assert!(gap <= sizes.iter().copied().max().unwrap_or(0));
            prop_assert_eq!(placed, spread(&sizes, cores));
        }
    }
}
