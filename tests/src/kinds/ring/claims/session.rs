//! One case: its steps performed by our driver and by the model, and compared with what
//! was recorded until the two part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuron_driver::pool::ChunkRef;
use neuron_driver::queues::Binding;
use neuron_driver::requests::Wanted;

use super::super::ret;
use super::super::table::{self, Row, equal_rows};
use super::model::{Answer, Model};
use super::operation::Operation;
use crate::kinds::bench::Bench;
use crate::kinds::equal_recorded;
use crate::machine::{Board, equal_accesses};
use crate::vectors::difference::{
    CLOSE_KEEPS_RING, DEAD_OWNER, EXIT_KEEPS_QUEUES, REQUEST_TAKES_BOUND, SERVICE_TAKEN_OVER,
};
use crate::vectors::{Difference, Mismatch, Object, Outcome, equal};

/// Files of this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `ring_dynamic.jsonl`: a case may part from ours, and is then held against the model.
    Dynamic,
    /// `ring_clean.jsonl`: none parts.
    Clean,
}

/// A case that is being compared.
pub struct Session<'a> {
    form: Form,
    board: &'a Board,
    bench: &'a Bench,
    model: Model,
    /// Memory that processes bind, and how many hold each chunk while nobody binds it.
    chunks: Vec<(ChunkRef, usize)>,
    /// Tables that the case showed last, by engine.
    shown: BTreeMap<u32, Vec<Row>>,
    /// Processes whose recorded exit reset queues.
    dead: BTreeSet<i32>,
    /// All processes of the case.
    pids: BTreeSet<i32>,
    rows: Vec<Difference>,
    parted: bool,
}

impl<'a> Session<'a> {
    /// A session on a board that just came up and has allocated `chunks`.
    pub fn new(form: Form, bench: &'a Bench, board: &'a Board, chunks: &[ChunkRef]) -> Self {
        board.take();
        // Counted with the reference that the session itself keeps.
        let holders = |chunk: &ChunkRef| {
            let own = ChunkRef::clone(chunk);
            let count = Arc::strong_count(chunk);
            (own, count)
        };
        Self {
            form,
            board,
            bench,
            model: Model::new(board.device(), bench.host().in_use()),
            chunks: chunks.iter().map(holders).collect(),
            shown: BTreeMap::new(),
            dead: BTreeSet::new(),
            pids: BTreeSet::new(),
            rows: Vec::new(),
            parted: false,
        }
    }

    /// Performs and compares a step.
    ///
    /// # Errors
    /// What differs.
    pub fn step(&mut self, operation: Operation, step: &Object<'_>) -> Result<(), Mismatch> {
        let difference = self.difference(operation, step)?;
        let engine = self.engine(operation, step)?;
        let before = self.model.rows(engine);
        let answer = self.perform(operation)?;
        if self.parted {
            step.skip_all();
            return Ok(());
        }
        let Some(difference) = difference else { return self.compare(engine, &answer, operation, step) };
        self.rows.push(difference);
        self.parted = true;
        let h2t = engine >= self.board.device().arch().core_engines();
        // What an exit does elsewhere is not left out by the recorder.
        let before = if h2t { Some(before.as_slice()) } else { None };
        recorded_as_told(operation, before, &self.model.rows(engine), step)
    }

    /// Performs an operation, compares our answer and all that shows with the model's, and
    /// returns ours.
    ///
    /// # Errors
    /// What differs.
    pub fn perform(&mut self, operation: Operation) -> Result<Answer, Mismatch> {
        if let Operation::Request { pid, .. } | Operation::Bind { pid, .. } | Operation::Exit { pid } =
            operation
        {
            self.pids.insert(pid);
        }
        let ours = self.run(operation);
        let wanted = self.model.apply(operation);
        let at = |error: Mismatch| error.at("as the model has it");
        equal("ret and queue", (ours.ret, ours.qid), (wanted.ret, wanted.qid)).map_err(at)?;
        if let (Some(ours), Some(wanted)) = (&ours.accesses, &wanted.accesses) {
            equal_accesses("accesses", ours, wanted).map_err(at)?;
        }
        self.compare_with_model().map_err(at)?;
        Ok(ours)
    }

    fn run(&self, operation: Operation) -> Answer {
        let device = self.board.device();
        let (ret, qid) = match operation {
            Operation::Request { core, h2t, pid } => {
                let wanted = if h2t { Wanted::H2t } else { Wanted::Service };
                let qid = device.request_queue(core, wanted, pid);
                (ret(&qid), qid.ok())
            }
            Operation::Release { core, qid } => (ret(&device.release_queue(core, qid)), None),
            Operation::Bind { engine, qid, count, tx, rx, pid } => {
                let chunk = |address| {
                    let chunk = self.chunks.iter().find(|(chunk, _)| chunk.pa() == address);
                    chunk.map(|(chunk, _)| ChunkRef::clone(chunk))
                };
                let binding = Binding {
                    tx_count: count,
                    rx_count: count,
                    tx: chunk(tx),
                    rx: chunk(rx),
                    ..Binding::default()
                };
                (ret(&device.queue_init(engine, qid, binding, pid)), None)
            }
            Operation::Exit { pid } => {
                device.release_process_queues(pid);
                (0, None)
            }
            Operation::Init { map } => (ret(&device.init_cores(map)), None),
            Operation::Close { map } => {
                device.close_cores(map);
                (0, None)
            }
        };
        Answer { ret, qid, accesses: Some(self.board.take().accesses) }
    }

    /// Tables, memory, and who keeps which chunk.
    fn compare_with_model(&self) -> Result<(), Mismatch> {
        for engine in self.model.engines() {
            let ours = table::ours(self.board.device(), engine)?;
            equal_rows(&format!("engine {engine}"), &ours, &self.model.rows(engine))?;
        }
        for (chunk, idle) in &self.chunks {
            let holders = idle + self.model.holders(chunk.pa());
            equal(format!("holders of {:#x}", chunk.pa()), Arc::strong_count(chunk), holders)?;
        }
        equal("host memory in use", self.bench.host().in_use(), self.model.host_bytes())
    }

    /// The row of the table under which a step parts from ours, if it does.
    fn difference(&self, operation: Operation, step: &Object<'_>) -> Result<Option<Difference>, Mismatch> {
        if self.form == Form::Clean || self.parted {
            return Ok(None);
        }
        Ok(match operation {
            Operation::Close { .. } if step.has("rings_later") => Some(CLOSE_KEEPS_RING),
            Operation::Exit { pid } if self.model.has_queues(pid) => Some(EXIT_KEEPS_QUEUES),
            Operation::Request { core, .. } => {
                let owned = self.model.lowest_unclaimed(core).is_some_and(|(_, owned)| owned);
                owned.then_some(REQUEST_TAKES_BOUND)
            }
            Operation::Bind { engine, qid, pid, .. } if step.signed("ret")? == 0 => {
                let row = self.model.row(engine, qid);
                (row.claimed && !row.h2t && row.owner != pid).then_some(SERVICE_TAKEN_OVER)
            }
            _ => None,
        })
    }

    /// The engine whose table a step shows.
    fn engine(&self, operation: Operation, step: &Object<'_>) -> Result<u32, Mismatch> {
        match operation {
            Operation::Request { core, .. } | Operation::Release { core, .. } => {
                Ok(self.board.device().arch().h2t_engine(core))
            }
            Operation::Bind { engine, .. } => Ok(engine),
            Operation::Exit { .. } | Operation::Init { .. } | Operation::Close { .. } => step.word("eng"),
        }
    }

    /// Compares a step with what was recorded. Our answer is the model's by now.
    fn compare(
        &mut self,
        engine: u32,
        ours: &Answer,
        operation: Operation,
        step: &Object<'_>,
    ) -> Result<(), Mismatch> {
        if !matches!(operation, Operation::Exit { .. } | Operation::Close { .. }) {
            equal("ret", ours.ret, step.signed("ret")?)?;
        }
        // A later driver says -16 where all queues are taken; ours still says -1.
        step.skip("ret_later");
        if let Some(qid) = ours.qid {
            equal("qid", qid, step.word("qid")?)?;
        }
        let accesses = ours.accesses.as_deref().unwrap_or_default();
        equal_recorded(accesses, step)?;
        if let (Operation::Exit { pid }, false) = (operation, accesses.is_empty()) {
            self.dead.insert(pid);
        }
        let recorded = if step.has("rings") { Some(table::recorded(step, "rings")?) } else { None };
        if let Some(rows) = recorded {
            self.shown.insert(engine, rows);
        }
        let Some(wanted) = self.shown.get(&engine) else {
            // Nothing was ever shown of it: there was nothing, or there is no such engine.
            return equal("rings of an engine that is not shown", self.model.rows(engine), Vec::new());
        };
        let core_owned = engine < self.board.device().arch().core_engines();
        let mut wanted = wanted.clone();
        for row in wanted.iter_mut().filter(|row| core_owned && self.dead.contains(&row.owner)) {
            row.owner = 0;
            self.rows.push(DEAD_OWNER);
        }
        let ours = table::ours(self.board.device(), engine).unwrap_or_default();
        equal_rows("rings", &ours, &wanted)
    }

    /// Ends the case: everybody exits, and nothing of them is left.
    ///
    /// # Errors
    /// If something is, or an engine met an error.
    pub fn finish(mut self) -> Result<Outcome, Mismatch> {
        for pid in std::mem::take(&mut self.pids) {
            self.perform(Operation::Exit { pid }).map_err(|error| error.at(format!("exit of {pid}")))?;
        }
        let held: Vec<_> = self.chunks.iter().map(|(chunk, _)| self.model.holders(chunk.pa())).collect();
        equal("queues that hold memory of nobody", held, vec![0; self.chunks.len()])?;
        equal("no error of an engine", self.board.engines_found_no_error(), true)?;
        Ok(if self.rows.is_empty() { Outcome::Compared } else { Outcome::Differs(self.rows) })
    }
}

/// Whether the recorder did what the row says of it: else the step would differ for another
/// reason, and must not pass under this one.
fn recorded_as_told(
    operation: Operation,
    before: Option<&[Row]>,
    ours: &[Row],
    step: &Object<'_>,
) -> Result<(), Mismatch> {
    let rings = table::recorded(step, "rings")?;
    match operation {
        Operation::Close { .. } => {
            equal_rows("rings_later", ours, &table::recorded(step, "rings_later")?)?;
            equal("rings that only the recorder keeps", rings.len() > ours.len(), true)?;
        }
        // It leaves H2T engines alone.
        Operation::Exit { .. } => equal_rows("recorded rings", &rings, before.unwrap_or(&rings))?,
        Operation::Request { .. } => {
            let qid = step.word("qid")?;
            let taken =
                before.unwrap_or_default().iter().any(|row| row.qid == qid && !row.claimed && row.owner != 0);
            equal("recorded queue is one that a process bound", taken, true)?;
        }
        Operation::Bind { qid, pid, .. } => {
            let taken = rings.iter().any(|row| row.qid == qid && row.claimed && row.owner == pid);
            equal("recorded owner is the one that binds", taken, true)?;
        }
        Operation::Release { .. } | Operation::Init { .. } => {
            return Err(Mismatch::new("no step of this kind parts"));
        }
    }
    step.skip_all();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::place::Places;
    use super::*;
    use crate::machine::board::Cores;
    use neuron_abi::arch::Generation;
    use proptest::prelude::*;

    /// Processes, and cores and queues of which some do not exist.
    fn operation(generation: Generation, chunks: [u64; 2]) -> impl Strategy<Value = Operation> {
        let geometry = generation.geometry();
        let (cores, engines) = (geometry.cores, geometry.engines());
        let pid = 1..4;
        let h2t = engines - cores / geometry.cores_per_h2t_engine..engines;
        let engine = prop_oneof![8 => h2t, 4 => 0..3u32, 1 => Just(engines), 1 => Just(u32::MAX)];
        let count = prop_oneof![6 => Just(64), 1 => Just(16), 1 => Just(40), 1 => Just(256), 1 => Just(272)];
        let map = prop_oneof![0..1u32 << cores, Just(u32::MAX), Just(3)];
        prop_oneof![
            6 => (0..cores, any::<bool>(), pid.clone())
                .prop_map(|(core, h2t, pid)| Operation::Request { core, h2t, pid }),
            4 => (0..cores, 0..17u32).prop_map(|(core, qid)| Operation::Release { core, qid }),
            4 => (engine, 0..17u32, count, any::<bool>(), pid.clone()).prop_map(
                move |(engine, qid, count, swap, pid)| {
                    let [tx, rx] = if swap { [chunks[1], chunks[0]] } else { chunks };
                    Operation::Bind { engine, qid, count, tx, rx, pid }
                }
            ),
            2 => pid.prop_map(|pid| Operation::Exit { pid }),
            1 => map.clone().prop_map(|map| Operation::Init { map }),
            1 => map.prop_map(|map| Operation::Close { map }),
        ]
    }

    fn any_sequence_is_as_the_model_has_it(generation: Generation, cores: Cores) {
        let bench = Bench::new(generation).unwrap();
        let first = {
            let board = bench.still(cores).unwrap();
            Places::default()
                .on_memory_of(board.device(), generation.geometry().host_base, 4096)
                .unwrap()
                .pa()
        };
        let chunks = [first, first + 4096];
        let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(operations in prop::collection::vec(operation(generation, chunks), 1..60))| {
            let board = bench.still(cores).unwrap();
            let mut places = Places::default();
            for address in chunks {
                places.chunk(board.device(), address, 4096).unwrap();
            }
            let mut session = Session::new(Form::Dynamic, &bench, &board, places.chunks());
            for operation in operations {
                if let Err(error) = session.perform(operation) {
                    prop_assert!(false, "{operation:?}: {error}");
                }
            }
            prop_assert_eq!(session.finish(), Ok(Outcome::Compared));
            drop((places, board));
            prop_assert_eq!(bench.check_host_memory(), Ok(()));
        });
    }

    #[test]
    fn any_sequence_on_v2_is_as_the_model_has_it() {
        any_sequence_is_as_the_model_has_it(Generation::V2, Cores::Up);
    }

    #[test]
    fn any_sequence_on_v3_is_as_the_model_has_it() {
        any_sequence_is_as_the_model_has_it(Generation::V3, Cores::Up);
    }

    #[test]
    fn any_sequence_before_bring_up_is_as_the_model_has_it() {
        any_sequence_is_as_the_model_has_it(Generation::V3, Cores::Down);
    }
}
