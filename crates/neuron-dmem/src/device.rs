//! A device as this layer sees it: the driver's door, and the process's usage log for it.

use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_ndl::Device;
use neuron_ndl::environment::Environment;

use crate::budget::Budgets;
use crate::failure::{FailureHandler, FailureSetup, Failures};
use crate::floor::Floor;
use crate::left::LeftAlive;
use crate::log::{self, CHANNELS, LogError, LogOptions, Statistics, UsageLog};
use crate::owners::Owners;
use crate::place::AlignLatch;
use crate::report::{Action, Event};
use crate::trace::{Both, Clock, Sink, Tracer};
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
    aligns: AlignLatch,
    cores_per_logical: u32,
    /// Contiguous scratchpads by HBM.
    floors: [Arc<Floor>; CHANNELS],
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
    cores_per_logical: Option<u32>,
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

    /// Gives this sink, and those that were set before, a record of what happens: see
    /// [`trace`](crate::trace).
    #[must_use]
    pub fn trace(self, sink: Arc<dyn Sink>) -> Self {
        let sink = match self.trace.sink.clone() {
            Some(before) => Arc::new(Both(before, sink)) as _,
            None => sink,
        };
        Self { trace: TraceSetup { sink: Some(sink), ..self.trace }, ..self }
    }

    /// Takes the times of the trace from this clock, instead of the system's monotonic one.
    #[must_use]
    pub fn trace_clock(self, clock: Clock) -> Self {
        Self { trace: TraceSetup { clock: Some(clock), ..self.trace }, ..self }
    }

    /// So many physical cores make a logical one (`NEURON_LOGICAL_NC_CONFIG`,
    /// `NEURON_RT_VIRTUAL_CORE_SIZE`): 2 unless told otherwise, 1 on Trainium1 and Inferentia2
    /// (`spec/ndl.md` 7), as [`Environment::logical_size`] has it. At least 1.
    #[must_use]
    pub fn cores_per_logical(self, cores: u32) -> Self {
        Self { cores_per_logical: Some(cores.max(1)), ..self }
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
        let by_default = Environment::default().logical_size(device.facts().generation);
        Arc::new(Self {
            path: setup.path,
            chunking: Chunking::new(setup.chunks.policy, setup.chunks.clock),
            log,
            owners: Owners::default(),
            budgets: Budgets::new(index, device.geometry().cores),
            failures: Failures::new(setup.failures),
            tracer: Tracer::new(index, setup.trace.sink, setup.trace.clock),
            aligns: AlignLatch::default(),
            cores_per_logical: setup.cores_per_logical.unwrap_or(by_default),
            floors: std::array::from_fn(|_| Arc::default()),
            device,
        })
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

    pub(crate) const fn align_latch(&self) -> &AlignLatch {
        &self.aligns
    }

    /// Whether the driver aligns device memory, as far as is known: true until it refuses
    /// once. After that alignment is made by padding (`spec/dmem.md` 5.1).
    pub fn driver_aligns(&self) -> bool {
        self.aligns.is_on()
    }

    /// Physical cores that make a logical one.
    pub const fn cores_per_logical(&self) -> u32 {
        self.cores_per_logical
    }

    pub(crate) fn floor(&self, hbm: u32) -> Option<&Arc<Floor>> {
        self.floors.get(hbm as usize)
    }

    /// What allocators that are gone left alive and is alive still, by allocator, the one that
    /// went first coming first. Empty after a clean teardown.
    pub fn left_alive(&self) -> Vec<LeftAlive> {
        let device = self.device.facts().index;
        let left = self.owners.left().into_iter().map(|(gone, held)| LeftAlive::new(device, &gone, &held));
        left.filter(|left| !left.is_empty()).collect()
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
