//! Random sequences of everything that processes do, on the driver and on a naive model of
//! it: answers, bytes, ownership and counters must be equal, and nothing may stay when all
//! have gone. A sequence that differs is made as short as it gets and printed.
//!
//! | module | what lives there |
//! |---|---|
//! | `operation` | what happens, and how often |
//! | `model` | what should come of it |
//! | `machine` | the driver and the device that it really happens on |
//! | `run` | both, side by side |
//! | `sequence` | many operations, and fewer that show the same |
//!
//! The sequences are the same every time. `NEURON_MEM_SEED=N` makes others,
//! `NEURON_MEM_STEPS=N` more or fewer operations in all; a failure prints both its seed and
//! its sequence.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod machine;
mod model;
mod operation;
mod run;
mod sequence;

use neuron_softdev::Product;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use operation::Operation;
use run::{Answers, Difference};
use sequence::Sequence;

/// Operations of one sequence.
const LENGTH: usize = 400;
const STEPS: u64 = 200_000;
const SEED: u64 = 1;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Makes half of the operations on devices of this product.
fn half(product: Product) {
    let (seed, steps) = (number("NEURON_MEM_SEED", SEED), number("NEURON_MEM_STEPS", STEPS));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8] = product as u8;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (mut done, mut answers) = (0, Answers::new());
    while done < steps / 2 {
        let sequence = Sequence::new(&mut runner, product, LENGTH);
        match sequence.run() {
            Ok(more) => {
                more.into_iter().for_each(|(answer, count)| *answers.entry(answer).or_default() += count)
            }
            Err(difference) => fail(seed, product, sequence.shrink(difference)),
        }
        done += LENGTH as u64;
    }
    println!("{product:?}: {done} operations, NEURON_MEM_SEED={seed}; each answer's count:\n{answers:?}");
    if steps >= STEPS {
        worth_its_time(&answers);
    }
}

fn fail(seed: u64, product: Product, (operations, difference): (Vec<Operation>, Difference)) {
    let listed =
        operations.iter().enumerate().map(|(number, operation)| format!("{number}: {operation:?}\n"));
    panic!("NEURON_MEM_SEED={seed} {product:?}: {difference}\n{}", listed.collect::<String>());
}

/// Whatever the seed: every command got through often, and refusals of each kind came up.
fn worth_its_time(answers: &Answers) {
    for (command, _) in answers.keys() {
        assert!(
            answers.get(&(*command, 0)).is_some_and(|count| *count > 20),
            "{command} hardly ever succeeded"
        );
    }
    for (command, errno) in EXPECTED {
        let seen = answers.keys().any(|&(name, ret)| name.starts_with(command) && ret == *errno);
        assert!(seen, "{command} never answered {errno}");
    }
}

/// Refusals that every long run meets.
const EXPECTED: &[(&str, i64)] = &[
    ("MEM_ALLOC", -12),
    ("MEM_ALLOC", -13),
    ("MEM_ALLOC", -14),
    ("MEM_ALLOC", -22),
    ("MEM_FREE", -22),
    ("MEM_COPY64", -2),
    ("MEM_COPY64", -110),
    ("MEM_COPY_ASYNC64", -16),
    ("MEM_COPY_ASYNC_WAIT", -110),
    ("MEM_MC_GET_INFO_V2", -12),
    ("H2T_DMA_ALLOC_QUEUES", -1),
    ("H2T_DMA_FREE_QUEUES", -6),
    ("DMA_QUEUE_INIT", -1),
    ("DMA_QUEUE_INIT", -16),
    ("DMA_QUEUE_INIT", -114),
    ("NC_RESET", -16),
];

#[test]
fn the_driver_does_what_the_model_says_on_the_second_generation() {
    half(Product::Trn1);
}

#[test]
fn the_driver_does_what_the_model_says_on_the_third_generation() {
    half(Product::Trn2);
}
