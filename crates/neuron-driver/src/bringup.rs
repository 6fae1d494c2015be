//! Cores up and down: their engines initialised, their default ring made and freed
//! (`ndmar_init_nc`, `ndmar_close_nc`; seed 003 §5).

use std::sync::Arc;

use neuron_abi::errno::Errno;

use crate::device::Device;
use crate::error::udma_errno;
use crate::hw::Bar0;
use crate::ring::{Engine, Flavour, H2tMemory, H2tRing, Queue};

impl Device {
    /// Brings up the cores of `map` that exist and are not up yet, lowest first.
    ///
    /// # Errors
    /// The first core that fails ends it; cores before it stay up, and its own ring is
    /// undone.
    pub fn init_cores(&self, map: u32) -> Result<(), Errno> {
        let map = map & self.geometry().device_nc_map;
        let mut up = self.cores_up();
        for core in (0..self.geometry().cores).filter(|core| map >> core & 1 == 1) {
            if *up >> core & 1 == 0 {
                self.init_core(core, map)?;
                *up |= 1 << core;
            }
        }
        Ok(())
    }

    fn init_core(&self, core: u32, map: u32) -> Result<(), Errno> {
        let h2t = self.arch().h2t_engine(core);
        let own = self.arch().engines_of_core(core);
        let shared = (!own.contains(&h2t) && self.arch().inits_h2t_engine(core, map)).then_some(h2t);
        for engine in own.chain(shared) {
            self.init_engine(engine)?;
        }
        self.make_default_ring(core, h2t)
    }

    fn init_engine(&self, engine: u32) -> Result<(), Errno> {
        let params = self.arch().engine_params(engine).ok_or(Errno::EINVAL)?;
        self.engines().lock(engine)?.udma.init(&Bar0(self.hardware()), &params).map_err(udma_errno)
    }

    /// Allocates without the engine's lock, then programs under it.
    fn make_default_ring(&self, core: u32, engine: u32) -> Result<(), Errno> {
        let memory = H2tMemory::allocate(self.pools(), core)?;
        let mut engine = self.engines().lock(engine)?;
        self.put_h2t(&mut engine, self.arch().default_queue(core), core, memory, None)
    }

    /// Programs a queue for an H2T ring and puts the ring on it. On failure the memory is
    /// given back and the queue is as it was.
    pub(crate) fn put_h2t(
        &self,
        engine: &mut Engine,
        qid: u32,
        core: u32,
        memory: H2tMemory,
        requested_by: Option<i32>,
    ) -> Result<(), Errno> {
        let (tx, rx) = memory.bases();
        let programmed = engine
            .udma
            .init_queue(&Bar0(self.hardware()), qid, tx, rx, false, true)
            .map_err(udma_errno)
            .and_then(|()| engine.queue(qid).map(drop));
        if let Err(error) = programmed {
            memory.discard(self.pools());
            return Err(error);
        }
        let ring = Arc::new(H2tRing::new(memory, engine.id, qid, core));
        let shown = ring.addresses();
        *engine.queue(qid)? = Queue { flavour: Flavour::H2t { ring, requested_by }, shown };
        self.engines().mark_used_for_h2t(engine.id);
        Ok(())
    }

    /// Takes an H2T ring off its queue once no copy uses it, and lets its memory go. No
    /// register is written: a queue without a ring takes no doorbell.
    pub(crate) fn free_h2t(&self, ring: &Arc<H2tRing>) {
        let mut contexts = ring.lock();
        self.drain(ring, &mut contexts);
        if let Ok(mut engine) = self.engines().lock(ring.engine())
            && engine.holds(ring)
            && let Ok(queue) = engine.queue(ring.qid())
        {
            *queue = Queue::default();
        }
        drop(contexts);
        ring.discard(self.pools());
    }

    /// Closes the cores of `map`: their H2T rings are freed, default ones included, and
    /// claims of service rings are dropped, whose owners keep what they bound. Engines
    /// keep running.
    pub fn close_cores(&self, map: u32) {
        let mut up = self.cores_up();
        for core in (0..self.geometry().cores).filter(|core| map >> core & 1 == 1) {
            for ring in self.engines().h2t_rings().iter().filter(|ring| ring.core() == core) {
                self.free_h2t(ring);
            }
            if let Ok(mut engine) = self.engines().lock(self.arch().h2t_engine(core)) {
                engine.queues.iter_mut().for_each(|queue| queue.drop_claim(core));
            }
            *up &= !(1 << core);
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.completer().stop();
        self.close_cores(u32::MAX);
        self.pools().sweep_device();
    }
}
