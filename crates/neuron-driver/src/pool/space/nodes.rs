//! Fixed-size nodes in a vector, and how slots move in and between them. What the keys
//! and values mean is the tree's business (`extents`).

/// Slots of a node, a power of two.
pub(super) const FANOUT: usize = 32;

/// Key of an empty slot: above every real one, so that counting needs no length.
pub(super) const NO_KEY: u32 = i32::MAX as u32;

/// One number for each slot of a node; empty slots hold a filler.
pub(super) type Row = [u32; FANOUT];

/// Up to [`FANOUT`] ascending keys, each with a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) key: Row,
    pub(super) value: Row,
    pub(super) count: usize,
}

impl Node {
    pub(super) const EMPTY: Self = Self { key: [NO_KEY; FANOUT], value: [0; FANOUT], count: 0 };

    /// Keys that are `key` or less. Counting all slots beats stopping at the right one:
    /// it is a few vector instructions and no branch to guess. Signed, since a baseline
    /// vector unit compares nothing else; keys are below 2^31.
    pub(super) fn up_to(&self, key: u32) -> usize {
        self.key.iter().map(|&other| u32::from(other as i32 <= key as i32)).sum::<u32>() as usize
    }

    pub(super) fn insert(&mut self, slot: usize, key: u32, value: u32) {
        open(&mut self.key, slot, key);
        open(&mut self.value, slot, value);
        self.count += 1;
    }

    pub(super) fn remove(&mut self, slot: usize) {
        close(&mut self.key, slot, NO_KEY);
        close(&mut self.value, slot, 0);
        self.count -= 1;
    }
}

/// Nodes by id. Ids of released nodes are used again.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    released: Vec<u32>,
}

impl Nodes {
    /// Id of an empty node.
    pub(super) fn create(&mut self) -> u32 {
        self.released.pop().unwrap_or_else(|| {
            self.nodes.push(Node::EMPTY);
            (self.nodes.len() - 1) as u32
        })
    }

    /// Forgets an empty node.
    pub(super) fn release(&mut self, id: u32) {
        debug_assert_eq!(self[id].count, 0);
        self.released.push(id);
    }

    /// Nodes that are not released.
    #[cfg(test)]
    pub(super) fn living(&self) -> usize {
        self.nodes.len() - self.released.len()
    }

    /// Spreads the slots of two neighbours so that the left one holds `left_count`.
    pub(super) fn deal(&mut self, left: u32, right: u32, left_count: usize) {
        let (mut a, mut b) = (self[left], self[right]);
        let counts = [a.count, b.count];
        deal(&mut a.key, &mut b.key, counts, left_count, NO_KEY);
        deal(&mut a.value, &mut b.value, counts, left_count, 0);
        a.count = left_count;
        b.count = counts[0] + counts[1] - left_count;
        (self[left], self[right]) = (a, b);
    }
}

impl std::ops::Index<u32> for Nodes {
    type Output = Node;

    fn index(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }
}

impl std::ops::IndexMut<u32> for Nodes {
    fn index_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }
}

/// Puts `value` in `slot`; the slots from there move up and the last is lost.
pub(super) fn open(row: &mut Row, slot: usize, value: u32) {
    row.copy_within(slot..FANOUT - 1, slot + 1);
    row[slot] = value;
}

/// Takes `slot` out; the slots behind it move down.
pub(super) fn close(row: &mut Row, slot: usize, filler: u32) {
    row.copy_within(slot + 1.., slot);
    row[FANOUT - 1] = filler;
}

/// Spreads two rows that hold `counts` numbers so that the left one holds `left_count`.
pub(super) fn deal(left: &mut Row, right: &mut Row, counts: [usize; 2], left_count: usize, filler: u32) {
    let total = counts[0] + counts[1];
    let mut both = [filler; 2 * FANOUT];
    both[..counts[0]].copy_from_slice(&left[..counts[0]]);
    both[counts[0]..total].copy_from_slice(&right[..counts[1]]);
    (*left, *right) = ([filler; FANOUT], [filler; FANOUT]);
    left[..left_count].copy_from_slice(&both[..left_count]);
    right[..total - left_count].copy_from_slice(&both[left_count..total]);
}

/// First slot that holds at least `least`. Without branches, as in [`Node::up_to`].
pub(super) fn first_at_least(row: &Row, least: u32) -> Option<usize> {
    let (parts, _) = row.as_chunks::<16>();
    let hits = parts.iter().rev().fold(0, |hits: u64, part| hits << 16 | u64::from(hits_of(part, least)));
    (hits != 0).then(|| hits.trailing_zeros() as usize)
}

/// A bit for each slot that holds at least `least`.
fn hits_of(row: &[u32; 16], least: u32) -> u32 {
    let mut hits = 0;
    for (slot, &value) in row.iter().enumerate() {
        // From bit 1 on: a compare makes bit 0 by itself, which breaks the vector up.
        hits |= if value as i32 >= least as i32 { 2u32 << slot } else { 0 };
    }
    hits >> 1
}

/// Largest number of a row.
pub(super) fn largest(row: &Row) -> u32 {
    row.iter().fold(0, |largest: i32, &value| largest.max(value as i32)) as u32
}
