//! Asynchronous copies: steps on one device, with handles, contexts and cursors.
//!
//! Three rows of the table part ways with the rest of a case. So each step is also worked
//! out by a small model of what we promise (`Model`): up to the first such step the
//! model, the driver and the recording must agree; from there on the driver must do what
//! the model says.

use std::collections::BTreeMap;

use neuron_abi::{arg, cmd};
use neuron_driver::dma::BATCH_BYTES;
use neuron_driver::ring::{H2T_RING, H2tRing};

use super::batch::{equal_batches, no_access_outside, ring};
use super::rig::{End, Rig};
use crate::client::Chunk;
use crate::kinds::bench::Bench;
use crate::kinds::cursors::{Cursors, cursors, recorded_cursors};
use crate::vectors::difference::{ASYNC_CONTEXT_LOST, ASYNC_CONTEXT_TAKEN, ASYNC_TOO_LONG};
use crate::vectors::{Difference, Mismatch, Object, Outcome, equal};

/// Chunks, in the order of allocation.
const CHUNKS: [&str; 5] = ["h", "d", "d2", "big", "hb"];
/// Bytes of the first three, and the least of the others.
const CHUNK_BYTES: u64 = 8 << 20;

const EINVAL: i64 = -22;
const EBUSY: i64 = -16;

/// Compares one case.
///
/// # Errors
/// What differs, and in which step.
pub fn check(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let rig = Rig::running(bench)?;
    let steps = case.objects("steps")?;
    let session = Session {
        ring: ring(&rig.board, case)?,
        chunks: allocate(&rig, case, &steps)?,
        core: case.word("nc")?,
        bench,
        rig,
    };
    let (mut model, mut rows) = (Model::default(), Vec::new());
    for (number, step) in steps.iter().enumerate() {
        session
            .step(&mut model, step, &mut rows)
            .and_then(|()| step.finish())
            .map_err(|error| error.at(format!("step {number}")))?;
    }
    equal("no error of an engine", session.rig.board.engines_found_no_error(), true)?;
    Ok(if rows.is_empty() { Outcome::Compared } else { Outcome::Differs(rows) })
}

/// A chunk, its core, and whether it is on the host.
#[derive(Clone, Copy)]
struct Named {
    chunk: Chunk,
    core: u32,
    host: bool,
}

type Chunks<'a> = BTreeMap<&'a str, Named>;

/// Allocates the chunks of a case where they were recorded.
fn allocate<'a>(rig: &Rig, case: &Object<'a>, steps: &[Object<'_>]) -> Result<Chunks<'a>, Mismatch> {
    let (addresses, cores) = (case.object("chunks")?, case.object("chunk_nc")?);
    // The last two hold whatever a step asks of them.
    let mut large = CHUNK_BYTES;
    for step in steps.iter().filter(|step| step.has("size")) {
        let offset = step.number("src_off")?.max(step.number("dst_off")?);
        large = large.max(offset + step.number("size")?);
    }
    let mut chunks = Chunks::new();
    for name in CHUNKS {
        let size = if matches!(name, "big" | "hb") { large } else { CHUNK_BYTES };
        let (address, core) = (addresses.number(name)?, cores.word(name)?);
        let host = rig.hbm_of(address)?.is_none();
        let chunk = rig.chunk(name, address, size, core)?;
        chunks.insert(name, Named { chunk, core, host });
    }
    addresses.finish().and_then(|()| cores.finish()).map_err(|error| error.at("chunks"))?;
    Ok(chunks)
}

struct Session<'a> {
    ring: std::sync::Arc<H2tRing>,
    chunks: Chunks<'a>,
    core: u32,
    bench: &'a Bench,
    rig: Rig,
}

impl Session<'_> {
    fn chunk(&self, name: &str) -> Result<Named, Mismatch> {
        self.chunks.get(name).copied().ok_or_else(|| Mismatch::new(format!("unknown chunk {name}")))
    }

    fn step(&self, model: &mut Model, step: &Object<'_>, rows: &mut Vec<Difference>) -> Result<(), Mismatch> {
        let (source, destination) = (self.chunk(step.text("src")?)?, self.chunk(step.text("dst")?)?);
        // The ring of the source's core, if that is on the device.
        let core = if source.host { destination.core } else { source.core };
        match step.text("op")? {
            "copy" => {
                let ours = model.copy(core, step.number("size")?, step.word("prev")?);
                if let Some((row, recorded)) = ours.row {
                    if rows.is_empty() {
                        equal("recorded ret of the row", step.signed("ret")?, recorded)?;
                    }
                    rows.push(row);
                }
                self.copy(step, source, destination, &ours, rows.is_empty())?;
            }
            "wait" => {
                let handle = step.word("handle")?;
                let ours = model.wait(core, handle);
                let mut argument = arg::MemCopyAsyncWait {
                    src_mem_handle: source.chunk.handle,
                    dst_mem_handle: destination.chunk.handle,
                    pwait_handle: handle,
                    ..Default::default()
                };
                let ret = self.rig.client.call(&cmd::MEM_COPY_ASYNC_WAIT, &mut argument);
                self.returned(step, ret, ours, rows.is_empty())?;
                equal("accesses", self.rig.board.take().accesses.len(), 0)?;
            }
            op => return Err(Mismatch::new(format!("unknown operation {op}"))),
        }
        let recorded = recorded_cursors(step, "after")?;
        let wanted = [model.ring(self.core).cursors(); 2];
        equal(
            "cursors after",
            cursors(self.rig.board.device(), self.ring.engine(), self.ring.qid())?,
            wanted,
        )?;
        if rows.is_empty() {
            equal("cursors that we promise", wanted, recorded)?;
        }
        Ok(())
    }

    fn copy(
        &self,
        step: &Object<'_>,
        source: Named,
        destination: Named,
        ours: &Answer,
        as_recorded: bool,
    ) -> Result<(), Mismatch> {
        let size = step.number("size")?;
        let from = End { chunk: source.chunk, offset: step.number("src_off")? };
        let to = End { chunk: destination.chunk, offset: step.number("dst_off")? };
        let before = self.bench.pattern();
        let pattern = self.bench.pattern();
        pattern.fill(self.rig.window(from, size)?.slice()?)?;
        before.fill(self.rig.window(to, size)?.slice()?)?;

        let mut argument = arg::MemCopyAsync64 {
            src_mem_handle: from.chunk.handle,
            dst_mem_handle: to.chunk.handle,
            size,
            src_offset: from.offset,
            dst_offset: to.offset,
            pwait_handle: step.word("prev")?,
            ..Default::default()
        };
        let ret = self.rig.client.call(&cmd::MEM_COPY_ASYNC64, &mut argument);

        self.returned(step, ret, ours.ret, as_recorded)?;
        let recording = self.rig.board.take();
        no_access_outside(&recording)?;
        let descriptors: Vec<_> = recording.batches.iter().map(|batch| batch.counts).collect();
        let wanted: Vec<_> = ours.batches.iter().map(|count| (*count, *count)).collect();
        equal("descriptors of each batch", descriptors, wanted)?;
        if as_recorded {
            let batches = if step.has("batches") { step.objects("batches")? } else { Vec::new() };
            equal_batches(&recording.batches, &batches)?;
        } else {
            step.skip("batches");
        }
        if ret == 0 {
            equal("handle", argument.wait_handle, ours.handle)?;
        }
        // Without an output there is nothing to compare.
        let handle = step.signed("handle")?;
        if as_recorded && ret == 0 {
            equal("handle that we promise", i64::from(ours.handle), handle)?;
        }
        // The engine is done when a doorbell's write returns; a refused copy moves nothing.
        let wanted = if ret == 0 { &pattern } else { &before };
        wanted.compare("destination", self.rig.window(to, size)?.slice()?)
    }

    fn returned(&self, step: &Object<'_>, ret: i64, ours: i64, as_recorded: bool) -> Result<(), Mismatch> {
        let recorded = step.signed("ret")?;
        equal("ret", ret, ours)?;
        if as_recorded { equal("ret that we promise", ours, recorded) } else { Ok(()) }
    }
}

/// What we promise for one copy.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) ret: i64,
    pub(crate) handle: u32,
    /// Descriptors of each batch.
    pub(crate) batches: Vec<u32>,
    /// The row of the table that the copy falls under, and what it says was recorded.
    pub(crate) row: Option<(Difference, i64)>,
}

impl Answer {
    const fn refused(ret: i64, row: Option<(Difference, i64)>) -> Self {
        Self { ret, handle: 0, batches: Vec::new(), row }
    }
}

/// Rings by core.
#[derive(Debug, Default)]
pub(crate) struct Model {
    rings: BTreeMap<u32, Ring>,
}

/// Cursors as counts since the start, and descriptors of the copies in contexts 1 and 2.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    taken: u32,
    completed: u32,
    running: [Option<u32>; 2],
}

impl Ring {
    /// The driver's cursors, the same in both directions.
    const fn cursors(&self) -> Cursors {
        Cursors {
            next: self.taken % H2T_RING,
            completed: self.completed % H2T_RING,
            ring_id: ((1 + self.taken / H2T_RING) % 4) as u8,
        }
    }

    fn context(&mut self, handle: u32) -> Option<&mut Option<u32>> {
        self.running.get_mut((handle as usize).checked_sub(1)?)
    }

    /// Ends the copy in a context.
    fn finish(&mut self, handle: u32) -> bool {
        let ended = self.context(handle).and_then(Option::take);
        self.completed += ended.unwrap_or(0);
        ended.is_some()
    }
}

impl Model {
    fn ring(&mut self, core: u32) -> &mut Ring {
        self.rings.entry(core).or_default()
    }

    /// Whether no copy runs that somebody has to wait for.
    pub(crate) fn is_idle(&mut self, core: u32) -> bool {
        self.ring(core).running == [None; 2]
    }

    /// `spec/dma-op.md` 5: what is checked, in which order, before anything is touched.
    pub(crate) fn copy(&mut self, core: u32, size: u64, previous: u32) -> Answer {
        let ring = self.ring(core);
        let (own, waited) = match previous {
            u32::MAX => (1, None),
            0 => {
                let batches = batches(size);
                ring.taken += batches.iter().sum::<u32>();
                ring.completed += batches.iter().sum::<u32>();
                return Answer { ret: 0, handle: 0, batches, row: None };
            }
            1 => (2, Some(1)),
            2 => (1, Some(2)),
            _ => return Answer::refused(EINVAL, None),
        };
        let own_runs = ring.context(own).is_some_and(|context| context.is_some());
        let waited_runs = waited.is_none_or(|waited| ring.context(waited).is_some_and(|c| c.is_some()));
        match (waited_runs, size > BATCH_BYTES, own_runs) {
            (false, _, own_runs) => Answer::refused(EINVAL, own_runs.then_some((ASYNC_CONTEXT_LOST, EINVAL))),
            (true, true, _) => Answer::refused(EINVAL, Some((ASYNC_TOO_LONG, EINVAL))),
            (true, false, true) => Answer::refused(EBUSY, Some((ASYNC_CONTEXT_TAKEN, 0))),
            (true, false, false) => {
                let batches = batches(size);
                let count = batches.iter().sum();
                ring.taken += count;
                if let Some(context) = ring.context(own) {
                    *context = Some(count);
                }
                if let Some(waited) = waited {
                    ring.finish(waited);
                }
                Answer { ret: 0, handle: own, batches, row: None }
            }
        }
    }

    pub(crate) fn wait(&mut self, core: u32, handle: u32) -> i64 {
        if self.ring(core).finish(handle) { 0 } else { EINVAL }
    }
}

/// Descriptors of each batch, markers included.
fn batches(size: u64) -> Vec<u32> {
    let count = |bytes: u64| bytes.div_ceil(65536) as u32 + 1;
    let (whole, rest) = (size / BATCH_BYTES, size % BATCH_BYTES);
    let full = std::iter::repeat_n(count(BATCH_BYTES), whole as usize);
    full.chain((rest > 0).then(|| count(rest))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_refused_changes_nothing() {
        let mut model = Model::default();
        assert_eq!(model.copy(0, 65536, u32::MAX).handle, 1);
        let before = model.ring(0).cursors();
        for (size, previous, ret) in
            [(65536, u32::MAX, EBUSY), (65536, 2, EINVAL), (BATCH_BYTES + 1, 1, EINVAL), (1, 3, EINVAL)]
        {
            assert_eq!(model.copy(0, size, previous).ret, ret);
            assert_eq!(model.ring(0).cursors(), before);
        }
        assert_eq!((model.wait(1, 1), model.wait(0, 1), model.wait(0, 1)), (EINVAL, 0, EINVAL));
        assert_eq!(model.ring(0).cursors(), Cursors { next: 2, completed: 2, ring_id: 1 });
    }

    #[test]
    fn handles_take_turns() {
        let mut model = Model::default();
        let handles = [u32::MAX, 1, 2, 1].map(|previous| model.copy(0, 1, previous).handle);
        assert_eq!(handles, [1, 2, 1, 2]);
        assert_eq!(model.ring(0).cursors(), Cursors { next: 8, completed: 6, ring_id: 1 });
    }
}
