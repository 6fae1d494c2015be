//! A value that is made when it is first needed and then stays. No lock, which a fork at the wrong
//! moment would leave locked: two threads may both make one, and one of the two is kept.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

#[derive(Debug)]
pub(crate) struct Once<T: 'static>(AtomicPtr<T>);

impl<T: Send + Sync> Once<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The value, made now if there is none.
    pub(crate) fn get(&self, make: impl FnOnce() -> T) -> &'static T {
        if let Some(made) = self.made() {
            return made;
        }
        let new = Box::into_raw(Box::new(make()));
        if let Err(other) = self.0.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
            return shared(other);
        }
        shared(new)
    }

    /// The value, if there is one.
    pub(crate) fn made(&self) -> Option<&'static T> {
        let made = self.0.load(Ordering::Acquire);
        (!made.is_null()).then(|| shared(made))
    }

    /// The next one who asks gets a new one; the one before stays for who has it.
    pub(crate) fn renew(&self) {
        self.0.store(null_mut(), Ordering::Release);
    }
}

fn shared<T>(made: *mut T) -> &'static T {
    // SAFETY: what is in the place was leaked from a box, is never freed and never written.
    unsafe { &*made }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_anew_when_it_is_to_be() {
        static NUMBER: Once<u32> = Once::new();
        assert!(NUMBER.made().is_none());
        assert_eq!((*NUMBER.get(|| 1), *NUMBER.get(|| 2)), (1, 1));
        let before = NUMBER.get(|| 3);
        NUMBER.renew();
        assert_eq!((*NUMBER.get(|| 4), *before), (4, 1));
    }
}
