//! What goes wrong, on demand: a plan in words, so that programs can be shown errors that
//! hardware only has on its bad days.
//!
//! | fault | what happens |
//! |---|---|
//! | `alloc:N` | allocation N of the machine, counted from 1, is refused with ENOMEM; `alloc:N=ERRNO` with another |
//! | `copy:N=timeout` | from copy N on engines do nothing until a copy, or the wait for one, has failed: the driver gives up |
//! | `copy:N=abort` | copy N fails in the engine |
//! | `copy:N=ERRNO` | copy N is refused |
//! | `hbm-bytes=SIZE` | each HBM has so much memory, `4G`, `512M`, or bytes |
//! | `random:SEED` | one allocation and one copy in 100 is refused, ENOMEM and EIO, by a sequence of numbers from SEED; `random:SEED=N` one in N |
//! | anything else | a fault of the device, in the words of [`neuron_softdev::fault::plan`] |
//!
//! An allocation is an ioctl for host or device memory, a copy one that moves bytes by DMA:
//! memcpy, buffer copy, asynchronous copy, zero-copy. Several processes that use the machine at
//! once make one sequence.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_ndl::software::{FaultPlan, Machine};
use neuron_softdev::fault::{DATA_BYTES, Fault, FaultId, Place, When};

/// Commands that allocate.
const ALLOCATIONS: [u8; 2] = [cmd::MEM_ALLOC.nr(), cmd::MEM_ALLOC_V2.nr()];
/// Commands that copy by DMA.
const COPIES: [u8; 5] = [
    cmd::MEM_COPY.nr(),
    cmd::MEM_BUF_COPY.nr(),
    cmd::MEM_COPY_ASYNC.nr(),
    cmd::MEM_BUF_ZEROCOPY64.nr(),
    cmd::MEM_BUF_ZEROCOPY64_BATCHES.nr(),
];

/// One fault as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Allocation `nth` is refused.
    Allocation {
        /// From 1.
        nth: u64,
        /// With which error.
        errno: Errno,
    },
    /// Something happens to copy `nth`.
    Copy {
        /// From 1.
        nth: u64,
        /// What.
        how: CopyFault,
    },
    /// Each HBM has this many bytes.
    HbmBytes(u64),
    /// One in `of` is refused.
    Random {
        /// Where the numbers begin.
        seed: u64,
        /// On average.
        of: u64,
    },
    /// Faults of the devices.
    Device(FaultPlan),
}

/// What happens to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFault {
    /// The engines of its device do nothing until the driver has given up.
    Timeout,
    /// It fails in the engine.
    Abort,
    /// It is refused.
    Errno(Errno),
}

/// A text that is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no fault: {why}")]
pub struct WantedError {
    text: String,
    why: String,
}

impl FromStr for Wanted {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        let wrong = |why: String| WantedError { text: text.to_owned(), why };
        let number = |digits: &str, what: &str| {
            digits
                .parse::<u64>()
                .ok()
                .filter(|&number| number > 0)
                .ok_or_else(|| wrong(format!("{what} has to be a number from 1 on, and is {digits:?}")))
        };
        if let Some(rest) = text.strip_prefix("alloc:") {
            let (nth, how) = rest.split_once('=').map_or((rest, None), |(nth, how)| (nth, Some(how)));
            let errno = how.map_or(Ok(Errno::ENOMEM), |name| errno(name).map_err(&wrong))?;
            return Ok(Self::Allocation { nth: number(nth, "the allocation")?, errno });
        }
        if let Some(rest) = text.strip_prefix("copy:") {
            let (nth, how) = rest.split_once('=').ok_or_else(|| {
                wrong("what happens is missing: copy:N=timeout, abort or an errno".to_owned())
            })?;
            let how = match how {
                "timeout" => CopyFault::Timeout,
                "abort" => CopyFault::Abort,
                name => CopyFault::Errno(errno(name).map_err(&wrong)?),
            };
            return Ok(Self::Copy { nth: number(nth, "the copy")?, how });
        }
        if let Some(size) = text.strip_prefix("hbm-bytes=") {
            return bytes(size)
                .map(Self::HbmBytes)
                .ok_or_else(|| wrong(format!("a size is a number with K, M, G or nothing, not {size:?}")));
        }
        if let Some(rest) = text.strip_prefix("random:") {
            let (seed, of) = rest.split_once('=').unwrap_or((rest, "100"));
            let seed =
                seed.parse().map_err(|_| wrong(format!("the seed has to be a number, and is {seed:?}")))?;
            return Ok(Self::Random { seed, of: number(of, "how many there are to one refused")? });
        }
        match text.parse() {
            Ok(plan) => Ok(Self::Device(plan)),
            Err(error) => Err(wrong(format!(
                "neither alloc:N, copy:N=..., hbm-bytes=SIZE, random:SEED, nor one of the device ({error})"
            ))),
        }
    }
}

/// The errno of a name, or of a number.
fn errno(name: &str) -> Result<Errno, String> {
    let named = Errno::NAMED.iter().find(|errno| errno.name() == Some(name)).copied();
    named
        .or_else(|| name.parse().ok().and_then(Errno::new))
        .ok_or_else(|| format!("{name:?} is no errno: write its name, such as ENOMEM or EIO, or its number"))
}

/// The name of an errno, or its number.
fn told(errno: Errno) -> String {
    errno.name().map_or_else(|| errno.raw().to_string(), str::to_owned)
}

fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, _)) => text.split_at(at),
        None => (text, ""),
    };
    let shift = match unit {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A plan's faults, and how far the machine has come.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    wanted: Vec<Wanted>,
    allocations: AtomicU64,
    copies: AtomicU64,
    /// Hangs by device, until a copy has failed.
    hanging: Mutex<Vec<(u8, FaultId)>>,
}

/// Whether a command copies, or waits for a copy.
fn ends_a_copy(nr: u8) -> bool {
    COPIES.contains(&nr) || nr == cmd::MEM_COPY_ASYNC_WAIT.nr()
}

impl Faults {
    pub(crate) fn new(wanted: Vec<Wanted>) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Faults whose turn has not come, each with why.
    pub(crate) fn idle(&self) -> Vec<String> {
        let idle = |wanted: &Wanted| {
            let (nth, seen, what) = match wanted {
                Wanted::Allocation { nth, .. } => (nth, &self.allocations, "allocations"),
                Wanted::Copy { nth, .. } => (nth, &self.copies, "copies"),
                Wanted::HbmBytes(_) | Wanted::Random { .. } | Wanted::Device(_) => return None,
            };
            let seen = seen.load(Ordering::Relaxed);
            (seen < *nth).then(|| format!("the fault {wanted} has not struck: there were {seen} {what}"))
        };
        self.wanted.iter().filter_map(idle).collect()
    }

    /// Strikes a command, if it is its turn.
    ///
    /// # Errors
    /// What the command is refused with.
    pub(crate) fn strike(&self, machine: &Machine, device: u8, word: u32) -> Result<(), Errno> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        let nr = cmd::nr_of(word);
        if ALLOCATIONS.contains(&nr) {
            let turn = self.allocations.fetch_add(1, Ordering::Relaxed) + 1;
            return self.wanted.iter().try_for_each(|wanted| match wanted {
                Wanted::Allocation { nth, errno } if *nth == turn => Err(*errno),
                Wanted::Random { seed, of } if chance(*seed, turn, *of) => Err(Errno::ENOMEM),
                _ => Ok(()),
            });
        }
        if COPIES.contains(&nr) {
            let turn = self.copies.fetch_add(1, Ordering::Relaxed) + 1;
            return self.wanted.iter().try_for_each(|wanted| match wanted {
                Wanted::Copy { nth, how } if *nth == turn => self.copy(machine, device, *how),
                Wanted::Random { seed, of } if chance(!*seed, turn, *of) => Err(Errno::EIO),
                _ => Ok(()),
            });
        }
        Ok(())
    }

    /// Sees to it that the next copy of a device goes wrong, or refuses it.
    fn copy(&self, machine: &Machine, device: u8, how: CopyFault) -> Result<(), Errno> {
        let faults = |device| machine.device(device).map_err(|_| Errno::ENODEV);
        match how {
            CopyFault::Timeout => {
                let id = faults(device)?.faults().add(Fault::Hang { nth: 1, engine: None });
                self.hanging.lock().unwrap_or_else(PoisonError::into_inner).push((device, id));
            }
            CopyFault::Abort => {
                let (when, place) = (When::nth(1), Place::default());
                faults(device)?.faults().add(Fault::Abort { when, place, min: DATA_BYTES });
            }
            CopyFault::Errno(errno) => return Err(errno),
        }
        Ok(())
    }

    /// A command failed: if that was what a hang was for, the engines go on.
    pub(crate) fn failed(&self, machine: &Machine, device: u8, word: u32) {
        if self.wanted.is_empty() || !ends_a_copy(cmd::nr_of(word)) {
            return;
        }
        self.hanging.lock().unwrap_or_else(PoisonError::into_inner).retain(|&(of, id)| {
            if of == device
                && let Ok(device) = machine.device(device)
            {
                device.faults().remove(id);
            }
            of != device
        });
    }
}

/// Whether number `turn` of the sequence from `seed` is one in `of` (SplitMix64).
fn chance(seed: u64, turn: u64, of: u64) -> bool {
    let mut mixed = seed.wrapping_add(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).is_multiple_of(of)
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocation { nth, errno } => write!(f, "alloc:{nth}={}", told(*errno)),
            Self::Copy { nth, how: CopyFault::Timeout } => write!(f, "copy:{nth}=timeout"),
            Self::Copy { nth, how: CopyFault::Abort } => write!(f, "copy:{nth}=abort"),
            Self::Copy { nth, how: CopyFault::Errno(errno) } => write!(f, "copy:{nth}={}", told(*errno)),
            Self::HbmBytes(bytes) => write!(f, "hbm-bytes={bytes}"),
            Self::Random { seed, of } => write!(f, "random:{seed}={of}"),
            Self::Device(plan) => plan.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wanted(text: &str) -> Wanted {
        text.parse().unwrap()
    }

    #[test]
    fn faults_are_read_as_the_table_says() {
        assert_eq!(wanted("alloc:7"), Wanted::Allocation { nth: 7, errno: Errno::ENOMEM });
        assert_eq!(wanted("alloc:7=EBUSY"), Wanted::Allocation { nth: 7, errno: Errno::EBUSY });
        assert_eq!(wanted("copy:3=timeout"), Wanted::Copy { nth: 3, how: CopyFault::Timeout });
        assert_eq!(wanted("copy:3=5"), Wanted::Copy { nth: 3, how: CopyFault::Errno(Errno::EIO) });
        assert_eq!(wanted("hbm-bytes=4G"), Wanted::HbmBytes(4 << 30));
        assert_eq!(wanted("random:9=10"), Wanted::Random { seed: 9, of: 10 });
        assert!(matches!(wanted("abort:nth=10"), Wanted::Device(_)));
    }

    #[test]
    fn what_is_no_fault_is_refused_with_why() {
        for (text, word) in [
            ("alloc:0", "from 1 on"),
            ("alloc:x", "from 1 on"),
            ("copy:3", "is missing"),
            ("copy:3=EWHAT", "no errno"),
            ("hbm-bytes=4T", "a size"),
            ("random:x", "the seed"),
            ("earthquake", "neither"),
        ] {
            let error = text.parse::<Wanted>().unwrap_err().to_string();
            assert!(error.contains(word) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_turns_again_and_about_as_many_as_asked_for() {
        let turns = |seed| (1..=10_000).filter(|&turn| chance(seed, turn, 100)).collect::<Vec<_>>();
        assert_eq!(turns(1), turns(1));
        assert_ne!(turns(1), turns(2));
        assert!((50..200).contains(&turns(1).len()), "{}", turns(1).len());
    }

    proptest! {
        #[test]
        fn a_fault_reads_back_as_it_is_written(nth in 1_u64.., seed: u64, of in 1_u64.., number in 1..4096_i32) {
            let errno = Errno::new(number).ok_or_else(|| TestCaseError::reject("none"))?;
            for fault in [
                Wanted::Allocation { nth, errno },
                Wanted::Copy { nth, how: CopyFault::Errno(errno) },
                Wanted::Copy { nth, how: CopyFault::Abort },
                Wanted::HbmBytes(nth),
                Wanted::Random { seed, of },
            ] {
                prop_assert_eq!(fault.to_string().parse::<Wanted>(), Ok(fault));
            }
        }

        #[test]
        fn no_text_is_a_panic(text in ".{0,60}") {
            let _read = text.parse::<Wanted>();
        }
    }
}
