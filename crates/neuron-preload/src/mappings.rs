//! Where mappings of devices are, so that the server hears when one is gone.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A part of a mapping that is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    start: u64,
    end: u64,
    mapping: u64,
}

#[derive(Debug)]
pub(crate) struct Mappings {
    pieces: Vec<Piece>,
}

/// Pieces in this process: looked at without a lock.
static PIECES: AtomicUsize = AtomicUsize::new(0);

/// Whether there are none.
#[inline]
pub(crate) fn is_none() -> bool {
    PIECES.load(Ordering::Relaxed) == 0
}

impl Mappings {
    pub(crate) const fn new() -> Self {
        Self { pieces: Vec::new() }
    }

    /// A mapping is at `start`.
    pub(crate) fn add(&mut self, start: u64, bytes: u64, mapping: u64) {
        self.pieces.push(Piece { start, end: start.saturating_add(bytes), mapping });
        self.count();
    }

    /// Whether any of a range is of a mapping.
    pub(crate) fn touches(&self, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        self.pieces.iter().any(|piece| piece.start < end && start < piece.end)
    }

    /// A range is not mapped any more, or to something else: the mappings of which nothing is left.
    pub(crate) fn cut(&mut self, start: u64, bytes: u64) -> Vec<u64> {
        let end = start.saturating_add(bytes);
        let mut hit = Vec::new();
        let mut left = Vec::new();
        for piece in self.pieces.drain(..) {
            if piece.end <= start || end <= piece.start {
                left.push(piece);
                continue;
            }
            hit.push(piece.mapping);
            if piece.start < start {
                left.push(Piece { end: start, ..piece });
            }
            if end < piece.end {
                left.push(Piece { start: end, ..piece });
            }
        }
        self.pieces = left;
        self.count();
        hit.sort_unstable();
        hit.dedup();
        hit.retain(|&mapping| self.pieces.iter().all(|piece| piece.mapping != mapping));
        hit
    }

    /// What is in a range is at another address now.
    pub(crate) fn moved(&mut self, start: u64, bytes: u64, to: u64) {
        let end = start.saturating_add(bytes);
        for piece in self.pieces.iter_mut().filter(|piece| start <= piece.start && piece.end <= end) {
            let len = piece.end - piece.start;
            piece.start = to.wrapping_add(piece.start - start);
            piece.end = piece.start.wrapping_add(len);
        }
    }

    /// A forked child has none.
    pub(crate) fn forget(&mut self) {
        self.pieces.clear();
        self.count();
    }

    fn count(&self) {
        PIECES.store(self.pieces.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_gone_with_its_last_part() {
        let mut mappings = Mappings::new();
        mappings.add(0x1000, 0x4000, 1);
        mappings.add(0x9000, 0x1000, 2);
        assert!(mappings.touches(0x4fff, 1) && !mappings.touches(0x5000, 0x4000));
        assert_eq!(mappings.cut(0x5000, 0x4000), []);
        assert_eq!(mappings.cut(0x2000, 0x1000), [], "a hole in the middle");
        assert!(!mappings.touches(0x2000, 0x1000) && mappings.touches(0x3000, 1));
        assert_eq!(mappings.cut(0, 0x2000), []);
        assert_eq!(mappings.cut(0x3000, 0x7000), [1, 2], "what is left of the one, and the other");
        assert!(!mappings.touches(0, u64::MAX));
    }

    #[test]
    fn a_mapping_that_moved_is_gone_where_it_is_now() {
        let mut mappings = Mappings::new();
        mappings.add(0x1000, 0x2000, 1);
        mappings.moved(0x1000, 0x2000, 0x7000);
        assert_eq!(mappings.cut(0x1000, 0x2000), []);
        assert_eq!(mappings.cut(0x7000, 0x2000), [1]);
    }
}
