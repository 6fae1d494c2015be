#![forbid(unsafe_code)]
//! How many events a second a replay reads and runs, in one scenario, and in how much memory. Prints
//! the figures; ends with code 1 below the floor or above the ceiling.
//!
//! The trace has a million events over some ten thousand living allocations, with owners, hints,
//! addresses and times, as the library writes it.

use std::process::ExitCode;
use std::time::Instant;

use neuron_abi::memory::{MemLocation, UsageType};
use neuron_replay::replay::Options;
use neuron_replay::run;
use neuron_replay::scenario::{Scenario, ScenarioError};
use neuron_replay::trace::{Alloc, Event, Format, Header, Reader};

const EVENTS: u64 = 1_000_000;
const LIVING: usize = 10_000;
/// Events a second.
const FLOOR: f64 = 1_000_000.0;
/// Memory that a replay takes beside the trace, KiB: what lives, not what came.
const CEILING: u64 = 16 << 10;
const ROUNDS: u32 = 10;

fn trace() -> Vec<u8> {
    let mut bytes = Vec::new();
    Header::of("bench", Some("trn1.2xlarge")).write(&mut bytes);
    let mut random = 1_u64;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 24
    };
    let mut living: Vec<u64> = Vec::new();
    for number in 1..=EVENTS {
        let time = Some(number * 1000);
        if living.len() >= LIVING || (!living.is_empty() && next().is_multiple_of(3)) {
            let id = living.swap_remove(next() as usize % living.len());
            Event::Free { id, time }.write(&mut bytes);
            continue;
        }
        let core = (number % 2) as u32;
        let (owner, hint) = (format!("model {}", number % 16), format!("layers.{}.weight", next() % 5000));
        let alloc = Alloc {
            id: number,
            size: next() % (1 << (9 + next() % 12)) + 1,
            align: if next().is_multiple_of(4) { 65_536 } else { 0 },
            location: MemLocation::Device,
            device: 0,
            hbm: core,
            core,
            usage: if next().is_multiple_of(2) { UsageType::Weight } else { UsageType::Tensor },
            owner: Some(owner.into()),
            hint: Some(hint.into()),
            pa: Some(next() << 12),
            refused: false,
            pid: 0,
            time,
        };
        Event::Alloc(alloc).write(&mut bytes);
        living.push(number);
    }
    bytes
}

/// Events a second of reading alone.
fn reading(trace: &[u8]) -> Option<f64> {
    let start = Instant::now();
    let mut reader = Reader::new(trace, Format::Native).ok()?;
    let mut events = 0_u64;
    while reader.next_event().ok()?.is_some() {
        events += 1;
    }
    Some(events as f64 / start.elapsed().as_secs_f64())
}

/// Sets the most memory that this process had to what it has.
fn forget_peak() {
    // Where the system has no such file the peak is that of all rounds, or none.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this process had, KiB; 0 where the system does not say.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn main() -> Result<ExitCode, ScenarioError> {
    let trace = trace();
    let scenario = Scenario::named("trn1.2xlarge")?;
    let mut best = 0.0_f64;
    forget_peak();
    let before = peak();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let outcome = Reader::new(&trace[..], Format::Native).and_then(|mut reader| {
            run(&mut reader, std::slice::from_ref(&scenario), &Options::default(), None)
        });
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(outcome)
                if outcome.events == EVENTS && outcome.columns.iter().all(|column| column.refused == 0) =>
            {
                best = best.max(EVENTS as f64 / seconds);
            }
            other => {
                println!("the trace did not run as it should: {other:?}");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    let (megabytes, floor) = (trace.len() as f64 / 1e6, FLOOR / 1e6);
    let more = peak() - before;
    let reading = (0..ROUNDS).filter_map(|_| reading(&trace)).fold(0.0, f64::max);
    println!("replay: {:.2} M events/s (best of {ROUNDS}; {megabytes:.0} MB; floor {floor:.2})", best / 1e6);
    println!("memory beside the trace: {:.1} MiB (ceiling {})", more as f64 / 1024.0, CEILING >> 10);
    println!("reading alone: {:.2} M events/s", reading / 1e6);
    Ok(if best >= FLOOR && more <= CEILING { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
