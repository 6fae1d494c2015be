#![forbid(unsafe_code)]
//! What the fuzz targets of the ioctls do: one device, a victim on it, and calls made of the fuzzer's
//! bytes by the code that `tests/hostile.rs` makes them with from seeds. And what those of `explain` and
//! `replay` do.

mod serve;

use neuron_abi::arch::Generation;
use neuron_replay::replay::Options;
use neuron_replay::scenario::{Change, Fit, Order, Scenario};
use neuron_replay::trace::{Format, Reader, TraceError};
use neuron_tests::hostile::{Attachment, Choices, Generator, Session};
use neuron_tests::vectors::Mismatch;

pub use serve::serve;

/// Calls of one input at most, however long it is.
const MOST: usize = 4000;

/// Runs one input. The first byte picks the generation.
///
/// # Panics
/// If the driver does what it must not: that is what a fuzzer looks for.
pub fn run(attachment: Attachment, data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let generation = if first & 1 == 0 { Generation::V2 } else { Generation::V3 };
    if let Err(difference) = calls(generation, attachment, rest) {
        panic!("{generation:?} {attachment:?}: {difference}");
    }
}

fn calls(generation: Generation, attachment: Attachment, data: &[u8]) -> Result<(), Mismatch> {
    let mut session = Session::new(generation, attachment)?;
    let mut generator = Generator::new(Choices::from_bytes(data));
    for _ in 0..MOST {
        if !session.step(&mut generator)? {
            break;
        }
    }
    session.end()
}

/// Explains one input as a log.
///
/// # Panics
/// If the answer is more than a screen, or could move a terminal's cursor.
pub fn explain(data: &[u8]) {
    let Ok(explanation) = neuron_explain::explain(&mut &data[..], &neuron_explain::Options::default()) else {
        panic!("a slice can be read");
    };
    let text = explanation.text();
    assert!(text.lines().count() <= 40 && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
}

/// Runs one input as a trace. The first byte picks the format.
///
/// # Panics
/// If a message says no place, or a replay goes wrong inside.
pub fn replay(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let format = if first & 1 == 0 { Format::Native } else { Format::RmmCsv };
    let Ok(base) = Scenario::named("trn1.2xlarge") else { return };
    let changes = [Change::Fit(Fit::Best), Change::Order(Order::LargestFirst), Change::Page(1 << 20)];
    let Ok(other) = base.with("other", &changes) else { return };
    let outcome = Reader::new(rest, format).and_then(|mut reader| {
        neuron_replay::run(&mut reader, &[base, other], &Options::default(), None)
    });
    match outcome {
        Ok(outcome) => assert_eq!(outcome.columns.len(), 2),
        Err(TraceError::Line { line, column, .. }) => assert!(line > 0 && column > 0),
        Err(error) => panic!("bytes cannot fail to be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_log() {
        explain(&[]);
        explain(b"\xff\0Failed to alloc DEVICE memory: 7\n* total: 1.000GB\n|TOTAL|\n");
    }

    #[test]
    fn any_bytes_are_an_input() {
        for attachment in [Attachment::Attached, Attachment::Inherited] {
            run(attachment, &[]);
            for length in [1, 100, 5000] {
                let bytes: Vec<u8> = (0..length).map(|at| (at * 37 % 251) as u8).collect();
                run(attachment, &bytes);
            }
        }
    }
}
