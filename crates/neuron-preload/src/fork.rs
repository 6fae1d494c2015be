//! What is done at a fork.

/// What is called then.
type Handler = extern "C" fn();

/// From now on: before it, and after it in the parent and in the child.
pub(crate) fn watch(before: Handler, in_parent: Handler, in_child: Handler) {
    // C's handlers are `unsafe` to call, by their type.
    let [before, in_parent, in_child] =
        [before, in_parent, in_child].map(|handler| handler as unsafe extern "C" fn());
    // SAFETY: the functions stay as long as the library, which is never unloaded, and may be called at any time.
    let watched = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    // Without memory for it a forked child does without: it connects anew in any case.
    let _may_fail = watched;
}
