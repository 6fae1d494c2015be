//! Queues claimed, bound and let go: who has which, step by step.
//!
//! | module | what lives there |
//! |---|---|
//! | [`session`] | a case: its steps, and what they are compared with |
//! | [`operation`] | steps that change who has a queue |
//! | [`model`] | who should have which queue |
//! | [`memory`] | where host memory should be placed |
//! | [`copies`] | steps that move bytes |
//!
//! A step that falls under a starred row of the table of differences makes the rest of its
//! case part ways. From there on only the model says what is right: owners, claims,
//! addresses, register writes, references to memory.

pub mod copies;
pub mod memory;
pub mod model;
pub mod operation;
pub mod session;

use neuron_abi::arch::Generation;
use neuron_driver::Device;
use neuron_driver::pool::ChunkRef;

use self::operation::Operation;
use self::session::{Form, Session};
use super::place::Places;
use crate::client::Client;
use crate::kinds::bench::Bench;
use crate::machine::board::Cores;
use crate::vectors::{Mismatch, Object, Outcome, equal_hex};

/// Bytes of a chunk that is bound as a ring.
const RING_BYTES: u64 = 4096;
/// Bytes of the host chunk of copies, and of each device chunk.
const HOST_BYTES: u64 = 262_144;
const DEVICE_BYTES: u64 = 1 << 20;

/// Compares cases of one generation.
pub struct Checker {
    bench: Bench,
    form: Form,
}

impl Checker {
    /// A checker of cases of a form.
    ///
    /// # Errors
    /// If there is no host memory.
    pub fn new(generation: Generation, form: Form) -> Result<Self, Mismatch> {
        Ok(Self { bench: Bench::new(generation)?, form })
    }

    /// Compares one case.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        case.text("case")?;
        case.skip("seed");
        let outcome = match self.form {
            Form::Dynamic => self.dynamic(case),
            Form::Clean => self.clean(case),
        }?;
        self.bench.check_host_memory()?;
        Ok(outcome)
    }

    /// On registers with nothing behind them, all cores up.
    fn dynamic(&self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        let board = self.bench.still(Cores::Up)?;
        let steps = case.objects("steps")?;
        // The recorder allocated what the case binds before the first step.
        let mut bound = Vec::new();
        for step in &steps {
            if let Some(Operation::Bind { tx, rx, .. }) = Operation::read(step)? {
                bound.extend([tx, rx]);
            }
        }
        bound.sort_unstable();
        bound.dedup();
        let mut places = Places::default();
        for address in bound {
            places.chunk(board.device(), address, RING_BYTES)?;
        }
        let mut session = Session::new(self.form, &self.bench, &board, places.chunks());
        run(&steps, |operation, step| match operation {
            Some(operation) => session.step(operation, step),
            None => Err(Mismatch::new("nothing can be copied here")),
        })?;
        session.finish()
    }

    /// On a device whose engines move bytes.
    fn clean(&self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        let cores = if case.flag("up")? { Cores::Up } else { Cores::Down };
        let board = self.bench.running(cores)?;
        equal_hex("dummy_ring", board.device().dummy_ring_address(), case.number("dummy_ring")?)?;
        let client = Client::open(board.device())?;
        let chunks = chunks(board.device(), &client, &case.object("chunks")?)?;
        let mut session = Session::new(self.form, &self.bench, &board, &chunks);
        run(&case.objects("steps")?, |operation, step| match operation {
            Some(operation) => session.step(operation, step),
            None if step.text("op")? == "copy" => copies::prepared(&board, step),
            None => copies::blocking(&board, &client, &chunks, step),
        })?;
        session.finish()
    }
}

fn run(
    steps: &[Object<'_>],
    mut perform: impl FnMut(Option<Operation>, &Object<'_>) -> Result<(), Mismatch>,
) -> Result<(), Mismatch> {
    for (number, step) in steps.iter().enumerate() {
        Operation::read(step)
            .and_then(|operation| perform(operation, step))
            .and_then(|()| step.finish())
            .map_err(|error| error.at(format!("step {number}, {}", step.text("op").unwrap_or("?"))))?;
    }
    Ok(())
}

/// What a case allocates before its first step, where it was recorded.
fn chunks(device: &Device, client: &Client, recorded: &Object<'_>) -> Result<Vec<ChunkRef>, Mismatch> {
    let mut wanted = vec![
        (None, RING_BYTES, 0, recorded.number("a")?),
        (None, RING_BYTES, 0, recorded.number("b")?),
        (None, HOST_BYTES, 0, recorded.number("h")?),
    ];
    for (core, address) in (0..).zip(recorded.numbers("d")?) {
        wanted.push((device.geometry().hbm_of_core(core), DEVICE_BYTES, core, address));
    }
    let allocate = |(hbm, size, core, address): (Option<u32>, u64, u32, u64)| {
        let chunk = client.allocate(hbm, size, core)?;
        equal_hex(format!("address of {size:#x} bytes for core {core}"), chunk.pa, address)?;
        device.pools().lookup(chunk.handle).map_err(|errno| Mismatch::new(errno.to_string()))
    };
    let chunks = wanted.into_iter().map(allocate).collect();
    recorded.finish()?;
    chunks
}
