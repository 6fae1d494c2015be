//! A zero-copy write to device memory against a plain memcpy of the same bytes. What is
//! compared, and figures: README.md beside this file.
#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

#[path = "../../../../benches/measure.rs"]
mod measure;

use std::process::ExitCode;
use std::sync::Arc;

use measure::{POOL, median, rate, ratio, times};
use neuron_abi::memory::Category;
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use neuron_ndl::{AllocRequest, Device, Mapping, Memory, ZeroCopyOptions};

const SIZES: [usize; 7] = [4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20, 256 << 20];
/// The least part of the speed of a memcpy into the same memory, at [`FLOOR_SIZE`].
const FLOOR: f64 = 0.9;
const FLOOR_SIZE: usize = 1 << 20;

struct Bench {
    device: Arc<Device>,
    memory: Memory,
    /// The same memory, as a process maps it.
    mapping: Mapping,
    source: Vec<u8>,
    plain: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Way {
    Memcpy,
    Mapped,
    ZeroCopy,
}

const WAYS: [Way; 3] = [Way::Memcpy, Way::Mapped, Way::ZeroCopy];

impl Bench {
    fn new() -> Self {
        let options = MachineOptions { execution: Execution::Inline, ..MachineOptions::default() };
        let machine = Machine::with_options("trn2.3xlarge", options).unwrap();
        let device = Device::open(&machine, 0).unwrap();
        let request = AllocRequest {
            size: POOL as u64,
            align: 0,
            host: false,
            hbm: 0,
            core: 0,
            category: Category::TensorsDevice,
        };
        let memory = device.allocate(request).unwrap();
        let mapping = memory.map().unwrap();
        let source: Vec<u8> = (0..POOL).map(|index| (index >> 3) as u8).collect();
        let mut bench = Self { device, memory, mapping, source, plain: vec![1; POOL] };
        // Everything is touched once: fresh pages are another benchmark's business.
        for way in WAYS {
            bench.copy(way, 0, POOL);
        }
        bench
    }

    fn copy(&mut self, way: Way, offset: usize, len: usize) {
        let from = &self.source[offset..offset + len];
        match way {
            Way::Memcpy => self.plain[offset..offset + len].copy_from_slice(from),
            Way::Mapped => self.mapping.slice().subslice(offset, len).unwrap().copy_from(from),
            Way::ZeroCopy => self
                .device
                .zero_copy_in(&self.memory, offset as u64, from, ZeroCopyOptions::default())
                .unwrap(),
        }
    }
}

fn main() -> ExitCode {
    if measure::is_test() {
        return ExitCode::SUCCESS;
    }
    let mut missed = false;
    let mut bench = Bench::new();
    println!("backend software, inline, trn2.3xlarge; GB/s, medians of interleaved rounds");
    println!("| state |       size | memcpy | mapped | zero-copy | of memcpy | of mapped |");
    println!("|-------|------------|--------|--------|-----------|-----------|-----------|");
    for cold in [false, true] {
        for len in SIZES {
            let times: [_; 3] = times(len, cold, |way, offset| bench.copy(WAYS[way], offset, len));
            let [memcpy, mapped, zero_copy] = times.each_ref().map(|times| median(times));
            let [of_memcpy, of_mapped] = [0, 1].map(|peer| ratio(&times[peer], &times[2]));
            missed |= len == FLOOR_SIZE && of_mapped < FLOOR;
            println!(
                "| {} | {:>6} KiB | {:>6.2} | {:>6.2} | {:>9.2} | {:>9.2} | {:>9.2} |",
                if cold { "cold " } else { "hot  " },
                len >> 10,
                rate(len, memcpy),
                rate(len, mapped),
                rate(len, zero_copy),
                of_memcpy,
                of_mapped,
            );
        }
    }
    let held = if missed { "missed" } else { "held" };
    println!("limit {held}: 1 MiB, hot and cold, at least {FLOOR} times a memcpy into the same memory");
    ExitCode::from(u8::from(missed))
}
