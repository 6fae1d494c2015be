//! Cores that open files have claimed, over all devices of the machine: what
//! `CRWL_NC_RANGE_MARK` hands out (`spec/abi.md` 10). A claim is the file's, whichever
//! process made it, and ends with it.

use std::ops::RangeInclusive;

use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Who has each core of the machine; a number that no file has means nobody.
#[derive(Debug, Default)]
pub(crate) struct CoreMarks {
    /// By core, devices in numeric order. Grows to the highest one asked for.
    owners: Mutex<Vec<Option<u64>>>,
}

/// Why no run of cores was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRun {
    /// Cores of the longest free run.
    pub(crate) longest: u32,
}

impl CoreMarks {
    fn owners(&self) -> MutexGuard<'_, Vec<Option<u64>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the first run of `count` free cores in `range` for a file, and tells where it
    /// starts.
    pub(crate) fn claim(&self, file: u64, range: RangeInclusive<u32>, count: u32) -> Result<u32, NoRun> {
        let mut owners = self.owners();
        if owners.len() <= *range.end() as usize {
            owners.resize(*range.end() as usize + 1, None);
        }
        let (mut run, mut longest) = (0, 0);
        for core in range {
            let free = owners.get(core as usize).is_some_and(Option::is_none);
            run = if free { run + 1 } else { 0 };
            longest = longest.max(run);
            if run == count {
                let start = core + 1 - count;
                if let Some(taken) = owners.get_mut(start as usize..=core as usize) {
                    taken.fill(Some(file));
                }
                return Ok(start);
            }
        }
        Err(NoRun { longest })
    }

    /// Gives the file's cores of `range` back; others keep theirs.
    pub(crate) fn release(&self, file: u64, range: RangeInclusive<u32>) {
        let mut owners = self.owners();
        let last = owners.len().saturating_sub(1).min(*range.end() as usize);
        if let Some(part) = owners.get_mut(*range.start() as usize..=last) {
            part.iter_mut().filter(|owner| **owner == Some(file)).for_each(|owner| *owner = None);
        }
    }

    /// Gives all of the file's cores back.
    pub(crate) fn release_all(&self, file: u64) {
        self.release(file, 0..=u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first free run, by looking at every start.
    fn first_run(owners: &[Option<u64>], range: RangeInclusive<u32>, count: u32) -> Option<u32> {
        range.clone().find(|&start| {
            let cores = start..start + count;
            cores.end <= range.end() + 1 && cores.clone().all(|core| owners[core as usize].is_none())
        })
    }

    proptest! {
        #[test]
        fn the_first_run_that_fits_is_taken_and_no_core_twice(
            calls in proptest::collection::vec((1u64..4, 0u32..32, 0u32..32, 1u32..8, any::<bool>()), 1..60)
        ) {
            let marks = CoreMarks::default();
            let mut model = vec![None; 64];
            for (file, start, len, count, claims) in calls {
                let range = start..=start + len;
                if claims {
                    let expected = first_run(&model, range.clone(), count);
                    let claimed = marks.claim(file, range, count);
                    prop_assert_eq!(claimed.ok(), expected);
                    if let Some(start) = expected {
                        model[start as usize..(start + count) as usize].fill(Some(file));
                    } else {
                        prop_assert!(claimed.unwrap_err().longest < count);
                    }
                } else {
                    marks.release(file, range.clone());
                    for owner in &mut model[*range.start() as usize..=*range.end() as usize] {
                        if *owner == Some(file) {
                            *owner = None;
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_closed_file_leaves_others_theirs() {
        let marks = CoreMarks::default();
        assert_eq!((marks.claim(1, 0..=7, 4), marks.claim(2, 0..=7, 4)), (Ok(0), Ok(4)));
        assert_eq!(marks.claim(3, 0..=7, 1), Err(NoRun { longest: 0 }));
        marks.release_all(1);
        assert_eq!((marks.claim(3, 0..=7, 5), marks.claim(3, 0..=7, 4)), (Err(NoRun { longest: 4 }), Ok(0)));
    }
}
