//! Numbers and the check that entries, rows and the whole layout share.

use super::words::WORD;

/// Version of this layout.
pub(super) const VERSION: u64 = 1;
/// Most entries that a ring can have: 4 GiB of them (our choice).
pub(super) const MAX_CAPACITY: u64 = 1 << 26;
/// Words of an entry.
pub(super) const ENTRY: usize = 8;
/// Words of a row.
pub(super) const ROW: usize = 16;
/// Where a row's meter starts, and its text.
pub(super) const ROW_METER: usize = 1;
pub(super) const ROW_TEXT: usize = 4;
/// Bytes of text in a row; a longer text is cut.
pub(super) const TEXT: usize = (ROW - ROW_TEXT) * WORD;

/// A number that any change of the words changes with near certainty. Against accidents,
/// not against forgers.
pub(super) fn mix(seed: u64, words: &[u64]) -> u64 {
    // The odd constant is the golden ratio's.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed =
        words.iter().fold(seed ^ FACTOR, |mixed, word| (mixed.rotate_left(29) ^ word).wrapping_mul(FACTOR));
    mixed ^ (mixed >> 32)
}
