//! What seed 000 says of the system trace: which events bracket what, and how they end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod recorder;

use std::sync::{Arc, Mutex};

use neuron_abi::memory::UsageType;
use neuron_abi::status::NrtStatus;
use neuron_dmem::trace::{EventNumber, Record, Sink, What};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Setup};
use neuron_ndl::Device;
use recorder::{Recorder, Seen, device, traced};

/// Begins and stops, as they came.
fn brackets(recorder: &Recorder) -> Vec<(u64, EventNumber, Option<NrtStatus>)> {
    let bracket = |seen| match seen {
        Seen::Begin { id, event, .. } => Some((id, event, None)),
        Seen::Stop { id, event, status } => Some((id, event, Some(status))),
        _ => None,
    };
    recorder.take().into_iter().filter_map(bracket).collect()
}

/// One begin and its stop, of this event, with this status and one id.
fn one(recorder: &Recorder, event: EventNumber, status: NrtStatus) {
    let seen = brackets(recorder);
    let [(id, begun, None), (stopped_id, stopped, Some(found))] = seen[..] else { panic!("{seen:?}") };
    assert_eq!((begun, stopped, stopped_id, found), (event, event, id, status));
}

/// Seed 000 §2, §3, §4: 34, 30, 31, 35 bracket allocation, copies and free, each pair with one id.
#[test]
fn seed_000_begin_and_stop_of_an_event_share_its_id() {
    for host in [false, true] {
        let (memory, recorder) = traced("trn1.2xlarge", "");
        let model = Allocator::new(&memory, AllocatorKind::Model, 1).unwrap();
        let request = if host { AllocRequest::host } else { AllocRequest::device };
        let dmem = model.allocate(&request(5000, UsageType::Tensor).hint("t")).unwrap();
        one(&recorder, EventNumber(34), NrtStatus::Success);
        dmem.write(0, &[1; 5000]).unwrap();
        one(&recorder, EventNumber(30), NrtStatus::Success);
        dmem.read(1, &mut [0; 4999]).unwrap();
        one(&recorder, EventNumber(31), NrtStatus::Success);
        drop(dmem);
        one(&recorder, EventNumber(35), NrtStatus::Success);
    }
}

/// Seed 000 §2 (3): the stop of 34 is written when the driver refuses, before the status is known to the caller.
#[test]
fn seed_000_an_allocation_that_fails_is_stopped_too() {
    let (memory, recorder) = traced("trn1.2xlarge", "");
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let refused = model.allocate(&AllocRequest::device(1 << 40, UsageType::Tensor)).unwrap_err();
    assert_eq!(refused.status(), NrtStatus::Resource);
    one(&recorder, EventNumber::ALLOCATION, NrtStatus::Resource);
    let refused = model.allocate(&AllocRequest::host(1 << 40, UsageType::Tensor)).unwrap_err();
    one(&recorder, EventNumber::ALLOCATION, refused.status());
    assert_eq!(refused.status(), NrtStatus::FailHostMemAlloc);
}

/// Seed 000 §2 (1): the return for a usage that is not allowed comes after the begin and before any stop. That is a
/// defect, which is not here.
#[test]
fn seed_000_a_usage_that_cannot_be_on_the_host_leaves_no_event_open() {
    let (memory, recorder) = traced("trn1.2xlarge", "");
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    for usage in [UsageType::Scratchpad, UsageType::Cc, UsageType::ScratchpadNotShared] {
        assert_eq!(model.allocate(&AllocRequest::host(1, usage)).unwrap_err().status(), NrtStatus::Invalid);
        one(&recorder, EventNumber::ALLOCATION, NrtStatus::Invalid);
    }
    model.allocate(&AllocRequest::device(0, UsageType::Tensor)).unwrap_err();
    one(&recorder, EventNumber::ALLOCATION, NrtStatus::Invalid);
}

/// Seed 000 §3: a copy that fails is stopped, and the caller gets NRT_FAILURE.
#[test]
fn seed_000_a_copy_that_fails_is_stopped_too() {
    let (memory, recorder) = traced("trn1.2xlarge", "abort:nth=1");
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let dmem = model.allocate(&AllocRequest::device(100, UsageType::Tensor)).unwrap();
    recorder.take();
    assert_eq!(dmem.write(0, &[1; 100]).unwrap_err().status(), NrtStatus::Failure);
    one(&recorder, EventNumber::COPY_IN, NrtStatus::Failure);
    assert_eq!(dmem.read(90, &mut [1; 100]).unwrap_err().status(), NrtStatus::Invalid);
    one(&recorder, EventNumber::COPY_OUT, NrtStatus::Invalid);
}

/// Whether the driver has the memory, at each begin and stop of a free.
#[derive(Default)]
struct Looker {
    device: Mutex<Option<Arc<Device>>>,
    seen: Mutex<Vec<(bool, usize)>>,
}

impl Sink for Looker {
    fn record(&self, record: &Record<'_>) {
        let begins = match record.what {
            What::Begin { event: EventNumber::FREE, .. } => true,
            What::Stop { event: EventNumber::FREE, .. } => false,
            _ => return,
        };
        let device = self.device.lock().unwrap().clone().unwrap();
        let blocks = device.chunks(0).unwrap().iter().filter(|chunk| chunk.size == 12 << 20).count();
        self.seen.lock().unwrap().push((begins, blocks));
    }
}

/// Seed 000 §4: only the last reference frees; 35 begins before the unmap and stops behind the unlink.
#[test]
fn seed_000_the_free_event_brackets_what_the_last_reference_does() {
    let (device, looker) = (device("trn2.3xlarge", ""), Arc::new(Looker::default()));
    *looker.device.lock().unwrap() = Some(Arc::clone(&device));
    let memory = DeviceMemory::with(device, Setup::default().trace(looker.clone())).unwrap();
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let dmem = model.allocate(&AllocRequest::device(12 << 20, UsageType::Tensor)).unwrap();
    let borrowed = dmem.clone();
    drop(dmem);
    assert_eq!(*looker.seen.lock().unwrap(), [], "others hold it");
    drop(borrowed);
    assert_eq!(*looker.seen.lock().unwrap(), [(true, 1), (false, 0)]);
    *looker.device.lock().unwrap() = None;
}

/// Seed 000 §2 (7), §4: what is in use is counted inside the brackets.
#[test]
fn seed_000_accounts_move_between_begin_and_stop() {
    let (memory, recorder) = traced("trn1.2xlarge", "");
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let dmem = model.allocate(&AllocRequest::device(100, UsageType::Weight)).unwrap();
    let [Seen::Begin { .. }, Seen::InUse { hbm: Some(0), bytes: 100, .. }, Seen::Stop { .. }] =
        recorder.take()[..]
    else {
        panic!("not in this order")
    };
    drop(dmem);
    let [Seen::Begin { .. }, Seen::InUse { hbm: Some(0), bytes: 0, .. }, Seen::Stop { .. }] =
        recorder.take()[..]
    else {
        panic!("not in this order")
    };
}
