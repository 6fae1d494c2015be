//! The failure handler over the whole stack: it makes room, is bounded, and is never in the way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod recorder;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use neuron_abi::memory::UsageType;
use neuron_abi::status::NrtStatus;
use neuron_dmem::budget::Budget;
use neuron_dmem::{
    AllocFailure, AllocRequest, Allocator, AllocatorKind, Answer, DeviceMemory, Dmem, DmemError,
    FailureHandler, Setup,
};
use recorder::device;

const GIB: u64 = 1 << 30;

fn tensor(size: u64) -> AllocRequest<'static> {
    AllocRequest::device(size, UsageType::Tensor).hint("t")
}

fn with(handler: impl Fn(&AllocFailure<'_>) -> Answer + Send + Sync + 'static) -> Arc<DeviceMemory> {
    let setup = Setup::default().on_failure(Arc::new(handler));
    DeviceMemory::with(device("trn1.2xlarge", ""), setup).unwrap()
}

/// Tensors that nobody misses.
#[derive(Default)]
struct Cache(Mutex<Vec<Dmem>>);

impl Cache {
    fn evict(&self) -> Answer {
        // Freed outside the lock.
        let gone = self.0.lock().unwrap().pop();
        if gone.is_some() { Answer::Retry } else { Answer::GiveUp }
    }

    fn keep(&self, dmem: Dmem) {
        self.0.lock().unwrap().push(dmem);
    }
}

#[test]
fn a_cache_gives_way_until_the_allocation_fits() {
    let cache = Arc::new(Cache::default());
    let memory = with({
        let cache = Arc::clone(&cache);
        move |_| cache.evict()
    });
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    for _ in 0..7 {
        cache.keep(model.allocate(&tensor(2 * GIB)).unwrap());
    }
    // Three blocks of 2 GiB make room for 6, and one of them is left.
    let _large = model.allocate(&tensor(6 * GIB)).unwrap();
    let kept = cache.0.lock().unwrap().len();
    assert!((1..=4).contains(&kept), "{kept}");
    // No cache has that much.
    let error = model.allocate(&tensor(15 * GIB)).unwrap_err();
    assert_eq!((error.status(), error.retries()), (NrtStatus::Resource, kept as u32));
    assert!(error.to_string().contains(&format!(", after {kept} retr")), "{error}");
    assert!(error.report().unwrap().human().lines().next().unwrap().contains("after"), "{error}");
}

#[test]
fn two_threads_share_a_cache_and_both_get_what_they_need() {
    let cache = Arc::new(Cache::default());
    let setup = Setup::default().retries(100).on_failure({
        let cache = Arc::clone(&cache);
        Arc::new(move |_: &AllocFailure<'_>| cache.evict())
    });
    let memory = DeviceMemory::with(device("trn1.2xlarge", ""), setup).unwrap();
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    while cache.0.lock().unwrap().len() < 14 {
        cache.keep(model.allocate(&tensor(GIB)).unwrap());
    }
    let got = std::thread::scope(|scope| {
        let threads =
            [0, 1].map(|_| scope.spawn(|| [(); 3].map(|()| model.allocate(&tensor(2 * GIB)).unwrap())));
        threads.map(|thread| thread.join().unwrap())
    });
    drop(got);
    cache.0.lock().unwrap().clear();
    assert_eq!(memory.statistics().device().current, 0);
}

#[test]
fn retries_are_bounded_and_the_handler_sees_every_failure() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let memory = with({
        let seen = Arc::clone(&seen);
        move |failure| {
            seen.lock().unwrap().push((failure.attempt, failure.retries_left, failure.request.size));
            Answer::Retry
        }
    });
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let error = model.allocate(&tensor(100 * GIB)).unwrap_err();
    assert_eq!(error.retries(), 8);
    let expected: Vec<_> = (0..=8).map(|retry| (retry + 1, 8 - retry, 100 * GIB)).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
    // The host and a budget are asked for in the same way.
    seen.lock().unwrap().clear();
    let host = model.allocate(&AllocRequest::host(1 << 40, UsageType::Tensor)).unwrap_err();
    assert!(
        matches!(host, DmemError::OutOfHostMemory(_)) && host.to_string().contains("after 8 retries"),
        "{host}"
    );
    memory.budgets().limit(Budget::Core(0), Some(10)).unwrap();
    let over = model.allocate(&tensor(11)).unwrap_err();
    assert!(over.refusal().is_some() && over.to_string().ends_with(", after 8 retries"), "{over}");
    assert_eq!(seen.lock().unwrap().len(), 18);
    // Other errors are nothing that room would help.
    model.allocate(&tensor(0)).unwrap_err();
    model.allocate(&AllocRequest::host(1, UsageType::Cc)).unwrap_err();
    assert_eq!(seen.lock().unwrap().len(), 18);
}

#[test]
fn without_retries_the_handler_only_observes() {
    let seen = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&seen);
    let handler: Arc<FailureHandler> = Arc::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Answer::Retry
    });
    let setup = Setup::default().retries(0).on_failure(handler);
    let memory = DeviceMemory::with(device("trn1.2xlarge", ""), setup).unwrap();
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let error = model.allocate(&tensor(100 * GIB)).unwrap_err();
    assert_eq!((error.retries(), seen.load(Ordering::Relaxed)), (0, 1));
    assert!(!error.to_string().contains("retr"), "{error}");
    memory.set_failure_handler(None);
    model.allocate(&tensor(100 * GIB)).unwrap_err();
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

/// A device whose handler knows it and an allocator of it.
fn knowing(
    handler: impl Fn(&Arc<DeviceMemory>, &Allocator, &AllocFailure<'_>) -> Answer + Send + Sync + 'static,
) -> (Arc<DeviceMemory>, Arc<Allocator>) {
    let memory = DeviceMemory::new(device("trn1.2xlarge", ""));
    let model = Arc::new(Allocator::new(&memory, AllocatorKind::Model, 0).unwrap());
    let known: (Weak<DeviceMemory>, Weak<Allocator>) = (Arc::downgrade(&memory), Arc::downgrade(&model));
    memory.set_failure_handler(Some(Arc::new(move |failure| {
        handler(&known.0.upgrade().unwrap(), &known.1.upgrade().unwrap(), failure)
    })));
    (memory, model)
}

#[test]
fn nothing_is_locked_while_the_handler_runs() {
    // Whatever takes a lock of ours, and the handler itself, is used from inside; a lock that is held would hang.
    let (memory, model) = knowing(|memory, model, _| {
        let small = model.allocate(&tensor(4096)).unwrap();
        small.write(0, &[1; 4096]).unwrap();
        assert_eq!(model.live().len(), 1);
        let _ = (memory.statistics(), memory.events(), memory.budgets().get(Budget::Core(0)));
        Allocator::new(memory, AllocatorKind::Global, 1).unwrap();
        memory.budgets().limit(Budget::Core(0), None).unwrap();
        memory.set_failure_handler(None);
        Answer::Retry
    });
    memory.budgets().limit(Budget::Core(0), Some(5000)).unwrap();
    model.allocate(&tensor(6000)).unwrap();
    assert!(model.live().is_empty());
}

#[test]
fn a_failure_inside_the_handler_is_returned_to_it() {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&calls);
    let (_memory, model) = knowing(move |_, model, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        let inner = model.allocate(&tensor(100 * GIB)).unwrap_err();
        assert_eq!(inner.retries(), 0);
        Answer::Retry
    });
    let error = model.allocate(&tensor(100 * GIB)).unwrap_err();
    assert_eq!((error.retries(), calls.load(Ordering::Relaxed)), (8, 9));
}

#[test]
fn a_handler_that_panics_leaves_everything_usable() {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&calls);
    let (memory, model) = knowing(move |_, _, _| match counter.fetch_add(1, Ordering::Relaxed) {
        0 => panic!("on purpose"),
        _ => Answer::GiveUp,
    });
    memory.budgets().limit(Budget::Core(0), Some(5000)).unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| model.allocate(&tensor(6000))));
    assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"on purpose"));
    let kept = model.allocate(&tensor(5000)).unwrap();
    kept.write(0, &[1; 5000]).unwrap();
    model.allocate(&tensor(1)).unwrap_err();
    assert_eq!(calls.load(Ordering::Relaxed), 2, "asked again on the same thread");
    drop(kept);
    assert_eq!(memory.budgets().get(Budget::Core(0)).in_use, 0);
}
