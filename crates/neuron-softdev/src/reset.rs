//! The reset unit: the reset word that clears itself, and the busy bit (`spec/device.md` 2, steps 2 to 4).
//!
//! Software writes the word (1 device, 2 the cores of the map word), rings the doorbell, and polls until the
//! word reads 0 and the busy bit is clear. This file is that state machine; what a reset does to engines and
//! blocks is the device's to carry out. Latencies are numbers of reads, never time.

use std::sync::Mutex;

use crate::fault::Faults;
use crate::sync::lock;

/// Reset word's value for the whole device.
const DEVICE: u32 = 1;
/// Reset word's value for the cores in the map word.
const CORES: u32 = 2;

/// What a doorbell means to the reset unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ring {
    /// Reset everything now.
    Device,
    /// Reset what the map word names now.
    Cores,
    /// A reset is under way, or the word has a value without meaning: nobody looks at the doorbell.
    Ignored,
    /// Nothing to do with a reset.
    NotReset,
}

#[derive(Debug, Default)]
pub(crate) struct ResetUnit {
    state: Mutex<State>,
    /// Reads of the word that still show the reset after it was started.
    polls: u64,
}

#[derive(Debug, Default)]
struct State {
    word: u32,
    /// The word was written and no doorbell has come since.
    armed: bool,
    stuck: bool,
    polls_left: u64,
    busy_left: u64,
}

impl ResetUnit {
    pub(crate) fn new(polls: u64) -> Self {
        Self { state: Mutex::default(), polls }
    }

    /// Software writes the reset word.
    pub(crate) fn write(&self, word: u32) {
        *lock(&self.state) = State { word, armed: word != 0, ..State::default() };
    }

    /// Software reads the reset word.
    pub(crate) fn read(&self) -> u32 {
        let mut state = lock(&self.state);
        if state.armed || state.stuck {
            return state.word;
        }
        match state.polls_left.checked_sub(1) {
            Some(left) => state.polls_left = left,
            None => state.word = 0,
        }
        state.word
    }

    /// Whether the status word says busy. Each read counts.
    pub(crate) fn read_busy(&self) -> bool {
        let mut state = lock(&self.state);
        let busy = state.busy_left > 0;
        state.busy_left = state.busy_left.saturating_sub(1);
        busy
    }

    /// The doorbell rings. A reset that is stuck does nothing, ever.
    pub(crate) fn ring(&self, faults: &Faults) -> Ring {
        let mut state = lock(&self.state);
        if !state.armed {
            return if state.word == 0 { Ring::NotReset } else { Ring::Ignored };
        }
        state.armed = false;
        state.stuck = faults.reset_is_stuck();
        if state.stuck {
            return Ring::Ignored;
        }
        state.polls_left = self.polls;
        state.busy_left = faults.busy_reads();
        match state.word {
            DEVICE => Ring::Device,
            CORES => Ring::Cores,
            // No other value is known: it clears and does nothing (our choice).
            _ => Ring::Ignored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    #[test]
    fn the_word_clears_itself_after_the_configured_reads() {
        let (unit, faults) = (ResetUnit::new(2), Faults::default());
        unit.write(1);
        assert_eq!(unit.read(), 1, "no doorbell yet");
        assert_eq!(unit.ring(&faults), Ring::Device);
        assert_eq!(unit.ring(&faults), Ring::Ignored, "under way");
        assert_eq!([unit.read(), unit.read(), unit.read(), unit.read()], [1, 1, 0, 0]);
        assert_eq!(unit.ring(&faults), Ring::NotReset);
    }

    #[test]
    fn a_stuck_reset_shows_for_ever_and_a_new_one_works() {
        let (unit, faults) = (ResetUnit::new(0), Faults::default());
        faults.add(Fault::StuckReset);
        unit.write(2);
        assert_eq!(unit.ring(&faults), Ring::Ignored);
        assert!((0..100).all(|_| unit.read() == 2));
        faults.clear();
        unit.write(2);
        assert_eq!((unit.ring(&faults), unit.read()), (Ring::Cores, 0));
    }

    #[test]
    fn the_busy_bit_stays_for_the_reads_of_the_fault() {
        let (unit, faults) = (ResetUnit::new(0), Faults::default());
        faults.add(Fault::BusyReset { reads: 3 });
        unit.write(1);
        unit.ring(&faults);
        let busy: Vec<_> = (0..5).map(|_| unit.read_busy()).collect();
        assert_eq!(busy, [true, true, true, false, false]);
    }
}
