//! The thread behind asynchronous zero-copy requests: it waits for transfers, tells the ends
//! of requests, and submits what waits for descriptors. One per device, started by the first
//! request.

use std::sync::{Arc, Weak};

use neuron_abi::errno::Errno;

use crate::device::Device;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How long to leave a reader whose completion queue is full, microseconds.
const READER_PAUSE: u64 = 1000;

/// The thread, and how to reach it.
#[derive(Debug, Default)]
pub struct Completer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    work: bool,
    stop: bool,
}

/// What a pass over the rings left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Nothing,
    /// Only ends that their reader makes no room for.
    Ends,
    Transfers,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until there is work. `false` when the device goes.
    fn next(&self) -> bool {
        let mut state = self.state();
        while !state.work && !state.stop {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.work = false;
        !state.stop
    }

    fn run(&self, device: &Weak<Device>) {
        while self.next() {
            let Some(device) = device.upgrade() else { break };
            match device.complete() {
                Left::Nothing => continue,
                Left::Ends => device.clock().sleep(READER_PAUSE),
                Left::Transfers => {}
            }
            self.state().work = true;
        }
    }
}

impl Completer {
    /// Starts the thread for `device`, which this is the completer of, unless it runs.
    ///
    /// # Errors
    /// ENOMEM if it cannot be started.
    pub(super) fn start(&self, device: &Arc<Device>) -> Result<(), Errno> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let name = format!("neuron{}-completer", device.index());
            let (shared, device) = (Arc::clone(&self.shared), Arc::downgrade(device));
            let started = thread::Builder::new().name(name).spawn(move || shared.run(&device));
            *thread = Some(started.map_err(|_| Errno::ENOMEM)?);
        }
        Ok(())
    }

    /// There is something on a ring.
    pub(super) fn wake(&self) {
        self.shared.state().work = true;
        self.shared.changed.notify_one();
    }

    /// Ends the thread: the device is going.
    pub(crate) fn stop(&self) {
        self.shared.state().stop = true;
        self.shared.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The thread itself may have held the device's last reference.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ended = thread.join();
        }
    }
}

impl Device {
    /// One pass: a transfer of each ring is waited for, and what can be told is told.
    fn complete(&self) -> Left {
        let mut left = Left::Nothing;
        for ring in self.engines().h2t_rings() {
            let mut contexts = ring.lock();
            if !contexts.zero_copy.is_empty() {
                // No call's transfer is on a ring whose lock is free, so no error is lost here.
                let _told = self.advance(&ring, &mut contexts);
            }
            if !contexts.zero_copy.tell() {
                left = left.max(Left::Ends);
            }
            if !contexts.zero_copy.is_empty() {
                left = left.max(Left::Transfers);
            }
        }
        left
    }
}
