//! A machine whose commands are written down, and fail on demand.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses some of it, and stops at a surprise")]

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use neuron_abi::arg::MemCopyAsync64;
use neuron_abi::cmd::{self, Command};
use neuron_abi::errno::Errno;
use neuron_dmem::{Allocator, AllocatorKind, DeviceMemory, Setup};
use neuron_ndl::intercept::{Call, Intercepted, Interceptor};
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use neuron_ndl::{Backend, Device};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// A command that went out.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) word: u32,
    pub(crate) argument: Vec<u8>,
    pub(crate) thread: ThreadId,
}

impl Sent {
    pub(crate) fn is(&self, command: Command) -> bool {
        self.word == command.word
    }

    pub(crate) fn argument<T: FromBytes + KnownLayout + Immutable>(&self) -> T {
        T::read_from_prefix(&self.argument).unwrap().0
    }
}

/// Fails the `nth` of a command, from 0, and those after it if `on` says so.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    word: u32,
    nth: usize,
    on: bool,
    errno: Errno,
}

#[derive(Default)]
struct State {
    sent: Vec<Sent>,
    refusals: Vec<Refusal>,
}

/// Writes down what goes out.
#[derive(Default)]
pub(crate) struct Recorder {
    state: Mutex<State>,
}

impl Recorder {
    /// From here on the `nth` of `command`, from 0, fails; only that one.
    pub(crate) fn refuse_once(&self, command: Command, nth: usize, errno: Errno) {
        self.refuse(Refusal { word: command.word, nth, on: false, errno });
    }

    /// From here on each `command` fails.
    pub(crate) fn refuse_all(&self, command: Command, errno: Errno) {
        self.refuse(Refusal { word: command.word, nth: 0, on: true, errno });
    }

    fn refuse(&self, refusal: Refusal) {
        self.state.lock().unwrap().refusals.push(refusal);
    }

    /// What went out since the last call.
    pub(crate) fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut self.state.lock().unwrap().sent)
    }
}

impl Interceptor for Recorder {
    fn before(&self, call: &Call<'_>) -> Result<(), Errno> {
        let &Call::Ioctl { word, argument, .. } = call else { return Ok(()) };
        let mut state = self.state.lock().unwrap();
        state.sent.push(Sent { word, argument: argument.to_vec(), thread: std::thread::current().id() });
        let mut outcome = Ok(());
        state.refusals.retain_mut(|refusal| {
            if refusal.word != word {
                return true;
            }
            if refusal.nth > 0 {
                refusal.nth -= 1;
                return true;
            }
            outcome = Err(refusal.errno);
            refusal.on
        });
        outcome
    }
}

/// Device 0 of an instance, watched.
pub(crate) fn open(
    instance: &str,
    execution: Execution,
    watch: Arc<dyn Interceptor>,
    setup: Setup,
) -> Arc<DeviceMemory> {
    let options = MachineOptions { execution, ..MachineOptions::default() };
    over(Machine::with_options(instance, options).unwrap(), watch, setup)
}

/// Device 0 of a backend, watched.
pub(crate) fn over(backend: impl Backend, watch: Arc<dyn Interceptor>, setup: Setup) -> Arc<DeviceMemory> {
    DeviceMemory::with(Device::open(&Intercepted::new(backend, watch), 0).unwrap(), setup).unwrap()
}

pub(crate) fn allocator(memory: &Arc<DeviceMemory>, core: u32) -> Allocator {
    Allocator::new(memory, AllocatorKind::Model, core).unwrap()
}

pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add((index >> 8) as u8) ^ seed).collect()
}

/// The async copies among commands.
pub(crate) fn requests(sent: &[Sent]) -> Vec<MemCopyAsync64> {
    sent.iter().filter(|sent| sent.is(cmd::MEM_COPY_ASYNC64)).map(Sent::argument).collect()
}
