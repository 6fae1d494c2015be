//! A lock that may be held over a fork, and that a thread which has it already does not get again:
//! what is done under it may allocate, and the program's own allocator may call what is
//! interposed here.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::thread::futex;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody waits.
const WAITED: u32 = 2;

#[derive(Debug)]
pub(crate) struct Lock<T> {
    word: AtomicU32,
    /// The thread that has it; 0 if none.
    owner: AtomicI32,
    value: UnsafeCell<T>,
}

// SAFETY: who has the value has the lock.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { word: AtomicU32::new(FREE), owner: AtomicI32::new(0), value: UnsafeCell::new(value) }
    }

    /// Does something with the value; `None` in a thread that does so already.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.hold() {
            return None;
        }
        let released = Released(self);
        // SAFETY: this thread has just got the lock, and nobody gets it before it is released.
        let value = unsafe { &mut *self.value.get() };
        let done = action(value);
        drop(released);
        Some(done)
    }

    /// Takes it, to be released by [`release`](Self::release); false if this thread has it.
    pub(crate) fn hold(&self) -> bool {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        if self.owner.load(Ordering::Relaxed) == thread {
            return false;
        }
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.word.swap(WAITED, Ordering::Acquire) != FREE {
                // Woken, interrupted, or free by now: asked again in any case.
                let _again = futex::wait(&self.word, futex::Flags::PRIVATE, WAITED, None);
            }
        }
        self.owner.store(thread, Ordering::Relaxed);
        true
    }

    /// Gives back what [`hold`](Self::hold) took, in the same thread or in its forked child.
    pub(crate) fn release(&self) {
        self.owner.store(0, Ordering::Relaxed);
        if self.word.swap(FREE, Ordering::Release) == WAITED {
            // Nobody waits in a forked child; there it wakes nobody.
            let _woken = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
        }
    }
}

struct Released<'a, T>(&'a Lock<T>);

impl<T> Drop for Released<'_, T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_it_and_none_twice() {
        static COUNT: Lock<u64> = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        COUNT.with(|count| *count += 1).unwrap();
                    }
                });
            }
        });
        let inner = COUNT.with(|count| (*count, COUNT.with(|_| ()))).unwrap();
        assert_eq!(inner, (80_000, None));
        assert!(COUNT.hold() && !COUNT.hold());
        COUNT.release();
        assert!(COUNT.with(|_| ()).is_some());
    }
}
