//! Where the numbers come from: a seed, or the bytes that a fuzzer made up.

/// A stream of numbers that decides everything.
#[derive(Clone, Debug)]
pub enum Choices {
    /// Endless, the same for the same seed.
    Seeded(u64),
    /// As many as the bytes give.
    Bytes {
        /// What is left of them, in reverse order.
        left: Vec<u8>,
    },
}

impl Choices {
    /// The numbers of a fuzzer's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::Bytes { left: bytes.iter().rev().copied().collect() }
    }

    /// Whether bytes have run out; a seed never does.
    pub fn are_used_up(&self) -> bool {
        matches!(self, Self::Bytes { left } if left.is_empty())
    }

    /// A number of `bytes` bytes, zeros where they have run out.
    fn number(&mut self, bytes: usize) -> u64 {
        match self {
            Self::Seeded(state) => {
                // splitmix64
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                let mixed = mixed ^ mixed >> 31;
                if bytes < 8 { mixed & !(u64::MAX << (8 * bytes)) } else { mixed }
            }
            Self::Bytes { left } => {
                (0..bytes).fold(0, |number, _| number << 8 | u64::from(left.pop().unwrap_or(0)))
            }
        }
    }

    /// Any 64-bit number.
    pub fn any(&mut self) -> u64 {
        self.number(8)
    }

    /// A number below `limit`; 0 if that is 0. Even enough for what it decides.
    pub fn below(&mut self, limit: u64) -> u64 {
        let bytes = match limit {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 8,
        };
        self.number(bytes).checked_rem(limit).unwrap_or(0)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several; the default of none.
    pub fn one_of<T: Copy + Default>(&mut self, several: &[T]) -> T {
        let index = self.below(several.len() as u64) as usize;
        several.get(index).copied().unwrap_or_default()
    }

    /// Fills bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let number = self.number(part.len()).to_le_bytes();
            part.iter_mut().zip(number).for_each(|(byte, number)| *byte = number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_one_others() {
        let numbers = |seed| {
            let mut choices = Choices::Seeded(seed);
            [0; 8].map(|_| choices.any())
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        // The first number of splitmix64 from 0.
        assert_eq!(Choices::Seeded(0).any(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn bytes_are_used_in_order_and_run_out_into_zeros() {
        let mut choices = Choices::from_bytes(&[3, 0, 9, 1]);
        assert_eq!((choices.below(10), choices.below(1000), choices.are_used_up()), (3, 9, false));
        assert_eq!((choices.any(), choices.any()), (1 << 56, 0));
        assert!(choices.are_used_up());
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut choices = Choices::Seeded(1);
        for limit in [1, 2, 256, 257, 65_537, u64::MAX] {
            assert!((0..100).all(|_| choices.below(limit) < limit), "{limit}");
        }
        assert_eq!(choices.below(0), 0);
        assert_eq!(choices.one_of::<u8>(&[]), 0);
    }
}
