//! Which drivers this stack works with (`spec/ndl.md` 3.2).
//!
//! A driver names a range of runtime ids (ioctl 93). The runtime carries one id and refuses to
//! start outside. Ours, and our choice: we speak a range for each generation, and work with
//! every driver whose range overlaps it.

use std::fmt;

use neuron_abi::arch::{CompatRange, Generation};

/// How a driver's range and ours lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They overlap.
    Ok,
    /// The driver's newest is older than our oldest.
    TooOld {
        /// The driver's range.
        driver: CompatRange,
        /// Ours.
        ours: CompatRange,
    },
    /// The driver's oldest is newer than our newest.
    TooNew {
        /// The driver's range.
        driver: CompatRange,
        /// Ours.
        ours: CompatRange,
    },
    /// The driver does not say.
    Unknown,
}

/// The ids we speak on a generation.
pub const fn ours(generation: Generation) -> CompatRange {
    match generation {
        Generation::V2 => CompatRange { min: 5, max: 7 },
        Generation::V3 | Generation::V4 => CompatRange { min: 10, max: 11 },
    }
}

/// Compares the range a driver named, if it did, with ours.
pub const fn check(generation: Generation, driver: Option<CompatRange>) -> Verdict {
    let ours = ours(generation);
    match driver {
        None => Verdict::Unknown,
        Some(driver) if driver.max < ours.min => Verdict::TooOld { driver, ours },
        Some(driver) if driver.min > ours.max => Verdict::TooNew { driver, ours },
        Some(_) => Verdict::Ok,
    }
}

impl Verdict {
    /// Whether a device may be used: it may if the driver does not say.
    pub const fn is_usable(&self) -> bool {
        matches!(self, Self::Ok | Self::Unknown)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (age, driver, ours, advice) = match self {
            Self::Ok => return f.write_str("the driver works with this program"),
            Self::Unknown => return f.write_str("the driver does not say which versions it works with"),
            Self::TooOld { driver, ours } => ("old", driver, ours, "update the driver (aws-neuronx-dkms)"),
            Self::TooNew { driver, ours } => {
                ("new", driver, ours, "update this program, or install an older driver")
            }
        };
        write!(
            f,
            "the driver is too {age}: it works with versions {} to {}, this program speaks {} to {}; {advice}",
            driver.min, driver.max, ours.min, ours.max
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn range(min: u32, max: u32) -> Option<CompatRange> {
        Some(CompatRange { min, max })
    }

    #[test]
    fn overlapping_ranges_work_and_others_say_which_side_is_behind() {
        for (generation, driver, usable, text) in [
            (Generation::V2, range(5, 7), true, "works with this program"),
            (Generation::V2, range(7, 9), true, "works"),
            (Generation::V2, range(1, 5), true, "works"),
            (Generation::V2, range(2, 4), false, "too old: it works with versions 2 to 4"),
            (Generation::V2, range(8, 8), false, "this program speaks 5 to 7"),
            (Generation::V3, range(10, 11), true, "works"),
            (Generation::V3, range(5, 9), false, "update the driver"),
            (Generation::V4, range(12, 13), false, "update this program"),
            (Generation::V4, None, true, "does not say"),
        ] {
            let verdict = check(generation, driver);
            assert_eq!(verdict.is_usable(), usable, "{generation:?} {driver:?}");
            assert!(verdict.to_string().contains(text), "{verdict}");
        }
    }

    #[test]
    fn the_driver_of_each_generation_works() {
        for generation in Generation::ALL {
            assert_eq!(check(*generation, Some(generation.geometry().compat)), Verdict::Ok);
        }
    }
}
