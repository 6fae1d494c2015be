//! Explaining a log of 64 MB: mostly lines that say nothing, and the same of nothing but failures.
//! See `README.md` beside it.
//!
//!     cargo bench -p neuron-explain --bench log
#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use neuron_explain::{Options, explain};

const BYTES: usize = 64_000_000;
const ROUNDS: usize = 5;
/// Seconds for either log.
const CEILING: f64 = 2.0;

const SERVER: [&str; 3] = [
    "(APIServer pid=1) INFO 05-21 15:02:21 [loggers.py:116] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 1 reqs\n",
    "INFO:     10.0.0.1:54321 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n",
    "2026-May-21 15:02:21.561071 15012:15012 INFO   TDRV:io_create_queues                        Rank: 0, Vring: qSPIO0 has 6528/6528 desc's\n",
];
const CASE: &str = include_str!("../../../../tests/cases/table12-aligned-13mb.log");

fn main() -> ExitCode {
    // `cargo test --benches` only wants to know that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let mut server = String::new();
    for place in 0.. {
        server.push_str(if place % 20_000 == 0 { CASE } else { SERVER[place % SERVER.len()] });
        if server.len() >= BYTES {
            break;
        }
    }
    let failures = CASE.repeat(BYTES.div_ceil(CASE.len()));
    let mut held = true;
    for (name, log) in [("a server's log with some failures", server), ("nothing but failures", failures)] {
        let mut times: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                black_box(explain(&mut log.as_bytes(), &Options::default()).unwrap());
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        let median = times[ROUNDS / 2].as_secs_f64();
        let rate = log.len() as f64 / median / 1e6;
        println!(
            "{name}: {} MB in {median:.2} s, {rate:.0} MB/s (median of {ROUNDS})",
            log.len() / 1_000_000,
        );
        held &= median < CEILING;
    }
    println!("limit {}: {CEILING} s", if held { "held" } else { "missed" });
    ExitCode::from(u8::from(!held))
}
