//! Claiming queues of an H2T engine and letting them go: requests, releases, and the exit
//! of a process (seed 003 §4.5, §4.6; `spec/driver.md` 6).

use std::sync::Arc;

use neuron_abi::errno::Errno;

use crate::device::Device;
use crate::ring::{Bound, Flavour, H2tMemory, Queue};

/// What a process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A ring that the driver copies with on the process's behalf.
    H2t,
    /// A slot that the process manages itself.
    Service,
}

impl Device {
    /// Claims the lowest free queue of the core's H2T engine. Default queues, claimed ones
    /// and such that a process bound are passed over. H2T and service rings must be asked
    /// for before model rings are bound to the same engine, or those take the slots.
    ///
    /// # Errors
    /// EPERM when no queue is free; ENOMEM; the program step's error. Nothing is claimed
    /// then.
    pub fn request_queue(&self, core: u32, wanted: Wanted, pid: i32) -> Result<u32, Errno> {
        let engine_id = self.arch().h2t_engine(core);
        if wanted == Wanted::Service {
            let mut engine = self.engines().lock(engine_id)?;
            let qid = self.free_queue(engine_id, &engine.queues)?;
            // What a released ring left in the registers keeps showing.
            engine.queue(qid)?.flavour = Flavour::Service { core, owner: pid, bound: Bound::default() };
            return Ok(qid);
        }
        // Memory is allocated without the engine, which may be full by then: look twice.
        self.free_queue(engine_id, &self.engines().lock(engine_id)?.queues)?;
        let memory = H2tMemory::allocate(self.pools(), core)?;
        let mut engine = self.engines().lock(engine_id)?;
        match self.free_queue(engine_id, &engine.queues) {
            Ok(qid) => self.put_h2t(&mut engine, qid, core, memory, Some(pid)).map(|()| qid),
            Err(full) => {
                drop(engine);
                memory.discard(self.pools());
                Err(full)
            }
        }
    }

    fn free_queue(&self, engine: u32, queues: &[Queue]) -> Result<u32, Errno> {
        (0..)
            .zip(queues)
            .find(|&(qid, queue)| {
                matches!(queue.flavour, Flavour::Unused) && !self.engines().is_default_queue(engine, qid)
            })
            .map(|(qid, _)| qid)
            .ok_or(Errno::EPERM)
    }

    /// Lets a claimed queue of the core's H2T engine go: an H2T ring is freed once its
    /// copies ended, of a service ring only the claim and the references. Any process may
    /// release. A default queue stays, which is no error.
    ///
    /// # Errors
    /// EINVAL from queue 16 on; ENXIO if it is not claimed, or for another core.
    pub fn release_queue(&self, core: u32, qid: u32) -> Result<(), Errno> {
        let engine_id = self.arch().h2t_engine(core);
        let ring = {
            let mut engine = self.engines().lock(engine_id)?;
            let queue = engine.queue(qid)?;
            if self.engines().is_default_queue(engine_id, qid) {
                return Ok(());
            }
            if !queue.is_claimed() || queue.core() != Some(core) {
                return Err(Errno::ENXIO);
            }
            match queue.h2t() {
                Some(ring) => Arc::clone(ring),
                None => {
                    let released = std::mem::take(&mut queue.flavour);
                    drop(engine);
                    drop(released);
                    return Ok(());
                }
            }
        };
        // Copies end before the engine is taken: the ring's lock comes first.
        self.free_h2t(&ring);
        Ok(())
    }

    /// Ends a process's hold on queues, before its memory goes: engines and queues
    /// ascending, its service and model rings are pointed at the dummy ring, its requested
    /// H2T rings are freed. Default rings are nobody's; NX queues keep their registers.
    pub fn release_process_queues(&self, pid: i32) {
        for id in 0..self.arch().engines() {
            for qid in Self::queue_numbers() {
                if let Err(error) = self.release_if_held(id, qid, pid) {
                    tracing::error!(engine = id, queue = qid, pid, %error, "queue cannot be reset");
                }
            }
        }
    }

    fn release_if_held(&self, engine: u32, qid: u32, pid: i32) -> Result<(), Errno> {
        let mut engine = self.engines().lock(engine)?;
        let queue = engine.queue(qid)?;
        if queue.holder() != Some(pid) {
            return Ok(());
        }
        if let Some(ring) = queue.h2t().cloned() {
            drop(engine);
            self.free_h2t(&ring);
            return Ok(());
        }
        let held = std::mem::take(&mut queue.flavour);
        let reset = self.reset_queue(&mut engine, qid);
        drop(engine);
        // The hardware is off the process's memory: now it may go.
        drop(held);
        reset
    }
}
