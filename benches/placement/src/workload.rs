//! What is asked of a placer: requests of a training job's sizes, random frees.

use crate::placers::{Placer, Request};

/// Which requests are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// None.
    Plain,
    /// A quarter to 64 KiB, an eighth to 2 MiB.
    Aligned,
}

/// The same numbers in every run (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// 4 KiB to 8 MiB, each doubling equally likely: half are under 180 KiB, the mean is 1 MiB.
    fn request(&mut self, mix: Mix) -> Request {
        let log = self.below(11 << 20) as f64 / f64::from(1 << 20);
        let mask = match (mix, self.below(8)) {
            (Mix::Aligned, 0) => (2 << 20) / 4096 - 1,
            (Mix::Aligned, 1 | 2) => (64 << 10) / 4096 - 1,
            _ => 0,
        };
        Request { len: log.exp2() as u32, mask }
    }
}

/// A population of living blocks and the churn that keeps its number.
pub(crate) struct Churn<P: Placer> {
    pub(crate) placer: P,
    /// Never empty slots but during one exchange.
    live: Vec<Option<P::Block>>,
    /// Who is freed and what is placed in its stead, over and over.
    script: Vec<(u32, Request)>,
    next: usize,
}

impl<P: Placer> Churn<P> {
    /// `count` blocks placed one after another.
    pub(crate) fn new(mut placer: P, count: u64, mix: Mix) -> Self {
        let mut random = Random(count);
        let live = (0..count).map(|_| Some(placer.place(random.request(mix)))).collect();
        // Long enough that branch prediction cannot learn it.
        let script = (0..4 * count).map(|_| (random.below(count) as u32, random.request(mix))).collect();
        Self { placer, live, script, next: 0 }
    }

    /// The same population in another placer's hands.
    pub(crate) fn handed_to<Q: Placer<Block = P::Block>>(&self, placer: Q) -> Churn<Q>
    where
        P::Block: Copy,
    {
        Churn { placer, live: self.live.clone(), script: self.script.clone(), next: self.next }
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &P::Block> {
        self.live.iter().flatten()
    }

    /// Frees a random block and places another, `count` times. Returns the last one's slot.
    pub(crate) fn run(&mut self, count: u64) -> usize {
        let mut slot = 0;
        for _ in 0..count {
            let (victim, request) = self.script[self.next];
            self.next = if self.next + 1 == self.script.len() { 0 } else { self.next + 1 };
            slot = victim as usize;
            if let Some(block) = self.live[slot].take() {
                self.placer.free(block);
            }
            self.live[slot] = Some(self.placer.place(request));
        }
        slot
    }

    pub(crate) fn block(&self, slot: usize) -> Option<&P::Block> {
        self.live[slot].as_ref()
    }
}
