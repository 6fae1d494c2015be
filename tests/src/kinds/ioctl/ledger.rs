//! What a session has done so far, as far as rows of the table and the exit depend on it:
//! queues bound, rings claimed, asynchronous copies running; and where the recorder's
//! driver has parted ways with ours.

use std::collections::{BTreeMap, BTreeSet};

use neuron_abi::errno::Errno;
use neuron_abi::{arg, cmd};
use neuron_driver::Device;
use neuron_driver::pool::ChunkRef;
use neuron_udma::regs::{Direction, queue};
use zerocopy::FromBytes;

use super::memory::Memory;
use super::promise::{Accesses, Outputs, Promise, negative, read};
use super::rows;
use super::step::{Content, Step};
use crate::kinds::memcpy::asynchronous::Model;
use crate::machine::Access;
use crate::vectors::{Mismatch, equal};

/// Engine and queue.
pub type QueueId = (u32, u32);

const EINVAL: i64 = negative(Errno::EINVAL);
const DESCRIPTOR: u64 = neuron_udma::DESCRIPTOR_SIZE as u64;
/// Writes that program a queue.
const INIT_WRITES: usize = 15;
/// Bits of a queue map that are looked at.
const QUEUES: u32 = neuron_udma::QUEUES as u32;

/// What the process bound to a queue.
#[derive(Clone, Copy, Debug)]
struct Binding {
    tx: u32,
    rx: u32,
    /// Whether it has memory for RX.
    has_rx: bool,
}

/// A ring that the process claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The driver copies with it.
    H2t,
    /// The process manages it.
    Service,
}

/// The state of a session.
pub struct Ledger<'d> {
    device: &'d Device,
    bound: BTreeMap<QueueId, Binding>,
    /// Queues that the recorder's driver has bound otherwise than ours.
    parted: BTreeSet<QueueId>,
    /// Queues of which ours refused an init that the recorder's driver accepted, for good:
    /// the recorder's exit resets them all.
    refused: BTreeSet<QueueId>,
    /// Claimed queues, and for which core.
    claims: BTreeMap<QueueId, (u32, Claim)>,
    copies: Model,
    /// Default rings on which other copies run than for the recorder.
    parted_rings: BTreeSet<QueueId>,
    contents_parted: bool,
}

impl<'d> Ledger<'d> {
    /// A session that has done nothing. The device is asked for the chunks of handles.
    pub fn new(device: &'d Device) -> Self {
        Self {
            device,
            bound: BTreeMap::new(),
            parted: BTreeSet::new(),
            refused: BTreeSet::new(),
            claims: BTreeMap::new(),
            copies: Model::default(),
            parted_rings: BTreeSet::new(),
            contents_parted: false,
        }
    }

    /// Queues that the recorder's exit resets and ours does not: no init that bound them was
    /// accepted.
    pub fn never_bound(&self) -> impl Iterator<Item = QueueId> {
        self.refused.iter().filter(|queue| !self.bound.contains_key(queue)).copied()
    }

    /// Rings claimed and not released, ascending.
    pub fn claims(&self, wanted: Claim) -> Vec<QueueId> {
        let is_wanted = |(queue, (_, claim)): (&QueueId, &(u32, Claim))| (*claim == wanted).then_some(*queue);
        self.claims.iter().filter_map(is_wanted).collect()
    }

    pub(super) fn is_parted(&self, queue: QueueId) -> bool {
        self.parted.contains(&queue)
    }

    /// Whether chunks may hold other bytes than for the recorder.
    pub(super) const fn contents_parted(&self) -> bool {
        self.contents_parted
    }

    fn chunk(&self, handle: u64) -> Option<ChunkRef> {
        self.device.pools().lookup(handle).ok()
    }

    /// Whether an offset and a size of the step exceed 64 bits together.
    pub(super) fn range_wraps(&self, step: &Step<'_>, memory: &Memory) -> bool {
        let wraps = |offset: u64, size: u64| offset.checked_add(size).is_none();
        let both = |from, to, size| wraps(from, size) || wraps(to, size);
        match step.word {
            word if word == cmd::MEM_COPY64.word => read(step, memory)
                .is_ok_and(|arg: arg::MemCopy64| both(arg.src_offset, arg.dst_offset, arg.size)),
            word if word == cmd::MEM_COPY_ASYNC64.word => read(step, memory)
                .is_ok_and(|arg: arg::MemCopyAsync64| both(arg.src_offset, arg.dst_offset, arg.size)),
            word if word == cmd::MEM_BUF_COPY64.word => {
                read(step, memory).is_ok_and(|arg: arg::MemBufCopy64| wraps(arg.offset, arg.size))
            }
            word if word == cmd::MEMSET.word => {
                read(step, memory).is_ok_and(|arg: arg::Memset| wraps(arg.offset, arg.size.into()))
            }
            word if word == cmd::MEMSET64.word => {
                read(step, memory).is_ok_and(|arg: arg::Memset64| wraps(arg.offset, arg.size))
            }
            word if word == cmd::DMA_COPY_DESCRIPTORS64.word => {
                read(step, memory).is_ok_and(|arg: arg::DmaCopyDescriptors64| {
                    wraps(arg.offset, u64::from(arg.num_descs) * DESCRIPTOR)
                })
            }
            _ => false,
        }
    }

    /// One or more queue inits in a call, of which the recorder's driver accepted as many as
    /// it programmed.
    ///
    /// # Errors
    /// If the recording does not return 0 exactly if it programmed all.
    pub(super) fn init(
        &mut self,
        step: &Step<'_>,
        ret: i64,
        entries: &[arg::DmaQueueInit],
    ) -> Result<Promise, Mismatch> {
        let accepted = entries.get(..step.accesses.len() / INIT_WRITES).unwrap_or(entries);
        if ret == 0 || !accepted.is_empty() {
            equal("recorded ret is 0", ret == 0, accepted.len() == entries.len())?;
        }
        for (index, entry) in accepted.iter().enumerate() {
            if self.is_checked(entry) {
                let queue = (entry.eng_id, entry.qid);
                let (tx, rx) = (entry.tx_desc_count, entry.rx_desc_count);
                self.bound.insert(queue, Binding { tx, rx, has_rx: entry.rx_handle != 0 });
                self.parted.remove(&queue);
                continue;
            }
            let others = accepted.iter().skip(index).map(|entry| (entry.eng_id, entry.qid));
            self.parted.extend(others.clone());
            self.refused.extend(others);
            let accesses = step.accesses.iter().take(index * INIT_WRITES).copied().collect();
            let refused = Promise::refused(EINVAL, Some(rows::UNCHECKED_INIT));
            return Ok(Promise { accesses: Accesses::Are(accesses), ..refused });
        }
        Ok(Promise::recorded(step, ret))
    }

    /// Whether each handle of a queue init names a chunk that holds its descriptors.
    fn is_checked(&self, entry: &arg::DmaQueueInit) -> bool {
        [
            (entry.tx_handle, entry.tx_desc_count),
            (entry.rx_handle, entry.rx_desc_count),
            (entry.rxc_handle, entry.rx_desc_count),
        ]
        .into_iter()
        .filter(|(handle, _)| *handle != 0)
        .all(|(handle, count)| {
            self.chunk(handle).is_some_and(|chunk| u64::from(count) * DESCRIPTOR <= chunk.size())
        })
    }

    /// What doorbells of a parted queue return and write.
    pub(super) fn start(
        &mut self,
        arg: &arg::DmaQueueCopyStart,
        recorded: i64,
    ) -> Option<(i64, Vec<Access>)> {
        let queue = (arg.eng_id, arg.qid);
        if !self.is_parted(queue) {
            return None;
        }
        let (tx, rx) = (arg.tx_desc_count, arg.rx_desc_count);
        let ours = match self.bound.get(&queue) {
            Some(bound) if tx > bound.tx || rx > bound.rx => (EINVAL, Vec::new()),
            None if tx > 0 || rx > 0 => (EINVAL, Vec::new()),
            _ if rx == 0 => (negative(Errno::EPERM), Vec::new()),
            Some(bound) if bound.has_rx => (0, self.doorbells(queue, tx, rx)),
            _ => (EINVAL, Vec::new()),
        };
        self.contents_parted |= ours.0 == 0 || recorded == 0;
        Some(ours)
    }

    /// Writes of both doorbells, RX first.
    fn doorbells(&self, (engine, qid): QueueId, tx: u32, rx: u32) -> Vec<Access> {
        let base = self.device.arch().engine_base(engine).unwrap_or_default();
        let one = |direction: Direction, count| {
            let doorbell = base + direction.queue_block(qid) + queue::DRTP_INC;
            (count > 0).then(|| Access::write(doorbell, count))
        };
        [one(Direction::Rx, rx), one(Direction::Tx, tx)].into_iter().flatten().collect()
    }

    /// What an acknowledge on a parted queue returns.
    pub(super) fn acknowledge(&self, arg: &arg::DmaAckCompleted) -> Option<i64> {
        let queue = (arg.eng_id, arg.qid);
        let whole = |bound: &Binding| bound.tx.is_power_of_two() && bound.rx.is_power_of_two();
        self.is_parted(queue).then(|| match self.bound.get(&queue) {
            Some(bound) if !whole(bound) => EINVAL,
            _ => 0,
        })
    }

    /// Rings that a call claimed, by its reply.
    pub(super) fn claimed(&mut self, step: &Step<'_>) -> Result<(), Mismatch> {
        let reply = match step.outputs.as_slice() {
            [(_, Content::Bytes(bytes))] => bytes,
            // Nothing was claimed, and core and default queue are 0.
            _ => &step.arg,
        };
        let reply = arg::H2tDmaAllocQueues::read_from_bytes(reply)
            .map_err(|_| Mismatch::new("the reply is no h2t_dma_alloc_queues"))?;
        let core = u32::from(reply.nc_id);
        let (engine, _) = self.device.geometry().h2t_ring(core);
        for (map, claim) in [(reply.copy_queue_bmap, Claim::H2t), (reply.service_queue_bmap, Claim::Service)]
        {
            for qid in bits(map) {
                equal(
                    format!("queue {qid} claimed before"),
                    self.claims.insert((engine, qid), (core, claim)),
                    None,
                )?;
            }
        }
        Ok(())
    }

    /// Rings that a call releases: those claimed for its core.
    pub(super) fn freed(&mut self, arg: &arg::H2tDmaFreeQueues) {
        let core = u32::from(arg.nc_id);
        let (engine, _) = self.device.geometry().h2t_ring(core);
        for qid in bits(arg.queue_bmap) {
            if self.claims.get(&(engine, qid)).is_some_and(|(owner, _)| *owner == core) {
                self.claims.remove(&(engine, qid));
            }
        }
    }

    /// The chunks of an asynchronous copy, and its ring: that of the source's core, if the
    /// source is on the device.
    fn ring(&self, source: u64, destination: u64) -> Option<(ChunkRef, ChunkRef, QueueId)> {
        let (source, destination) = (self.chunk(source)?, self.chunk(destination)?);
        let core = if source.is_device() { source.core_id() } else { destination.core_id() };
        let ring = self.device.geometry().h2t_ring(core);
        Some((source, destination, ring))
    }

    pub(super) fn copy_async(
        &mut self,
        step: &Step<'_>,
        ret: i64,
        arg: &arg::MemCopyAsync64,
    ) -> Result<Promise, Mismatch> {
        let recorded = Promise::recorded(step, ret);
        let Some((source, destination, ring)) = self.ring(arg.src_mem_handle, arg.dst_mem_handle) else {
            return Ok(recorded);
        };
        let inside = |chunk: &ChunkRef, offset: u64| {
            let allowed = self.device.pools().bounds(chunk);
            offset.checked_add(arg.size).is_some_and(|end| end <= allowed)
        };
        if !inside(&source, arg.src_offset) || !inside(&destination, arg.dst_offset) {
            return Ok(recorded);
        }
        let answer = self.copies.copy(number(ring), arg.size, arg.pwait_handle);
        let accesses: Vec<_> =
            answer.batches.iter().flat_map(|count| self.doorbells(ring, *count, *count)).collect();
        let mut reply = step.arg.clone();
        let at = reply.len().saturating_sub(size_of::<u32>());
        if let Some(handle) = reply.get_mut(at..) {
            handle.copy_from_slice(&answer.handle.to_le_bytes());
        }
        let outputs = if answer.ret == 0 { vec![(step.argument, Content::Bytes(reply))] } else { Vec::new() };
        if !self.parted_rings.contains(&ring) {
            let wanted = answer.row.map_or(answer.ret, |(_, recorded)| recorded);
            equal("recorded ret", ret, wanted)?;
            if answer.row.is_none() {
                equal("accesses that we promise", &accesses, &step.accesses)?;
                return Ok(recorded);
            }
        }
        // Where no copy of ours runs after it, the row's copy left none of the recorder's either.
        if answer.row.is_some() && !self.copies.is_idle(number(ring)) {
            self.parted_rings.insert(ring);
        }
        self.contents_parted |= accesses != step.accesses;
        Ok(Promise {
            accesses: Accesses::Are(accesses),
            outputs: Outputs::Are(outputs),
            ..Promise::refused(answer.ret, answer.row.map(|(row, _)| row))
        })
    }

    pub(super) fn wait(
        &mut self,
        step: &Step<'_>,
        ret: i64,
        arg: &arg::MemCopyAsyncWait,
    ) -> Result<Promise, Mismatch> {
        let Some((_, _, ring)) = self.ring(arg.src_mem_handle, arg.dst_mem_handle) else {
            return Ok(Promise::recorded(step, ret));
        };
        let ours = self.copies.wait(number(ring), arg.pwait_handle);
        if !self.parted_rings.contains(&ring) {
            equal("recorded ret", ret, ours)?;
        }
        Ok(Promise::recorded(step, ours))
    }
}

/// A ring's number, for the model of copies.
const fn number((engine, qid): QueueId) -> u32 {
    engine * QUEUES + qid
}

/// Queues of a map.
fn bits(map: u32) -> impl Iterator<Item = u32> {
    (0..QUEUES).filter(move |qid| map >> qid & 1 == 1)
}
