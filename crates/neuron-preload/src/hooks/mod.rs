//! The functions that programs call in place of the C library's: the C boundary. Each asks the
//! modules above whether the call is about something of the server's, and otherwise hands it on as
//! it is.
//!
//! | module | functions |
//! |---|---|
//! | `files` | open, fopen and their kin |
//! | `stats` | stat and its kin |
//! | `paths` | access, readlink, realpath, the working directory, attributes, file systems |
//! | `directories` | opendir, readdir, scandir, glob and their kin |
//! | `changes` | unlink, rename, chmod ...: refused |
//! | `devices` | ioctl, mmap, munmap, mremap |

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::io::Errno;

use crate::c::{self, Answer, Text};
use crate::place::Place;
use crate::state::Server;
use crate::view::{Located, locate};

/// The C library's functions, by their names.
pub(crate) struct Real;

/// A function of the C library, once it is found.
pub(crate) struct Symbol(AtomicPtr<c_void>);

impl Symbol {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Where the function is; null if the C library has none. `name` ends with a zero.
    #[inline]
    pub(crate) fn get(&self, name: &'static str) -> *mut c_void {
        let found = self.0.load(Ordering::Relaxed);
        if found.is_null() { self.find(name) } else { found }
    }

    #[cold]
    #[inline(never)]
    fn find(&self, name: &'static str) -> *mut c_void {
        let name: *const c_char = name.as_ptr().cast();
        // SAFETY: the name is a string; the call comes from this library, whose next one is meant.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
        if found.is_null() {
            // A name that only programs of older C libraries use.
            let oldest = if cfg!(target_arch = "x86_64") { c"GLIBC_2.2.5" } else { c"GLIBC_2.17" };
            // SAFETY: as above.
            found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, oldest.as_ptr()) };
        }
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

/// Functions of the C library, as they are here and, in [`Real`], as they are there. A thread that is
/// cancelled while it is in one is unwound.
macro_rules! interpose {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty $body:block)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, allow(dead_code, reason = "tests have the C library's own"))]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret $body

        impl $crate::hooks::Real {
            #[allow(dead_code, reason = "some are never handed on")]
            #[inline]
            pub(crate) fn $name($($arg: $type),*) -> $ret {
                static SYMBOL: $crate::hooks::Symbol = $crate::hooks::Symbol::new();
                let found = SYMBOL.get(concat!(stringify!($name), "\0"));
                if found.is_null() {
                    $crate::c::set_errno(libc::ENOSYS);
                    return <$ret as $crate::c::Answer>::FAILED;
                }
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $ret;
                // SAFETY: the C library's function of this name has this prototype, or a variadic
                // one whose arguments go to the same registers.
                let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(found) };
                // SAFETY: the arguments are those of a caller who called it.
                unsafe { function($($arg),*) }
            }
        }
    )*};
}

mod changes;
mod devices;
mod directories;
mod files;
mod paths;
mod stats;

/// Answers a call about a path that starts at `at`: `ours` if the path is the server's, otherwise
/// `real` with a path for the system.
#[inline]
fn by_path<T: Answer>(
    at: c_int,
    path: Text,
    follow: bool,
    ours: impl FnOnce(&'static Server, &Place) -> Result<T, Errno>,
    real: impl FnOnce(Text) -> T,
) -> T {
    match locate(at, path, follow) {
        Located::Pass => real(path),
        Located::Elsewhere(path) => real(Text::of(&path)),
        Located::Ours(server, place) => c::answer(c::quietly(|| ours(server, &place))),
        Located::Refused(errno) => c::answer(Err(errno)),
    }
}
