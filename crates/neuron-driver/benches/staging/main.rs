//! Staging descriptors, with the engine stubbed out: what the driver itself costs for
//! each descriptor. What is measured, and figures: README.md beside this file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use std::iter::once;
use std::sync::Arc;
use std::time::Instant;

use neuron_driver::arch::Arch;
use neuron_driver::dma::{BATCH_BYTES, BATCH_DESCRIPTORS, Transfer};
use neuron_driver::hw::{DmaMemory, RingSlice};
use neuron_driver::ring::marker::Marker;
use neuron_driver::ring::{H2T_RING, H2T_RING_BYTES};
use neuron_udma::{Mmio, MmioError, RingBase, Udma};
use vm_memory::MmapRegion;

/// Registers that swallow writes: the engine never runs.
struct Nothing;

impl Mmio for Nothing {
    fn read32(&self, _: u64) -> Result<u32, MmioError> {
        Ok(0)
    }

    fn write32(&self, _: u64, value: u32) -> Result<(), MmioError> {
        std::hint::black_box(value);
        Ok(())
    }
}

fn memory(bytes: u64) -> DmaMemory {
    let region = MmapRegion::new(bytes as usize).unwrap();
    DmaMemory::new(Arc::new(region), 0, bytes as usize, 0x1000_0000).unwrap()
}

/// Nanoseconds per descriptor pair (one TX and one RX), median of many batches.
fn stage(engine: &mut Udma, rings: [&DmaMemory; 2], marker: &Marker<'_>, bytes: u64) -> f64 {
    let [tx, rx] = rings.map(|ring| RingSlice(ring.slice()));
    let transfer = Transfer::new(1 << 44, 1 << 32, bytes);
    let batch = transfer.batch();
    let count = batch.descriptors + 1;
    let rounds = (4_000_000 / count).clamp(200, 20_000);
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            marker.arm();
            let mut pair = engine.pair(0).unwrap();
            for copy in transfer.pieces(batch).chain(once(marker.copy())) {
                pair.prepare(&tx, &rx, &copy).unwrap();
            }
            engine.start(&Nothing, 0, count, count).unwrap();
            engine.acknowledge(0, count).unwrap();
            start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let params = Arch::of(neuron_abi::arch::Generation::V2).engine_params(33).unwrap();
    let mut engine = Udma::new();
    engine.init(&Nothing, &params).unwrap();
    let rings = [memory(H2T_RING_BYTES), memory(H2T_RING_BYTES)];
    let base = RingBase::new(0x1000_0000, H2T_RING);
    engine.init_queue(&Nothing, 0, base, base, false, true).unwrap();
    let words = memory(4096);
    let marker = Marker::new(words.slice(), words.address(), 0).unwrap();

    println!("| batch                     | ns per pair | ns per descriptor |");
    println!("|---------------------------|-------------|-------------------|");
    for (name, bytes) in
        [("1 + marker", 1), ("16 + marker (1 MiB)", 1 << 20), ("full: 2032 + marker", BATCH_BYTES)]
    {
        let pair = stage(&mut engine, [&rings[0], &rings[1]], &marker, bytes);
        println!("| {name:<25} | {pair:>11.1} | {:>17.1} |", pair / 2.0);
    }
    assert_eq!(BATCH_DESCRIPTORS, 2032);
}
