//! A staged copy to device memory against a plain memcpy and against staging without
//! overlap. What is compared, and figures: README.md beside this file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use std::time::{Duration, Instant};

use neuron_abi::memory::UsageType;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem};
use neuron_ndl::software::Machine;
use neuron_ndl::{AllocRequest as DriverRequest, CopyRequest, Device, Memory};

/// Source and destination of cold copies: larger than any cache.
const POOL: usize = 512 << 20;
/// Chunk of the serial comparison: the exact table's largest.
const CHUNK: usize = 1 << 20;
const SIZES: [usize; 9] =
    [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];

struct Bench {
    device: std::sync::Arc<Device>,
    /// Target of the serial comparison, reached through the driver layer alone.
    raw: Memory,
    dmem: Dmem,
    source: Vec<u8>,
    plain: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Way {
    Memcpy,
    Serial,
    Staged,
}

impl Bench {
    fn new() -> Self {
        let machine = Machine::new("trn1.2xlarge").unwrap();
        let device = Device::open(&machine, 0).unwrap();
        let memory = DeviceMemory::new(device.clone());
        let allocator = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
        let dmem = allocator.allocate(&AllocRequest::device(POOL as u64, UsageType::Tensor)).unwrap();
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
        let source: Vec<u8> = (0..POOL).map(|index| (index >> 3) as u8).collect();
        let mut bench = Self { device, raw, dmem, source, plain: vec![1; POOL] };
        // Everything is touched once: fresh pages are another benchmark's business.
        for way in [Way::Memcpy, Way::Serial, Way::Staged] {
            bench.copy(way, 0, POOL);
        }
        bench
    }

    fn copy(&mut self, way: Way, offset: usize, len: usize) {
        let from = &self.source[offset..offset + len];
        match way {
            Way::Memcpy => self.plain[offset..offset + len].copy_from_slice(from),
            Way::Staged => self.dmem.write(offset as u64, from).unwrap(),
            Way::Serial => {
                let buffer = self.device.copy_buffer(0).unwrap().lock();
                for (index, chunk) in from.chunks(CHUNK).enumerate() {
                    buffer.mapping.slice().subslice(0, chunk.len()).unwrap().copy_from(chunk);
                    let copy = CopyRequest {
                        source: &buffer.memory,
                        destination: &self.raw,
                        source_offset: 0,
                        destination_offset: (offset + index * CHUNK) as u64,
                        bytes: chunk.len() as u64,
                    };
                    self.device.copy(copy).unwrap();
                }
            }
        }
    }

    /// Median time of each way. Rounds interleave the three, so that a machine whose
    /// speed drifts drifts for all.
    fn measure(&mut self, len: usize, cold: bool) -> [Duration; 3] {
        let mut times = [const { Vec::new() }; 3];
        let start = Instant::now();
        let (mut offset, mut round) = (0, 0);
        while round < 7 || (start.elapsed() < Duration::from_millis(400) && round < 2000) {
            for (way, times) in [Way::Memcpy, Way::Serial, Way::Staged].into_iter().zip(&mut times) {
                let begin = Instant::now();
                self.copy(way, offset, len);
                times.push(begin.elapsed());
            }
            if cold {
                // Far enough that caches and prefetchers know nothing of the next place.
                offset = ((offset + len.max(33 << 20)) % (POOL - len + 4096)) & !4095;
            }
            round += 1;
        }
        times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        })
    }
}

/// The least that staging must gain over serial staging, cold, from [`FLOOR_FROM`] up.
const FLOOR: f64 = 1.3;
const FLOOR_FROM: usize = 64 << 20;

fn main() -> std::process::ExitCode {
    // `cargo test --benches` only wants to know that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return std::process::ExitCode::SUCCESS;
    }
    let mut missed = false;
    let mut bench = Bench::new();
    println!("backend software, threaded, trn1.2xlarge; GB/s, medians of interleaved rounds");
    println!("| state |      size | memcpy | serial | staged | staged/memcpy | staged/serial |");
    println!("|-------|-----------|--------|--------|--------|---------------|---------------|");
    for cold in [false, true] {
        for len in SIZES {
            let [memcpy, serial, staged] = bench.measure(len, cold).map(|time| time.as_secs_f64());
            missed |= cold && len >= FLOOR_FROM && serial / staged < FLOOR;
            let rate = |seconds: f64| len as f64 / seconds / 1e9;
            println!(
                "| {} | {:>6} KiB | {:>6.2} | {:>6.2} | {:>6.2} | {:>13.2} | {:>13.2} |",
                if cold { "cold " } else { "hot  " },
                len >> 10,
                rate(memcpy),
                rate(serial),
                rate(staged),
                memcpy / staged,
                serial / staged,
            );
        }
    }
    match missed {
        true => println!("limit missed: staged, cold, from 64 MiB up, is below {FLOOR} times serial"),
        false => println!("limit held: staged, cold, from 64 MiB up, is at least {FLOOR} times serial"),
    }
    std::process::ExitCode::from(u8::from(missed))
}
