//! Before `nrt_init`, open, closed. Every call that needs the devices holds the gate open while it
//! runs, so `nrt_close` waits for it.
//!
//! A process that was forked of one in which the library is open has neither the devices' threads nor
//! a right to its parent's memory: everything answers as if closed, but NRT_UNINITIALIZED, and
//! `nrt_init` refuses (our choice).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

use neuron_abi::status::NrtStatus;

use crate::handles::Handles;
use crate::logging::{self, Level};
use crate::refusal::Refusal;
use crate::runtime::Runtime;
use crate::sets::TensorSet;
use crate::tensor::Tensor;

#[derive(Debug)]
enum State {
    Before,
    Open(Box<Runtime>),
    Closed,
}

static STATE: RwLock<State> = RwLock::new(State::Before);
/// The process in which it is open, 0 for none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Tensors that live.
pub(crate) static TENSORS: Handles<Tensor> = Handles::new(0xa5);
/// Tensor sets that live.
pub(crate) static SETS: Handles<TensorSet> = Handles::new(0xa6);

/// Whether it was opened by a process of which this one is a child.
fn is_forked() -> bool {
    let process = PROCESS.load(Ordering::Acquire);
    process != 0 && process != std::process::id()
}

fn forked(status: NrtStatus) -> Refusal {
    let why = "this process was forked of one that had called nrt_init: devices do not go with a fork, so call \
               nrt_init in the child only, or execute a program there";
    Refusal::new(status, why)
}

/// Opens the devices, if they are not open.
pub(crate) fn open() -> Result<(), Refusal> {
    if is_forked() {
        return Err(forked(NrtStatus::Failure));
    }
    let mut state = STATE.write().unwrap_or_else(PoisonError::into_inner);
    if matches!(*state, State::Open(_)) {
        return Ok(());
    }
    logging::follow_environment();
    PROCESS.store(std::process::id(), Ordering::Release);
    let opened = Runtime::open();
    if opened.is_err() {
        PROCESS.store(0, Ordering::Release);
    }
    *state = State::Open(Box::new(opened?));
    Ok(())
}

/// Closes them when no call uses them any more, with all tensors and sets that are left.
pub(crate) fn close() {
    if is_forked() {
        return;
    }
    let mut state = STATE.write().unwrap_or_else(PoisonError::into_inner);
    if !matches!(*state, State::Open(_)) {
        return;
    }
    let runtime = std::mem::replace(&mut *state, State::Closed);
    SETS.clear();
    let left = TENSORS.clear();
    logging::line(Level::Info, "nrt_close", &format!("{} tensors were left, and are freed", left.len()));
    drop(left);
    drop(runtime);
    PROCESS.store(0, Ordering::Release);
}

/// Works with the open devices.
pub(crate) fn with<T>(work: impl FnOnce(&Runtime) -> Result<T, Refusal>) -> Result<T, Refusal> {
    if is_forked() {
        return Err(forked(NrtStatus::Uninitialized));
    }
    match &*STATE.read().unwrap_or_else(PoisonError::into_inner) {
        State::Open(runtime) => work(runtime),
        State::Before => Err(Refusal::new(NrtStatus::Uninitialized, "call nrt_init first")),
        State::Closed => Err(Refusal::new(NrtStatus::Closed, "nrt_close was called; call nrt_init again")),
    }
}

/// Works with the devices if they are open, and else without.
pub(crate) fn with_or_without<T>(work: impl FnOnce(Option<&Runtime>) -> T) -> T {
    if is_forked() {
        return work(None);
    }
    match &*STATE.read().unwrap_or_else(PoisonError::into_inner) {
        State::Open(runtime) => work(Some(runtime)),
        State::Before | State::Closed => work(None),
    }
}

/// Works with a tensor.
pub(crate) fn with_tensor<T>(
    handle: u64,
    work: impl FnOnce(&Runtime, &Tensor) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    with(|runtime| {
        let tensor = TENSORS.get(handle).ok_or_else(|| Refusal::handle("tensor"))?;
        work(runtime, &tensor)
    })
}
