//! Lowest-address-first placement over a range of granules, in O(log n) of its free
//! extents. Nothing here knows bytes, pools or categories.
//!
//! | module | what lives there |
//! |---|---|
//! | here | where requests go, exactly as `spec/mempool.md` 3.1 says; taking and giving back |
//! | `extents` | the free extents in order, and the way to the first that suits |
//! | `nodes` | the slots of one node of that tree |
//!
//! An aligned request is as cheap as a plain one: the tree keeps, for every alignment
//! that was ever asked for, the best that each subtree offers behind its aligned
//! granules. An alignment costs nothing before its first request (which visits every
//! extent once) and a little for each later change. A mask that is not a power of two
//! less one is searched step by step.

mod extents;
mod nodes;

use extents::{Extents, Path};

/// Free and taken granules of one range.
#[derive(Debug)]
pub struct Space {
    extents: Extents,
    /// What the tree's offsets count from: a multiple of every alignment it searches by,
    /// so that an offset is aligned when the granule is.
    origin: u64,
    start: u64,
    end: u64,
    free: u64,
}

/// Granules that a space can have: 4 TiB of 4 KiB, far above any channel. Also the
/// largest mask with a search of its own; a wider one has two aligned granules here at
/// most, and is searched step by step.
const LIMIT: u32 = u32::MAX >> 2;

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
    /// A space of `len` free granules from `start`; of the first 2^30 - 1 if there are
    /// more.
    pub fn new(start: u64, len: u64) -> Self {
        let len = len.min(u64::from(LIMIT)).min(u64::MAX - start);
        let origin = start & !u64::from(LIMIT);
        let mut space = Self { extents: Extents::new(), origin, start, end: start + len, free: 0 };
        space.give(start, len);
        space
    }

    /// Granules that are free.
    pub const fn free_granules(&self) -> u64 {
        self.free
    }

    /// Longest free run.
    pub fn largest_hole(&self) -> u64 {
        u64::from(self.extents.best(0))
    }

    /// Longest free run whose first granule has no bit of `mask` set. As fast as
    /// [`largest_hole`](Self::largest_hole) for an alignment that was allocated with
    /// before, else a walk over all holes.
    pub fn largest_hole_at(&self, mask: u64) -> u64 {
        if let Some(class) = search_mask(mask).and_then(|mask| self.extents.known_class(mask)) {
            return u64::from(self.extents.best(class));
        }
        let offer = |extent: Extent| Some(extent.end().saturating_sub(next_without(extent.start, mask)?));
        self.iter().filter_map(offer).max().unwrap_or(0)
    }

    /// Takes the lowest run of `len` granules.
    pub fn first_fit(&mut self, len: u64) -> Option<u64> {
        self.fit(0, len)
    }

    /// Takes the lowest run of `len` granules whose first granule has no bit of `mask`
    /// set, by the allocator's own search (`spec/mempool.md` 3.1): from the lowest free
    /// granule, add the mask and clear its bits; if the run there is not free, go on
    /// behind its first busy granule.
    pub fn aligned_fit(&mut self, len: u64, mask: u64) -> Option<u64> {
        match search_mask(mask) {
            Some(mask) => self.fit(mask, len),
            None => {
                let found = self.scan_masked(len, mask)?;
                self.take(found, len).then_some(found)
            }
        }
    }

    /// The lowest extent that offers `len` granules from an aligned one on.
    fn fit(&mut self, mask: u32, len: u64) -> Option<u64> {
        let len = u32::try_from(len).ok().filter(|&len| len > 0)?;
        let class = self.extents.class(mask);
        let path = self.extents.find(class, len)?;
        let (start, _) = self.extents.at(&path);
        let at = start + (start.wrapping_neg() & mask);
        self.carve(&path, at, len);
        Some(self.origin + u64::from(at))
    }

    /// The search for a mask with holes, where placement is not monotone: step by step.
    fn scan_masked(&self, len: u64, mask: u64) -> Option<u64> {
        let mut from = self.start;
        loop {
            let lowest = self.first_free_from(from)?;
            let at = lowest.checked_add(mask)? & !mask;
            let end = at.checked_add(len)?;
            if len == 0 || end > self.end {
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
        let Some((at, len)) = self.run(start, len) else { return false };
        let Some(path) = self.extents.locate(at).before() else { return false };
        let (start, free) = self.extents.at(&path);
        let fits = at + len <= start + free;
        if fits {
            self.carve(&path, at, len);
        }
        fits
    }

    /// Takes `len` granules at `at` out of the extent at `path`, which holds them.
    fn carve(&mut self, path: &Path, at: u32, len: u32) {
        let (start, free) = self.extents.at(path);
        let (head, tail) = (at - start, start + free - at - len);
        match (head, tail) {
            (0, 0) => self.extents.remove(path),
            (0, _) => self.extents.replace(path, at + len, tail),
            (_, 0) => self.extents.replace(path, start, head),
            (_, _) => {
                self.extents.replace(path, start, head);
                self.extents.insert(&path.behind(), at + len, tail);
            }
        }
        self.free -= u64::from(len);
    }

    /// Gives back a run that was taken, joining it with free neighbours.
    ///
    /// Returns false, and changes nothing, if any granule of it is already free or
    /// outside: a caller's double free.
    pub fn give(&mut self, start: u64, len: u64) -> bool {
        let Some((at, len)) = self.run(start, len) else { return false };
        let end = at + len;
        let place = self.extents.locate(at);
        let before = place.before().map(|path| (path, self.extents.at(&path)));
        let after = self.extents.from(&place).map(|path| (path, self.extents.at(&path)));
        if before.is_some_and(|(_, (start, len))| start + len > at)
            || after.is_some_and(|(_, (start, _))| start < end)
        {
            return false;
        }
        let before = before.filter(|(_, (start, len))| start + len == at);
        let after = after.filter(|(_, (start, _))| *start == end);
        match (before, after) {
            (None, None) => self.extents.insert(&place, at, len),
            (None, Some((path, (_, behind)))) => self.extents.replace(&path, at, len + behind),
            (Some((path, (start, ahead))), None) => self.extents.replace(&path, start, ahead + len),
            (Some((path, (start, ahead))), Some((last, (_, behind)))) => {
                self.extents.replace(&path, start, ahead + len + behind);
                self.extents.remove(&last);
            }
        }
        self.free += u64::from(len);
        true
    }

    /// Free extents, lowest first.
    pub fn holes(&self) -> Vec<Extent> {
        self.iter().collect()
    }

    fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.extents.iter().map(|extent| self.extent(extent))
    }

    /// A run as the tree counts, if it has granules and all of them are in this space.
    fn run(&self, start: u64, len: u64) -> Option<(u32, u32)> {
        let inside = start >= self.start && start.checked_add(len)? <= self.end && len > 0;
        if !inside {
            return None;
        }
        Some((u32::try_from(start - self.origin).ok()?, u32::try_from(len).ok()?))
    }

    fn extent(&self, (start, len): (u32, u32)) -> Extent {
        Extent { start: self.origin + u64::from(start), len: u64::from(len) }
    }

    fn first_free_from(&self, from: u64) -> Option<u64> {
        if self.extent_at(from).is_some() {
            return Some(from);
        }
        let place = self.extents.locate(u32::try_from(from - self.origin).ok()?);
        let (start, _) = self.extents.at(&self.extents.from(&place)?);
        Some(self.origin + u64::from(start))
    }

    /// The free extent that holds `granule`.
    fn extent_at(&self, granule: u64) -> Option<Extent> {
        let (at, _) = self.run(granule, 1)?;
        let extent = self.extent(self.extents.at(&self.extents.locate(at).before()?));
        (granule < extent.end()).then_some(extent)
    }
}

/// The mask of an alignment that the tree searches by: a power of two less one.
fn search_mask(mask: u64) -> Option<u32> {
    let mask = u32::try_from(mask).ok().filter(|&mask| mask <= LIMIT)?;
    (mask + 1).is_power_of_two().then_some(mask)
}

/// The lowest number from `from` on without a bit of `mask`.
fn next_without(from: u64, mask: u64) -> Option<u64> {
    let mut at = from;
    while let Some(bit) = (at & mask).checked_ilog2() {
        // Carry out of the highest bit that is in the way; all below become zero.
        at = ((at >> bit) + 1).checked_shl(bit).filter(|next| *next > at)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests;
