//! Counting calls, refusing one of them, and which status that makes.

use std::sync::{Mutex, MutexGuard};

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::status::NrtStatus;
use neuron_ndl::intercept::{Call, Interceptor};

use crate::life::Kind;

/// How a step ends.
pub(crate) type Ended = Result<(), NrtStatus>;

/// Counts commands and mappings while it is armed.
#[derive(Default)]
pub(crate) struct Calls(Mutex<State>);

#[derive(Default)]
struct State {
    armed: bool,
    made: u64,
    strike: Option<(u64, Errno)>,
    hit: Option<Hit>,
    wait_fails: Option<Errno>,
}

/// A call that was refused.
#[derive(Debug)]
pub(crate) struct Hit {
    /// `None` for a mapping.
    word: Option<u32>,
    errno: Errno,
}

impl Hit {
    pub(crate) fn is_free(&self) -> bool {
        self.word == Some(cmd::MEM_FREE.word)
    }

    /// How a step of this kind ends (`spec/dmem.md` 5, 6, 7 and 9.10).
    pub(crate) fn expected(&self, kind: Kind, offers_zero_copy: bool) -> Ended {
        const ALLOC: u32 = cmd::MEM_ALLOC_V2MT64.word;
        const PA: u32 = cmd::MEM_GET_PA.word;
        const FREE: u32 = cmd::MEM_FREE.word;
        const CHUNKS: u32 = cmd::DUMP_MEM_CHUNKS.word;
        const BATCHES: u32 = cmd::MEM_BUF_ZEROCOPY64_BATCHES.word;
        match (self.word, self.errno, kind) {
            (Some(ALLOC), Errno::ENOMEM, Kind::Host) => Err(NrtStatus::FailHostMemAlloc),
            (Some(ALLOC), Errno::ENOMEM, _) => Err(NrtStatus::Resource),
            // The driver seems not to align, so it is done by hand.
            (Some(ALLOC), _, Kind::Aligned) => Ok(()),
            (Some(PA), ..) => Err(NrtStatus::Resource),
            // There was no room anyway; the report lacks the list.
            (Some(CHUNKS), _, Kind::TooMuch) => Err(NrtStatus::Resource),
            (Some(FREE), ..) => Ok(()),
            // The driver seems not to have the command, so the pieces go one by one.
            (Some(BATCHES), Errno::EINVAL, _) if !offers_zero_copy => Ok(()),
            _ => Err(NrtStatus::Failure),
        }
    }
}

impl Calls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Counts from here on, and refuses that call.
    pub(crate) fn arm(&self, strike: Option<(u64, Errno)>) {
        let mut state = self.state();
        (state.armed, state.strike) = (true, strike);
    }

    /// Counts no more.
    pub(crate) fn disarm(&self) {
        self.state().armed = false;
    }

    /// What was refused since the last look.
    pub(crate) fn take_hit(&self) -> Option<Hit> {
        self.state().hit.take()
    }

    /// The calls counted; the next are counted from 0.
    pub(crate) fn reset(&self) -> u64 {
        std::mem::take(&mut *self.state()).made
    }
}

impl Interceptor for Calls {
    fn before(&self, call: &Call<'_>) -> Result<(), Errno> {
        let word = match call {
            Call::Ioctl { word, .. } => Some(*word),
            Call::Mmap { .. } => None,
            _ => return Ok(()),
        };
        let mut state = self.state();
        if !state.armed {
            return Ok(());
        }
        let number = state.made;
        state.made += 1;
        match state.strike {
            Some((at, errno)) if at == number => {
                state.hit = Some(Hit { word, errno });
                // A driver ends the copy whose wait fails.
                state.wait_fails = (word == Some(cmd::MEM_COPY_ASYNC_WAIT.word)).then_some(errno);
                state.wait_fails.map_or(Err(errno), |_| Ok(()))
            }
            _ => Ok(()),
        }
    }

    fn after_wait(&self) -> Result<(), Errno> {
        self.state().wait_fails.take().map_or(Ok(()), Err)
    }
}
