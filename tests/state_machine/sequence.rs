//! Sequences: made, run, and made shorter when they show a difference.
//!
//! The operations' values are proptest's, and so is how a value gets simpler. Which
//! operations can be left out is tried here: whole runs of them first, so that a sequence of
//! hundreds is down to a handful after a few dozen tries.

use std::panic::{AssertUnwindSafe, catch_unwind};

use neuron_softdev::Product;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::operation::{Operation, operation};
use crate::run::{Answers, Difference, run};

/// Tries to make a sequence shorter or simpler.
const TRIES: usize = 1500;

/// Operations, each with its simpler forms.
pub(crate) struct Sequence {
    trees: Vec<Box<dyn ValueTree<Value = Operation>>>,
    product: Product,
}

impl Sequence {
    pub(crate) fn new(runner: &mut TestRunner, product: Product, length: usize) -> Self {
        let strategy = operation();
        let tree = |_| Box::new(strategy.new_tree(runner).unwrap()) as Box<dyn ValueTree<Value = Operation>>;
        Self { trees: (0..length).map(tree).collect(), product }
    }

    pub(crate) fn operations(&self) -> Vec<Operation> {
        self.trees.iter().map(|tree| tree.current()).collect()
    }

    /// Runs it. A panic of the driver is a difference.
    pub(crate) fn run(&self) -> Result<Answers, Difference> {
        let operations = self.operations();
        let outcome = catch_unwind(AssertUnwindSafe(|| run(self.product, &operations)));
        let panicked =
            |_| Err(Difference { at: operations.len().saturating_sub(1), what: "panic".to_owned() });
        outcome.unwrap_or_else(panicked)
    }

    /// Leaves out what is not needed for a difference, and makes what is simpler. Returns the
    /// shortest sequence that shows one.
    pub(crate) fn shrink(mut self, first: Difference) -> (Vec<Operation>, Difference) {
        self.trees.truncate(first.at + 1);
        let mut best = (self.operations(), first);
        let mut tries = TRIES;
        let mut size = self.trees.len().div_ceil(2);
        while size > 0 {
            let mut end = self.trees.len();
            while end > 0 && tries > 0 {
                let start = end.saturating_sub(size);
                let cut: Vec<_> = self.trees.drain(start..end).collect();
                if !self.still_differs(&mut best, &mut tries) {
                    self.trees.splice(start..start, cut);
                }
                end = start.min(self.trees.len());
            }
            size /= 2;
        }
        for index in 0..self.trees.len() {
            while tries > 0 && self.trees.get_mut(index).is_some_and(|tree| tree.simplify()) {
                while !self.still_differs(&mut best, &mut tries) {
                    if tries == 0 || !self.trees[index].complicate() {
                        break;
                    }
                }
            }
        }
        best
    }

    fn still_differs(&mut self, best: &mut (Vec<Operation>, Difference), tries: &mut usize) -> bool {
        *tries = tries.saturating_sub(1);
        let Err(difference) = self.run() else { return false };
        self.trees.truncate(difference.at + 1);
        *best = (self.operations(), difference);
        true
    }
}
