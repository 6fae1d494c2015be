//! What is done at a fork.

use crate::state;

extern "C" fn before() {
    state::before_fork();
}

extern "C" fn in_parent() {
    state::after_fork();
}

extern "C" fn in_child() {
    state::after_fork();
    state::in_child();
}

/// From now on.
pub(crate) fn watch() {
    // SAFETY: the functions stay as long as the library, which is never unloaded.
    let watched = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    // Without memory for it a forked child does without: it connects anew in any case.
    let _may_fail = watched;
}
