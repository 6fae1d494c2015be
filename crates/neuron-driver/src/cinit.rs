//! Which process brings a core's firmware and model state up (`spec/abi.md` 8,
//! `CINIT_SET_STATE`): the first one that asks starts, others wait until it is done.

use neuron_abi::enums::CinitState;
use neuron_abi::limits::MAX_CORES;

use crate::hw::{Clock, Signal};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// How long a process waits for another one's bring-up: this often, this many microseconds.
const WAITS: u32 = 10;
const WAIT: u64 = 500_000;

/// Init states of a device's cores.
#[derive(Debug, Default)]
pub(crate) struct CoreInits {
    cores: Mutex<[State; MAX_CORES as usize]>,
    changed: Signal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Invalid,
    Started {
        by: i32,
    },
    Completed,
}

impl State {
    const fn shown(self) -> CinitState {
        match self {
            Self::Invalid => CinitState::Invalid,
            Self::Started { .. } => CinitState::Started,
            Self::Completed => CinitState::Completed,
        }
    }
}

impl CoreInits {
    fn cores(&self) -> MutexGuard<'_, [State; MAX_CORES as usize]> {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a state and returns the one the core is in afterwards. `Started` is given
    /// to one process; another one gets `Completed`, or after five seconds still `Started`.
    /// Only a started core becomes `Completed`. `Invalid` only asks (our choice).
    pub(crate) fn request(&self, clock: &dyn Clock, core: u32, state: CinitState, pid: i32) -> CinitState {
        if state != CinitState::Started {
            let mut cores = self.cores();
            let Some(entry) = cores.get_mut(core as usize) else { return CinitState::Invalid };
            let completes = state == CinitState::Completed && matches!(entry, State::Started { .. });
            if completes {
                *entry = State::Completed;
            }
            let now = entry.shown();
            drop(cores);
            if completes {
                self.changed.raise();
            }
            return now;
        }
        for round in 0..=WAITS {
            let seen = self.changed.raised();
            if let Some(state) = self.start(core, pid) {
                return state;
            }
            if round < WAITS {
                clock.sleep_unless(WAIT, &self.changed, seen);
            }
        }
        CinitState::Started
    }

    /// Starts an invalid core; `None` while another process has started it.
    fn start(&self, core: u32, pid: i32) -> Option<CinitState> {
        match self.cores().get_mut(core as usize)? {
            entry @ State::Invalid => {
                *entry = State::Started { by: pid };
                Some(CinitState::Started)
            }
            State::Started { .. } => None,
            State::Completed => Some(CinitState::Completed),
        }
    }

    /// The cores of `map` were reset.
    pub(crate) fn invalidate(&self, map: u32) {
        self.set_invalid(|core, _| map >> core & 1 == 1);
    }

    /// A process is gone: what it started and did not complete, another may start.
    pub(crate) fn abandon(&self, pid: i32) {
        self.set_invalid(|_, state| state == State::Started { by: pid });
    }

    fn set_invalid(&self, which: impl Fn(u32, State) -> bool) {
        for (core, state) in (0..).zip(self.cores().iter_mut()) {
            if which(core, *state) {
                *state = State::Invalid;
            }
        }
        self.changed.raise();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::hw::{SystemClock, VirtualClock};

    #[test]
    fn one_process_starts_and_a_second_one_gives_up_after_five_seconds() {
        let (inits, clock) = (CoreInits::default(), VirtualClock::default());
        let ask = |core, state, pid| inits.request(&clock, core, state, pid);
        assert_eq!(ask(1, CinitState::Completed, 1), CinitState::Invalid, "nothing to complete");
        assert_eq!((ask(1, CinitState::Started, 1), clock.now()), (CinitState::Started, 0));
        assert_eq!((ask(1, CinitState::Started, 2), clock.now()), (CinitState::Started, 5_000_000));
        assert_eq!(ask(1, CinitState::Completed, 1), CinitState::Completed);
        assert_eq!((ask(1, CinitState::Started, 2), clock.now()), (CinitState::Completed, 5_000_000));
        inits.invalidate(0b10);
        assert_eq!(ask(1, CinitState::Invalid, 2), CinitState::Invalid);
    }

    #[test]
    fn a_waiting_process_is_woken_by_the_end_of_the_bring_up() {
        let (inits, clock) = (Arc::new(CoreInits::default()), SystemClock::default());
        assert_eq!(inits.request(&clock, 0, CinitState::Started, 1), CinitState::Started);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| inits.request(&clock, 0, CinitState::Started, 2));
            inits.request(&clock, 0, CinitState::Completed, 1);
            assert_eq!(waiting.join().unwrap(), CinitState::Completed);
        });
    }

    #[test]
    fn what_a_dead_process_started_another_may_start() {
        let (inits, clock) = (CoreInits::default(), VirtualClock::default());
        inits.request(&clock, 0, CinitState::Started, 1);
        inits.abandon(2);
        assert_eq!(inits.request(&clock, 0, CinitState::Invalid, 2), CinitState::Started);
        inits.abandon(1);
        assert_eq!(inits.request(&clock, 0, CinitState::Started, 2), CinitState::Started);
        assert_eq!(clock.now(), 0, "nobody to wait for");
    }
}
