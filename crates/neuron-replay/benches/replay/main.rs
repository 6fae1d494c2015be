#![forbid(unsafe_code)]
//! How many events a second a replay reads and runs, in one scenario. Prints the figure; ends with
//! code 1 below the floor.
//!
//! The trace has a million events over some ten thousand living allocations, with owners, hints,
//! addresses and times, as the library writes it.

use std::process::ExitCode;
use std::time::Instant;

use neuron_abi::memory::{MemLocation, UsageType};
use neuron_replay::replay::{Options, run};
use neuron_replay::scenario::{Scenario, ScenarioError};
use neuron_replay::trace::{Alloc, Event, Format, Header, Reader};

const EVENTS: u64 = 1_000_000;
const LIVING: usize = 10_000;
/// Events a second.
const FLOOR: f64 = 1_000_000.0;
const ROUNDS: u32 = 5;

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

fn main() -> Result<ExitCode, ScenarioError> {
    let trace = trace();
    let scenario = Scenario::named("trn1.2xlarge")?;
    let mut best = 0.0_f64;
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
    println!("replay: {:.2} M events/s (best of {ROUNDS}; {megabytes:.0} MB; floor {floor:.2})", best / 1e6);
    Ok(if best >= FLOOR { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
