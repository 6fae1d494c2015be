//! How this layer makes records: a bracket around an event, a span around a part of a copy,
//! and what is in use after a change. All of them cost one branch where no sink is.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use neuron_abi::memory::Aggregate;
use neuron_abi::status::NrtStatus;

use super::note::{Change, Note};
use super::record::{About, EventNumber, Lane, Record, Sink, What};
use crate::error::DmemError;

/// Tells nanoseconds since some moment, and never goes back. It may be read under locks.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Nanoseconds since this process first asked: devices that share a sink share it.
pub(crate) fn monotonic() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    // A handle may be freed while its thread's locals are being torn down.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Makes the records of a device, or none.
#[derive(Clone, Default)]
pub(crate) struct Tracer(Option<Arc<Inner>>);

struct Inner {
    sink: Arc<dyn Sink>,
    follows_memory: bool,
    clock: Clock,
    device: u8,
    /// Held from reading what is in use until it is recorded: the last record is the truth.
    gauges: Mutex<()>,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tracer").field(&self.0.is_some()).finish()
    }
}

impl Inner {
    fn record(&self, core: u32, what: What<'_>) {
        let time_ns = (self.clock)();
        self.sink.record(&Record { time_ns, device: self.device, core, thread: thread(), what });
    }
}

impl Tracer {
    /// Records of the device go to the sink, if there is one; `clock` is for tests.
    pub(crate) fn new(device: u8, sink: Option<Arc<dyn Sink>>, clock: Option<Clock>) -> Self {
        let inner = |sink: Arc<dyn Sink>| {
            let clock = clock.unwrap_or_else(|| Arc::new(monotonic));
            let follows_memory = sink.follows_memory();
            Arc::new(Inner { sink, follows_memory, clock, device, gauges: Mutex::new(()) })
        };
        Self(sink.map(inner))
    }

    /// Begins an event of a core. It stops with the bracket.
    pub(crate) fn begin<'a>(&self, event: EventNumber, core: u32, about: About<'a>) -> Bracket<'a> {
        Bracket(self.0.as_ref().map(|inner| {
            let id = next_id();
            inner.record(core, What::Begin { id, event, about });
            let inner = Arc::clone(inner);
            Box::new(Open { inner, id, event, core, about, hint: None, status: NrtStatus::Failure })
        }))
    }

    /// As [`begin`](Self::begin), for an event that outlives its hint's owner: takes that over.
    pub(crate) fn begin_owned(
        &self,
        event: EventNumber,
        core: u32,
        about: About<'_>,
        hint: &mut Option<Box<str>>,
    ) -> Bracket<'static> {
        let Some(inner) = &self.0 else { return Bracket::default() };
        let id = next_id();
        inner.record(core, What::Begin { id, event, about: About { hint: hint.as_deref(), ..about } });
        let (inner, about) = (Arc::clone(inner), About { hint: None, ..about });
        let (hint, status) = (hint.take(), NrtStatus::Success);
        Bracket(Some(Box::new(Open { inner, id, event, core, about, hint, status })))
    }

    /// Tells what happens to a piece of memory of a core to a sink that follows it.
    #[inline]
    pub(crate) fn note<'a>(&self, core: u32, change: impl FnOnce() -> Change<'a>) {
        let Some(inner) = &self.0 else { return };
        if inner.follows_memory {
            let time_ns = (inner.clock)();
            inner.sink.memory(&Note { time_ns, device: inner.device, core, change: change() });
        }
    }

    /// The parts of copies of a core.
    pub(crate) const fn lanes(&self, core: u32) -> Lanes<'_> {
        Lanes { tracer: self, core }
    }

    /// Records what is in use after a change on an HBM, or on the host. `read` says the bytes
    /// there, and of the category; the lock of the usage log may be taken in it.
    pub(crate) fn in_use(
        &self,
        core: u32,
        hbm: Option<u32>,
        category: Aggregate,
        read: impl FnOnce() -> (u64, u64),
    ) {
        let Some(inner) = &self.0 else { return };
        let _order = inner.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, of_category) = read();
        let category = hbm.map(|_| (category, of_category));
        inner.record(core, What::InUse { hbm, bytes, category });
    }
}

/// An event that has begun; dropping it writes the stop record. Unless it is told how the
/// event ended, that was a failure: a panic passed through.
///
/// A pointer, since every handle has room for one and few are traced.
#[derive(Debug, Default)]
pub(crate) struct Bracket<'a>(Option<Box<Open<'a>>>);

struct Open<'a> {
    inner: Arc<Inner>,
    id: u64,
    event: EventNumber,
    core: u32,
    about: About<'a>,
    /// Beside the one that `about` borrows.
    hint: Option<Box<str>>,
    status: NrtStatus,
}

impl fmt::Debug for Open<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("id", &self.id).field("event", &self.event).finish_non_exhaustive()
    }
}

impl Bracket<'_> {
    /// Stops with what came of it.
    pub(crate) fn close<T>(mut self, outcome: Result<T, DmemError>) -> Result<T, DmemError> {
        if let Some(open) = &mut self.0 {
            open.status = outcome.as_ref().map_or_else(DmemError::status, |_| NrtStatus::Success);
        }
        outcome
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let &mut Self { id, event, about, status, .. } = self;
        let about = About { hint: about.hint.or(self.hint.as_deref()), ..about };
        self.inner.record(self.core, What::Stop { id, event, about, status });
    }
}

/// The parts of copies of a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<'a> {
    tracer: &'a Tracer,
    core: u32,
}

/// A part that has begun; dropping it ends and records it.
pub(crate) struct Span<'a> {
    inner: &'a Inner,
    core: u32,
    lane: Lane,
    began_ns: u64,
    bytes: u64,
}

impl<'a> Lanes<'a> {
    /// The host moves bytes.
    pub(crate) fn host_copy(self, bytes: u64) -> Option<Span<'a>> {
        self.span(Lane::HostCopy, bytes)
    }

    /// A DMA was requested.
    pub(crate) fn dma(self, bytes: u64) -> Option<Span<'a>> {
        self.span(Lane::Dma, bytes)
    }

    /// The host waits for a DMA.
    pub(crate) fn wait(self) -> Option<Span<'a>> {
        self.span(Lane::Wait, 0)
    }

    /// One call moves all: the driver's host copy, or a DMA that it waits for.
    pub(crate) fn whole(self, bytes: u64, by_host: bool) -> [Option<Span<'a>>; 2] {
        if by_host { [self.host_copy(bytes), None] } else { [self.dma(bytes), self.wait()] }
    }

    fn span(self, lane: Lane, bytes: u64) -> Option<Span<'a>> {
        let inner = self.tracer.0.as_deref()?;
        Some(Span { inner, core: self.core, lane, began_ns: (inner.clock)(), bytes })
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        let &mut Self { lane, began_ns, bytes, .. } = self;
        self.inner.record(self.core, What::Span { lane, began_ns, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_abi::memory::{MemLocation, UsageType};

    /// Time, begin or stop, id, event, hint.
    type Seen = (u64, &'static str, u64, EventNumber, Option<String>);

    #[derive(Default)]
    struct Kept(Mutex<Vec<Seen>>);

    impl Sink for Kept {
        fn record(&self, record: &Record<'_>) {
            let (kind, id, event, about) = match record.what {
                What::Begin { id, event, about } => ("begin", id, event, about),
                What::Stop { id, event, about, .. } => ("stop", id, event, about),
                _ => return,
            };
            let hint = about.hint.map(str::to_owned);
            self.0.lock().unwrap().push((record.time_ns, kind, id, event, hint));
        }
    }

    fn tracer() -> (Tracer, Arc<Kept>) {
        let (sink, now) = (Arc::new(Kept::default()), AtomicU64::new(10));
        let clock: Clock = Arc::new(move || now.fetch_add(1, Ordering::Relaxed));
        (Tracer::new(0, Some(sink.clone()), Some(clock)), sink)
    }

    const ABOUT: About<'_> = About {
        location: MemLocation::Device,
        hbm: 0,
        usage: Some(UsageType::Tensor),
        size: 1,
        hint: Some("h"),
    };

    /// Seed 000 §3 (`dmem_batch_transfer_common`): the event number is an argument.
    #[test]
    fn seed_000_a_batch_brings_its_event_number() {
        let (tracer, sink) = tracer();
        let batch = About { usage: None, hint: None, ..ABOUT };
        let closed = tracer.begin(EventNumber(77), 1, batch).close(Ok(5));
        assert_eq!(closed, Ok(5));
        let seen = sink.0.lock().unwrap();
        let id = seen[0].2;
        let event = EventNumber(77);
        assert_eq!(*seen, [(10, "begin", id, event, None), (11, "stop", id, event, None)]);
    }

    #[test]
    fn a_bracket_keeps_the_hint_of_a_handle_that_goes_before_it() {
        let (tracer, sink) = tracer();
        let mut hint = Some(Box::from("h"));
        let bracket = tracer.begin_owned(EventNumber::FREE, 0, About { hint: None, ..ABOUT }, &mut hint);
        assert_eq!(hint, None);
        drop(bracket);
        let seen = sink.0.lock().unwrap();
        assert!(seen.iter().all(|(.., hint)| hint.as_deref() == Some("h")), "{seen:?}");
    }

    #[test]
    fn a_panic_closes_what_it_passes_as_failed() {
        let (tracer, sink) = tracer();
        let thread = std::thread::spawn(move || {
            let _bracket = tracer.begin(EventNumber::ALLOCATION, 0, ABOUT);
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!(sink.0.lock().unwrap().len(), 2);
    }

    #[test]
    fn without_a_sink_nothing_is_begun() {
        let tracer = Tracer::new(0, None, Some(Arc::new(|| panic!("the clock is not asked"))));
        assert!(tracer.begin(EventNumber::FREE, 0, ABOUT).0.is_none());
        assert!(tracer.lanes(0).dma(1).is_none());
        tracer.in_use(0, Some(0), Aggregate::Tensors, || panic!("the counters are not read"));
    }
}
