//! Feature bits of the driver info (spec/abi.md 7, spec/ndl.md 3.1).

use crate::cmd::Release;
use core::fmt;
use core::ops::BitOr;

/// A set of feature bits: `feature_flags1` of [`DeviceDriverInfo`](crate::arg::DeviceDriverInfo). Bits
/// without a name here are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features(u64);

/// Declares the bits: `NAME = bit;`.
macro_rules! features {
    ($( $(#[$meta:meta])* $name:ident = $bit:literal; )*) => {
        impl Features {
            $( $(#[$meta])* pub const $name: Features = Features(1 << $bit); )*

            /// Every named bit with its name, lowest first.
            pub const NAMED: &[(&str, Features)] = &[$((stringify!($name), Features::$name)),*];
        }
    };
}

features! {
    /// dma-buf export.
    DMABUF = 0;
    /// Asynchronous copies.
    ASYNC_DMA = 1;
    /// Batched queue init.
    BATCH_DMAQ_INIT = 2;
    /// Core range commands with the 64-byte map.
    BIG_CORE_MAPS = 3;
    /// Categories in allocations.
    MEM_ALLOC_TYPE = 4;
    /// HBM scrub.
    HBM_SCRUB = 5;
    /// 64-bit sizes in allocations and copies.
    MEM_ALLOC64 = 6;
    /// Contiguous scratchpad.
    CONTIGUOUS_SCRATCHPAD = 7;
    /// Zero-copy with the 48-byte argument.
    ZEROCOPY = 8;
}

impl Features {
    /// No feature: also what to assume of a driver that can't be asked.
    pub const NONE: Features = Features(0);

    /// What a driver release reports.
    pub const fn of(release: Release) -> Features {
        match release {
            Release::V2_24_7 => Features(0xFF),
            Release::V2_25_4 | Release::V2_27_4 => Features(0x1FF),
        }
    }

    /// From the word in the ABI.
    pub const fn from_bits(bits: u64) -> Features {
        Features(bits)
    }

    /// The word in the ABI.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether all of `other` is in this set.
    pub const fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set without `other`.
    #[must_use]
    pub const fn without(self, other: Features) -> Features {
        Features(self.0 & !other.0)
    }
}

impl BitOr for Features {
    type Output = Features;

    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

/// Prints `DMABUF | ASYNC_DMA`, unnamed bits in hexadecimal behind them, `none` for the empty set.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        let mut separator = "";
        for &(name, feature) in Features::NAMED {
            if rest.contains(feature) {
                write!(f, "{separator}{name}")?;
                separator = " | ";
                rest = rest.without(feature);
            }
        }
        if rest != Features::NONE {
            return write!(f, "{separator}{:#x}", rest.0);
        }
        if separator.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Features({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::Features;
    use crate::cmd::Release;
    use std::string::ToString;

    #[test]
    fn releases_report_the_words_of_the_spec() {
        assert_eq!(Features::of(Release::V2_24_7).bits(), 0xFF);
        assert_eq!(Features::of(Release::V2_25_4).bits(), 0x1FF);
        assert_eq!(Features::of(Release::V2_27_4).bits(), 0x1FF);
    }

    #[test]
    fn zerocopy_is_what_2_25_4_added() {
        let old = Features::of(Release::V2_24_7);
        assert_eq!(Features::of(Release::V2_25_4).without(old), Features::ZEROCOPY);
        assert!(!old.contains(Features::ZEROCOPY));
        assert!(old.contains(Features::MEM_ALLOC64 | Features::ASYNC_DMA));
    }

    #[test]
    fn sets_print_their_names_and_keep_unknown_bits() {
        assert_eq!(Features::NONE.to_string(), "none");
        assert_eq!((Features::ASYNC_DMA | Features::DMABUF).to_string(), "DMABUF | ASYNC_DMA");
        assert_eq!(Features::from_bits(0x1000).to_string(), "0x1000");
        assert_eq!(Features::from_bits(0x1008).to_string(), "BIG_CORE_MAPS | 0x1000");
        assert_eq!(Features::from_bits(u64::MAX).bits(), u64::MAX);
    }
}
