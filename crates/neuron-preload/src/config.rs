//! The two variables that switch the library on. They are read without allocating: the program's
//! own allocator may open files before it can allocate.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::c;

const UNREAD: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// As `neuron_wire::Address` has it.
const LONGEST_SOCKET: usize = 107;

static STATE: AtomicU8 = AtomicU8::new(UNREAD);
static SOCKET: Kept = Kept::new();
static TREE: Kept = Kept::new();

/// A value, kept. Threads that read the environment at once put the same bytes.
struct Kept {
    bytes: [AtomicU8; Self::LONGEST],
    len: AtomicUsize,
}

impl Kept {
    const LONGEST: usize = 4096;

    const fn new() -> Self {
        Self { bytes: [const { AtomicU8::new(0) }; Self::LONGEST], len: AtomicUsize::new(0) }
    }

    /// Keeps an absolute path of at most so many bytes; false if it is none.
    fn keep(&self, value: Option<&[u8]>, longest: usize) -> bool {
        let Some(value) = value.filter(|value| value.first() == Some(&b'/') && value.len() <= longest) else {
            return false;
        };
        for (place, &byte) in self.bytes.iter().zip(value) {
            place.store(byte, Ordering::Relaxed);
        }
        self.len.store(value.len(), Ordering::Relaxed);
        true
    }

    /// Whether bytes begin with it. Nothing is allocated.
    fn begins(&self, bytes: &[u8]) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        len <= bytes.len()
            && self
                .bytes
                .iter()
                .take(len)
                .zip(bytes)
                .all(|(kept, byte)| kept.load(Ordering::Relaxed) == *byte)
    }

    fn get(&self) -> Vec<u8> {
        let len = self.len.load(Ordering::Relaxed);
        self.bytes.iter().take(len).map(|byte| byte.load(Ordering::Relaxed)).collect()
    }
}

/// Whether there is anything to do.
#[inline]
pub(crate) fn is_on() -> bool {
    match STATE.load(Ordering::Acquire) {
        UNREAD => read(),
        state => state == ON,
    }
}

#[cold]
fn read() -> bool {
    let on = SOCKET.keep(c::variable(c"NEURON_MEM_RUN_SOCKET"), LONGEST_SOCKET)
        && TREE.keep(c::variable(c"NEURON_MEM_RUN_TREE"), Kept::LONGEST);
    STATE.store(if on { ON } else { OFF }, Ordering::Release);
    on
}

/// Reads them when the library is loaded: a program may clear its environment.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = {
    extern "C" fn loaded() {
        let _on = is_on();
    }
    loaded
};

/// The server's socket.
pub(crate) fn socket() -> Vec<u8> {
    SOCKET.get()
}

/// The server's picture.
pub(crate) fn tree() -> Vec<u8> {
    TREE.get()
}

/// Whether a path of the system's may be in the server's picture.
pub(crate) fn may_be_in_tree(path: &[u8]) -> bool {
    is_on() && TREE.begins(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_told_and_known_at_the_start_of_a_path() {
        let kept = Kept::new();
        assert!(
            !kept.keep(Some(b"relative"), 107) && !kept.keep(Some(b"/too/long"), 3) && !kept.keep(None, 107)
        );
        assert!(kept.keep(Some(b"/tmp/tree"), 107));
        assert_eq!(kept.get(), b"/tmp/tree");
        for (path, begins) in
            [("/tmp/tree/sys", true), ("/tmp/tree", true), ("/tmp/tre", false), ("/etc/x/y/z", false)]
        {
            assert_eq!(kept.begins(path.as_bytes()), begins, "{path}");
        }
    }
}
