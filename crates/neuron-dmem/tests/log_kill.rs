//! kill -9 in the middle of everything: what the log's file says of a process that had no
//! chance to say anything any more (`spec/dmem.md` 9.12).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_dmem::log::{Action, LogError, LogFile, LogOptions, Repair, WriterState};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, Setup};
use neuron_driver::hw::VirtualClock;
use neuron_ndl::Device;
use neuron_ndl::software::{Execution, Machine, MachineOptions};

/// Kills that must have been survived.
const KILLS: u64 = 200;
const FILE: &str = "NEURON_DMEM_TEST_LOG";
const SEED: &str = "NEURON_DMEM_TEST_SEED";
const CAPACITY: &str = "NEURON_DMEM_TEST_CAPACITY";

/// Marsaglia's xorshift: the same life for the same seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// The victim: two allocators, two threads, memory that comes and goes until it is killed.
#[test]
#[ignore = "run by a_log_survives_200_kills_of_a_busy_process, which kills it"]
fn child_works_until_it_is_killed() {
    let capacity = variable(CAPACITY).parse().unwrap();
    let options = MachineOptions {
        execution: Execution::Inline,
        clock: Arc::new(VirtualClock::default()),
        ..MachineOptions::default()
    };
    let machine = Machine::with_options("trn1.2xlarge", options).unwrap();
    let device = Device::open(&machine, 0).unwrap();
    let options = LogOptions::default().events(capacity).names(40).file(variable(FILE));
    let memory = DeviceMemory::with(device, Setup::default().log(options)).unwrap();
    let seed: u64 = variable(SEED).parse().unwrap();
    std::thread::scope(|scope| {
        for core in 0..2 {
            let memory = &memory;
            scope.spawn(move || live(memory, core, seed));
        }
    });
}

/// Bounded, should nobody be there to kill it.
fn live(memory: &Arc<DeviceMemory>, core: u32, seed: u64) {
    let mut random = Random::new(seed * 2 + u64::from(core) + 1);
    for model in 0..2000 {
        let label = format!("model {model}");
        let allocator = Allocator::labelled(memory, AllocatorKind::Model, core, &label).unwrap();
        let mut handles: Vec<Dmem> = Vec::new();
        for _ in 0..random.below(400) {
            if handles.len() > 20 || random.below(5) < 2 && !handles.is_empty() {
                handles.swap_remove(random.below(handles.len() as u64) as usize);
                continue;
            }
            let usage = UsageType::ALL[random.below(11) as usize];
            let size = random.below(100_000) + 1;
            let request = match random.below(10) {
                0 => AllocRequest::host(size, usage),
                _ => AllocRequest::device(size, usage).on_hbm(random.below(2) as u32),
            };
            let hint = format!("layer.{}.weight", random.below(50));
            let request = if random.below(4) > 0 { request.hint(&hint) } else { request };
            handles.push(allocator.allocate(&request).unwrap());
        }
    }
}

fn victim(path: &Path, seed: u64, capacity: u64) -> Child {
    let this = std::env::current_exe().unwrap();
    let mut child = Command::new(this);
    child.args(["--exact", "child_works_until_it_is_killed", "--ignored"]);
    child.env(FILE, path).env(SEED, seed.to_string()).env(CAPACITY, capacity.to_string());
    child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The moments are counts of events, so how fast anything is decides nothing.
#[test]
fn a_log_survives_200_kills_of_a_busy_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(7);
    let (mut half_done, mut overwritten) = (0, 0);
    for kill in 0..KILLS {
        let path = folder.path().join(format!("log{kill}"));
        // From a ring that holds all there is to one that is overwritten all the time.
        let capacity = [4096, 64, 5, 0][kill as usize % 4];
        let moment = random.below(1500);
        let mut child = victim(&path, kill, capacity);
        let mut live = loop {
            match LogFile::open(&path) {
                Ok(log) => break log,
                // The file gets its name when it is whole, and is then never wrong.
                Err(LogError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    assert!(child.try_wait().unwrap().is_none(), "the victim ended by itself");
                    std::thread::yield_now();
                }
                Err(error) => panic!("kill {kill}: {error}"),
            }
        };
        // A live log can be read as well, at whatever moment.
        while live.written() < moment {
            live.refresh().unwrap_or_else(|error| panic!("before kill {kill}: {error}"));
            assert!(live.writer() == WriterState::Writing, "the victim ended by itself");
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "ended by a signal");

        // Opening recomputes every counter from its base and the events.
        let dead = LogFile::open(&path).unwrap_or_else(|error| panic!("kill {kill}: {error}"));
        assert_eq!((dead.writer(), dead.pid()), (WriterState::Ended, u64::from(child.id())));
        assert!(dead.written() >= moment && dead.capacity() == capacity);
        assert!(matches!(dead.repairs(), [] | [Repair::Replayed { .. }]), "{:?}", dead.repairs());
        live.refresh().unwrap();
        assert_eq!((live.written(), live.statistics()), (dead.written(), dead.statistics()));
        let events: Vec<_> = dead.events_from(0).collect();
        assert_eq!(events.len() as u64, dead.written().min(capacity));
        if let Some(last) = events.last() {
            assert_eq!(last.number + 1, dead.written());
            assert!(last.size > 0 && last.pa > 0 && last.charged == last.size);
        }
        if dead.dropped() == 0 && capacity > 0 {
            // The whole life is there: what is in use is what was allocated and not freed.
            // The driver may give a block away before its free is logged, so one may live twice.
            let mut living = std::collections::HashMap::new();
            for event in &events {
                let count = living.entry((event.pa, event.size)).or_insert(0_u64);
                *count = match event.action {
                    Action::Alloc => *count + 1,
                    Action::Free => count.checked_sub(1).unwrap(),
                };
            }
            let statistics = dead.statistics();
            let in_use = statistics.device().current + statistics.host().current;
            assert_eq!(living.iter().map(|((_, size), count)| size * count).sum::<u64>(), in_use);
        }
        half_done += dead.repairs().len();
        overwritten += u64::from(dead.dropped() > 0);
        std::fs::remove_file(&path).unwrap();
    }
    println!("{half_done} of {KILLS} kills hit a half-done update; {overwritten} logs had lost events");
    assert!(overwritten > KILLS / 4, "{overwritten}");
}
