//! Host memory as it should be handed out: by the page, lowest address first, and told
//! by nothing but what was taken and given back.

use std::collections::BTreeMap;

/// First address of host memory.
pub const START: u64 = 0x1000_0000;
const PAGE: u64 = 4096;

/// Taken blocks by address.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    taken: BTreeMap<u64, u64>,
}

impl Pages {
    /// Memory of which everything below `end` is taken; `blocks` of it, (address, bytes),
    /// may be given back.
    pub fn taken_below(end: u64, blocks: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut taken: BTreeMap<u64, u64> = blocks.into_iter().collect();
        let mut from = START;
        for (address, bytes) in taken.clone() {
            if address > from {
                taken.insert(from, address - from);
            }
            from = address + bytes;
        }
        if end > from {
            taken.insert(from, end - from);
        }
        Self { taken }
    }

    /// Takes the lowest block of `bytes`, rounded up to the page.
    pub fn take(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.next_multiple_of(PAGE);
        let mut at = START;
        for (address, taken) in &self.taken {
            if at + bytes <= *address {
                break;
            }
            at = address + taken;
        }
        self.taken.insert(at, bytes);
        at
    }

    /// Gives a block back.
    pub fn give(&mut self, address: u64) {
        self.taken.remove(&address);
    }

    /// Bytes that are taken.
    pub fn in_use(&self) -> u64 {
        self.taken.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_hole_that_is_large_enough_is_taken() {
        let mut pages =
            Pages::taken_below(START + 8 * PAGE, [(START + 2 * PAGE, PAGE), (START + 4 * PAGE, 2 * PAGE)]);
        assert_eq!(pages.in_use(), 8 * PAGE);
        pages.give(START + 2 * PAGE);
        pages.give(START + 4 * PAGE);
        assert_eq!(pages.in_use(), 5 * PAGE);
        assert_eq!(pages.take(PAGE + 1), START + 4 * PAGE);
        assert_eq!(pages.take(24), START + 2 * PAGE);
        assert_eq!(pages.take(24), START + 8 * PAGE);
    }
}
