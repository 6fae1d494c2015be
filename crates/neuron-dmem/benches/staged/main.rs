//! A staged copy by each chunk policy, against a plain memcpy and against staging in 1 MiB
//! chunks without overlap. What is compared, and figures: README.md beside this file.
#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

#[path = "../../../../benches/measure.rs"]
mod measure;

use std::process::ExitCode;
use std::sync::Arc;

use measure::{POOL, median, rate, ratio, times};
use neuron_abi::memory::UsageType;
use neuron_dmem::transfer::ChunkPolicy;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, Setup};
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use neuron_ndl::{AllocRequest as DriverRequest, CopyRequest, Device, Memory};

/// Chunk of the plain serial comparison: the exact table's largest.
const CHUNK: usize = 1 << 20;
const SIZES: [usize; 9] =
    [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];
const MACHINES: [(&str, &str, Execution); 4] = [
    ("trn1.2xlarge", "threaded", Execution::Threaded { workers: 1 }),
    ("trn1.2xlarge", "inline", Execution::Inline),
    ("trn2.3xlarge", "threaded", Execution::Threaded { workers: 1 }),
    ("trn2.3xlarge", "inline", Execution::Inline),
];

/// Adaptive, at least so much of the better of exact and serial: at any size.
const ADAPTIVE_FLOOR: f64 = 0.95;
/// Exact, threaded and cold, at least so many times chunks of 1 MiB without overlap, from
/// [`OVERLAP_FROM`] up.
const OVERLAP_FLOOR: f64 = 1.3;
const OVERLAP_FROM: usize = 64 << 20;
/// Measurements that a missed floor gets: a machine that others use is unfair now and then.
const ATTEMPTS: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Memcpy,
    Plain,
    Exact,
    Serial,
    Adaptive,
}

const WAYS: [Way; 5] = [Way::Memcpy, Way::Plain, Way::Exact, Way::Serial, Way::Adaptive];

struct Bench {
    device: Arc<Device>,
    /// Target of the plain serial comparison, reached through the driver layer alone.
    raw: Memory,
    /// Exact, serial, adaptive.
    dmems: [Dmem; 3],
    user: Vec<u8>,
    plain: Vec<u8>,
}

impl Bench {
    fn new(instance: &str, execution: Execution) -> Self {
        let options = MachineOptions { execution, ..MachineOptions::default() };
        let device = Device::open(&Machine::with_options(instance, options).unwrap(), 0).unwrap();
        let dmems = [ChunkPolicy::Exact, ChunkPolicy::Serial, ChunkPolicy::Adaptive].map(|policy| {
            let memory = DeviceMemory::with(Arc::clone(&device), Setup::default().chunks(policy)).unwrap();
            let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
            allocator.allocate(&AllocRequest::device(POOL as u64, UsageType::Tensor)).unwrap()
        });
        let raw = device
            .allocate(DriverRequest {
                size: POOL as u64,
                align: 0,
                host: false,
                hbm: 0,
                core: 0,
                category: UsageType::Tensor.device_category(),
            })
            .unwrap();
        let user: Vec<u8> = (0..POOL).map(|index| (index >> 3) as u8).collect();
        let mut bench = Self { device, raw, dmems, user, plain: vec![1; POOL] };
        // Everything is touched once: fresh pages are another benchmark's business.
        for way in WAYS {
            bench.copy(way, true, 0, POOL);
        }
        bench
    }

    fn copy(&mut self, way: Way, way_in: bool, offset: usize, len: usize) {
        let user = &mut self.user[offset..offset + len];
        let dmem = match way {
            Way::Memcpy => {
                let plain = &mut self.plain[offset..offset + len];
                return if way_in { plain.copy_from_slice(user) } else { user.copy_from_slice(plain) };
            }
            Way::Plain => return self.serial(way_in, offset, len),
            Way::Exact => &self.dmems[0],
            Way::Serial => &self.dmems[1],
            Way::Adaptive => &self.dmems[2],
        };
        if way_in { dmem.write(offset as u64, user) } else { dmem.read(offset as u64, user) }.unwrap();
    }

    fn serial(&mut self, way_in: bool, offset: usize, len: usize) {
        let buffer = self.device.copy_buffer(0).unwrap().lock();
        for (index, chunk) in self.user[offset..offset + len].chunks_mut(CHUNK).enumerate() {
            let place = (offset + index * CHUNK) as u64;
            let bounce = buffer.mapping.slice().subslice(0, chunk.len()).unwrap();
            let bytes = chunk.len() as u64;
            if way_in {
                bounce.copy_from(chunk);
            }
            let (source, destination) =
                if way_in { (&buffer.memory, &self.raw) } else { (&self.raw, &buffer.memory) };
            let (source_offset, destination_offset) = if way_in { (0, place) } else { (place, 0) };
            let copy = CopyRequest { source, destination, source_offset, destination_offset, bytes };
            self.device.copy(copy).unwrap();
            if !way_in {
                bounce.copy_to(chunk);
            }
        }
    }

    fn measure(&mut self, way_in: bool, len: usize, cold: bool) -> [Vec<f64>; 5] {
        // What was learned of hot copies is not what holds for cold ones.
        let rounds = if len > 16 << 20 { 16 } else { 200 };
        for round in 0..rounds {
            let offset = if cold { (round * (POOL - len) / rounds) & !4095 } else { 0 };
            self.copy(Way::Adaptive, way_in, offset, len);
        }
        times(len, cold, |way, offset| self.copy(WAYS[way], way_in, offset, len))
    }
}

fn main() -> ExitCode {
    if measure::is_test() {
        return ExitCode::SUCCESS;
    }
    let mut missed = 0;
    println!("backend software; GB/s, medians of interleaved rounds; best is the better of exact and serial");
    println!(
        "| machine               | way | state |       size | memcpy | 1 MiB | exact | serial | adaptive | exact/1 MiB | adaptive/best |"
    );
    println!(
        "|-----------------------|-----|-------|------------|--------|-------|-------|--------|----------|-------------|---------------|"
    );
    for (instance, name, execution) in MACHINES {
        let mut bench = Bench::new(instance, execution);
        for way_in in [true, false] {
            for (cold, len) in [false, true].into_iter().flat_map(|cold| SIZES.map(|len| (cold, len))) {
                let overlaps = way_in && cold && name == "threaded" && len >= OVERLAP_FROM;
                for attempt in 1..=ATTEMPTS {
                    let times = bench.measure(way_in, len, cold);
                    let [memcpy, plain, exact, serial, adaptive] =
                        times.each_ref().map(|times| median(times));
                    let best = if exact < serial { &times[2] } else { &times[3] };
                    let (gain, ratio) = (ratio(&times[1], &times[2]), ratio(best, &times[4]));
                    let below = ratio < ADAPTIVE_FLOOR || (overlaps && gain < OVERLAP_FLOOR);
                    println!(
                        "| {:<21} | {} | {} | {:>6} KiB | {:>6.2} | {:>5.2} | {:>5.2} | {:>6.2} | {:>8.2} | {gain:>11.2} | {ratio:>13.2} |{}",
                        format!("{instance}, {name}"),
                        if way_in { "in " } else { "out" },
                        if cold { "cold " } else { "hot  " },
                        len >> 10,
                        rate(len, memcpy),
                        rate(len, plain),
                        rate(len, exact),
                        rate(len, serial),
                        rate(len, adaptive),
                        if below { " below" } else { "" },
                    );
                    if !below {
                        break;
                    }
                    missed += usize::from(attempt == ATTEMPTS);
                }
            }
        }
    }
    let held = if missed > 0 { "missed" } else { "held" };
    println!(
        "limit {held}: adaptive is at least {ADAPTIVE_FLOOR} times the better of exact and serial at any size;"
    );
    println!(
        "exact, in, cold, threaded, from 64 MiB up, is at least {OVERLAP_FLOOR} times chunks of 1 MiB without overlap"
    );
    ExitCode::from(u8::from(missed > 0))
}
