//! Resets that processes ask for (`spec/driver.md` 7.4): cores closed, hardware reset,
//! cores brought up again, and the outcome kept until its process collects it.
//!
//! A request runs to its end inside the call that makes it, one at a time; the shipped
//! driver's thread and its merging of requests have no visible effect beyond that.

use std::collections::BTreeMap;

use neuron_abi::errno::Errno;
use neuron_abi::limits::DEVICE_MAP;

use crate::device::Device;
use crate::reset::{self, Scope};
use crate::sync::{Mutex, MutexGuard, PoisonError};

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
}

impl Resets {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a reset may have hit an operation that began at `start`.
    pub(crate) fn window_covers(&self, start: u64) -> bool {
        match self.state().last {
            None => false,
            Some((_, None)) => true,
            Some((_, Some(end))) => start <= end,
        }
    }

    /// Forgets what a process did not collect.
    pub(crate) fn forget(&self, pid: i32) {
        self.state().outcomes.remove(&pid);
    }
}

impl Device {
    /// Resets the cores of `map`, or the device for all ones. Their H2T and service rings
    /// are gone afterwards and the default ones new; model rings must be bound again.
    ///
    /// # Errors
    /// EBUSY while the process has an outcome to collect: nothing is reset then. How the
    /// reset itself went is what [`collect_reset`](Self::collect_reset) tells.
    pub fn request_reset(&self, pid: i32, map: u32) -> Result<(), Errno> {
        let resets = self.resets();
        let running = resets.running.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let state = resets.state();
            if state.outcomes.contains_key(&pid) {
                return Err(Errno::EBUSY);
            }
        }
        let outcome = self.reset_cores(map);
        if let Err(error) = outcome {
            tracing::error!(device = self.index(), map, %error, "reset failed");
        }
        let mut state = resets.state();
        if let Some((_, end)) = &mut state.last {
            *end = Some(self.clock().now());
        }
        state.outcomes.insert(pid, outcome.is_ok());
        drop(state);
        drop(running);
        Ok(())
    }

    fn reset_cores(&self, map: u32) -> Result<(), Errno> {
        self.close_cores(map);
        // Only now: a copy that is tried again until the reset is over would keep its ring, and
        // the reset waits for the rings of its cores.
        self.resets().state().last = Some((self.clock().now(), None));
        if !self.params().no_reset {
            let scope = if map == DEVICE_MAP {
                Scope::Device
            } else {
                Scope::Cores(map & self.geometry().device_nc_map)
            };
            reset::run(self.hardware(), self.clock(), self.arch(), scope)?;
        }
        self.init_cores(map)
    }

    /// Takes the outcome of a process's reset: whether it succeeded, `None` without one.
    pub fn collect_reset(&self, pid: i32) -> Option<bool> {
        self.resets().state().outcomes.remove(&pid)
    }
}
