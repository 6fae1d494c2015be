//! An allocation with all that is written down of it, against the same without; and two
//! threads, each on an allocator of its own, against one. What is compared, and figures:
//! README.md beside this file.
#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use neuron_abi::memory::UsageType;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
use neuron_ndl::software::Machine;
use neuron_ndl::{AllocRequest as DriverRequest, Device};

/// Pairs of an allocation and its release in one measurement.
const PAIRS: usize = 40_000;
const ROUNDS: usize = 21;
const BYTES: u64 = 64 << 10;
const INSTANCE: &str = "trn2.3xlarge";
/// The least part of the speed without bookkeeping.
const BOOKKEEPING_FLOOR: f64 = 0.5;
/// What two threads gain that share nothing, for the next floor to say something.
const MACHINE_FLOOR: f64 = 1.8;
/// The least that two threads do, of what one does, with an allocator on a device each.
const THREADS_FLOOR: f64 = 1.5;
/// On one device, the least part of what two threads gain on its driver without bookkeeping:
/// the driver serves a device's allocations one after the other.
const SHARED_FLOOR: f64 = 0.85;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

/// Seconds in which as many threads do `work` once each, from the first start to the last end.
fn at_once(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let barrier = Barrier::new(threads);
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    work(thread);
                    (start, Instant::now())
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let start = times.iter().map(|times| times.0).min().unwrap();
    times.iter().map(|times| times.1).max().unwrap() - start
}

/// How much more two threads do than one.
fn gain(work: impl Fn(usize) + Sync + Copy) -> f64 {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(at_once(1, work));
        times[1].push(at_once(2, work));
    }
    let [one, two] = times.map(median);
    2.0 * one / two
}

fn bare_request(core: u32) -> DriverRequest {
    let category = UsageType::Tensor.device_category();
    DriverRequest { size: BYTES, align: 0, host: false, hbm: core, core, category }
}

fn bookkeeping() -> bool {
    let machine = Machine::new(INSTANCE).unwrap();
    let device = Device::open(&machine, 0).unwrap();
    let memory = DeviceMemory::new(device.clone());
    let allocator = Allocator::labelled(&memory, AllocatorKind::Model, 0, "bench").unwrap();
    let request = AllocRequest::device(BYTES, UsageType::Tensor).hint("bench");
    let bare = bare_request(0);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..PAIRS {
            drop(black_box(device.allocate(bare).unwrap()));
        }
        times[0].push(start.elapsed());
        let start = Instant::now();
        for _ in 0..PAIRS {
            drop(black_box(allocator.allocate(&request).unwrap()));
        }
        times[1].push(start.elapsed());
    }
    let [bare, full] = times.map(median);
    let nanoseconds = |seconds: f64| seconds * 1e9 / PAIRS as f64;
    println!(
        "bookkeeping: {:.0} ns for a pair, without {:.0} ns: {:.2} of the speed",
        nanoseconds(full),
        nanoseconds(bare),
        bare / full
    );
    bare / full >= BOOKKEEPING_FLOOR
}

/// Two allocators of different cores, on one device or on one each.
fn threads(devices: u8) -> f64 {
    let machine = Machine::new("trn1.32xlarge").unwrap();
    let memories: Vec<_> =
        (0..devices).map(|index| DeviceMemory::new(Device::open(&machine, index).unwrap())).collect();
    let allocators: Vec<_> = (0..2)
        .map(|core| {
            let memory = &memories[core as usize % memories.len()];
            Allocator::new(memory, AllocatorKind::Model, core).unwrap()
        })
        .collect();
    let request = AllocRequest::device(BYTES, UsageType::Tensor).hint("bench");
    gain(|thread| {
        for _ in 0..PAIRS {
            drop(black_box(allocators[thread].allocate(&request).unwrap()));
        }
    })
}

/// As [`threads`] on one device, without bookkeeping.
fn bare_threads() -> f64 {
    let machine = Machine::new("trn1.32xlarge").unwrap();
    let device = &Device::open(&machine, 0).unwrap();
    gain(move |thread| {
        for _ in 0..PAIRS {
            drop(black_box(device.allocate(bare_request(thread as u32)).unwrap()));
        }
    })
}

/// What two threads of this machine gain where nothing is shared.
fn machine_gain() -> f64 {
    gain(|_| {
        black_box((0..PAIRS as u64 * 300).fold(1_u64, |sum, value| black_box(sum.wrapping_mul(31) ^ value)));
    })
}

fn main() -> ExitCode {
    // `cargo test --benches` only wants to know that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    println!("backend software; pairs of an allocation of 64 KiB and its release");
    let held = bookkeeping();
    let (machine, apart) = (machine_gain(), threads(2));
    let (same, bare) = (threads(1), bare_threads());
    println!(
        "two threads, of one: arithmetic {machine:.2}; an allocator each, on two devices {apart:.2}, on one \
         {same:.2}; on one without bookkeeping {bare:.2}"
    );
    let judged = machine >= MACHINE_FLOOR;
    if !judged {
        println!("threads are not judged: others use this machine, or it has one processor");
    }
    let held = held && (!judged || (apart >= THREADS_FLOOR && same >= SHARED_FLOOR * bare));
    let word = if held { "held" } else { "missed" };
    println!(
        "limit {word}: bookkeeping {BOOKKEEPING_FLOOR}; threads on two devices {THREADS_FLOOR}, on one \
         {SHARED_FLOOR} of the gain without bookkeeping"
    );
    ExitCode::from(u8::from(!held))
}
