//! What is kept of resets (`spec/driver.md` 7.4): that one runs, when the last one did, and
//! outcomes that nobody has collected. Resetting is [`core_resets`](crate::core_resets)'s.

use std::collections::BTreeMap;

use neuron_abi::errno::Errno;

use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Whether a device can be used (`spec/driver.md` 7.4). Resets that processes ask for do not
/// change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DeviceState {
    /// The driver's own reset of the whole device runs.
    Reset = 0,
    /// Usable.
    #[default]
    Ready = 1,
    /// That reset failed.
    Invalid = 2,
}

/// Outcomes not yet collected, and when the last reset ran.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    /// Held while a reset runs: there is one at a time.
    running: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Success by process.
    outcomes: BTreeMap<i32, bool>,
    /// When the last reset began and ended; no end while it runs.
    last: Option<(u64, Option<u64>)>,
    device: DeviceState,
}

impl State {
    const fn close_window(&mut self, now: u64) {
        if let Some((_, end)) = &mut self.last {
            *end = Some(now);
        }
    }
}

impl Resets {
    fn kept(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the device can be used. A device that is not up yet is nobody's to ask.
    pub(crate) fn state(&self) -> DeviceState {
        self.kept().device
    }

    /// Whether a reset may have hit an operation that began at `start`.
    pub(crate) fn window_covers(&self, start: u64) -> bool {
        match self.kept().last {
            None => false,
            Some((_, None)) => true,
            Some((_, Some(end))) => start <= end,
        }
    }

    /// Waits until no reset runs, and keeps the next one waiting.
    pub(crate) fn none_running(&self) -> MutexGuard<'_, ()> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what a process did not collect.
    pub(crate) fn forget(&self, pid: i32) {
        self.kept().outcomes.remove(&pid);
    }

    /// A process's reset begins.
    ///
    /// # Errors
    /// EBUSY while it has an outcome to collect.
    pub(crate) fn begin(&self, pid: i32) -> Result<(), Errno> {
        if self.kept().outcomes.contains_key(&pid) { Err(Errno::EBUSY) } else { Ok(()) }
    }

    /// The cores are closed: from here on a reset may have hit what runs. Not before, since a
    /// copy that is tried again until the reset is over would keep its ring, and the reset
    /// waits for the rings of its cores.
    pub(crate) fn open_window(&self, now: u64) {
        self.kept().last = Some((now, None));
    }

    /// It ends.
    pub(crate) fn end(&self, pid: i32, now: u64, succeeded: bool) {
        let mut state = self.kept();
        state.close_window(now);
        state.outcomes.insert(pid, succeeded);
    }

    /// The driver's own reset of the whole device begins.
    pub(crate) fn begin_own(&self) {
        self.kept().device = DeviceState::Reset;
    }

    /// It ends.
    pub(crate) fn end_own(&self, now: u64, succeeded: bool) {
        let mut state = self.kept();
        state.close_window(now);
        state.device = if succeeded { DeviceState::Ready } else { DeviceState::Invalid };
    }

    /// Takes the outcome of a process's reset, if there is one.
    pub(crate) fn collect(&self, pid: i32) -> Option<bool> {
        self.kept().outcomes.remove(&pid)
    }
}
