//! The argument of `--cores`: `all`, or a list of core indices and ranges.

use std::str::FromStr;

/// Highest core index that is understood. No device has more than 8 cores (spec/arch.md 2); our choice leaves
/// room, and keeps `0-4294967295` from being spelled out.
const HIGHEST: u32 = 63;

/// The cores asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoreSelection {
    /// Every core the device has.
    All,
    /// These, in the order given, each once, at least one.
    Only(Vec<u32>),
}

/// A selection of cores that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoreSelectionError {
    /// Neither a number nor a range.
    #[error("`{0}` is neither a core index nor a range such as `4-7`")]
    NotAnIndex(String),
    /// An index no device has.
    #[error("core {0} is out of range, the highest index understood is {HIGHEST}")]
    TooHigh(u32),
    /// A range that ends before it begins.
    #[error("the range {first}-{last} is reversed")]
    Reversed {
        /// Its first core.
        first: u32,
        /// Its last core.
        last: u32,
    },
    /// A core named twice.
    #[error("core {0} is named twice")]
    Duplicate(u32),
    /// A core the device does not have.
    #[error("the device has no core {core}; it has {}", list(present))]
    Absent {
        /// The core asked for.
        core: u32,
        /// The cores the device has.
        present: Vec<u32>,
    },
    /// A device without cores.
    #[error("the device has no cores")]
    NoCores,
}

fn list(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl CoreSelection {
    /// The cores meant on a device that has the cores `present`, in the order asked for.
    ///
    /// # Errors
    /// [`CoreSelectionError::Absent`] for a core the device does not have, [`CoreSelectionError::NoCores`] if
    /// it has none at all. Both are usage errors.
    pub fn resolve(&self, present: &[u32]) -> Result<Vec<u32>, CoreSelectionError> {
        if present.is_empty() {
            return Err(CoreSelectionError::NoCores);
        }
        match self {
            Self::All => Ok(present.to_vec()),
            Self::Only(cores) => match cores.iter().find(|core| !present.contains(core)) {
                Some(&core) => Err(CoreSelectionError::Absent { core, present: present.to_vec() }),
                None => Ok(cores.clone()),
            },
        }
    }
}

impl FromStr for CoreSelection {
    type Err = CoreSelectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" {
            return Ok(Self::All);
        }
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (index(first, part)?, index(last, part)?),
                None => {
                    let core = index(part, part)?;
                    (core, core)
                }
            };
            if last < first {
                return Err(CoreSelectionError::Reversed { first, last });
            }
            for core in first..=last {
                if cores.contains(&core) {
                    return Err(CoreSelectionError::Duplicate(core));
                }
                cores.push(core);
            }
        }
        Ok(Self::Only(cores))
    }
}

/// A plain decimal index; `part` is what the message repeats.
fn index(digits: &str, part: &str) -> Result<u32, CoreSelectionError> {
    // `u32::from_str` would also take `+1`.
    let bad = || CoreSelectionError::NotAnIndex(part.to_owned());
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    match digits.parse().map_err(|_| bad())? {
        core if core > HIGHEST => Err(CoreSelectionError::TooHigh(core)),
        core => Ok(core),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_and_ranges_keep_their_order() {
        assert_eq!("all".parse(), Ok(CoreSelection::All));
        assert_eq!("1".parse(), Ok(CoreSelection::Only(vec![1])));
        assert_eq!("7,0,4-6".parse(), Ok(CoreSelection::Only(vec![7, 0, 4, 5, 6])));
        assert_eq!("3-3".parse(), Ok(CoreSelection::Only(vec![3])));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        use CoreSelectionError::{Duplicate, NotAnIndex, Reversed, TooHigh};
        let parse = |text: &str| text.parse::<CoreSelection>().unwrap_err();
        assert_eq!(parse("0,0"), Duplicate(0));
        assert_eq!(parse("0-3,2"), Duplicate(2));
        assert_eq!(parse("5-4"), Reversed { first: 5, last: 4 });
        assert_eq!(parse("64"), TooHigh(64));
        assert_eq!(parse("0-4294967295"), TooHigh(u32::MAX));
        for text in ["", "0,", ",", "-1", "1-", "+1", "0x1", " 1", "ALL", "all,1", "1-2-3", "4294967296", "٣"]
        {
            assert!(matches!(parse(text), NotAnIndex(_)), "{text:?}");
        }
    }

    #[test]
    fn a_selection_is_held_against_the_cores_that_are_there() {
        assert_eq!(CoreSelection::All.resolve(&[0, 1]), Ok(vec![0, 1]));
        assert_eq!(CoreSelection::Only(vec![1, 0]).resolve(&[0, 1]), Ok(vec![1, 0]));
        let absent = CoreSelection::Only(vec![0, 2]).resolve(&[0, 1]).unwrap_err();
        assert_eq!(absent.to_string(), "the device has no core 2; it has 0, 1");
        assert_eq!(CoreSelection::All.resolve(&[]), Err(CoreSelectionError::NoCores));
    }

    proptest! {
        #[test]
        fn random_text_is_never_a_panic(text in "[0-9,\\-al]{0,20}|\\PC{0,20}") {
            let _ = text.parse::<CoreSelection>();
        }

        #[test]
        fn an_accepted_list_names_each_core_once(text in "[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2}){0,4}") {
            if let Ok(CoreSelection::Only(cores)) = text.parse() {
                let unique: std::collections::BTreeSet<_> = cores.iter().collect();
                prop_assert_eq!(unique.len(), cores.len());
                prop_assert!(cores.iter().all(|&core| core <= HIGHEST));
            }
        }
    }
}
