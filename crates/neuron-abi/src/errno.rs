//! Errno values that cross the ioctl boundary, as a type (asm-generic numbers; the ones spec/*.md name).
//!
//! Not here: which call returns which (spec/abi.md), and the runtime's status codes ([`crate::status`]).

use core::fmt;
use core::num::NonZeroU16;

/// An error number, kept positive.
///
/// Any value a kernel can return (1..=4095) can be held, named here or not. The driver's convention is
/// the negated value ([`negated`](Errno::negated)); libc's is the positive one ([`raw`](Errno::raw)).
///
/// ```
/// use neuron_abi::errno::Errno;
///
/// let error = Errno::from_negated(-22).unwrap();
/// assert_eq!(error, Errno::EINVAL);
/// assert_eq!(error.to_string(), "EINVAL (22): invalid argument");
/// assert_eq!(Errno::from_negated(0), None); // success
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(NonZeroU16);

/// Largest error number a system call can return.
const MAX: i32 = 4095;

/// Declares the constants and their names and texts: `NAME = value, "text";`.
macro_rules! errnos {
    ($( $name:ident = $value:literal, $text:literal; )*) => {
        impl Errno {
            $(
                #[doc = concat!($text, " (", stringify!($value), ").")]
                pub const $name: Errno = Errno::known($value);
            )*

            /// The errnos with a name, in ascending order.
            pub const NAMED: &[Errno] = &[$(Errno::$name),*];

            const fn name_and_text(self) -> Option<(&'static str, &'static str)> {
                match self.raw() {
                    $( $value => Some((stringify!($name), $text)), )*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such entry";
    EINTR = 4, "interrupted by a signal";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such device or address";
    E2BIG = 7, "argument too big";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EFAULT = 14, "bad address";
    EBUSY = 16, "device or resource busy";
    ENODEV = 19, "no such device";
    EINVAL = 22, "invalid argument";
    EMFILE = 24, "too many open files";
    ENOTTY = 25, "no such ioctl";
    EFBIG = 27, "range too large";
    ENOSPC = 28, "no space left";
    ENOSYS = 38, "function not implemented";
    EBADMSG = 74, "bad message";
    EOVERFLOW = 75, "value too large for its type";
    EPROTONOSUPPORT = 93, "protocol not supported";
    ETIMEDOUT = 110, "timed out";
    EALREADY = 114, "already in use or in progress";
    ENOIOCTLCMD = 515, "no ioctl command (kernel internal)";
    ENOTSUPP = 524, "operation not supported (kernel internal)";
}

impl Errno {
    /// From a positive errno. `None` outside 1..=4095.
    pub const fn new(value: i32) -> Option<Errno> {
        if value < 1 || value > MAX {
            return None;
        }
        match NonZeroU16::new(value as u16) {
            Some(value) => Some(Errno(value)),
            None => None,
        }
    }

    /// From a kernel-style return value: `None` unless it is in -4095..=-1.
    ///
    /// Positive values are no errno, yet the shipped driver returns some on failure (spec/abi.md 2.5):
    /// a client must treat every non-zero return as a failure.
    pub const fn from_negated(ret: i64) -> Option<Errno> {
        if ret < -(MAX as i64) || ret > -1 {
            return None;
        }
        Errno::new(-(ret as i32))
    }

    /// The positive value, as in `errno`.
    pub const fn raw(self) -> i32 {
        self.0.get() as i32
    }

    /// The negative value, as a driver returns it.
    pub const fn negated(self) -> i32 {
        -self.raw()
    }

    /// The symbol, such as `"EINVAL"`; `None` if this crate does not name the value.
    pub const fn name(self) -> Option<&'static str> {
        match self.name_and_text() {
            Some((name, _)) => Some(name),
            None => None,
        }
    }

    /// For the constants: a value that is none does not compile.
    const fn known(value: i32) -> Errno {
        match Errno::new(value) {
            Some(errno) => errno,
            None => unreachable!(),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name_and_text() {
            Some((name, text)) => write!(f, "{name} ({}): {text}", self.raw()),
            None => write!(f, "errno {}", self.raw()),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.raw()),
        }
    }
}

impl core::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::Errno;
    use std::string::ToString;

    #[test]
    fn named_errnos_print_symbol_number_and_text() {
        assert_eq!(Errno::EINVAL.to_string(), "EINVAL (22): invalid argument");
        assert_eq!(Errno::ENOTSUPP.to_string(), "ENOTSUPP (524): operation not supported (kernel internal)");
    }

    #[test]
    fn unnamed_errnos_are_kept_and_print_their_number() {
        let errno = Errno::new(121).unwrap();
        assert_eq!((errno.raw(), errno.name()), (121, None));
        assert_eq!(errno.to_string(), "errno 121");
    }

    #[test]
    fn only_the_kernels_error_range_is_an_errno() {
        assert_eq!(Errno::new(0), None);
        assert_eq!(Errno::new(-22), None);
        assert_eq!(Errno::new(4096), None);
        assert_eq!(Errno::new(4095).map(Errno::raw), Some(4095));
        for ret in [0, 1, 22, -4096, i64::MIN, i64::MAX, -(1 << 32) - 22] {
            assert_eq!(Errno::from_negated(ret), None, "{ret}");
        }
    }

    #[test]
    fn negated_values_come_back() {
        for &errno in Errno::NAMED {
            assert_eq!(Errno::from_negated(errno.negated().into()), Some(errno));
            assert!(errno.name().is_some());
        }
    }

    #[test]
    fn named_errnos_are_distinct_and_ascending() {
        assert!(Errno::NAMED.is_sorted_by(|a, b| a < b));
        assert_eq!(Errno::NAMED.len(), 25);
    }
}
