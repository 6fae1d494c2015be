//! A table that forgets what was put into it longest ago.

/// Entries that are kept.
const KEPT: usize = 512;

#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries: Vec<(K, V)>,
    /// Where the next one goes, once all places are taken.
    next: usize,
}

impl<K: PartialEq, V: Clone> Recent<K, V> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), next: 0 }
    }

    pub(crate) fn put(&mut self, key: K, value: V) {
        if let Some((_, before)) = self.entries.iter_mut().find(|(has, _)| *has == key) {
            *before = value;
        } else if self.entries.len() < KEPT {
            self.entries.push((key, value));
        } else if let Some(oldest) = self.entries.get_mut(self.next) {
            *oldest = (key, value);
            self.next = (self.next + 1) % KEPT;
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.entries.iter().find(|(has, _)| has == key).map(|(_, value)| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_found_and_the_first_forgotten() {
        let mut table = Recent::new();
        for key in 0..KEPT + 10 {
            table.put(key, key * 2);
        }
        assert_eq!((table.get(&9), table.get(&10)), (None, Some(20)));
        assert_eq!(table.get(&(KEPT + 9)), Some(KEPT * 2 + 18));
        table.put(10, 5);
        assert_eq!(table.get(&10), Some(5));
    }
}
