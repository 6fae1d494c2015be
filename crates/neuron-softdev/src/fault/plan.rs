//! A list of faults and its text form, `abort:nth=10; flip:nth=3,min=64`.
//!
//! A plan is a list of faults, each `name` or `name:key=value,key=value`. Faults are set apart by `;` or `,`;
//! blanks do not matter; numbers are decimal or `0x` hexadecimal.
//!
//! | name | keys, with defaults | effect |
//! |---|---|---|
//! | `read` | `nth`=1, `times`=1, `engine`, `offset` | the nth register read fails; `offset` is the engine's if `engine` is given, else the BAR's |
//! | `late-id` | `reads` | the first so many reads of the routing id say "not ready" |
//! | `stuck-reset` | | resets never end |
//! | `busy-reset` | `reads` | so many reads of the status word say busy after each reset |
//! | `drop-kick` | `nth`=1, `times`=1, `engine`, `queue` | the nth kick goes unnoticed until the queue's next |
//! | `hang` | `nth`=1, `engine` | from the nth kick on nothing runs |
//! | `abort` | `nth`=1, `times`=1, `engine`, `queue`, `min`=5 | the nth data descriptor of at least `min` bytes fails |
//! | `flip` | `nth`=1, `times`=1, `engine`, `queue`, `min`=5 | one bit of the nth data write of at least `min` bytes is wrong |
//!
//! `nth` counts matching events from 1; `times` is how many in a row are struck. The default `min` leaves out
//! 4-byte markers and semaphores.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{DATA_BYTES, Fault, Place, When};

/// Faults to start a device with. Parses from and displays as the [text form](self).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultPlan {
    /// The faults.
    pub faults: Vec<Fault>,
}

/// Why a text is no fault plan.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FaultPlanError {
    /// A name that is not in the table.
    #[error("unknown fault {name:?}: one of {NAMES}")]
    UnknownFault {
        /// What was written.
        name: String,
    },
    /// A key that the fault does not have.
    #[error("fault {fault:?} has no key {key:?}")]
    UnknownKey {
        /// Fault's name.
        fault: String,
        /// What was written.
        key: String,
    },
    /// A key given twice.
    #[error("fault {fault:?} has the key {key:?} twice")]
    RepeatedKey {
        /// Fault's name.
        fault: String,
        /// The key.
        key: String,
    },
    /// A key without which the fault means nothing.
    #[error("fault {fault:?} needs {key}=NUMBER")]
    MissingKey {
        /// Fault's name.
        fault: String,
        /// The key.
        key: &'static str,
    },
    /// A value that is no number, or out of the key's range.
    #[error("{key}={value:?}: a number from {min} to {max} is needed")]
    BadValue {
        /// The key.
        key: String,
        /// What was written.
        value: String,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// `key=value` before any fault's name.
    #[error("{text:?} belongs to no fault: write name:key=value")]
    NoFault {
        /// What was written.
        text: String,
    },
}

const NAMES: &str = "read, late-id, stuck-reset, busy-reset, drop-kick, hang, abort, flip";

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut drafts: Vec<Draft<'_>> = Vec::new();
        for part in text.split(';') {
            // A `;` ends a fault; within its part a `,` does if what follows is not `key=value`.
            let mut open = false;
            for item in part.split(',').map(str::trim).filter(|item| !item.is_empty()) {
                let (name, pair) = match item.split_once(':') {
                    Some((name, pair)) => (Some(name.trim()), Some(pair.trim())),
                    None if item.contains('=') => (None, Some(item)),
                    None => (Some(item), None),
                };
                if let Some(name) = name {
                    drafts.push(Draft { name, keys: Vec::new() });
                    open = true;
                }
                let draft = drafts.last_mut().filter(|_| open);
                let draft = draft.ok_or_else(|| FaultPlanError::NoFault { text: item.to_owned() })?;
                if let Some(pair) = pair.filter(|pair| !pair.is_empty()) {
                    draft.push(pair)?;
                }
            }
        }
        let faults = drafts.into_iter().map(Draft::finish).collect::<Result<_, _>>()?;
        Ok(Self { faults })
    }
}

/// One fault as written.
struct Draft<'t> {
    name: &'t str,
    keys: Vec<(&'t str, &'t str)>,
}

impl<'t> Draft<'t> {
    fn push(&mut self, pair: &'t str) -> Result<(), FaultPlanError> {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (key.trim(), value.trim());
        if self.keys.iter().any(|(known, _)| *known == key) {
            return Err(FaultPlanError::RepeatedKey { fault: self.name.to_owned(), key: key.to_owned() });
        }
        self.keys.push((key, value));
        Ok(())
    }

    fn finish(mut self) -> Result<Fault, FaultPlanError> {
        let fault = match self.name {
            "read" => Fault::ReadError {
                when: self.when()?,
                engine: self.take("engine", 0, u16::MAX.into())?.map(|engine| engine as u16),
                offset: self.take("offset", 0, u64::MAX)?,
            },
            "late-id" => Fault::LateRoutingId { reads: self.require("reads")? },
            "stuck-reset" => Fault::StuckReset,
            "busy-reset" => Fault::BusyReset { reads: self.require("reads")? },
            "drop-kick" => Fault::DroppedKick { when: self.when()?, place: self.place()? },
            "hang" => Fault::Hang {
                nth: self.take("nth", 1, u64::MAX)?.unwrap_or(1),
                engine: self.take("engine", 0, u16::MAX.into())?.map(|engine| engine as u16),
            },
            "abort" => Fault::Abort { when: self.when()?, place: self.place()?, min: self.min()? },
            "flip" => Fault::FlipBit { when: self.when()?, place: self.place()?, min: self.min()? },
            name => return Err(FaultPlanError::UnknownFault { name: name.to_owned() }),
        };
        match self.keys.first() {
            None => Ok(fault),
            Some((key, _)) => {
                Err(FaultPlanError::UnknownKey { fault: self.name.to_owned(), key: (*key).to_owned() })
            }
        }
    }

    fn when(&mut self) -> Result<When, FaultPlanError> {
        Ok(When {
            nth: self.take("nth", 1, u64::MAX)?.unwrap_or(1),
            times: self.take("times", 1, u64::MAX)?.unwrap_or(1),
        })
    }

    fn place(&mut self) -> Result<Place, FaultPlanError> {
        Ok(Place {
            engine: self.take("engine", 0, u16::MAX.into())?.map(|engine| engine as u16),
            queue: self.take("queue", 0, 15)?.map(|queue| queue as u8),
        })
    }

    fn min(&mut self) -> Result<u32, FaultPlanError> {
        Ok(self.take("min", 1, 65536)?.map_or(DATA_BYTES, |min| min as u32))
    }

    fn require(&mut self, key: &'static str) -> Result<u64, FaultPlanError> {
        let value = self.take(key, 0, u64::MAX)?;
        value.ok_or_else(|| FaultPlanError::MissingKey { fault: self.name.to_owned(), key })
    }

    fn take(&mut self, key: &str, min: u64, max: u64) -> Result<Option<u64>, FaultPlanError> {
        let Some(at) = self.keys.iter().position(|(known, _)| *known == key) else { return Ok(None) };
        let (_, value) = self.keys.remove(at);
        let number = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        match number {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(FaultPlanError::BadValue { key: key.to_owned(), value: value.to_owned(), min, max }),
        }
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "; " })?;
            fault.fmt(f)?;
        }
        Ok(())
    }
}

/// The text form, with every key that is set.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ReadError { when, engine, offset } => {
                write!(f, "read:{when}")?;
                optional(f, "engine", engine)?;
                offset.map_or(Ok(()), |offset| write!(f, ",offset={offset:#x}"))
            }
            Self::LateRoutingId { reads } => write!(f, "late-id:reads={reads}"),
            Self::StuckReset => f.write_str("stuck-reset"),
            Self::BusyReset { reads } => write!(f, "busy-reset:reads={reads}"),
            Self::DroppedKick { when, place } => write!(f, "drop-kick:{when}{place}"),
            Self::Hang { nth, engine } => {
                write!(f, "hang:nth={nth}")?;
                optional(f, "engine", engine)
            }
            Self::Abort { when, place, min } => write!(f, "abort:{when}{place},min={min}"),
            Self::FlipBit { when, place, min } => write!(f, "flip:{when}{place},min={min}"),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nth={},times={}", self.nth, self.times)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        optional(f, "engine", self.engine)?;
        optional(f, "queue", self.queue)
    }
}

fn optional(f: &mut fmt::Formatter<'_>, key: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, ",{key}={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Vec<Fault>, FaultPlanError> {
        text.parse::<FaultPlan>().map(|plan| plan.faults)
    }

    #[test]
    fn the_forms_of_the_table_parse() {
        let any = Place::default();
        assert_eq!(parse("abort:nth=10"), Ok(vec![Fault::Abort { when: When::nth(10), place: any, min: 5 }]));
        assert_eq!(parse("hang:nth=1,engine=33"), Ok(vec![Fault::Hang { nth: 1, engine: Some(33) }]));
        let both = vec![
            Fault::FlipBit { when: When::nth(3), place: any, min: 64 },
            Fault::ReadError { when: When { nth: 2, times: 3 }, engine: None, offset: Some(0x30) },
            Fault::StuckReset,
            Fault::LateRoutingId { reads: 5 },
        ];
        assert_eq!(
            parse("flip:nth=3,min=64; read:nth=2,times=3,offset=0x30;stuck-reset;late-id:reads=5"),
            Ok(both.clone())
        );
        assert_eq!(
            parse(" flip : nth = 3, min=64, read:nth=2 ,times=3,offset=48,stuck-reset, late-id:reads=5,"),
            Ok(both)
        );
        assert_eq!(parse(""), Ok(vec![]));
        assert_eq!(parse("hang"), Ok(vec![Fault::Hang { nth: 1, engine: None }]));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, message) in [
            ("explode", "unknown fault \"explode\": one of read, late-id, "),
            ("abort:nth=0", "nth=\"0\": a number from 1 to 18446744073709551615 is needed"),
            ("abort:queue=16", "queue=\"16\": a number from 0 to 15 is needed"),
            ("abort:nth=ten", "nth=\"ten\": a number from 1"),
            ("abort:nth", "nth=\"\": a number from 1"),
            ("hang:queue=1", "fault \"hang\" has no key \"queue\""),
            ("abort:nth=1,nth=2", "fault \"abort\" has the key \"nth\" twice"),
            ("late-id", "fault \"late-id\" needs reads=NUMBER"),
            ("nth=3", "\"nth=3\" belongs to no fault"),
            ("abort;nth=3", "\"nth=3\" belongs to no fault"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }

    fn when() -> impl Strategy<Value = When> {
        (1u64.., 1u64..).prop_map(|(nth, times)| When { nth, times })
    }

    fn place() -> impl Strategy<Value = Place> {
        (any::<Option<u16>>(), proptest::option::of(0u8..16))
            .prop_map(|(engine, queue)| Place { engine, queue })
    }

    fn fault() -> impl Strategy<Value = Fault> {
        prop_oneof![
            (when(), any::<Option<u16>>(), any::<Option<u64>>())
                .prop_map(|(when, engine, offset)| Fault::ReadError { when, engine, offset }),
            any::<u64>().prop_map(|reads| Fault::LateRoutingId { reads }),
            Just(Fault::StuckReset),
            any::<u64>().prop_map(|reads| Fault::BusyReset { reads }),
            (when(), place()).prop_map(|(when, place)| Fault::DroppedKick { when, place }),
            (1u64.., any::<Option<u16>>()).prop_map(|(nth, engine)| Fault::Hang { nth, engine }),
            (when(), place(), 1u32..=65536).prop_map(|(when, place, min)| Fault::Abort { when, place, min }),
            (when(), place(), 1u32..=65536).prop_map(|(when, place, min)| Fault::FlipBit {
                when,
                place,
                min
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_plan_survives_its_text_form(faults in proptest::collection::vec(fault(), 0..6)) {
            let plan = FaultPlan { faults };
            prop_assert_eq!(plan.to_string().parse(), Ok(plan));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,60}") {
            let _ = text.parse::<FaultPlan>();
        }
    }
}
