//! Two million hostile calls: words and bytes that are nearly right, half right, or noise, by
//! processes that hold a slot and by such that only inherited a file. What must hold
//! whatever they do is told in `neuron_tests::hostile`.
//!
//! The calls are the same every time. `NEURON_MEM_SEED=N` makes others,
//! `NEURON_MEM_CALLS=N` more or fewer in all; a failure prints its seed and its call.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use neuron_abi::arch::Generation;
use neuron_tests::hostile::{Attachment, Choices, Generator, Session};
use neuron_tests::vectors::Mismatch;

const CALLS: u64 = 2_000_000;
const SEED: u64 = 1;
/// Calls on one device, before the next one comes up.
const SESSION: u64 = 25_000;
/// Calls between two looks at the victim.
const CHECK_EVERY: u64 = 500;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// How many calls of each command succeeded.
type Succeeded = BTreeMap<&'static str, u64>;

/// Stands among the commands for sessions to whose end a chunk of the victim was watched.
const WATCHED: &str = "victim watched";

/// One device's calls. Returns how many were made, and what succeeded.
fn session(generation: Generation, attachment: Attachment, seed: u64) -> Result<(u64, Succeeded), Mismatch> {
    let mut session = Session::new(generation, attachment)?;
    let mut generator = Generator::new(Choices::Seeded(seed));
    for event in 0..SESSION {
        let step = catch_unwind(AssertUnwindSafe(|| session.step(&mut generator)));
        let stepped = step.unwrap_or_else(|_| Err(Mismatch::new("panic")));
        stepped.map_err(|error| error.at(format!("event {event}")))?;
        if event % CHECK_EVERY == 0 {
            session.check().map_err(|error| error.at(format!("before event {event}")))?;
        }
    }
    let (calls, mut succeeded) = (session.calls(), session.succeeded().clone());
    if session.watched() > 0 {
        succeeded.insert(WATCHED, 1);
    }
    session.end()?;
    Ok((calls, succeeded))
}

/// A quarter of all calls.
fn quarter(generation: Generation, attachment: Attachment) {
    let (seed, calls) = (number("NEURON_MEM_SEED", SEED), number("NEURON_MEM_CALLS", CALLS));
    let (mut made, mut succeeded) = (0, Succeeded::new());
    for number in 0.. {
        if made >= calls / 4 {
            break;
        }
        let own = seed << 16 | number;
        let outcome = session(generation, attachment, own);
        let (more, good) = outcome.unwrap_or_else(|error| {
            panic!("NEURON_MEM_SEED={seed}, session {number} of {generation:?} {attachment:?}: {error}")
        });
        made += more;
        good.into_iter().for_each(|(command, count)| *succeeded.entry(command).or_default() += count);
    }
    println!("{generation:?} {attachment:?}: {made} calls, NEURON_MEM_SEED={seed}; succeeded: {succeeded:?}");
    // Noise alone would show nothing: whoever may gets everything done, among all the rest.
    let expected = match attachment {
        _ if calls < CALLS => return,
        Attachment::Attached => GETS_THROUGH,
        Attachment::Inherited => &["MEM_GET_EXTENDED_INFO", "MEM_MC_GET_INFO_V2", "BAR_READ", "NC_RESET"],
    };
    let watched = succeeded.get(WATCHED).copied().unwrap_or(0);
    assert!(watched > made / SESSION / 2, "the victim was watched to the end {watched} times only");
    for command in expected {
        assert!(succeeded.contains_key(command), "{command} never succeeded");
    }
}

/// Commands that attached processes succeed with.
const GETS_THROUGH: &[&str] = &[
    "BAR_READ",
    "BAR_WRITE",
    "DMA_ACK_COMPLETED",
    "DMA_COPY_DESCRIPTORS64",
    "DMA_DESCRIPTOR_COPYOUT",
    "DMA_ENG_SET_STATE",
    "DMA_QUEUE_COPY_START",
    "DMA_QUEUE_GET_STATE",
    "DMA_QUEUE_INIT",
    "DMA_QUEUE_INIT_BATCH",
    "DUMP_MEM_CHUNKS",
    "H2T_DMA_ALLOC_QUEUES",
    "H2T_DMA_FREE_QUEUES",
    "MEMSET64",
    "MEM_ALLOC",
    "MEM_ALLOC_V2MT64",
    "MEM_BUF_COPY64",
    "MEM_COPY64",
    "MEM_COPY_ASYNC64",
    "MEM_COPY_ASYNC_WAIT",
    "MEM_FREE",
    "MEM_GET_INFO",
    "MEM_MC_GET_INFO_V2",
    "NC_RESET",
    "PROGRAM_ENGINE_NC64",
];

#[test]
fn attached_processes_of_the_second_generation_harm_nobody() {
    quarter(Generation::V2, Attachment::Attached);
}

#[test]
fn attached_processes_of_the_third_generation_harm_nobody() {
    quarter(Generation::V3, Attachment::Attached);
}

#[test]
fn inheritors_of_the_second_generation_change_nothing() {
    quarter(Generation::V2, Attachment::Inherited);
}

#[test]
fn inheritors_of_the_third_generation_change_nothing() {
    quarter(Generation::V3, Attachment::Inherited);
}
