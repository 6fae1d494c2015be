//! The thread behind asynchronous zero-copy requests: when it is woken and when it ends. What
//! it does in a pass is its owner's business ([`dma::zerocopy`](crate::dma::zerocopy)).

use std::sync::Arc;

use neuron_abi::errno::Errno;

use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The thread, and how to reach it.
#[derive(Debug, Default)]
pub(crate) struct Completer {
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

    fn run(&self, pass: impl Fn() -> Option<bool>) {
        while self.next() {
            match pass() {
                None => break,
                Some(false) => {}
                Some(true) => self.state().work = true,
            }
        }
    }
}

impl Completer {
    /// Starts the thread unless it runs. A pass returns whether it left work, or `None` when
    /// there is nothing to work on any more.
    ///
    /// # Errors
    /// ENOMEM if it cannot be started.
    pub(crate) fn start(
        &self,
        name: impl FnOnce() -> String,
        pass: impl Fn() -> Option<bool> + Send + 'static,
    ) -> Result<(), Errno> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let started = thread::Builder::new().name(name()).spawn(move || shared.run(pass));
            *thread = Some(started.map_err(|_| Errno::ENOMEM)?);
        }
        Ok(())
    }

    /// There is work.
    pub(crate) fn wake(&self) {
        self.shared.state().work = true;
        self.shared.changed.notify_one();
    }

    /// Ends the thread, before what it works on goes.
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
