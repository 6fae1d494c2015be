//! One sequence on a machine and on the model, side by side: each operation is made as the
//! ioctl that it is, and its answer held against the model's.
//!
//! | module | operations |
//! |---|---|
//! | `memory` | allocation, free, lookup, mappings |
//! | `copies` | copies, fills, buffers, waits |
//! | `zero_copy` | copies with user pages |
//! | `queues` | requests, bindings, doorbells |
//! | `check` | everything else that can be seen, now and then and at the end |

mod check;
mod copies;
mod memory;
mod queues;
mod zero_copy;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};

use neuron_abi::cmd::Command;
use neuron_abi::{arg, cmd};
use neuron_driver::OpenFile;
use neuron_driver::ioctl::mmap::Mapped;
use neuron_softdev::Product;
use neuron_softdev::fault::Fault;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::machine::Machine;
use crate::model::Model;
use crate::operation::{Caller, NO_CHUNK, Operation};
use check::Idle;

const EINVAL: i64 = -22;
/// First process id.
const FIRST_PID: i32 = 1000;
/// Operations between two looks at everything.
const CHECK_EVERY: usize = 40;

/// What differs between the driver and the model, in words.
pub(crate) type Outcome = Result<(), String>;

/// Compares what the driver answered or shows with what it should.
fn same<T: PartialEq + Debug>(what: &str, ours: T, model: T) -> Outcome {
    if ours == model { Ok(()) } else { Err(format!("{what}: driver {ours:?}, model {model:?}")) }
}

struct File {
    file: OpenFile,
    misc: bool,
}

/// Both sides.
pub(crate) struct Run {
    machine: Machine,
    model: Model,
    files: Vec<File>,
    /// Mappings, and the chunk that each keeps.
    mappings: Vec<(u64, Mapped)>,
    idle: Idle,
    answers: RefCell<Answers>,
}

/// How often each command answered what: shows that a sequence is worth its time.
pub(crate) type Answers = BTreeMap<(&'static str, i64), u64>;

/// Who calls, resolved: which file, and as which process.
#[derive(Clone, Copy)]
struct By {
    file: usize,
    pid: i32,
    misc: bool,
}

fn pid(number: u8) -> i32 {
    FIRST_PID + i32::from(number)
}

/// Where the driver and the model part.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Number of the operation.
    pub(crate) at: usize,
    pub(crate) what: String,
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}: {}", self.at, self.what)
    }
}

/// Runs a sequence on a machine of its own, until driver and model differ.
pub(crate) fn run(product: Product, operations: &[Operation]) -> Result<Answers, Difference> {
    let machine = Machine::new(product);
    let model = Model::new(machine.device.arch());
    let idle = Idle::of(&machine);
    let (files, mappings, answers) = (Vec::new(), Vec::new(), RefCell::default());
    let mut run = Run { machine, model, files, mappings, idle, answers };
    for (at, operation) in operations.iter().enumerate() {
        let done = run.step(operation);
        let checked = done.and_then(|()| if at % CHECK_EVERY == 0 { run.check() } else { Ok(()) });
        checked.map_err(|what| Difference { at, what })?;
    }
    let at = operations.len().saturating_sub(1);
    run.check().map_err(|what| Difference { at, what: format!("afterwards: {what}") })?;
    run.end().map_err(|what| Difference { at, what: format!("when everybody has left: {what}") })?;
    Ok(run.answers.take())
}

impl Run {
    fn step(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Open { pid: number, misc } => self.open(pid(number), misc),
            Operation::Close { file } => {
                if !self.files.is_empty() {
                    let index = usize::from(file) % self.files.len();
                    self.close(index);
                }
                Ok(())
            }
            Operation::Kill { pid: number } => {
                while let Some(index) = self.files.iter().position(|file| file.file.pid() == pid(number)) {
                    self.close(index);
                }
                Ok(())
            }
            Operation::Reset { by, map, stuck } => {
                self.by(by).map_or(Ok(()), |by| self.reset(by, map, stuck))
            }
            Operation::Ready { by, pid: number } => {
                self.by(by).map_or(Ok(()), |by| self.ready(by, pid(number)))
            }
            Operation::Pass { microseconds } => {
                self.machine.pass(microseconds.into());
                Ok(())
            }
            Operation::Allocate { .. }
            | Operation::Free { .. }
            | Operation::Info { .. }
            | Operation::Locate { .. }
            | Operation::Map { .. }
            | Operation::Unmap { .. } => self.memory(operation),
            Operation::Write { .. }
            | Operation::ZeroCopy { .. }
            | Operation::Read { .. }
            | Operation::Fill { .. }
            | Operation::Copy { .. }
            | Operation::CopyAsync { .. }
            | Operation::Troubled { .. }
            | Operation::Wait { .. } => self.copies(operation),
            Operation::Request { .. }
            | Operation::Release { .. }
            | Operation::Bind { .. }
            | Operation::Ring { .. }
            | Operation::Start { .. }
            | Operation::Acknowledge { .. } => self.queues(operation),
        }
    }

    /// The caller; nobody while no file is open.
    fn by(&self, caller: Caller) -> Option<By> {
        let file = usize::from(caller.file).checked_rem(self.files.len())?;
        let opened = &self.files[file];
        Some(By { file, pid: caller.heir.map_or(opened.file.pid(), pid), misc: opened.misc })
    }

    fn call<T: IntoBytes + Immutable + FromBytes>(&self, by: By, command: &Command, argument: &mut T) -> i64 {
        let ret = self.machine.call((&self.files[by.file].file, by.pid), command, argument);
        *self.answers.borrow_mut().entry((command.name, ret)).or_default() += 1;
        ret
    }

    fn call_with_pages<T: IntoBytes + Immutable>(&self, by: By, command: &Command, argument: &T) -> i64 {
        let ret = self.machine.call_with_pages((&self.files[by.file].file, by.pid), command, argument);
        *self.answers.borrow_mut().entry((command.name, ret)).or_default() += 1;
        ret
    }

    /// Why the file or the process may not make a call, if it may not. Commands that only
    /// tell need no process slot.
    fn refusal(&self, by: By, gated: bool) -> Result<(), i64> {
        match () {
            () if by.misc => Err(EINVAL),
            () if gated => self.model.gate(by.pid),
            () => Ok(()),
        }
    }

    /// Handle of a chunk that has one, or one that names nothing.
    fn handle(&self, pick: u8) -> u64 {
        let handles: Vec<u64> =
            self.model.memory.chunks().map(|chunk| chunk.handle).filter(|handle| *handle != 0).collect();
        match usize::from(pick).checked_rem(handles.len()) {
            Some(index) if pick != NO_CHUNK => handles[index],
            _ => self.model.memory.next_handle(),
        }
    }

    fn open(&mut self, pid: i32, misc: bool) -> Outcome {
        let expected = if misc { 0 } else { self.model.open(pid) };
        let opened = self.machine.open(pid, misc);
        same("open", opened.as_ref().map_or_else(|errno| *errno, |_| 0), expected)?;
        self.files.extend(opened.ok().map(|file| File { file, misc }));
        Ok(())
    }

    fn close(&mut self, index: usize) {
        let File { file, misc } = self.files.swap_remove(index);
        if !misc {
            self.model.close(file.pid());
        }
        drop(file);
    }

    fn reset(&mut self, by: By, map: u32, stuck: bool) -> Outcome {
        let expected = match self.refusal(by, false) {
            Ok(()) => self.model.reset(by.pid, map, !stuck),
            Err(errno) => errno,
        };
        let fault = stuck.then(|| self.machine.engines.faults().add(Fault::StuckReset));
        let ret = self.call(by, &cmd::NC_RESET, &mut arg::DeviceReset { nc_map: map, request_id: 0 });
        fault.map(|fault| self.machine.engines.faults().remove(fault));
        if expected == 0 {
            self.model.reset_end = Some(self.machine.now());
        }
        same("reset", ret, expected)
    }

    fn ready(&mut self, by: By, pid: i32) -> Outcome {
        let mut ready = arg::DeviceReady { request_id: pid.cast_unsigned(), result: -1 };
        let ret = self.call(by, &cmd::NC_RESET_READY, &mut ready);
        let expected = match self.refusal(by, false) {
            Err(errno) => (errno, -1),
            Ok(()) => (0, if self.model.outcomes.remove(&pid) == Some(true) { 0 } else { 1 }),
        };
        same("outcome of a reset", (ret, ready.result), expected)
    }
}
