//! The end of a session: its process exits. What that writes, and what memory is left.

use neuron_abi::limits::{DATASTORE_SIZE, MAX_PROCESSES};
use neuron_driver::OpenFile;
use neuron_driver::pool::GRANULE;
use neuron_udma::RingBase;

use super::ledger::{Claim, Ledger, QueueId};
use super::rows;
use crate::machine::{Access, Board, equal_accesses, programming};
use crate::vectors::{Difference, Mismatch, Object, equal};

/// Cores that allocations may name.
const CORES: u32 = neuron_driver::pool::usage::CORES as u32;
/// Writes that program a queue.
const INIT_WRITES: usize = 15;
/// Descriptors of the ring that an exit points queues at.
const DUMMY_DESCRIPTORS: u32 = 64;
/// Host bytes that the recorder's driver allocated for an H2T ring.
const RECORDED_RING_BYTES: u64 = 266_240;
/// Buffer of memset, bytes.
const MEMSET_BYTES: u64 = 65536;
/// The driver's own host memory apart from rings: data stores, dummy ring, memset buffer.
const OWN_BYTES: u64 = MAX_PROCESSES as u64 * DATASTORE_SIZE as u64 + GRANULE + MEMSET_BYTES;

/// Memory in use, as the recorder counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InUse {
    host: u64,
    device: u64,
}

impl InUse {
    fn now(board: &Board) -> Result<Self, Mismatch> {
        let device = board.device();
        let host = (0..CORES).map(|core| device.pools().core_counters(core).0.total).sum();
        let channels = 0..device.geometry().hbm.len() as u32;
        let used = channels.map(|channel| device.pools().hbm(channel).map(|used| used.allocated));
        let device = used.sum::<Option<u64>>().ok_or_else(|| Mismatch::new("a channel is missing"))?;
        Ok(Self { host, device })
    }
}

/// What there was before the session.
pub struct Before {
    in_use: InUse,
    /// Host bytes of one of our H2T rings.
    ring: u64,
    /// Host bytes that the recorder's driver had in use then.
    recorded_host: u64,
}

impl Before {
    /// Looks at a device that has just come up.
    ///
    /// # Errors
    /// If it has less than its own memory.
    pub fn now(board: &Board) -> Result<Self, Mismatch> {
        let in_use = InUse::now(board)?;
        let cores = u64::from(board.device().geometry().cores);
        let rings = in_use.host.checked_sub(OWN_BYTES).ok_or_else(|| Mismatch::new("too little memory"))?;
        equal("host memory divides evenly between default rings", rings % cores, 0)?;
        let recorded_host = OWN_BYTES + cores * RECORDED_RING_BYTES;
        Ok(Self { in_use, ring: rings / cores, recorded_host })
    }

    /// Our host memory where the recorder counted `recorded` bytes, `rings` requested rings
    /// among them, of which we keep `kept`.
    fn host(&self, recorded: u64, rings: u64, kept: u64) -> Result<u64, Mismatch> {
        recorded
            .checked_sub(self.recorded_host + rings * RECORDED_RING_BYTES)
            .map(|chunks| self.in_use.host + chunks + kept * self.ring)
            .ok_or_else(|| Mismatch::new(format!("only {recorded} bytes were in use")))
    }
}

/// Ends the session and compares. Tells the rows that it met.
///
/// # Errors
/// What differs.
pub fn check(
    board: &Board,
    case: &Object<'_>,
    before: &Before,
    files: Vec<OpenFile>,
    ledger: &Ledger<'_>,
) -> Result<Vec<Difference>, Mismatch> {
    let at_end = InUse::now(board)?;
    drop(files);
    let writes = board.take().accesses;
    let after = InUse::now(board)?;
    // Whatever the process did, nothing of it is left.
    equal("memory left", after, before.in_use)?;
    if case.is_null("close") {
        // The recorder's driver had stopped; ours must still end properly.
        return Ok(Vec::new());
    }
    let close = case.object("close")?;
    let rows = compare(board, &close, before, at_end, &writes, ledger)
        .and_then(|rows| close.finish().map(|()| rows))
        .map_err(|error| error.at("close"))?;
    Ok(rows)
}

fn compare(
    board: &Board,
    close: &Object<'_>,
    before: &Before,
    at_end: InUse,
    writes: &[Access],
    ledger: &Ledger<'_>,
) -> Result<Vec<Difference>, Mismatch> {
    let mut rows = Vec::new();
    equal("flush_ret", 0, close.signed("flush_ret")?)?;
    equal("release_ret", 0, close.signed("release_ret")?)?;

    let rings = ledger.claims(Claim::H2t).len() as u64;
    let host = before.host(close.number("host_mem_before")?, rings, rings)?;
    equal("host memory before", at_end.host, host)?;
    let host = before.host(close.number("host_mem_after")?, rings, 0)?;
    equal("host memory after", before.in_use.host, host)?;
    equal("device memory before", at_end.device, close.number("dev_mem_before")?)?;
    equal("device memory after", before.in_use.device, close.number("dev_mem_after")?)?;
    rows.extend((rings > 0).then_some(rows::RINGS_LEFT));

    let recorded = close.accesses("mmio")?;
    let never_bound = resets(board, ledger.never_bound())?;
    let services = ledger.claims(Claim::Service);
    let added = resets(board, services.iter().copied())?;
    let (without, resets): (Vec<_>, Vec<_>) =
        recorded.chunks(INIT_WRITES).partition(|reset| never_bound.iter().any(|never| never == reset));
    equal("queues that only the recorder's exit resets", without.len(), never_bound.len())?;
    rows.extend((!without.is_empty()).then_some(rows::UNCHECKED_EXIT));
    let mut expected: Vec<Access> = resets.concat();
    expected.extend(added.iter().flatten());
    rows.extend((!services.is_empty()).then_some(rows::SERVICE_RINGS_LEFT));
    equal_accesses("mmio", writes, &expected)?;
    Ok(rows)
}

/// The writes that point queues at the dummy ring; none for queues that NX cores drive.
fn resets(
    board: &Board,
    queues: impl Iterator<Item = QueueId>,
) -> Result<Vec<[Access; INIT_WRITES]>, Mismatch> {
    let device = board.device();
    let dummy = RingBase::new(device.dummy_ring_address(), DUMMY_DESCRIPTORS);
    queues
        .filter(|(engine, qid)| !device.arch().is_nx_queue(*engine, *qid))
        .map(|(engine, qid)| {
            let base = device.arch().engine_base(engine);
            let base = base.ok_or_else(|| Mismatch::new(format!("engine {engine} has no registers")))?;
            Ok(programming(base, qid, dummy, dummy))
        })
        .collect()
}
