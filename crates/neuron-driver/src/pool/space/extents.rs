//! Free extents by address, as a B+ tree that knows for every subtree the longest run
//! it offers at each alignment in use. Offsets and lengths are below 2^31; what the
//! offsets count from and which granules are taken is not known here.
//!
//! A leaf maps the start of an extent to its length, a branch the first start below a
//! child to the child. Keys are exact: a child's key *is* its first start, so the
//! predecessor of any offset is in the leaf that the offset leads to.
//!
//! An alignment *class* is a mask, a power of two less one. At a class an extent `(s, n)`
//! offers `n - ((-s) & mask)` granules, or none: what is left behind its first aligned
//! granule. Each class adds one row to every branch, the best offer below each child.
//! First fit is then one walk down, to the first child whose best reaches the length,
//! and nothing is ever tried twice. Class 0, mask 0, is the length itself.
//!
//! Every node but the root keeps at least [`THIN`] slots, so a walk is O(log extents); a
//! change adds at most O(log extents) for each class in use, less where a subtree's best
//! stays. Node ids and slots are made here only, which is why they index without a check.

use super::nodes::{FANOUT, Node, Nodes, Row, close, deal, first_at_least, largest, open};

/// Slots below which a node takes some from its neighbour, or merges with it.
const THIN: usize = FANOUT / 4;
/// Two neighbours merge up to this many slots, short of full so that the next insertion
/// does not split them again.
const MERGED: usize = 3 * FANOUT / 4;
/// Branch levels that can exist: 2^29 extents (every other granule of 2^30) fill 2^26
/// leaves at worst, and each level above has an eighth of the nodes.
const LEVELS: usize = 10;

/// The tree.
#[derive(Debug)]
pub(super) struct Extents {
    leaves: Nodes,
    branches: Nodes,
    classes: Vec<Class>,
    root: u32,
    /// Branch levels above the leaves.
    height: usize,
}

/// What each child of each branch offers at one alignment.
#[derive(Debug)]
struct Class {
    mask: u32,
    /// By branch id.
    best: Vec<Row>,
}

/// The way from the root to a slot of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    steps: [Step; LEVELS],
    leaf: u32,
    slot: usize,
}

/// From a branch down to the child in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    branch: u32,
    slot: u32,
}

impl Path {
    const fn at(leaf: u32) -> Self {
        Self { steps: [Step { branch: 0, slot: 0 }; LEVELS], leaf, slot: 0 }
    }

    /// The slot behind.
    pub(super) const fn behind(&self) -> Self {
        Self { slot: self.slot + 1, ..*self }
    }

    /// The slot before, if the leaf has one.
    pub(super) fn before(&self) -> Option<Self> {
        Some(Self { slot: self.slot.checked_sub(1)?, ..*self })
    }
}

impl Extents {
    /// No extents, class 0.
    pub(super) fn new() -> Self {
        let mut leaves = Nodes::default();
        let root = leaves.create();
        let classes = vec![Class { mask: 0, best: Vec::new() }];
        Self { leaves, branches: Nodes::default(), classes, root, height: 0 }
    }

    /// The class of `mask`, a power of two less one, if it was asked for before.
    pub(super) fn known_class(&self, mask: u32) -> Option<usize> {
        self.classes.iter().position(|class| class.mask == mask)
    }

    /// The class of `mask`. The first time it is built, which visits every extent.
    pub(super) fn class(&mut self, mask: u32) -> usize {
        self.known_class(mask).unwrap_or_else(|| {
            let class = self.classes.len();
            let rows = self.classes[0].best.len();
            self.classes.push(Class { mask, best: vec![[0; FANOUT]; rows] });
            for (branch, level) in self.branches_from_the_top().into_iter().rev() {
                for slot in 0..self.branches[branch].count {
                    let child = self.branches[branch].value[slot];
                    self.classes[class].best[branch as usize][slot] = self.best_of(child, level + 1, class);
                }
            }
            class
        })
    }

    /// All branches with their levels, parents before children, siblings in order.
    fn branches_from_the_top(&self) -> Vec<(u32, usize)> {
        let mut found = Vec::new();
        found.extend((self.height > 0).then_some((self.root, 0)));
        let mut next = 0;
        while let Some(&(branch, level)) = found.get(next) {
            if level + 1 < self.height {
                let node = &self.branches[branch];
                found.extend(node.value[..node.count].iter().map(|&child| (child, level + 1)));
            }
            next += 1;
        }
        found
    }

    /// Most granules that any extent offers at `class`.
    pub(super) fn best(&self, class: usize) -> u32 {
        self.best_of(self.root, 0, class)
    }

    /// The lowest extent that offers `len` granules, at least 1, at `class`.
    pub(super) fn find(&self, class: usize, len: u32) -> Option<Path> {
        let class = &self.classes[class];
        let mut path = Path::at(self.root);
        for step in &mut path.steps[..self.height] {
            let slot = first_at_least(&class.best[path.leaf as usize], len)?;
            *step = Step { branch: path.leaf, slot: slot as u32 };
            path.leaf = self.branches[path.leaf].value[slot];
        }
        let leaf = &self.leaves[path.leaf];
        path.slot = match class.mask {
            0 => first_at_least(&leaf.value, len)?,
            mask => first_at_least(&offers(leaf, mask), len)?,
        };
        Some(path)
    }

    /// The way to where an extent that starts behind `at` would go: the slot behind the
    /// last extent that starts at `at` or before.
    pub(super) fn locate(&self, at: u32) -> Path {
        let mut path = Path::at(self.root);
        for step in &mut path.steps[..self.height] {
            let node = &self.branches[path.leaf];
            let slot = node.up_to(at).saturating_sub(1);
            *step = Step { branch: path.leaf, slot: slot as u32 };
            path.leaf = node.value[slot];
        }
        path.slot = self.leaves[path.leaf].up_to(at);
        path
    }

    /// Start and length of the extent at `path`.
    pub(super) fn at(&self, path: &Path) -> (u32, u32) {
        let leaf = &self.leaves[path.leaf];
        (leaf.key[path.slot], leaf.value[path.slot])
    }

    /// The way to the first extent at `place` or behind it, maybe in the next leaf.
    pub(super) fn from(&self, place: &Path) -> Option<Path> {
        let mut path = *place;
        if path.slot < self.leaves[path.leaf].count {
            return Some(path);
        }
        let has_next = |step: &Step| (step.slot as usize + 1) < self.branches[step.branch].count;
        let turn = path.steps[..self.height].iter().rposition(has_next)?;
        path.steps[turn].slot += 1;
        let mut child = self.child(path.steps[turn]);
        for step in &mut path.steps[turn + 1..self.height] {
            *step = Step { branch: child, slot: 0 };
            child = self.child(*step);
        }
        Some(Path { leaf: child, slot: 0, ..path })
    }

    /// All extents, lowest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let parents = self.branches_from_the_top().into_iter().filter(|&(_, level)| level + 1 == self.height);
        let below = parents.flat_map(|(parent, _)| {
            let node = &self.branches[parent];
            node.value[..node.count].iter().copied()
        });
        below.chain((self.height == 0).then_some(self.root)).flat_map(|leaf| {
            let leaf = &self.leaves[leaf];
            leaf.key[..leaf.count].iter().copied().zip(leaf.value[..leaf.count].iter().copied())
        })
    }

    /// Changes an extent that keeps its place in the order.
    pub(super) fn replace(&mut self, path: &Path, start: u32, len: u32) {
        let old = self.at(path);
        let leaf = &mut self.leaves[path.leaf];
        leaf.key[path.slot] = start;
        leaf.value[path.slot] = len;
        self.settle(path, old, (start, len));
    }

    /// Adds an extent at `path`, where [`locate`](Self::locate) said it belongs.
    pub(super) fn insert(&mut self, path: &Path, start: u32, len: u32) {
        let mut path = *path;
        if self.leaves[path.leaf].count == FANOUT {
            self.make_room(start);
            path = self.locate(start);
        }
        self.leaves[path.leaf].insert(path.slot, start, len);
        self.settle(&path, (0, 0), (start, len));
    }

    /// Takes the extent at `path` out. Every path is stale afterwards.
    pub(super) fn remove(&mut self, path: &Path) {
        let old = self.at(path);
        self.leaves[path.leaf].remove(path.slot);
        if self.height == 0 || self.leaves[path.leaf].count >= THIN {
            self.settle(path, old, (0, 0));
            return;
        }
        let mut level = self.height;
        while level > 0 && self.count(self.node(path, level), level) < THIN {
            level -= 1;
            self.even_out(path.steps[level], level + 1);
        }
        self.refresh(path, level);
        while self.height > 0 && self.branches[self.root].count == 1 {
            let only = self.branches[self.root].value[0];
            self.branches[self.root].remove(0);
            self.branches.release(self.root);
            self.root = only;
            self.height -= 1;
        }
    }
}

/// Shape and summaries.
impl Extents {
    /// What the node `id` of `level` (the root's is 0) offers at `class`.
    fn best_of(&self, id: u32, level: usize, class: usize) -> u32 {
        let class = &self.classes[class];
        if level < self.height {
            return largest(&class.best[id as usize]);
        }
        match class.mask {
            0 => largest(&self.leaves[id].value),
            mask => largest(&offers(&self.leaves[id], mask)),
        }
    }

    /// After the slot at `path` changed from one extent to another, or from or to none:
    /// keys and bests above it, as far up as they differ.
    fn settle(&mut self, path: &Path, old: (u32, u32), new: (u32, u32)) {
        if path.slot == 0 {
            self.settle_key(path, self.height);
        }
        for class in 0..self.classes.len() {
            let mask = self.classes[class].mask;
            self.settle_best(path, self.height, class, offer(old, mask), offer(new, mask));
        }
    }

    /// After the node of `level` on `path` changed in many slots.
    fn refresh(&mut self, path: &Path, level: usize) {
        let Some(above) = level.checked_sub(1) else { return };
        self.settle_key(path, level);
        let Step { branch, slot } = path.steps[above];
        for class in 0..self.classes.len() {
            let new = self.best_of(self.node(path, level), level, class);
            let old = std::mem::replace(&mut self.classes[class].best[branch as usize][slot as usize], new);
            self.settle_best(path, above, class, old, new);
        }
    }

    /// After the first key of the node of `level` on `path` changed: keys above it.
    fn settle_key(&mut self, path: &Path, level: usize) {
        let nodes = if level == self.height { &self.leaves } else { &self.branches };
        let first = nodes[self.node(path, level)].key[0];
        for step in path.steps[..level].iter().rev() {
            self.branches[step.branch].key[step.slot as usize] = first;
            if step.slot > 0 {
                break;
            }
        }
    }

    /// After one slot of the node of `level` went from the offer `old` to `new`. The whole
    /// node is looked at only if that slot was its best and is no more.
    fn settle_best(&mut self, path: &Path, level: usize, class: usize, mut old: u32, mut new: u32) {
        for level in (1..=level).rev() {
            let Step { branch, slot } = path.steps[level - 1];
            let best = self.classes[class].best[branch as usize][slot as usize];
            let now = if new >= best {
                new
            } else if old < best {
                return;
            } else {
                self.best_of(self.node(path, level), level, class)
            };
            if now == best {
                return;
            }
            self.classes[class].best[branch as usize][slot as usize] = now;
            (old, new) = (best, now);
        }
    }

    /// Copies what the child in `slot` says of itself into its parent. The child is of `level`.
    fn adopt(&mut self, parent: u32, slot: usize, level: usize) {
        let child = self.branches[parent].value[slot];
        let nodes = if level == self.height { &self.leaves } else { &self.branches };
        self.branches[parent].key[slot] = nodes[child].key[0];
        for class in 0..self.classes.len() {
            self.classes[class].best[parent as usize][slot] = self.best_of(child, level, class);
        }
    }

    /// Splits every full node on the way to `start`, the highest first, so that each
    /// split finds room above it.
    fn make_room(&mut self, start: u32) {
        if self.count(self.root, 0) == FANOUT {
            let root = self.create_branch();
            self.branches[root].insert(0, 0, self.root);
            self.root = root;
            self.height += 1;
            self.adopt(root, 0, 1);
        }
        let mut at = self.root;
        for level in 1..=self.height {
            let slot = self.branches[at].up_to(start).saturating_sub(1);
            let mut child = self.branches[at].value[slot];
            if self.count(child, level) == FANOUT {
                let right = if level == self.height { self.leaves.create() } else { self.create_branch() };
                self.deal(child, right, level, FANOUT / 2);
                self.branches[at].insert(slot + 1, 0, right);
                for class in &mut self.classes {
                    open(&mut class.best[at as usize], slot + 1, 0);
                }
                self.adopt(at, slot, level);
                self.adopt(at, slot + 1, level);
                if start >= self.branches[at].key[slot + 1] {
                    child = right;
                }
            }
            at = child;
        }
    }

    /// Merges the thin child of `step` with a neighbour, or takes slots from it. The
    /// children are of `level`.
    fn even_out(&mut self, step: Step, level: usize) {
        let (parent, slot) = (step.branch, step.slot.saturating_sub(1) as usize);
        let children = &self.branches[parent].value;
        let (left, right) = (children[slot], children[slot + 1]);
        let total = self.count(left, level) + self.count(right, level);
        if total > MERGED {
            self.deal(left, right, level, total / 2);
            self.adopt(parent, slot + 1, level);
        } else {
            self.deal(left, right, level, total);
            if level == self.height {
                self.leaves.release(right)
            } else {
                self.branches.release(right)
            }
            self.branches[parent].remove(slot + 1);
            for class in &mut self.classes {
                close(&mut class.best[parent as usize], slot + 1, 0);
            }
        }
        self.adopt(parent, slot, level);
    }

    /// Spreads the slots of two neighbours of `level` so that the left one holds `left_count`.
    fn deal(&mut self, left: u32, right: u32, level: usize, left_count: usize) {
        if level == self.height {
            self.leaves.deal(left, right, left_count);
            return;
        }
        let counts = [self.branches[left].count, self.branches[right].count];
        self.branches.deal(left, right, left_count);
        for class in &mut self.classes {
            let (mut a, mut b) = (class.best[left as usize], class.best[right as usize]);
            deal(&mut a, &mut b, counts, left_count, 0);
            (class.best[left as usize], class.best[right as usize]) = (a, b);
        }
    }

    /// An empty branch, with an empty row in every class.
    fn create_branch(&mut self) -> u32 {
        let id = self.branches.create();
        for class in &mut self.classes {
            if class.best.len() <= id as usize {
                class.best.push([0; FANOUT]);
            } else {
                class.best[id as usize] = [0; FANOUT];
            }
        }
        id
    }

    /// The node of `level` on `path`.
    fn node(&self, path: &Path, level: usize) -> u32 {
        if level == self.height { path.leaf } else { path.steps[level].branch }
    }

    fn child(&self, step: Step) -> u32 {
        self.branches[step.branch].value[step.slot as usize]
    }

    fn count(&self, id: u32, level: usize) -> usize {
        if level == self.height { self.leaves[id].count } else { self.branches[id].count }
    }
}

/// What each extent of a leaf offers at `mask`.
fn offers(leaf: &Node, mask: u32) -> Row {
    let mut offers = [0; FANOUT];
    for ((mine, &start), &len) in offers.iter_mut().zip(&leaf.key).zip(&leaf.value) {
        *mine = offer((start, len), mask);
    }
    offers
}

/// What an extent offers at `mask`: what is left of it behind its first aligned granule.
fn offer((start, len): (u32, u32), mask: u32) -> u32 {
    len.saturating_sub(start.wrapping_neg() & mask)
}

#[cfg(test)]
impl Extents {
    /// Checks every promise of the module doc against a walk over all nodes.
    pub(super) fn check(&self) {
        let mut last = None;
        for (start, len) in self.iter() {
            assert!(len > 0 && last.is_none_or(|end| end < start), "{start}+{len} behind {last:?}");
            last = Some(start + len);
        }
        let branches = self.branches_from_the_top();
        for &(branch, level) in &branches {
            let node = &self.branches[branch];
            assert!(node.count >= if level == 0 { 2 } else { THIN });
            for slot in 0..FANOUT {
                let (used, child) = (slot < node.count, node.value[slot]);
                if used {
                    let nodes = if level + 1 == self.height { &self.leaves } else { &self.branches };
                    assert!(nodes[child].count >= THIN);
                    assert_eq!(node.key[slot], nodes[child].key[0]);
                } else {
                    assert_eq!((node.key[slot], child), (super::nodes::NO_KEY, 0));
                }
                for (index, class) in self.classes.iter().enumerate() {
                    let best = if used { self.best_of(child, level + 1, index) } else { 0 };
                    assert_eq!(class.best[branch as usize][slot], best);
                }
            }
        }
        assert_eq!(self.branches.living(), branches.len());
    }
}
