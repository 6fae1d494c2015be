//! Chunk policies over the whole stack, with time that moves only by what a made-up machine
//! says its commands take.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod sent;

use std::sync::{Arc, Mutex};

use neuron_abi::arg::{MemCopyAsync64, MemCopyAsyncWait};
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::memory::UsageType;
use neuron_dmem::trace::Clock;
use neuron_dmem::transfer::ChunkPolicy;
use neuron_dmem::{AllocRequest, Dmem, Setup};
use neuron_ndl::intercept::{Call, Interceptor};
use neuron_ndl::software::Execution;
use sent::{allocator, open, pattern};
use zerocopy::FromBytes;

/// What a machine's commands take, in nanoseconds.
#[derive(Clone, Copy)]
struct Costs {
    /// Each command.
    command: u64,
    /// 1024 bytes moved by the processor, before or after their command.
    host: u64,
    /// 1024 bytes moved by the engine.
    engine: u64,
    /// The engine works beside the processor.
    beside: bool,
}

#[derive(Default)]
struct Time {
    now: u64,
    /// When the engine is done with each of the two async contexts.
    ends: [u64; 2],
    busy_until: u64,
    requests: u64,
}

/// A machine with these costs.
struct Model {
    costs: Mutex<Costs>,
    time: Mutex<Time>,
}

impl Interceptor for Model {
    fn before(&self, call: &Call<'_>) -> Result<(), Errno> {
        let &Call::Ioctl { word, argument, .. } = call else { return Ok(()) };
        let (costs, mut time) = (*self.costs.lock().unwrap(), self.time.lock().unwrap());
        if word == cmd::MEM_COPY_ASYNC64.word {
            let request = MemCopyAsync64::read_from_prefix(argument).unwrap().0;
            time.requests += 1;
            time.now += costs.command + costs.host * request.size / 1024;
            let end = time.now.max(time.busy_until) + costs.engine * request.size / 1024;
            time.busy_until = end;
            if request.pwait_handle == 0 || !costs.beside {
                time.now = end;
            }
            // -1 and 2 lead to context 1, and 1 to 2; then the previous one is waited for.
            let own = usize::from(request.pwait_handle == 1);
            time.ends[own] = end;
            if matches!(request.pwait_handle, 1 | 2) {
                time.now = time.now.max(time.ends[1 - own]);
            }
        } else if word == cmd::MEM_COPY_ASYNC_WAIT.word {
            let wait = MemCopyAsyncWait::read_from_prefix(argument).unwrap().0;
            time.now = (time.now + costs.command).max(time.ends[usize::from(wait.pwait_handle == 2)]);
        }
        Ok(())
    }
}

struct Bench {
    model: Arc<Model>,
    dmem: Dmem,
}

impl Bench {
    fn new(costs: Costs, policy: ChunkPolicy) -> Self {
        let model = Arc::new(Model { costs: Mutex::new(costs), time: Mutex::default() });
        let clock: Clock = {
            let model = Arc::clone(&model);
            Arc::new(move || model.time.lock().unwrap().now)
        };
        let setup = Setup::default().chunks(policy).chunk_clock(clock);
        let memory = open("trn1.2xlarge", Execution::Inline, Arc::clone(&model) as _, setup);
        let dmem = allocator(&memory, 0).allocate(&AllocRequest::device(8 << 20, UsageType::Tensor)).unwrap();
        Self { model, dmem }
    }

    /// Made-up nanoseconds, and requests, of `count` copies.
    fn copies(&self, count: usize, size: usize, out: bool) -> (u64, u64) {
        let begin = self.read();
        let mut bytes = pattern(size, 1);
        for _ in 0..count {
            match out {
                false => self.dmem.write(0, &bytes).unwrap(),
                true => self.dmem.read(0, &mut bytes).unwrap(),
            }
        }
        let end = self.read();
        (end.0 - begin.0, end.1 - begin.1)
    }

    fn read(&self) -> (u64, u64) {
        let time = self.model.time.lock().unwrap();
        (time.now, time.requests)
    }
}

/// An engine of its own, and commands that cost: pipelining pays for what is large.
const HARDWARE: Costs = Costs { command: 2000, host: 100, engine: 100, beside: true };
/// The engine works inside the command: two requests are one too many.
const INSIDE: Costs = Costs { command: 2000, host: 100, engine: 100, beside: false };

#[test]
fn adaptive_is_never_much_slower_than_the_better_of_the_other_two() {
    for costs in [HARDWARE, INSIDE, Costs { command: 50_000, ..HARDWARE }, Costs { engine: 900, ..HARDWARE }]
    {
        for out in [false, true] {
            let policies = [ChunkPolicy::Exact, ChunkPolicy::Serial, ChunkPolicy::Adaptive];
            let benches = policies.map(|policy| Bench::new(costs, policy));
            for size in [0x1000, 0x4000, 0x1_0000, 0x4_0001, 0x10_0000, 0x40_0000, 0x80_0000] {
                for bench in &benches {
                    bench.copies(8, size, out);
                }
                let [exact, serial, adaptive] = benches
                    .each_ref()
                    .map(|bench| bench.copies(if size > 0x10_0000 { 8 } else { 70 }, size, out).0);
                let best = exact.min(serial);
                assert!(
                    adaptive * 95 <= best * 100,
                    "{size:#x}: {adaptive} ns, exact {exact}, serial {serial}"
                );
            }
        }
    }
}

/// 256 KiB by two requests overlapped, or by one: which is right depends on the machine.
#[test]
fn adaptive_takes_the_way_that_fits_the_machine_and_follows_when_it_changes() {
    for out in [false, true] {
        let bench = Bench::new(HARDWARE, ChunkPolicy::Adaptive);
        bench.copies(8, 0x4_0000, out);
        assert_eq!(bench.copies(10, 0x4_0000, out).1, 20, "two requests each: overlapped");
        *bench.model.costs.lock().unwrap() = INSIDE;
        bench.copies(200, 0x4_0000, out);
        assert!(bench.copies(10, 0x4_0000, out).1 <= 11, "one request each: serial");
        *bench.model.costs.lock().unwrap() = HARDWARE;
        bench.copies(200, 0x4_0000, out);
        assert!(bench.copies(10, 0x4_0000, out).1 >= 19, "overlapped again");
    }
}

#[test]
fn every_policy_copies_every_byte() {
    for policy in [ChunkPolicy::Exact, ChunkPolicy::Serial, ChunkPolicy::Adaptive] {
        let bench = Bench::new(HARDWARE, policy);
        for (seed, size) in (0..).zip([1, 0x3fff, 0x4000, 0x4001, 0x4_0000, 0x4_0001, 0x10_0001, 0x50_0003]) {
            // Adaptive goes both ways in its first copies of a size.
            for round in 0..4 {
                let bytes = pattern(size, seed + 16 * round);
                bench.dmem.write(3, &bytes).unwrap();
                let mut back = vec![0; size];
                bench.dmem.read(3, &mut back).unwrap();
                assert!(back == bytes, "{policy:?} {size:#x}");
            }
        }
    }
}

#[test]
fn serial_is_one_synchronous_request_after_the_other_in_one_place() {
    let recorder = Arc::new(sent::Recorder::default());
    let setup = Setup::default().chunks(ChunkPolicy::Serial);
    let memory = open("trn1.2xlarge", Execution::Inline, Arc::clone(&recorder) as _, setup);
    let dmem = allocator(&memory, 0).allocate(&AllocRequest::device(2 << 20, UsageType::Tensor)).unwrap();
    for out in [false, true] {
        recorder.take();
        let mut bytes = pattern(0x9_0000, 1);
        match out {
            false => dmem.write(16, &bytes).unwrap(),
            true => dmem.read(16, &mut bytes).unwrap(),
        }
        let sent = recorder.take();
        assert_eq!(sent.len(), 3, "and no wait");
        let requests = sent::requests(&sent);
        let seen: Vec<_> = requests
            .iter()
            .map(|request| {
                let (device, bounce) = match out {
                    false => (request.dst_offset, request.src_offset),
                    true => (request.src_offset, request.dst_offset),
                };
                (device, bounce, request.size, request.pwait_handle)
            })
            .collect();
        assert_eq!(seen, [(16, 0, 0x4_0000, 0), (0x4_0010, 0, 0x4_0000, 0), (0x8_0010, 0, 0x1_0000, 0)]);
    }
}
