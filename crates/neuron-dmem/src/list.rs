//! A doubly linked list of indices: insert at the tail, unlink in O(1) by key, walk in
//! insertion order. What an intrusive list does, without pointers.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What lives, seen by whoever lists it: the list holds nothing alive.
#[derive(Debug)]
pub(crate) struct LiveList<T>(Mutex<List<Weak<T>>>);

impl<T> Default for LiveList<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> LiveList<T> {
    fn lock(&self) -> MutexGuard<'_, List<Weak<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists one more.
    pub(crate) fn insert(&self, value: &Arc<T>) -> Key {
        self.lock().push(Arc::downgrade(value))
    }

    /// Takes one off.
    pub(crate) fn remove(&self, key: Key) {
        self.lock().remove(key);
    }

    /// Those that live, in order of insertion.
    pub(crate) fn living(&self) -> Vec<Arc<T>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes everything off, in order of insertion. Keys name nothing from here on.
    pub(crate) fn unlist(&self) -> Vec<Weak<T>> {
        let list = std::mem::take(&mut *self.lock());
        list.into_values()
    }
}

/// The list.
#[derive(Debug)]
pub(crate) struct List<T> {
    nodes: Vec<Node<T>>,
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct Node<T> {
    value: Option<T>,
    previous: u32,
    next: u32,
}

/// Names an element until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u32);

/// The key of what is made before it can be listed: told once, later.
#[derive(Debug, Default)]
pub(crate) struct Spot(AtomicU32);

impl Spot {
    pub(crate) fn set(&self, Key(key): Key) {
        self.0.store(key, Ordering::Relaxed);
    }

    /// `None` until it is told.
    pub(crate) fn get(&self) -> Option<Key> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&key| key != SENTINEL).map(Key)
    }
}

/// The sentinel is before the first and behind the last element, so neither end is a
/// special case.
const SENTINEL: u32 = 0;

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { nodes: vec![Node { value: None, previous: SENTINEL, next: SENTINEL }], vacant: Vec::new() }
    }
}

impl<T> List<T> {
    /// Appends.
    pub(crate) fn push(&mut self, value: T) -> Key {
        let last = self.nodes.first().map_or(SENTINEL, |sentinel| sentinel.previous);
        let node = Node { value: Some(value), previous: last, next: SENTINEL };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.change(at, |slot| *slot = node);
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.change(last, |node| node.next = at);
        self.change(SENTINEL, |node| node.previous = at);
        Key(at)
    }

    /// Takes an element out; `None` if it is out already.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let node = self.nodes.get_mut(key.0 as usize)?;
        let value = node.value.take()?;
        let (previous, next) = (node.previous, node.next);
        self.change(previous, |node| node.next = next);
        self.change(next, |node| node.previous = previous);
        self.vacant.push(key.0);
        Some(value)
    }

    /// Elements in insertion order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut at = SENTINEL;
        std::iter::from_fn(move || {
            at = self.nodes.get(at as usize)?.next;
            self.nodes.get(at as usize)?.value.as_ref()
        })
    }

    /// All elements in insertion order.
    fn into_values(mut self) -> Vec<T> {
        let mut values = Vec::with_capacity(self.nodes.len() - self.vacant.len());
        let mut at = SENTINEL;
        while let Some(node) = self.nodes.get(at as usize).map(|node| node.next)
            && let Some(value) = self.nodes.get_mut(node as usize).and_then(|node| node.value.take())
        {
            values.push(value);
            at = node;
        }
        values
    }

    fn change(&mut self, at: u32, change: impl FnOnce(&mut Node<T>)) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            change(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_vector_of_keyed_values(steps in prop::collection::vec((any::<bool>(), 0usize..16), 1..100)) {
            let mut list = List::default();
            let mut model: Vec<(Key, usize)> = Vec::new();
            for (number, (push, pick)) in steps.into_iter().enumerate() {
                if push || model.is_empty() {
                    model.push((list.push(number), number));
                } else {
                    let (key, value) = model.remove(pick % model.len());
                    prop_assert_eq!(list.remove(key), Some(value));
                    prop_assert_eq!(list.remove(key), None);
                }
                prop_assert!(list.iter().eq(model.iter().map(|(_, value)| value)));
            }
            let values: Vec<_> = model.into_iter().map(|(_, value)| value).collect();
            prop_assert_eq!(list.into_values(), values);
        }
    }
}
