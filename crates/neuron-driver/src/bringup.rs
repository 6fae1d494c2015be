//! Cores up and down: their engines initialised, their default ring made and freed
//! (`ndmar_init_nc`, `ndmar_close_nc`; seed 003 §5).

use std::sync::Arc;

use neuron_abi::errno::Errno;

use crate::device::Device;
use crate::error::udma_errno;
use crate::hw::Bar0;
use crate::ring::{H2tRing, Ring};

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
        let qid = self.arch().default_queue(core);
        let ring = Arc::new(H2tRing::allocate(self.pools(), engine, qid, core)?);
        let programmed = self.bind_h2t(&ring);
        if programmed.is_err() {
            ring.discard(self.pools());
        }
        programmed
    }

    /// Puts an H2T ring on its queue and programs it.
    fn bind_h2t(&self, ring: &Arc<H2tRing>) -> Result<(), Errno> {
        let mut engine = self.engines().lock(ring.engine())?;
        let (tx, rx) = ring.bases();
        engine
            .udma
            .init_queue(&Bar0(self.hardware()), ring.qid(), tx, rx, false, true)
            .map_err(udma_errno)?;
        let queue = engine.queue(ring.qid())?;
        queue.owner = 0;
        queue.ring = Ring::H2t(Arc::clone(ring));
        self.engines().mark_used_for_h2t(ring.engine());
        Ok(())
    }

    /// Closes the cores of `map`: their H2T rings are taken off and freed, default rings
    /// included. Engines keep running.
    pub fn close_cores(&self, map: u32) {
        let mut up = self.cores_up();
        for core in (0..self.geometry().cores).filter(|core| map >> core & 1 == 1) {
            for ring in self.engines().h2t_rings().into_iter().filter(|ring| ring.core() == core) {
                self.unbind_h2t(&ring);
            }
            *up &= !(1 << core);
        }
    }

    /// Takes a ring off its queue once no copy uses it, and lets its memory go.
    fn unbind_h2t(&self, ring: &Arc<H2tRing>) {
        let contexts = ring.lock();
        if let Ok(mut engine) = self.engines().lock(ring.engine())
            && engine.holds(ring)
            && let Ok(queue) = engine.queue(ring.qid())
        {
            queue.ring = Ring::Unused;
        }
        drop(contexts);
        ring.discard(self.pools());
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.close_cores(u32::MAX);
        self.pools().sweep_device();
    }
}
