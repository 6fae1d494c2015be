//! Queues that processes use: bound, started, acknowledged, looked at (seed 003 §4.2,
//! §4.4, §4.5; `spec/driver.md` 5). Claiming them is [`requests`](crate::requests)'s.

use neuron_abi::errno::Errno;
use neuron_udma::{DESCRIPTOR_SIZE, EngineState, QueueSnapshot, RingBase, RingRegisters, SettableState};

use crate::arch::QUEUES;
use crate::device::Device;
use crate::error::udma_errno;
use crate::hw::Bar0;
use crate::pool::ChunkRef;
use crate::ring::{Addresses, Bound, Engine, Flavour, Queue};

/// What a process binds to a queue.
#[derive(Clone, Debug, Default)]
pub struct Binding {
    /// Descriptors of the TX ring, as given: nothing is rounded.
    pub tx_count: u32,
    /// Descriptors of the RX ring.
    pub rx_count: u32,
    /// TX ring's memory; without it the base is 0 and the caller manages the ring.
    pub tx: Option<ChunkRef>,
    /// RX ring's memory.
    pub rx: Option<ChunkRef>,
    /// Completion ring's memory: checked, then always refused.
    pub completion: Option<ChunkRef>,
    /// Non-zero selects AXI port 1 for rings in device memory.
    pub port: u32,
}

/// Descriptor rings of the dummy that queues of dead processes are pointed at.
const DUMMY_DESCRIPTORS: u32 = 64;

impl Device {
    /// Binds rings to a queue and programs it. Everything is checked before anything
    /// changes: a refused call leaves owner, rings and registers as they were.
    ///
    /// # Errors
    /// In this order: EINVAL for engine or queue, for a count above its chunk; EALREADY on
    /// an H2T ring; EBUSY on a service ring of another process; then as
    /// [`Udma::init_queue`](neuron_udma::Udma::init_queue).
    pub fn queue_init(&self, engine: u32, qid: u32, binding: Binding, pid: i32) -> Result<(), Errno> {
        let mut engine = self.engines().lock(engine)?;
        let queue = engine.queue(qid)?;
        for (count, chunk) in [
            (binding.tx_count, &binding.tx),
            (binding.rx_count, &binding.rx),
            (binding.rx_count, &binding.completion),
        ] {
            let bytes = u64::from(count) * DESCRIPTOR_SIZE as u64;
            if chunk.as_ref().is_some_and(|chunk| bytes > chunk.size()) {
                return Err(Errno::EINVAL);
            }
        }
        match queue.flavour {
            Flavour::H2t { .. } => return Err(Errno::EALREADY),
            Flavour::Service { owner, .. } if owner != pid => return Err(Errno::EBUSY),
            _ => {}
        }
        let address = |chunk: &Option<ChunkRef>| {
            chunk.as_ref().map(|chunk| {
                let port = if chunk.is_device() && binding.port != 0 { self.arch().port_1_base } else { 0 };
                chunk.pa() | port
            })
        };
        let (tx, rx) = (address(&binding.tx), address(&binding.rx));
        engine
            .udma
            .init_queue(
                &Bar0(self.hardware()),
                qid,
                RingBase { base: tx, size: binding.tx_count },
                RingBase { base: rx, size: binding.rx_count },
                binding.completion.is_some(),
                false,
            )
            .map_err(udma_errno)?;
        let queue = engine.queue(qid)?;
        let old = queue.bind(Bound { tx: binding.tx, rx: binding.rx }, pid);
        queue.shown = Addresses { tx: tx.unwrap_or(0), rx: rx.unwrap_or(0) };
        drop(engine);
        // What was bound before may go now; not under the engine.
        drop(old);
        Ok(())
    }

    /// Rings a queue's doorbells, RX first.
    ///
    /// # Errors
    /// EINVAL for engine, queue, a count above its ring, or a queue whose RX memory nobody
    /// holds; EPERM for an RX count of 0. Nothing is rung then.
    pub fn queue_copy_start(&self, engine: u32, qid: u32, tx_count: u32, rx_count: u32) -> Result<(), Errno> {
        let mut engine = self.engines().lock(engine)?;
        self.start(&mut engine, qid, tx_count, rx_count)
    }

    /// As [`queue_copy_start`](Self::queue_copy_start), for a process.
    ///
    /// # Errors
    /// The same, and EALREADY on an H2T ring, as for [`queue_init`](Self::queue_init): what is
    /// on it are copies of others (our choice).
    pub(crate) fn user_copy_start(&self, engine: u32, qid: u32, counts: (u32, u32)) -> Result<(), Errno> {
        let mut engine = self.engines().lock(engine)?;
        refuse_h2t(engine.queue(qid)?)?;
        self.start(&mut engine, qid, counts.0, counts.1)
    }

    fn start(&self, engine: &mut Engine, qid: u32, tx_count: u32, rx_count: u32) -> Result<(), Errno> {
        let held = engine.queue(qid)?.has_rx();
        if rx_count > 0 && !held {
            return Err(Errno::EINVAL);
        }
        engine.udma.start(&Bar0(self.hardware()), qid, tx_count, rx_count).map_err(udma_errno)
    }

    /// Returns spent descriptors, RX first. The count is not bounded by what is outstanding.
    ///
    /// # Errors
    /// EINVAL for engine, queue, or a ring that is no power of two.
    pub fn queue_acknowledge(&self, engine: u32, qid: u32, count: u32) -> Result<(), Errno> {
        self.engines().lock(engine)?.udma.acknowledge(qid, count).map_err(udma_errno)
    }

    /// As [`queue_acknowledge`](Self::queue_acknowledge), for a process.
    ///
    /// # Errors
    /// The same, and EALREADY on an H2T ring, whose slots are the driver's to return (our
    /// choice).
    pub(crate) fn user_acknowledge(&self, engine: u32, qid: u32, count: u32) -> Result<(), Errno> {
        let mut engine = self.engines().lock(engine)?;
        refuse_h2t(engine.queue(qid)?)?;
        engine.udma.acknowledge(qid, count).map_err(udma_errno)
    }

    /// Base and length of a queue's (TX, RX) rings, from the registers.
    ///
    /// # Errors
    /// EINVAL for engine or queue, EIO when a register cannot be read. The engine is free
    /// again either way.
    pub fn queue_ring_registers(
        &self,
        engine: u32,
        qid: u32,
    ) -> Result<(RingRegisters, RingRegisters), Errno> {
        let engine = self.engines().lock(engine)?;
        engine.udma.ring_registers(&Bar0(self.hardware()), qid).map_err(udma_errno)
    }

    /// State of a queue's (TX, RX) halves.
    ///
    /// # Errors
    /// As [`queue_ring_registers`](Self::queue_ring_registers).
    pub fn queue_state(&self, engine: u32, qid: u32) -> Result<(QueueSnapshot, QueueSnapshot), Errno> {
        let engine = self.engines().lock(engine)?;
        engine.udma.queue_snapshot(&Bar0(self.hardware()), qid).map_err(udma_errno)
    }

    /// Asks an engine for a state by its number.
    ///
    /// # Errors
    /// EINVAL for an engine that was never initialised, or a state but 0, 2, 3.
    pub fn engine_set_state(&self, engine: u32, state: u32) -> Result<(), Errno> {
        let engine = initialised(self.engines().lock(engine)?)?;
        let state = SettableState::from_raw(state).map_err(udma_errno)?;
        engine.udma.set_state(&Bar0(self.hardware()), state).map_err(udma_errno)
    }

    /// State of an engine's (TX, RX) directions.
    ///
    /// # Errors
    /// EINVAL for an engine that was never initialised, EIO when a register cannot be read.
    pub fn engine_state(&self, engine: u32) -> Result<(EngineState, EngineState), Errno> {
        let engine = initialised(self.engines().lock(engine)?)?;
        engine.udma.state(&Bar0(self.hardware())).map_err(udma_errno)
    }

    /// Points a queue at the dummy ring, so that its hardware reaches nothing of a dead
    /// process. Queues that NX cores drive keep their registers.
    pub(crate) fn reset_queue(&self, engine: &mut Engine, qid: u32) -> Result<(), Errno> {
        let id = engine.id;
        let queue = engine.queue(qid)?;
        queue.flavour = Flavour::Unused;
        if self.arch().is_nx_queue(id, qid) {
            return Ok(());
        }
        let dummy = self.dummy_ring_address();
        let ring = RingBase::new(dummy, DUMMY_DESCRIPTORS);
        engine.udma.init_queue(&Bar0(self.hardware()), qid, ring, ring, false, false).map_err(udma_errno)?;
        engine.queue(qid)?.shown = Addresses { tx: dummy, rx: dummy };
        Ok(())
    }

    /// Queues in numeric order, for scans.
    pub(crate) const fn queue_numbers() -> std::ops::Range<u32> {
        0..QUEUES
    }
}

/// The engine, if it was ever initialised.
fn initialised<E: std::ops::Deref<Target = Engine>>(engine: E) -> Result<E, Errno> {
    if engine.udma.num_queues() == 0 { Err(Errno::EINVAL) } else { Ok(engine) }
}

/// The driver's own rings are no process's to ring or to acknowledge.
fn refuse_h2t(queue: &Queue) -> Result<(), Errno> {
    if queue.h2t().is_some() { Err(Errno::EALREADY) } else { Ok(()) }
}

impl Queue {
    /// Takes what a process binds; a service ring stays one. Returns what was bound before.
    fn bind(&mut self, bound: Bound, pid: i32) -> Bound {
        match &mut self.flavour {
            Flavour::Service { bound: old, .. } => std::mem::replace(old, bound),
            flavour => match std::mem::replace(flavour, Flavour::Model { owner: pid, bound }) {
                Flavour::Model { bound: old, .. } => old,
                _ => Bound::default(),
            },
        }
    }
}
