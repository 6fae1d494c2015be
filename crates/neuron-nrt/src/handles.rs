//! What the caller holds: numbers that look like pointers. They are looked up and never followed, so
//! one that was freed, made up, or of another kind is refused.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bits of a place in the table.
const PLACE_BITS: u32 = 24;
/// Bits of the count of a place's uses.
const USE_BITS: u32 = 32;

/// All that lives of a kind.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    /// The highest byte of its handles. With a bit set and one clear at the top no address of a
    /// process begins so: who follows one is stopped at once.
    kind: u8,
    table: RwLock<Table<T>>,
}

#[derive(Debug)]
struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Place<T> {
    /// How often the place was given back.
    uses: u32,
    value: Option<Arc<T>>,
}

impl<T> Place<T> {
    /// Empties the place; true if it can be used again.
    fn give_back(&mut self) -> (Option<Arc<T>>, bool) {
        let value = self.value.take();
        self.uses = self.uses.saturating_add(1);
        // A handle of the last use would come again: the place is never used again.
        (value, self.uses < u32::MAX)
    }
}

impl<T> Handles<T> {
    pub(crate) const fn new(kind: u8) -> Self {
        Self { kind, table: RwLock::new(Table { places: Vec::new(), free: Vec::new() }) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Table<T>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table<T>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, place: usize, uses: u32) -> u64 {
        u64::from(self.kind) << (PLACE_BITS + USE_BITS) | u64::from(uses) << PLACE_BITS | place as u64
    }

    /// Place and use of a handle of this kind.
    fn parts(&self, handle: u64) -> Option<(usize, u32)> {
        let kind = handle >> (PLACE_BITS + USE_BITS);
        let place = handle & ((1 << PLACE_BITS) - 1);
        (kind == u64::from(self.kind)).then_some((place as usize, (handle >> PLACE_BITS) as u32))
    }

    /// A handle for it; `None` if there are too many.
    pub(crate) fn insert(&self, value: Arc<T>) -> Option<u64> {
        let mut table = self.write();
        let place = match table.free.pop() {
            Some(place) => place,
            None if table.places.len() < 1 << PLACE_BITS => {
                table.places.push(Place { uses: 0, value: None });
                table.places.len() - 1
            }
            None => return None,
        };
        let entry = table.places.get_mut(place)?;
        entry.value = Some(value);
        Some(self.handle(place, entry.uses))
    }

    /// What it stands for.
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<T>> {
        let (place, uses) = self.parts(handle)?;
        self.read().places.get(place).filter(|entry| entry.uses == uses)?.value.clone()
    }

    /// Ends it.
    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let (place, uses) = self.parts(handle)?;
        let mut table = self.write();
        let entry =
            table.places.get_mut(place).filter(|entry| entry.uses == uses && entry.value.is_some())?;
        let (value, again) = entry.give_back();
        if again {
            table.free.push(place);
        }
        value
    }

    /// Ends all of them, and returns what they stood for.
    pub(crate) fn clear(&self) -> Vec<Arc<T>> {
        let mut table = self.write();
        let Table { places, free } = &mut *table;
        let mut ended = Vec::new();
        for (number, place) in places.iter_mut().enumerate().filter(|(_, place)| place.value.is_some()) {
            let (value, again) = place.give_back();
            ended.extend(value);
            if again {
                free.push(number);
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_ends_with_what_it_stands_for() {
        let handles = Handles::new(0xa5);
        let (one, two) = (handles.insert(Arc::new(1)).unwrap(), handles.insert(Arc::new(2)).unwrap());
        assert_eq!((handles.get(one).as_deref(), handles.get(two).as_deref()), (Some(&1), Some(&2)));
        assert_eq!(handles.remove(one).as_deref(), Some(&1));
        assert_eq!((handles.get(one), handles.remove(one)), (None, None));
        let again = handles.insert(Arc::new(3)).unwrap();
        assert_ne!(again, one, "the place is used again, the handle is not");
        assert_eq!(handles.get(one), None);
        assert_eq!(handles.clear().len(), 2);
        assert_eq!((handles.get(two), handles.get(again)), (None, None));
    }

    #[test]
    fn what_is_no_handle_is_none() {
        let (handles, others) = (Handles::new(0xa5), Handles::new(0xa6));
        let one = handles.insert(Arc::new(1)).unwrap();
        for wrong in
            [0, 1, u64::MAX, one + 1, one ^ 1 << 30, one ^ 1 << 56, others.insert(Arc::new(1)).unwrap()]
        {
            assert_eq!(handles.get(wrong), None, "{wrong:#x}");
            assert_eq!(handles.remove(wrong), None, "{wrong:#x}");
        }
        assert_eq!(handles.get(one).as_deref(), Some(&1));
    }

    #[test]
    fn a_place_whose_uses_are_counted_out_is_not_used_again() {
        let handles = Handles::new(0xa5);
        let one = handles.insert(Arc::new(1)).unwrap();
        handles.write().places[0].uses = u32::MAX - 1;
        let last = handles.handle(0, u32::MAX - 1);
        assert_eq!(handles.get(one), None);
        assert_eq!(handles.remove(last).as_deref(), Some(&1));
        assert_eq!(handles.insert(Arc::new(2)).map(|handle| handles.parts(handle)), Some(Some((1, 0))));
    }
}
