//! Whose an address is: the memory of tensors that is mapped into this process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Mapped memory by its first address. No two overlap: each is a mapping of the operating system's
/// that lives.
#[derive(Debug)]
pub(crate) struct Spans<T>(Mutex<BTreeMap<usize, (usize, Weak<T>)>>);

impl<T> Default for Spans<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// One entry. Drop it before the memory is unmapped.
#[derive(Debug)]
pub(crate) struct Span<T> {
    start: usize,
    spans: Arc<Spans<T>>,
}

impl<T> Spans<T> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, (usize, Weak<T>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters `bytes` at `start` as the memory of `owner`.
    pub(crate) fn enter(self: &Arc<Self>, start: usize, bytes: usize, owner: &Arc<T>) -> Span<T> {
        self.lock().insert(start, (bytes, Arc::downgrade(owner)));
        Span { start, spans: Arc::clone(self) }
    }

    /// Whose all of `bytes` at `address` are, and at which offset.
    pub(crate) fn holding(&self, address: usize, bytes: usize) -> Option<(Arc<T>, usize)> {
        let spans = self.lock();
        let (start, (length, owner)) = spans.range(..=address).next_back()?;
        let offset = address - start;
        if bytes > *length || offset > length - bytes {
            return None;
        }
        owner.upgrade().map(|owner| (owner, offset))
    }
}

impl<T> Span<T> {
    /// The first address.
    pub(crate) const fn start(&self) -> usize {
        self.start
    }
}

impl<T> Drop for Span<T> {
    fn drop(&mut self) {
        self.spans.lock().remove(&self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_with_all_of_its_bytes_or_not_at_all() {
        let spans = Arc::new(Spans::default());
        let (low, high) = (Arc::new("low"), Arc::new("high"));
        let entered = spans.enter(0x1000, 0x100, &low);
        let _next = spans.enter(0x1100, 0x100, &high);
        let found = |address, bytes| spans.holding(address, bytes).map(|(owner, offset)| (*owner, offset));
        assert_eq!(found(0x1000, 0x100), Some(("low", 0)));
        assert_eq!(found(0x10ff, 1), Some(("low", 0xff)));
        assert_eq!(found(0x1100, 0x100), Some(("high", 0)));
        for (address, bytes) in [(0xfff, 1), (0x10ff, 2), (0x1000, 0x101), (0x1201, 0), (0x1000, usize::MAX)]
        {
            assert_eq!(found(address, bytes), None, "{address:#x} {bytes:#x}");
        }
        drop(entered);
        assert_eq!(found(0x1000, 1), None);
        drop(high);
        assert_eq!(found(0x1100, 1), None, "its owner is gone");
    }
}
