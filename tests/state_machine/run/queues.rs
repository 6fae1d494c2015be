//! Requests, bindings, doorbells.

use neuron_abi::{arg, cmd};
use neuron_udma::descriptor::{Barrier, Copy};
use zerocopy::{FromBytes, IntoBytes};

use super::copies::same_bytes;
use super::{By, Outcome, Run, same};
use crate::machine::{BUFFER, RESULT};
use crate::model::memory::Chunk;
use crate::model::queues::Binding;
use crate::operation::{Operation, Part};

const E2BIG: i64 = -7;
const DESCRIPTOR: u64 = 16;

/// Queue types as the commands have them.
const TX: u32 = 0;
const RX: u32 = 1;

/// One copy that a ring is given.
#[derive(Clone, Copy)]
struct Given {
    source: u64,
    destination: u64,
    bytes: u64,
}

impl Run {
    pub(super) fn queues(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Request { by, core, copies, services } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.request(by, core.into(), copies.into(), services.into())
            }
            Operation::Release { by, core, map } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.release(by, core, map)
            }
            Operation::Bind { by, engine, qid, counts, chunks, completion } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                let handles = chunks.map(|pick| pick.map_or(0, |pick| self.handle(pick)));
                let completion = if completion { handles[1] } else { 0 };
                self.bind(by, (self.engine(engine), qid.into()), counts, handles, completion)
            }
            Operation::Ring { by, queue, ref copies, host_check } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                let bound = self.model.queues.bound();
                match usize::from(queue).checked_rem(bound.len()) {
                    Some(index) => self.ring(by, bound[index], copies, host_check),
                    None => Ok(()),
                }
            }
            Operation::Start { by, engine, qid, counts } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                let (engine, qid, counts) = (self.engine(engine), u32::from(qid), counts.map(u32::from));
                // What an engine would do with descriptors that nobody wrote, nobody can say.
                match self.model.queues.start(engine, qid, counts) {
                    0 => Ok(()),
                    _ => self.start(by, engine, qid, counts).map(drop),
                }
            }
            Operation::Acknowledge { by, engine, qid, count } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.acknowledge(by, self.engine(engine), qid.into(), count)
            }
            _ => Ok(()),
        }
    }

    /// An engine of a few that processes meet on, some of which do not exist.
    fn engine(&self, pick: u8) -> u32 {
        let arch = self.model.arch;
        let h2t = arch.geometry().h2t_engines;
        let last = arch.engines() - 1;
        let some = [0, 1, 3, 3, 16, 16, 17, 17, h2t[0], h2t[0], h2t[1], last, last, last + 1, 131, 132];
        some[usize::from(pick) % some.len()]
    }

    fn let_go(&mut self, chunks: impl IntoIterator<Item = u64>) {
        chunks.into_iter().for_each(|id| self.model.memory.let_go(id));
    }

    fn own_core(&self, core: u32) -> Result<(), i64> {
        if core < self.model.arch.geometry().cores { Ok(()) } else { Err(E2BIG) }
    }

    fn request(&mut self, by: By, core: u32, copies: u32, services: u32) -> Outcome {
        let mut argument = arg::H2tDmaAllocQueues {
            nc_id: core as u16,
            copy_queue_cnt: copies as u16,
            service_queue_cnt: services as u16,
            ..Default::default()
        };
        let ret = self.call(by, &cmd::H2T_DMA_ALLOC_QUEUES, &mut argument);
        let maps = self
            .refusal(by, true)
            .and_then(|()| self.own_core(core))
            .and_then(|()| self.model.queues.request(core, copies, services, by.pid));
        match maps {
            Err(errno) => same("request", ret, errno),
            Ok([copies, services]) => {
                let shown =
                    (argument.copy_queue_bmap, argument.service_queue_bmap, argument.copy_default_queue);
                let default = self.model.queues.ring(core).1;
                same("request", (ret, shown), (0, (copies, services, default)))
            }
        }
    }

    fn release(&mut self, by: By, core: u8, map: u32) -> Outcome {
        let mut argument = arg::H2tDmaFreeQueues { nc_id: core, queue_bmap: map, ..Default::default() };
        let ret = self.call(by, &cmd::H2T_DMA_FREE_QUEUES, &mut argument);
        if let Err(errno) = self.refusal(by, true).and_then(|()| self.own_core(core.into())) {
            return same("release", ret, errno);
        }
        let (freed, last) = self.model.queues.release(core.into(), map);
        self.let_go(freed);
        same("release", ret, last)
    }

    fn bind(
        &mut self,
        by: By,
        (engine, qid): (u32, u32),
        counts: [u32; 2],
        handles: [u64; 2],
        completion: u64,
    ) -> Outcome {
        let mut argument = arg::DmaQueueInit {
            eng_id: engine,
            qid,
            tx_desc_count: counts[0],
            rx_desc_count: counts[1],
            tx_handle: handles[0],
            rx_handle: handles[1],
            rxc_handle: completion,
            ..Default::default()
        };
        let ret = self.call(by, &cmd::DMA_QUEUE_INIT, &mut argument);
        let chunk = |handle| match handle {
            0 => Ok(None),
            handle => self.model.memory.by_handle(handle).map(|chunk| Some((chunk.id, chunk.size))),
        };
        let binding = self.refusal(by, true).and_then(|()| {
            let chunks = [chunk(handles[0])?, chunk(handles[1])?];
            let completion = chunk(completion)?.map(|(_, size)| size);
            Ok(Binding { engine, qid, counts, chunks, completion })
        });
        let bound = binding.and_then(|binding| {
            let old = self.model.queues.bind(&binding, by.pid)?;
            Ok((binding.chunks.into_iter().flatten(), old))
        });
        same("binding", ret, bound.as_ref().map_or_else(|errno| *errno, |_| 0))?;
        if let Ok((new, old)) = bound {
            new.for_each(|(id, _)| self.model.memory.hold(id));
            self.let_go(old.into_iter().flatten());
        }
        Ok(())
    }

    fn start(&self, by: By, eng_id: u32, qid: u32, counts: [u32; 2]) -> Result<bool, String> {
        let [tx_desc_count, rx_desc_count] = counts;
        let mut argument = arg::DmaQueueCopyStart { eng_id, qid, tx_desc_count, rx_desc_count };
        let ret = self.call(by, &cmd::DMA_QUEUE_COPY_START, &mut argument);
        let expected = match self.refusal(by, true) {
            Ok(()) => self.model.queues.start(eng_id, qid, counts),
            Err(errno) => errno,
        };
        same("doorbell", ret, expected).map(|()| ret == 0)
    }

    fn acknowledge(&self, by: By, eng_id: u32, qid: u32, count: u32) -> Outcome {
        let ret = self.call(by, &cmd::DMA_ACK_COMPLETED, &mut arg::DmaAckCompleted { eng_id, qid, count });
        let expected = match self.refusal(by, true) {
            Ok(()) => self.model.queues.acknowledge(eng_id, qid),
            Err(errno) => errno,
        };
        same("acknowledge", ret, expected)
    }

    /// The chunk of a bound ring, if it still has a handle to store descriptors by.
    fn ring_chunk(&self, id: Option<u64>) -> Option<Chunk> {
        id.map(|id| *self.model.memory.chunk(id)).filter(|chunk| chunk.handle != 0)
    }

    /// The copies that stay inside their chunks, and off the rings themselves.
    fn given(&self, copies: &[(Part, Part, u16)], rings: [Chunk; 2]) -> Vec<Given> {
        let place = |part: Part| {
            let chunk = self.model.memory.by_handle(self.handle(part.chunk)).ok()?;
            let offset = u64::from(part.offset) % chunk.size;
            let other = rings.iter().all(|ring| ring.id != chunk.id);
            other.then_some((chunk.pa + offset, chunk.size - offset))
        };
        let given = |&(from, to, len): &(Part, Part, u16)| {
            let ((source, room), (destination, more)) = (place(from)?, place(to)?);
            Some(Given { source, destination, bytes: u64::from(len).min(room).min(more) })
        };
        copies.iter().filter_map(given).collect()
    }

    fn ring(
        &mut self,
        by: By,
        (engine, qid): (u32, u32),
        copies: &[(Part, Part, u16)],
        host_check: bool,
    ) -> Outcome {
        let slot = self.model.queues.slot(engine, qid);
        let rings = slot.bound().map(|id| self.ring_chunk(id));
        let ([Some(tx), Some(rx)], Some((next, lap))) = (rings, slot.next) else { return Ok(()) };
        let given = self.given(copies, [tx, rx]);
        if given.is_empty() {
            return Ok(());
        }
        let (mut at, mut phase) = (next, lap);
        for copy in &given {
            let bytes = copy.bytes as u32;
            let (source, destination) = (copy.source, copy.destination);
            let copy = Copy { source, destination, bytes, barrier: Barrier::None, interrupt: false };
            for (ring, descriptor, queue_type) in
                [(tx, copy.tx(phase).unwrap(), TX), (rx, copy.rx(phase).unwrap(), RX)]
            {
                if !self.store(by, ring, at, descriptor, queue_type)? {
                    return Ok(());
                }
            }
            (at, phase) = if at + 1 == slot.sizes[0] { (0, (phase + 1) & 3) } else { (at + 1, phase) };
        }
        let count = given.len() as u32;
        if !self.start(by, engine, qid, [count; 2])? {
            return Ok(());
        }
        for copy in &given {
            self.model.memory.copy(copy.source, copy.destination, copy.bytes);
        }
        self.model.queues.slot_mut(engine, qid).next = Some((at, phase));
        self.look(by, engine, qid, [tx.pa, rx.pa], slot.sizes[0], at)?;
        if host_check {
            self.copy_out(by, (engine, qid), tx, next)?;
        }
        self.acknowledge(by, engine, qid, count)
    }

    /// Whether a store of descriptors in this chunk gets there: by the core's ring if it is
    /// device memory.
    fn reaches(&self, ring: &Chunk) -> Result<(), i64> {
        if ring.wanted.host { Ok(()) } else { self.model.queues.copy_ring(ring.wanted.core).map(drop) }
    }

    fn store(
        &mut self,
        by: By,
        ring: Chunk,
        at: u32,
        descriptor: [u8; 16],
        queue_type: u32,
    ) -> Result<bool, String> {
        let offset = u64::from(at) * DESCRIPTOR;
        self.machine.space.map(BUFFER, descriptor.to_vec());
        let mut store = arg::DmaCopyDescriptors64 {
            mem_handle: ring.handle,
            buffer: BUFFER,
            num_descs: 1,
            offset,
            queue_type,
            ..Default::default()
        };
        let ret = self.call(by, &cmd::DMA_COPY_DESCRIPTORS64, &mut store);
        let expected = self.refusal(by, true).and_then(|()| self.reaches(&ring));
        same("descriptors", ret, expected.map_or_else(|errno| errno, |()| 0))?;
        if ret == 0 {
            self.model.memory.write(ring.pa + offset, &descriptor.map(u16::from));
        }
        Ok(ret == 0)
    }

    /// The registers show the rings, and an engine that did everything it was told of.
    fn look(&self, by: By, eng_id: u32, qid: u32, bases: [u64; 2], length: u32, next: u32) -> Outcome {
        let size = size_of::<arg::DmaQueueState>();
        self.machine.space.map(RESULT, vec![0; 2 * size]);
        let mut state = arg::DmaQueueGetState { eng_id, qid, tx: RESULT, rx: RESULT + size as u64 };
        same("asking for a queue's state", self.call(by, &cmd::DMA_QUEUE_GET_STATE, &mut state), 0)?;
        let shown = self.machine.space.bytes(RESULT, 2 * size).map_err(|errno| errno.to_string())?;
        for (shown, base) in shown.chunks(size).zip(bases) {
            let state = arg::DmaQueueState::read_from_bytes(shown).map_err(|error| error.to_string())?;
            let shown = (state.base_addr, state.length, state.head_pointer, state.tail_pointer);
            same("a queue's state", shown, (base, length, next, next))?;
        }
        Ok(())
    }

    fn copy_out(&self, by: By, (eng_id, qid): (u32, u32), ring: Chunk, start_index: u32) -> Outcome {
        self.machine.space.map(BUFFER, vec![0; 16]);
        let mut argument = arg::DmaDescriptorCopyout {
            eng_id,
            qid,
            queue_type: TX,
            start_index,
            count: 1,
            buffer: BUFFER,
            ..Default::default()
        };
        let ret = self.call(by, &cmd::DMA_DESCRIPTOR_COPYOUT, &mut argument);
        same("descriptors read back", ret, self.reaches(&ring).map_or_else(|errno| errno, |()| 0))?;
        let pa = ring.pa + u64::from(start_index) * DESCRIPTOR;
        let bytes = self.machine.space.bytes(BUFFER, 16).map_err(|errno| errno.to_string())?;
        let model = self.model.memory.read(pa, DESCRIPTOR);
        if ret == 0 { same_bytes("descriptors read back", pa, bytes.as_bytes(), &model) } else { Ok(()) }
    }
}
