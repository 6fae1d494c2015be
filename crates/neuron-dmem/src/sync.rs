//! The locks and reference counts of handles and lists: the standard library's, or a model
//! checker's that decides who goes on at each of them (`scripts/models.sh`).
//!
//! The checker has no `Arc` of its own, and who lets a handle go last is the very race here. So
//! under it an `Arc` is the standard library's with a scheduling point in front of everything
//! that changes a count or looks at one.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

#[cfg(shuttle)]
pub(crate) use {
    counted::{Arc, Weak},
    shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

#[cfg(shuttle)]
mod counted {
    use shuttle::sync::atomic::{AtomicBool, Ordering};

    /// Lets another thread go on first.
    fn point() {
        // While a model fails, its values are dropped where no scheduler runs any more.
        if !std::thread::panicking() {
            AtomicBool::new(false).load(Ordering::SeqCst);
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Arc<T>(std::sync::Arc<T>);

    #[derive(Debug)]
    pub(crate) struct Weak<T>(std::sync::Weak<T>);

    impl<T> Arc<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::sync::Arc::new(value))
        }

        pub(crate) fn downgrade(this: &Self) -> Weak<T> {
            point();
            Weak(std::sync::Arc::downgrade(&this.0))
        }
    }

    impl<T> Clone for Arc<T> {
        fn clone(&self) -> Self {
            point();
            Self(std::sync::Arc::clone(&self.0))
        }
    }

    impl<T> Drop for Arc<T> {
        fn drop(&mut self) {
            point();
        }
    }

    impl<T> std::ops::Deref for Arc<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> Weak<T> {
        pub(crate) fn upgrade(&self) -> Option<Arc<T>> {
            point();
            self.0.upgrade().map(Arc)
        }

        pub(crate) fn strong_count(&self) -> usize {
            point();
            self.0.strong_count()
        }
    }
}
