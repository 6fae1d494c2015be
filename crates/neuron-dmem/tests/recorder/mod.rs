//! A sink that keeps what it gets, and a device that is traced into it on a clock that moves by one each time it is
//! read.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use neuron_abi::memory::{Aggregate, UsageType};
use neuron_abi::status::NrtStatus;
use neuron_dmem::trace::{EventNumber, Lane, Record, Sink, What};
use neuron_dmem::{DeviceMemory, Setup};
use neuron_driver::hw::VirtualClock;
use neuron_ndl::Device;
use neuron_ndl::software::{Execution, Machine, MachineOptions};

/// A record, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Begin {
        id: u64,
        event: EventNumber,
        core: u32,
        hbm: u32,
        usage: UsageType,
        size: u64,
        hint: Option<String>,
    },
    Stop {
        id: u64,
        event: EventNumber,
        status: NrtStatus,
    },
    Span {
        lane: Lane,
        from: u64,
        to: u64,
        bytes: u64,
    },
    InUse {
        hbm: Option<u32>,
        bytes: u64,
        category: Option<(Aggregate, u64)>,
    },
}

impl Seen {
    fn of(record: &Record<'_>) -> Self {
        match record.what {
            What::Begin { id, event, about } => Self::Begin {
                id,
                event,
                core: record.core,
                hbm: about.hbm,
                usage: about.usage.unwrap(),
                size: about.size,
                hint: about.hint.map(str::to_owned),
            },
            What::Stop { id, event, status, .. } => Self::Stop { id, event, status },
            What::Span { lane, began_ns, bytes } => {
                Self::Span { lane, from: began_ns, to: record.time_ns, bytes }
            }
            What::InUse { hbm, bytes, category } => Self::InUse { hbm, bytes, category },
        }
    }
}

/// Keeps the time of each record with it.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Vec<(u64, Seen)>>);

impl Recorder {
    /// What came since the last time.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.0.lock().unwrap()).into_iter().map(|(_, seen)| seen).collect()
    }

    pub(crate) fn take_timed(&self) -> Vec<(u64, Seen)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Sink for Recorder {
    fn record(&self, record: &Record<'_>) {
        self.0.lock().unwrap().push((record.time_ns, Seen::of(record)));
    }
}

/// Device 0 of a machine, whose engine works inside the doorbell.
pub(crate) fn device(instance: &str, fault: &str) -> Arc<Device> {
    let options = MachineOptions {
        execution: Execution::Inline,
        faults: fault.parse().unwrap(),
        clock: Arc::new(VirtualClock::default()),
        ..MachineOptions::default()
    };
    Device::open(&Machine::with_options(instance, options).unwrap(), 0).unwrap()
}

/// A setup that traces into a recorder.
pub(crate) fn setup(recorder: &Arc<Recorder>) -> Setup {
    let now = AtomicU64::new(0);
    let sink: Arc<Recorder> = Arc::clone(recorder);
    Setup::default().trace(sink).trace_clock(Arc::new(move || now.fetch_add(1, Ordering::Relaxed)))
}

/// A traced device.
pub(crate) fn traced(instance: &str, fault: &str) -> (Arc<DeviceMemory>, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let memory = DeviceMemory::with(device(instance, fault), setup(&recorder)).unwrap();
    (memory, recorder)
}
