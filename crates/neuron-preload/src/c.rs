//! What C gives and takes: strings, places for results, `errno`. Each pointer is looked at here.
//!
//! The types have the layout of the pointers that they stand for, and only functions that C calls
//! get them: that they lead to what the prototype says is the caller's promise, as it is to the C
//! library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;

use rustix::io::Errno;

/// `const char *`, of a string.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// A string that outlives the call that it is given to.
    pub(crate) const fn of(text: &CStr) -> Self {
        Self(text.as_ptr())
    }

    pub(crate) const fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The string; `None` if the pointer is null.
    pub(crate) fn text<'a>(self) -> Option<&'a CStr> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the prototype promises a string; it outlives the call in which this is used.
        Some(unsafe { CStr::from_ptr(self.0) })
    }

    /// Its bytes.
    pub(crate) fn bytes<'a>(self) -> Option<&'a [u8]> {
        self.text().map(CStr::to_bytes)
    }

    /// Whether it has a part, which is a string of C. False of no string.
    #[inline]
    pub(crate) fn contains(self, part: &CStr) -> bool {
        if self.0.is_null() {
            return false;
        }
        // SAFETY: the prototype promises a string, and the other one is one.
        !unsafe { libc::strstr(self.0, part.as_ptr()) }.is_null()
    }
}

/// `T *`, a place for a result.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T, PhantomData<T>);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    pub(crate) const fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// No place.
    pub(crate) const fn none() -> Self {
        Self(std::ptr::null_mut(), PhantomData)
    }

    pub(crate) const fn pointer(self) -> *mut T {
        self.0
    }

    /// Puts a result there.
    ///
    /// # Errors
    /// EFAULT if there is no place.
    pub(crate) fn put(self, value: T) -> Result<(), Errno> {
        if self.0.is_null() {
            return Err(Errno::FAULT);
        }
        // SAFETY: the prototype promises a place for one.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Changes what a function that succeeded put there.
    pub(crate) fn change(self, change: impl FnOnce(&mut T)) {
        // SAFETY: a function that succeeded has put a value there, and nobody else has it yet.
        if let Some(value) = unsafe { self.0.as_mut() } {
            change(value);
        }
    }
}

impl Out<c_char> {
    /// Puts bytes there, of which there is place for so many.
    pub(crate) fn put_bytes(self, bytes: &[u8], place: usize) -> usize {
        let len = bytes.len().min(place);
        if !self.0.is_null() {
            // SAFETY: the prototype promises so many bytes of place, which is not in `bytes`.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast(), len) };
        }
        len
    }

    /// Looks at the bytes that a function that succeeded put there.
    pub(crate) fn look<T>(self, len: usize, look: impl FnOnce(&[u8]) -> T) -> T {
        if self.0.is_null() {
            return look(&[]);
        }
        // SAFETY: so many were put there.
        look(unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), len) })
    }

    /// Puts a string there that fits, with its zero.
    pub(crate) fn put_text(self, bytes: &[u8]) -> Self {
        let mut text = bytes.to_vec();
        text.push(0);
        self.put_bytes(&text, text.len());
        self
    }

    /// A place for so many bytes, or more for the text, which the program frees.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn allocated(bytes: usize) -> Result<Self, Errno> {
        // SAFETY: any size may be asked for.
        let place = unsafe { libc::malloc(bytes.max(1)) };
        if place.is_null() { Err(Errno::NOMEM) } else { Ok(Self(place.cast(), PhantomData)) }
    }
}

/// A structure of the C library, all zeros.
pub(crate) trait Zeroed: Sized {
    fn zeroed() -> Self;
}

macro_rules! zeroed {
    ($($type:ty),*) => {$(
        impl Zeroed for $type {
            fn zeroed() -> Self {
                // SAFETY: it has numbers only, for which zeros are values.
                unsafe { std::mem::zeroed() }
            }
        }
    )*};
}

zeroed!(libc::stat, libc::statx, libc::dirent);

/// The calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: it asks for nothing.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it is there as long as the thread is.
    unsafe { *place }
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: it asks for nothing.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it is there as long as the thread is.
    unsafe { *place = errno }
}

/// The value that tells C of a failure.
pub(crate) trait Answer {
    /// It.
    const FAILED: Self;
}

impl Answer for c_int {
    const FAILED: Self = -1;
}

impl Answer for isize {
    const FAILED: Self = -1;
}

impl Answer for i64 {
    const FAILED: Self = -1;
}

impl<T> Answer for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

impl Answer for () {
    const FAILED: Self = ();
}

impl<T> Answer for Out<T> {
    const FAILED: Self = Self(std::ptr::null_mut(), PhantomData);
}

/// `mmap(2)`'s answer.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Mapped(pub(crate) *mut c_void);

impl Answer for Mapped {
    const FAILED: Self = Self(libc::MAP_FAILED);
}

/// Hands a result to C.
pub(crate) fn answer<T: Answer>(result: Result<T, Errno>) -> T {
    result.unwrap_or_else(|errno| {
        set_errno(errno.raw_os_error());
        T::FAILED
    })
}

/// Does something of which a success leaves `errno` as it was.
pub(crate) fn quietly<T>(action: impl FnOnce() -> T) -> T {
    let before = errno();
    let done = action();
    set_errno(before);
    done
}

/// A variable of the environment.
pub(crate) fn variable<'a>(name: &CStr) -> Option<&'a [u8]> {
    // SAFETY: the name is a string; a program that changes its environment at the same time races
    // with every reader of it, which is why this is read when the library is loaded.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    Text(value).bytes()
}

/// The name in an entry of a directory.
pub(crate) fn entry_name<'a>(entry: *const libc::dirent) -> &'a [u8] {
    // SAFETY: the C library gave the entry, whose name is a string; only its address is taken.
    let name = unsafe { &raw const (*entry).d_name };
    // SAFETY: as above.
    unsafe { CStr::from_ptr(name.cast()) }.to_bytes()
}

/// A copy of an entry, for `scandir(3)`.
///
/// # Errors
/// ENOMEM.
pub(crate) fn entry_copy(entry: *const libc::dirent) -> Result<*mut libc::dirent, Errno> {
    // SAFETY: the C library, or `listing`, gave the entry.
    let bytes = usize::from(unsafe { (*entry).d_reclen });
    let place = Out::<c_char>::allocated(bytes)?;
    // SAFETY: an entry has as many bytes as it says; the copy's place is new and as long.
    unsafe { std::ptr::copy_nonoverlapping(entry.cast::<u8>(), place.0.cast::<u8>(), bytes) };
    Ok(place.0.cast())
}

/// Copies an entry to the program's place, for `readdir_r(3)`.
pub(crate) fn copy_entry(entry: *const libc::dirent, to: Out<libc::dirent>) {
    if to.is_null() {
        return;
    }
    // SAFETY: the C library, or `listing`, gave the entry.
    let bytes = usize::from(unsafe { (*entry).d_reclen }).min(size_of::<libc::dirent>());
    // SAFETY: an entry has as many bytes as it says; the prototype promises place for one.
    unsafe { std::ptr::copy_nonoverlapping(entry.cast::<u8>(), to.0.cast::<u8>(), bytes) };
}

/// Gives a list of entries to the program, in the order that it says, for `scandir(3)`.
///
/// # Errors
/// ENOMEM.
pub(crate) fn give_sorted(
    all: &[*mut libc::dirent],
    list: Out<*mut *mut libc::dirent>,
    compare: Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>,
) -> Result<c_int, Errno> {
    let place =
        Out::<c_char>::allocated(size_of_val(all)).inspect_err(|_| all.iter().copied().for_each(free))?;
    let place: *mut *mut libc::dirent = place.0.cast();
    // SAFETY: the place is new, and has room for all.
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), place, all.len()) };
    if compare.is_some() {
        // SAFETY: the program's function compares two pointers to entries, as it would for the C library.
        unsafe { libc::qsort(place.cast(), all.len(), size_of::<*mut libc::dirent>(), compare) };
    }
    list.put(place)?;
    c_int::try_from(all.len()).map_err(|_| Errno::OVERFLOW)
}

/// The descriptor of a directory that is being read.
pub(crate) fn directory_fd(stream: Dir) -> c_int {
    // SAFETY: the C library has just given the stream.
    unsafe { libc::dirfd(stream) }
}

/// A stream of an open file.
///
/// # Errors
/// The C library's; the file is closed then.
pub(crate) fn stream(fd: c_int, mode: Text) -> Result<*mut libc::FILE, Errno> {
    // SAFETY: the mode is the program's string.
    let stream = unsafe { libc::fdopen(fd, mode.0) };
    if stream.is_null() {
        let error = Errno::from_raw_os_error(errno());
        drop(crate::fds::owned(fd));
        return Err(error);
    }
    Ok(stream)
}

/// Gives a stream that has just been opened another file.
///
/// # Errors
/// The system's.
pub(crate) fn exchange(
    stream: *mut libc::FILE,
    file: &std::os::fd::OwnedFd,
    closed_on_exec: bool,
) -> Result<(), Errno> {
    // SAFETY: the C library has just given the stream.
    let to = unsafe { libc::fileno(stream) };
    let flags = if closed_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: the stream has its descriptor as before, which leads to another file.
    let done = unsafe { libc::dup3(std::os::fd::AsRawFd::as_raw_fd(file), to, flags) };
    if done < 0 { Err(Errno::from_raw_os_error(errno())) } else { Ok(()) }
}

/// A new mapping is neither inherited by children nor in core dumps (`spec/ndl.md` 6).
pub(crate) fn keep_to_process(mapped: Mapped, bytes: usize) {
    for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP] {
        // SAFETY: the range was mapped just now, and the advice changes no byte of it.
        let advised = unsafe { libc::madvise(mapped.0, bytes, advice) };
        // Of memory that cannot be told so nothing is lost.
        let _may_fail = advised;
    }
}

/// `free(3)` of what was allocated here.
pub(crate) fn free<T>(place: *mut T) {
    // SAFETY: `allocated` made it.
    unsafe { libc::free(place.cast()) };
}

/// `DIR *`, never looked into.
pub(crate) type Dir = *mut libc::DIR;
