//! Turns SIGINT and SIGTERM into a flag that long work looks at between steps, so that an interrupted load
//! still frees what it allocated. The work decides when to look; nothing here stops it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

/// A flag that says whether the user has asked to stop. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
}

impl Interrupt {
    /// A flag that no signal sets; [`request`](Self::request) can.
    #[must_use]
    pub fn detached() -> Self {
        Self::default()
    }

    /// Catches SIGINT and SIGTERM for the rest of the process: the first sets the flag, a second one, of either
    /// kind, ends the process at once with [`Exit::Interrupted`] in case the orderly way out is stuck.
    ///
    /// # Errors
    /// What `sigaction` reported.
    pub fn install() -> io::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // Actions run in the order they are registered: the exit first, so that it sees the flag as the
            // signal before left it.
            let status = i32::from(Exit::Interrupted.code());
            flag::register_conditional_shutdown(signal, status, Arc::clone(&interrupt.flag))?;
            flag::register(signal, Arc::clone(&interrupt.flag))?;
        }
        Ok(interrupt)
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Asks to stop, as a signal would.
    pub fn request(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reaches_every_clone() {
        let interrupt = Interrupt::detached();
        let clone = interrupt.clone();
        assert!(!clone.requested());
        interrupt.request();
        assert!(clone.requested());
    }
}
