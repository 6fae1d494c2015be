//! Fragmentation over time, in bounded memory: when there are too many samples, every other one is
//! dropped, and from then on half as many are taken.

/// Samples that are kept at most (our choice).
const MOST: usize = 128;

/// Something that is sampled over a run of unknown length.
#[derive(Debug)]
pub(crate) struct Samples<T> {
    kept: Vec<T>,
    every: u64,
    seen: u64,
}

impl<T> Samples<T> {
    pub(crate) fn new() -> Self {
        Self { kept: Vec::with_capacity(MOST), every: 1, seen: 0 }
    }

    /// Takes a sample, if it is time for one.
    pub(crate) fn offer(&mut self, sample: impl FnOnce() -> T) {
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == MOST {
                let mut keep = false;
                self.kept.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.every *= 2;
            }
            if self.seen.is_multiple_of(self.every) {
                self.kept.push(sample());
            }
        }
        self.seen += 1;
    }

    /// What was kept, evenly spread over the run.
    pub(crate) fn into_kept(self) -> Vec<T> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_even_and_few_however_long_it_takes() {
        for length in [1, 127, 128, 129, 1000, 100_000] {
            let mut samples = Samples::new();
            for at in 0..length {
                samples.offer(|| at);
            }
            let kept = samples.into_kept();
            assert!(kept.len() <= MOST && kept.len() >= MOST.min(length as usize) / 2, "{length}");
            let steps: Vec<u64> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(steps.iter().all(|&step| Some(&step) == steps.first()), "{length}: {steps:?}");
            assert_eq!(kept[0], 0);
        }
    }
}
