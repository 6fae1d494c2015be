//! Lowest-address-first placement over a range of granules.
//!
//! Free extents live in a treap ordered by address in which every node knows the
//! longest extent below it, so first fit, free and coalescing are O(log n). Nodes are
//! indices into one vector. Nothing here knows bytes, pools or categories.

/// Free and taken granules of one range.
#[derive(Debug)]
pub struct Space {
    nodes: Vec<Node>,
    recycled: Vec<u32>,
    root: u32,
    start: u64,
    end: u64,
    free: u64,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    start: u64,
    len: u64,
    longest: u64,
    priority: u32,
    left: u32,
    right: u32,
}

const NIL: u32 = u32::MAX;

/// A run of granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First granule.
    pub start: u64,
    /// Granules, at least 1.
    pub len: u64,
}

impl Extent {
    const fn end(self) -> u64 {
        self.start + self.len
    }
}

impl Space {
    /// A space of `len` free granules from `start`.
    pub fn new(start: u64, len: u64) -> Self {
        let mut space = Self {
            nodes: Vec::new(),
            recycled: Vec::new(),
            root: NIL,
            start,
            end: start + len,
            free: len,
            seed: 0x9e37_79b9_7f4a_7c15,
        };
        if len > 0 {
            space.insert(Extent { start, len });
        }
        space
    }

    /// Granules that are free.
    pub const fn free_granules(&self) -> u64 {
        self.free
    }

    /// Longest free run.
    pub fn largest_hole(&self) -> u64 {
        self.longest(self.root)
    }

    /// Takes the lowest run of `len` granules.
    pub fn first_fit(&mut self, len: u64) -> Option<u64> {
        if len == 0 {
            return None;
        }
        let found = self.leftmost(self.root, len, &|_| true)?;
        self.take(found.start, len).then_some(found.start)
    }

    /// Takes the lowest run of `len` granules whose first granule has no bit of `mask`
    /// set, by the allocator's own search (`spec/mempool.md` 3.1): from the lowest free
    /// granule, add the mask and clear its bits; if the run there is not free, go on
    /// behind its first busy granule.
    pub fn aligned_fit(&mut self, len: u64, mask: u64) -> Option<u64> {
        if len == 0 {
            return None;
        }
        let found = if mask.wrapping_add(1).is_power_of_two() {
            let aligned = |extent: Extent| {
                let at = extent.start.checked_add(mask)? & !mask;
                (at.checked_add(len)? <= extent.end()).then_some(at)
            };
            let extent = self.leftmost(self.root, len, &|extent| aligned(extent).is_some())?;
            aligned(extent)?
        } else {
            self.scan_masked(len, mask)?
        };
        self.take(found, len).then_some(found)
    }

    /// The search for a mask with holes, where placement is not monotone: step by step.
    fn scan_masked(&self, len: u64, mask: u64) -> Option<u64> {
        let mut from = self.start;
        loop {
            let lowest = self.first_free_from(from)?;
            let at = lowest.checked_add(mask)? & !mask;
            let end = at.checked_add(len)?;
            if end > self.end {
                return None;
            }
            match self.extent_at(at) {
                Some(extent) if end <= extent.end() => return Some(at),
                // The first busy granule ends the extent that holds `at`, or is `at`.
                Some(extent) => from = extent.end(),
                None => from = at,
            }
        }
    }

    /// Takes exactly the run of `len` granules at `start`; false if any is taken.
    pub fn take(&mut self, start: u64, len: u64) -> bool {
        let (Some(extent), Some(end)) = (self.extent_at(start), start.checked_add(len)) else {
            return false;
        };
        if len == 0 || end > extent.end() {
            return false;
        }
        match (start == extent.start, end == extent.end()) {
            (true, true) => self.remove(extent.start),
            (true, false) => self.resize(extent.start, Extent { start: end, len: extent.end() - end }),
            (false, true) => {
                self.resize(extent.start, Extent { start: extent.start, len: start - extent.start });
            }
            (false, false) => {
                self.resize(extent.start, Extent { start: extent.start, len: start - extent.start });
                self.insert(Extent { start: end, len: extent.end() - end });
            }
        }
        self.free -= len;
        true
    }

    /// Gives back a run that was taken, joining it with free neighbours.
    ///
    /// Returns false, and changes nothing, if any granule of it is already free or
    /// outside: a caller's double free.
    pub fn give(&mut self, start: u64, len: u64) -> bool {
        let Some(end) = start.checked_add(len) else { return false };
        if len == 0 || start < self.start || end > self.end {
            return false;
        }
        let before = self.at_or_before(start);
        let after = self.first_extent_from(start);
        if before.is_some_and(|extent| extent.end() > start) || after.is_some_and(|extent| extent.start < end)
        {
            return false;
        }
        let before = before.filter(|extent| extent.end() == start);
        let after = after.filter(|extent| extent.start == end);
        match (before, after) {
            (Some(before), Some(after)) => {
                self.remove(after.start);
                self.resize(before.start, Extent { len: before.len + len + after.len, ..before });
            }
            (Some(before), None) => self.resize(before.start, Extent { len: before.len + len, ..before }),
            (None, Some(after)) => self.resize(after.start, Extent { start, len: after.len + len }),
            (None, None) => self.insert(Extent { start, len }),
        }
        self.free += len;
        true
    }

    /// Free extents, lowest first.
    pub fn holes(&self) -> Vec<Extent> {
        let mut holes = Vec::new();
        let mut pending = Vec::new();
        let mut at = self.root;
        loop {
            while let Some(node) = self.node(at) {
                pending.push(at);
                at = node.left;
            }
            let Some(node) = pending.pop().and_then(|at| self.node(at)) else { return holes };
            holes.push(node.extent());
            at = node.right;
        }
    }

    fn first_free_from(&self, from: u64) -> Option<u64> {
        match self.extent_at(from) {
            Some(_) => Some(from),
            None => self.first_extent_from(from).map(|extent| extent.start),
        }
    }

    /// The free extent that holds `granule`.
    fn extent_at(&self, granule: u64) -> Option<Extent> {
        self.at_or_before(granule).filter(|extent| granule < extent.end())
    }

    fn at_or_before(&self, granule: u64) -> Option<Extent> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = self.node(at) {
            if node.start <= granule {
                found = Some(node.extent());
                at = node.right;
            } else {
                at = node.left;
            }
        }
        found
    }

    fn first_extent_from(&self, granule: u64) -> Option<Extent> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = self.node(at) {
            if node.start >= granule {
                found = Some(node.extent());
                at = node.left;
            } else {
                at = node.right;
            }
        }
        found
    }

    /// Lowest extent of at least `len` granules that also `fits`.
    fn leftmost(&self, at: u32, len: u64, fits: &dyn Fn(Extent) -> bool) -> Option<Extent> {
        let node = self.node(at).filter(|node| node.longest >= len)?;
        if let Some(found) = self.leftmost(node.left, len, fits) {
            return Some(found);
        }
        if node.len >= len && fits(node.extent()) {
            return Some(node.extent());
        }
        self.leftmost(node.right, len, fits)
    }
}

/// The treap. Recursion depth is the height, about 2 log2 of the extents.
impl Space {
    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    fn longest(&self, at: u32) -> u64 {
        self.node(at).map_or(0, |node| node.longest)
    }

    fn update(&mut self, at: u32, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            change(node);
        }
        let Some(&node) = self.node(at) else { return };
        let longest = node.len.max(self.longest(node.left)).max(self.longest(node.right));
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.longest = longest;
        }
    }

    fn insert(&mut self, extent: Extent) {
        // xorshift64: balance must not depend on anything but the calls made.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let node = Node {
            start: extent.start,
            len: extent.len,
            longest: extent.len,
            priority: (self.seed >> 32) as u32,
            left: NIL,
            right: NIL,
        };
        let at = match self.recycled.pop() {
            Some(at) => {
                self.update(at, |old| *old = node);
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.root = self.insert_below(self.root, at);
    }

    fn insert_below(&mut self, root: u32, new: u32) -> u32 {
        let (Some(&here), Some(&node)) = (self.node(root), self.node(new)) else { return new };
        if node.priority > here.priority {
            let (left, right) = self.split(root, node.start);
            self.update(new, |node| (node.left, node.right) = (left, right));
            return new;
        }
        if node.start < here.start {
            let left = self.insert_below(here.left, new);
            self.update(root, |here| here.left = left);
        } else {
            let right = self.insert_below(here.right, new);
            self.update(root, |here| here.right = right);
        }
        root
    }

    /// Cuts a subtree into extents before `start` and the rest.
    fn split(&mut self, at: u32, start: u64) -> (u32, u32) {
        let Some(&node) = self.node(at) else { return (NIL, NIL) };
        if node.start < start {
            let (left, right) = self.split(node.right, start);
            self.update(at, |node| node.right = left);
            (at, right)
        } else {
            let (left, right) = self.split(node.left, start);
            self.update(at, |node| node.left = right);
            (left, at)
        }
    }

    fn join(&mut self, left: u32, right: u32) -> u32 {
        let (Some(&l), Some(&r)) = (self.node(left), self.node(right)) else {
            return if left == NIL { right } else { left };
        };
        if l.priority >= r.priority {
            let joined = self.join(l.right, right);
            self.update(left, |node| node.right = joined);
            left
        } else {
            let joined = self.join(left, r.left);
            self.update(right, |node| node.left = joined);
            right
        }
    }

    fn remove(&mut self, start: u64) {
        self.root = self.remove_below(self.root, start);
    }

    fn remove_below(&mut self, at: u32, start: u64) -> u32 {
        let Some(&node) = self.node(at) else { return NIL };
        if node.start == start {
            self.recycled.push(at);
            return self.join(node.left, node.right);
        }
        if start < node.start {
            let left = self.remove_below(node.left, start);
            self.update(at, |node| node.left = left);
        } else {
            let right = self.remove_below(node.right, start);
            self.update(at, |node| node.right = right);
        }
        at
    }

    /// Changes the extent that starts at `start`; the new one keeps its place in the order.
    fn resize(&mut self, start: u64, new: Extent) {
        self.resize_below(self.root, start, new);
    }

    fn resize_below(&mut self, at: u32, start: u64, new: Extent) {
        let Some(&node) = self.node(at) else { return };
        if node.start == start {
            self.update(at, |node| (node.start, node.len) = (new.start, new.len));
            return;
        }
        let child = if start < node.start { node.left } else { node.right };
        self.resize_below(child, start, new);
        self.update(at, |_| {});
    }
}

impl Node {
    const fn extent(&self) -> Extent {
        Extent { start: self.start, len: self.len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plain bitmap search that this module must equal.
    struct Bitmap {
        start: u64,
        taken: Vec<bool>,
    }

    impl Bitmap {
        fn fit(&mut self, len: u64, mask: u64) -> Option<u64> {
            let end = self.taken.len() as u64;
            let mut from = 0;
            loop {
                let lowest = (from..end).find(|&at| !self.taken[at as usize])?;
                let at = ((self.start + lowest + mask) & !mask) - self.start;
                if len == 0 || at + len > end {
                    return None;
                }
                match (at..at + len).find(|&at| self.taken[at as usize]) {
                    None => {
                        self.taken[at as usize..(at + len) as usize].fill(true);
                        return Some(self.start + at);
                    }
                    Some(busy) => from = busy + 1,
                }
            }
        }
    }

    #[test]
    fn lowest_address_wins_even_where_a_tighter_hole_exists() {
        let mut space = Space::new(0, 100);
        let blocks: Vec<_> = (0..10).map(|_| space.first_fit(10).unwrap()).collect();
        space.give(blocks[1], 10);
        space.give(blocks[2], 10);
        space.give(blocks[5], 10);
        assert_eq!(space.first_fit(10), Some(10));
        assert_eq!(space.largest_hole(), 10);
        assert_eq!(space.first_fit(11), None);
    }

    #[test]
    fn giving_back_twice_changes_nothing() {
        let mut space = Space::new(5, 10);
        let at = space.first_fit(4).unwrap();
        assert!(space.give(at, 4));
        assert!(!space.give(at, 4));
        assert!(!space.give(0, 1));
        assert_eq!(space.holes(), [Extent { start: 5, len: 10 }]);
    }

    proptest! {
        #[test]
        fn placement_equals_a_bitmap_scan(
            start in 0u64..20,
            steps in prop::collection::vec((0u8..4, 1u64..12, prop::sample::select(vec![0u64, 1, 2, 3, 5, 6, 7])), 1..300),
        ) {
            const LEN: u64 = 120;
            let mut space = Space::new(start, LEN);
            let mut bitmap = Bitmap { start, taken: vec![false; LEN as usize] };
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (kind, len, mask) in steps {
                if kind == 0 && !live.is_empty() {
                    let (at, len) = live.swap_remove(len as usize % live.len());
                    prop_assert!(space.give(at, len));
                    bitmap.taken[(at - start) as usize..(at + len - start) as usize].fill(false);
                } else {
                    let mask = if kind == 1 { 0 } else { mask };
                    let got = if kind == 1 { space.first_fit(len) } else { space.aligned_fit(len, mask) };
                    prop_assert_eq!(got, bitmap.fit(len, mask));
                    live.extend(got.map(|at| (at, len)));
                }
                let free = bitmap.taken.iter().filter(|taken| !**taken).count() as u64;
                prop_assert_eq!(space.free_granules(), free);
                prop_assert_eq!(space.holes().iter().map(|hole| hole.len).sum::<u64>(), free);
                prop_assert_eq!(space.holes().iter().map(|hole| hole.len).max().unwrap_or(0), space.largest_hole());
            }
        }
    }
}
