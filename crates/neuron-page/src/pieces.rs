//! The blocks of an HBM made few enough to draw: neighbours that are too small to be seen become
//! one piece, which says what is in it.

use std::collections::BTreeMap;

use crate::model::Block;

/// Pieces of an HBM at most.
pub const MOST_PIECES: usize = 2000;

/// What is drawn as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) from: u64,
    /// Behind the last of it.
    pub(crate) end: u64,
    /// Of the category that has most of it.
    pub(crate) category: &'a str,
    pub(crate) what: What<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What<'a> {
    One(&'a Block),
    /// Blocks and bytes, in all and by category.
    Many {
        blocks: usize,
        bytes: u64,
        by: BTreeMap<&'a str, (usize, u64)>,
    },
}

/// Blocks as they lie: in order, and each only where no other lies before it.
pub(crate) fn sorted(blocks: &[Block]) -> Vec<(u64, u64, &Block)> {
    let mut all: Vec<_> = blocks.iter().filter(|block| block.bytes > 0).collect();
    all.sort_by_key(|block| block.from);
    let mut free = 0;
    let mut lie = Vec::with_capacity(all.len());
    for block in all {
        let (from, end) = (block.from.max(free), block.from.saturating_add(block.bytes));
        if from < end {
            lie.push((from, end, block));
            free = end;
        }
    }
    lie
}

/// The blocks as pieces, and whether any of these is more than a block.
pub(crate) fn pieces<'a>(lie: &[(u64, u64, &'a Block)]) -> (Vec<Piece<'a>>, bool) {
    let extent = lie.first().zip(lie.last()).map_or(0, |((from, ..), (_, end, _))| end - from);
    // As fine as can be: coarser until it is few enough.
    let mut grain = if lie.len() > MOST_PIECES { extent / (MOST_PIECES as u64 / 3) + 1 } else { 0 };
    loop {
        let pieces = grouped(lie, grain);
        if pieces.len() <= MOST_PIECES {
            let merged = pieces.len() < lie.len();
            return (pieces, merged);
        }
        grain = grain.saturating_mul(2);
    }
}

/// Blocks smaller than the grain that begin in one grain and follow each other are one.
fn grouped<'a>(lie: &[(u64, u64, &'a Block)], grain: u64) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    let mut rest = lie;
    while let Some(first) = rest.first() {
        let alike = |(from, end, _): &(u64, u64, &Block)| {
            end - from < grain && from.checked_div(grain) == first.0.checked_div(grain)
        };
        let count = if alike(first) { rest.iter().take_while(|block| alike(block)).count() } else { 1 };
        let (group, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        pieces.extend(piece(group));
        rest = behind;
    }
    pieces
}

fn piece<'a>(group: &[(u64, u64, &'a Block)]) -> Option<Piece<'a>> {
    let ((from, ..), (_, end, _)) = group.first().zip(group.last())?;
    if let [(_, _, block)] = group {
        return Some(Piece { from: *from, end: *end, category: &block.category, what: What::One(block) });
    }
    let mut by: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for (from, end, block) in group {
        let (blocks, bytes) = by.entry(&block.category).or_default();
        *blocks += 1;
        *bytes += end - from;
    }
    let category = by.iter().max_by_key(|(_, (_, bytes))| *bytes).map(|(category, _)| *category)?;
    let bytes = by.values().map(|(_, bytes)| bytes).sum();
    Some(Piece { from: *from, end: *end, category, what: What::Many { blocks: group.len(), bytes, by } })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(from: u64, bytes: u64, category: &str) -> Block {
        Block { from, bytes, category: category.into(), owner: String::new(), hint: String::new() }
    }

    fn covered(pieces: &[Piece<'_>]) -> u64 {
        let bytes = |piece: &Piece<'_>| match &piece.what {
            What::One(_) => piece.end - piece.from,
            What::Many { bytes, .. } => *bytes,
        };
        pieces.iter().map(bytes).sum()
    }

    #[test]
    fn few_blocks_are_drawn_as_they_are() {
        let blocks =
            [block(10, 5, "b"), block(0, 5, "a"), block(3, 4, "a"), block(4, 1, "a"), block(9, 0, "a")];
        let lie = sorted(&blocks);
        assert_eq!(lie.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>(), [(0, 5), (5, 7), (10, 15)]);
        let (pieces, merged) = pieces(&lie);
        assert_eq!((pieces.len(), merged), (3, false));
    }

    #[test]
    fn many_small_blocks_become_pieces_and_large_ones_stay() {
        let mut blocks: Vec<_> =
            (0..100_000).map(|i| block(i * 8192, 4096, if i % 3 == 0 { "a" } else { "b" })).collect();
        blocks.push(block(100_000 * 8192, 1 << 28, "large"));
        let (pieces, merged) = pieces(&sorted(&blocks));
        assert!(merged && pieces.len() <= MOST_PIECES && pieces.len() > 300, "{}", pieces.len());
        assert_eq!(pieces.last().unwrap().what, What::One(blocks.last().unwrap()));
        let What::Many { blocks: count, by, .. } = &pieces[0].what else { panic!() };
        assert_eq!((pieces[0].category, by["a"].0 + by["b"].0), ("b", *count));
        assert_eq!(covered(&pieces), 100_000 * 4096 + (1 << 28));
    }

    proptest! {
        #[test]
        fn pieces_are_few_and_lose_no_byte(
            parts in prop::collection::vec((0..1_u64 << 40, 0..1_u64 << 24), 0..3000),
            step in 1..1_u64 << 20,
        ) {
            let near = parts.iter().enumerate().map(|(i, (_, bytes))| block(i as u64 * step, *bytes, "a"));
            let far = parts.iter().map(|(from, bytes)| block(*from, *bytes, "b"));
            for blocks in [near.collect::<Vec<_>>(), far.collect()] {
                let lie = sorted(&blocks);
                let (pieces, merged) = pieces(&lie);
                prop_assert!(pieces.len() <= MOST_PIECES);
                prop_assert_eq!(merged, pieces.len() < lie.len());
                prop_assert_eq!(covered(&pieces), lie.iter().map(|(from, end, _)| end - from).sum::<u64>());
                prop_assert!(pieces.windows(2).all(|pair| pair[0].end <= pair[1].from));
            }
        }
    }
}
