//! What happens when an allocation finds no room: a handler may make some, and have it tried
//! again. Ours, after the observers that frameworks know; the runtime has none.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::DmemError;
use crate::report::Asked;

/// Retries unless another number is set (our choice).
const RETRIES: u32 = 8;

/// Is asked what to do about a failed allocation.
///
/// It runs on the thread that allocates, with no lock of this crate held. It may free,
/// allocate and copy; an allocation that fails inside a handler is not handled again, on no
/// device, but returned to it. If it panics, the panic goes to the caller of the allocation,
/// and nothing else changes.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use neuron_abi::memory::UsageType;
/// use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, Answer, DeviceMemory, Dmem, Setup};
/// use neuron_ndl::{Device, software::Machine};
///
/// // Tensors that can be made again.
/// let cache: Arc<Mutex<Vec<Dmem>>> = Arc::default();
/// let evicting = Arc::clone(&cache);
/// let setup = Setup::default().on_failure(Arc::new(move |_| {
///     let evicted = evicting.lock().map(|mut cache| cache.pop());
///     if matches!(evicted, Ok(Some(_))) { Answer::Retry } else { Answer::GiveUp }
/// }));
///
/// let machine = Machine::new("trn1.2xlarge")?;
/// let memory = DeviceMemory::with(Device::open(&machine, 0)?, setup)?;
/// let model = Allocator::new(&memory, AllocatorKind::Model, 0)?;
/// for _ in 0..7 {
///     let tensor = model.allocate(&AllocRequest::device(2 << 30, UsageType::Tensor))?;
///     cache.lock().map_err(|_| "poisoned")?.push(tensor);
/// }
///
/// // 14 GiB are in use, and there is no room for this one until the cache lets go.
/// let large = model.allocate(&AllocRequest::device(6 << 30, UsageType::Tensor))?;
/// assert!(cache.lock().map_err(|_| "poisoned")?.len() < 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type FailureHandler = dyn Fn(&AllocFailure<'_>) -> Answer + Send + Sync;

/// An allocation that found no room on the device or the host, or exceeded a budget.
#[derive(Clone, Copy, Debug)]
pub struct AllocFailure<'a> {
    /// Why: [`OutOfDeviceMemory`](DmemError::OutOfDeviceMemory),
    /// [`OutOfHostMemory`](DmemError::OutOfHostMemory) or [`OverBudget`](DmemError::OverBudget).
    pub error: &'a DmemError,
    /// What was asked for.
    pub request: &'a Asked,
    /// How often this allocation was tried by now, from 1.
    pub attempt: u32,
    /// How often it can still be tried. With none the answer changes nothing.
    pub retries_left: u32,
}

/// What to do about a failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Try again.
    Retry,
    /// Tell the caller.
    GiveUp,
}

/// The handler of a device, and how patient it is.
pub(crate) struct Failures {
    handler: RwLock<Option<Arc<FailureHandler>>>,
    retries: u32,
}

/// How failures are handled, before there is a device.
#[derive(Clone)]
pub(crate) struct FailureSetup {
    pub(crate) handler: Option<Arc<FailureHandler>>,
    pub(crate) retries: u32,
}

impl Default for FailureSetup {
    fn default() -> Self {
        Self { handler: None, retries: RETRIES }
    }
}

impl fmt::Debug for FailureSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handler = self.handler.is_some();
        f.debug_struct("FailureSetup").field("handler", &handler).field("retries", &self.retries).finish()
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failures").field("retries", &self.retries).finish_non_exhaustive()
    }
}

thread_local! {
    /// This thread is inside a handler.
    static HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// A handler that runs; dropping it also ends one that panics.
struct Handling;

impl Handling {
    /// `None` inside a handler.
    fn begin() -> Option<Self> {
        (!HANDLING.replace(true)).then_some(Self)
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        HANDLING.set(false);
    }
}

impl Failures {
    pub(crate) fn new(setup: FailureSetup) -> Self {
        Self { handler: RwLock::new(setup.handler), retries: setup.retries }
    }

    /// From now on this handler is asked, or none. One that runs is not waited for.
    pub(crate) fn set(&self, handler: Option<Arc<FailureHandler>>) {
        let mut current = self.handler.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, handler);
        drop(current);
        // What it owns may be memory, whose going takes other locks.
        drop(before);
    }

    /// Makes attempts until one succeeds, fails for another reason than room, or the handler
    /// gives up.
    pub(crate) fn handle<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, DmemError>,
    ) -> Result<T, DmemError> {
        let mut retries = 0;
        loop {
            let error = match attempt() {
                Ok(value) => return Ok(value),
                Err(error) => error.after_retries(retries),
            };
            if self.ask(&error, retries) == Answer::GiveUp || retries == self.retries {
                return Err(error);
            }
            retries += 1;
        }
    }

    fn ask(&self, error: &DmemError, retries: u32) -> Answer {
        let Some(request) = error.request() else { return Answer::GiveUp };
        let handler = self.handler.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(handler) = handler else { return Answer::GiveUp };
        let Some(_handling) = Handling::begin() else { return Answer::GiveUp };
        let (attempt, retries_left) = (retries.saturating_add(1), self.retries - retries);
        handler(&AllocFailure { error, request, attempt, retries_left })
    }
}
