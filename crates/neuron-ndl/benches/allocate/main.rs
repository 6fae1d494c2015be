//! One allocation and its release through the ioctls, on a device that holds few and many.
//! Figures: README.md beside this file.
#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use neuron_abi::memory::Category;
use neuron_ndl::software::Machine;
use neuron_ndl::{AllocRequest, Device};

/// Blocks that live meanwhile.
const LIVE: [usize; 3] = [0, 5_000, 50_000];
/// Pairs in one measurement.
const PAIRS: u32 = 2_000;
const ROUNDS: usize = 31;

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let machine = Machine::new("trn2.3xlarge").unwrap();
    let device = Device::open(&machine, 0).unwrap();
    let request = |size, host, align| AllocRequest {
        size,
        align,
        host,
        hbm: 0,
        core: 0,
        category: if host { Category::TensorsHost } else { Category::TensorsDevice },
    };
    println!("backend software, trn2.3xlarge; ns for one allocation, its address, and its release");
    println!("| living | device, 64 KiB | device, 1 MiB aligned to 64 KiB | host, 64 KiB |");
    println!("|--------|----------------|---------------------------------|--------------|");
    let mut living = Vec::new();
    for live in LIVE {
        living.extend((living.len()..live).map(|index| {
            // Two sizes, so that both pools hold some.
            device.allocate(request(if index % 2 == 0 { 4096 } else { 600 << 10 }, false, 0)).unwrap()
        }));
        let measure = |request: AllocRequest| {
            let mut times: Vec<Duration> = (0..ROUNDS)
                .map(|_| {
                    let start = Instant::now();
                    for _ in 0..PAIRS {
                        drop(black_box(device.allocate(request).unwrap()));
                    }
                    start.elapsed()
                })
                .collect();
            times.sort_unstable();
            times[ROUNDS / 2].as_nanos() / u128::from(PAIRS)
        };
        println!(
            "| {live:>6} | {:>14} | {:>31} | {:>12} |",
            measure(request(64 << 10, false, 0)),
            measure(request(1 << 20, false, 64 << 10)),
            measure(request(64 << 10, true, 0)),
        );
    }
}
