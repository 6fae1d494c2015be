//! A hash of one number, much cheaper than that of a text. With a number of its own for each table,
//! as the standard one has: no trace can be made whose ids all meet in one place.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Hashes numbers for one table.
#[derive(Clone, Debug)]
pub(crate) struct ByNumber(u64);

impl Default for ByNumber {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for ByNumber {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// One number, multiplied and folded.
#[derive(Debug)]
pub(crate) struct Folded(u64);

impl Hasher for Folded {
    fn write_u64(&mut self, number: u64) {
        // An odd number without a pattern: the fraction of the golden ratio.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_or_far_apart_are_spread_over_a_table() {
        let table = ByNumber(0x2545_f491_4f6c_dd1d);
        for step in [1_u64, 1 << 12, 1 << 32, 1 << 52] {
            let mut buckets = [0_u32; 256];
            for number in 0..4096_u64 {
                let hash = table.hash_one(number.wrapping_mul(step));
                buckets[(hash & 255) as usize] += 1;
            }
            assert!(buckets.iter().all(|&count| count < 64), "{step}: {buckets:?}");
        }
    }
}
