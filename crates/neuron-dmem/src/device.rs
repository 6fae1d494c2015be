//! A device as this layer sees it: the driver's door, and the process's usage log for it.

use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_ndl::Device;

use crate::budget::Budgets;
use crate::failure::{FailureHandler, FailureSetup, Failures};
use crate::log::{self, LogError, LogOptions, Statistics, UsageLog};
use crate::owners::Owners;
use crate::report::{Action, Event};
use crate::trace::{Clock, Sink, Tracer};
use crate::transfer::{ChunkPolicy, Chunking, Path};
use crate::usage::Usage;

/// A device to allocate on (`mla` with its `dmem_logger`).
#[derive(Debug)]
pub struct DeviceMemory {
    device: Arc<Device>,
    path: Path,
    chunking: Chunking,
    log: UsageLog,
    owners: Owners,
    budgets: Budgets,
    failures: Failures,
    tracer: Tracer,
}

/// How the memory of a device is used and accounted. The default is the runtime's: staged
/// copies, a log in memory.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    path: Path,
    chunks: ChunkSetup,
    log: LogOptions,
    failures: FailureSetup,
    trace: TraceSetup,
}

#[derive(Clone, Default)]
struct ChunkSetup {
    policy: ChunkPolicy,
    clock: Option<Clock>,
}

impl std::fmt::Debug for ChunkSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkSetup").field("policy", &self.policy).finish_non_exhaustive()
    }
}

#[derive(Clone, Default)]
struct TraceSetup {
    sink: Option<Arc<dyn Sink>>,
    clock: Option<Clock>,
}

impl std::fmt::Debug for TraceSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceSetup").field("sink", &self.sink.is_some()).finish_non_exhaustive()
    }
}

impl Setup {
    /// Copies device memory this way.
    #[must_use]
    pub fn path(self, path: Path) -> Self {
        Self { path, ..self }
    }

    /// Cuts staged copies this way.
    #[must_use]
    pub fn chunks(self, policy: ChunkPolicy) -> Self {
        Self { chunks: ChunkSetup { policy, ..self.chunks }, ..self }
    }

    /// Takes what copies took from this clock, instead of the system's monotonic one:
    /// [`ChunkPolicy::Adaptive`] goes by that.
    #[must_use]
    pub fn chunk_clock(self, clock: Clock) -> Self {
        Self { chunks: ChunkSetup { clock: Some(clock), ..self.chunks }, ..self }
    }

    /// Keeps this log.
    #[must_use]
    pub fn log(self, log: LogOptions) -> Self {
        Self { log, ..self }
    }

    /// Asks this handler what to do when an allocation finds no room: see [`FailureHandler`].
    #[must_use]
    pub fn on_failure(self, handler: Arc<FailureHandler>) -> Self {
        Self { failures: FailureSetup { handler: Some(handler), ..self.failures }, ..self }
    }

    /// Tries an allocation again at most so often, if the failure handler says so: 8 times
    /// unless set (our choice).
    #[must_use]
    pub fn retries(self, most: u32) -> Self {
        Self { failures: FailureSetup { retries: most, ..self.failures }, ..self }
    }

    /// Gives this sink a record of what happens: see [`trace`](crate::trace).
    #[must_use]
    pub fn trace(self, sink: Arc<dyn Sink>) -> Self {
        Self { trace: TraceSetup { sink: Some(sink), ..self.trace }, ..self }
    }

    /// Takes the times of the trace from this clock, instead of the system's monotonic one.
    #[must_use]
    pub fn trace_clock(self, clock: Clock) -> Self {
        Self { trace: TraceSetup { clock: Some(clock), ..self.trace }, ..self }
    }
}

impl DeviceMemory {
    /// An open device as the runtime uses it: see [`Setup`].
    pub fn new(device: Arc<Device>) -> Arc<Self> {
        let log = UsageLog::in_memory(device.facts().index);
        Self::assemble(device, Setup::default(), log)
    }

    /// As [`new`](Self::new), set up as one likes.
    ///
    /// # Errors
    /// Those of making the log.
    pub fn with(device: Arc<Device>, setup: Setup) -> Result<Arc<Self>, LogError> {
        let log = UsageLog::new(device.facts().index, &setup.log)?;
        Ok(Self::assemble(device, setup, log))
    }

    fn assemble(device: Arc<Device>, setup: Setup, log: UsageLog) -> Arc<Self> {
        let index = device.facts().index;
        let (budgets, failures) =
            (Budgets::new(index, device.geometry().cores), Failures::new(setup.failures));
        let tracer = Tracer::new(index, setup.trace.sink, setup.trace.clock);
        let chunking = Chunking::new(setup.chunks.policy, setup.chunks.clock);
        let (path, owners) = (setup.path, Owners::default());
        Arc::new(Self { device, path, chunking, log, owners, budgets, failures, tracer })
    }

    /// How device memory is copied.
    pub const fn path(&self) -> Path {
        self.path
    }

    /// How staged copies are cut.
    pub const fn chunk_policy(&self) -> ChunkPolicy {
        self.chunking.policy()
    }

    pub(crate) const fn chunking(&self) -> &Chunking {
        &self.chunking
    }

    /// The device.
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// What is in use now.
    pub fn usage(&self) -> Usage {
        self.log.usage()
    }

    /// Current and peak by category, core, HBM, owner and hint.
    pub fn statistics(&self) -> Statistics {
        self.log.statistics()
    }

    /// The usage log, with the newest events.
    pub const fn log(&self) -> &UsageLog {
        &self.log
    }

    /// Limits of cores, owners and usage types, and what is in use of them.
    pub const fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Asks this handler from now on when an allocation finds no room, or none.
    pub fn set_failure_handler(&self, handler: Option<Arc<FailureHandler>>) {
        self.failures.set(handler);
    }

    pub(crate) const fn failures(&self) -> &Failures {
        &self.failures
    }

    pub(crate) const fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Records what is in use after a change of it.
    pub(crate) fn trace_in_use(&self, core: u32, hbm: Option<u32>, usage: UsageType) {
        let category = usage.aggregate();
        self.tracer.in_use(core, hbm, category, || self.log.in_use(hbm, category));
    }

    /// The allocators on it.
    pub(crate) const fn owners(&self) -> &Owners {
        &self.owners
    }

    /// What a report's event file lists: the usage log's newest events.
    pub fn events(&self) -> Vec<Event> {
        let event = |logged: log::Event| Event {
            index: logged.number,
            action: match logged.action {
                log::Action::Alloc => Action::Alloc,
                log::Action::Free => Action::Free,
            },
            location: logged.location,
            usage: logged.usage,
            channel: logged.hbm,
            core: logged.core,
            size: logged.size,
            pa: logged.pa,
            align_offset: logged.align_offset,
            total_mem_used: logged.hbm_total,
            hint: logged.hint.as_deref().unwrap_or_default().to_owned(),
        };
        self.log.events().into_iter().map(event).collect()
    }
}
