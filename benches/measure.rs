//! The measuring loop of benches that hold several ways of copying the same bytes against
//! each other. No crate: benches include it with `#[path]`.

use std::time::{Duration, Instant};

/// Source and destination of cold copies: larger than any cache.
pub(crate) const POOL: usize = 512 << 20;
/// Cold copies begin so far apart that caches and prefetchers know nothing of the next place.
const APART: usize = 33 << 20;
/// Rounds of one measurement: at least, and at most.
const ROUNDS: std::ops::Range<usize> = 7..2000;
/// A measurement ends after this, if it has its rounds.
const ENOUGH: Duration = Duration::from_millis(400);

/// Whether `cargo test --benches` asks, which only wants to know that it runs.
pub(crate) fn is_test() -> bool {
    std::env::args().any(|argument| argument == "--test")
}

/// Seconds that `copy(way, offset)` took for `len` bytes in each of `N` ways, round by round.
///
/// A round goes each way once, so that a machine whose speed drifts drifts for all, in an
/// order that changes, since what one leaves in the caches is the next one's luck. Hot repeats
/// one place; cold gives each copy bytes of its own in [`POOL`].
pub(crate) fn times<const N: usize>(
    len: usize,
    cold: bool,
    mut copy: impl FnMut(usize, usize),
) -> [Vec<f64>; N] {
    let mut times = [const { Vec::new() }; N];
    let mut order: [usize; N] = std::array::from_fn(|way| way);
    let start = Instant::now();
    let (mut offset, mut round, mut random) = (0, 0, 1_u64);
    while round < ROUNDS.start || (start.elapsed() < ENOUGH && round < ROUNDS.end) {
        for place in (1..N).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(place, (random >> 33) as usize % (place + 1));
        }
        for way in order {
            let begin = Instant::now();
            copy(way, offset);
            times[way].push(begin.elapsed().as_secs_f64());
            if cold {
                offset = ((offset + len.max(APART)) % (POOL - len + 4096)) & !4095;
            }
        }
        round += 1;
    }
    times
}

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How many times as fast as `peer` something was: of the ratios of each round, the middle
/// one. What slows a whole round down cancels out.
pub(crate) fn ratio(peer: &[f64], times: &[f64]) -> f64 {
    median(&peer.iter().zip(times).map(|(peer, time)| peer / time).collect::<Vec<_>>())
}

/// GB/s.
pub(crate) fn rate(len: usize, seconds: f64) -> f64 {
    len as f64 / seconds / 1e9
}
