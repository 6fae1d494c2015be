//! The machine under the driver: registers of the queues that a model looks at, the firmware's
//! reset words, memory, and time. All other registers take what is written and read 0.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use neuron_abi::arch::{Generation, Product};
use neuron_driver::arch::{Arch, QUEUES};
use neuron_driver::hw::{self, DmaMemory, Hardware, Identity};
use neuron_udma::MmioError;
use neuron_udma::regs::{Direction, S2M};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::mpsc::Sender;
use shuttle::thread;

use crate::engine::Shared;

/// The firmware's words (`spec/device.md` 2).
const CORE_MAP: u64 = 0x1d8;
const REQUEST: u64 = 0x1ec;
const TRIGGER: u64 = 0x800;
/// Bytes of an engine's registers.
const ENGINE: u64 = 0x4_0000;

/// The machine.
pub(crate) struct Machine {
    device_id: u16,
    arch: &'static Arch,
    /// Register bases of the engines that are modelled: the first core's first one and those
    /// that copy for the first two cores.
    engines: Vec<(u32, u64)>,
    shared: Arc<Shared>,
    bell: Sender<()>,
    /// Looks at the request word until the firmware has taken the request up.
    busy: AtomicU32,
    /// Cores of the next reset.
    map: AtomicU32,
}

impl Machine {
    pub(crate) fn new(generation: Generation, shared: Arc<Shared>, bell: Sender<()>) -> Self {
        let arch = Arch::of(generation);
        let mut engines = vec![0, arch.h2t_engine(0), arch.h2t_engine(1)];
        engines.dedup();
        let engines =
            engines.into_iter().filter_map(|engine| Some((engine, arch.engine_base(engine)?))).collect();
        let (busy, map) = (AtomicU32::new(0), AtomicU32::new(0));
        let product = Product::ALL.iter().find(|product| product.generation == generation).unwrap();
        let device_id = product.device_ids[0];
        Self { device_id, arch, engines, shared, bell, busy, map }
    }

    /// Engines hang, after so many more descriptors, until a reset of the first core or `resume`.
    pub(crate) fn hang_after(&self, descriptors: u32) {
        self.shared.state().hang_after(Some(descriptors));
    }

    /// Engines work again.
    pub(crate) fn resume(&self) {
        self.shared.state().hang_after(None);
        let _heard = self.bell.send(());
    }

    /// Memory, engines.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Engine, queue, direction and register of an offset, if it is modelled.
    fn decode(&self, offset: u64) -> Option<((u32, u32), Direction, u64)> {
        let (engine, base) =
            self.engines.iter().find(|(_, base)| (*base..base + ENGINE).contains(&offset))?;
        let within = offset - base;
        let (direction, within) =
            if within < S2M { (Direction::Tx, within) } else { (Direction::Rx, within - S2M) };
        let qid = (within / 0x1000).checked_sub(1)? as u32;
        (qid < QUEUES).then_some(((*engine, qid), direction, within % 0x1000))
    }

    fn reset(&self) {
        let map = self.map.swap(0, Ordering::SeqCst);
        // The whole device was asked for if no core was.
        let hit = |core: u32| map == 0 || map >> core & 1 == 1;
        let mut state = self.shared.state();
        for core in (0..2).filter(|core| hit(*core)) {
            state.reset_engine(self.arch.h2t_engine(core));
        }
        if hit(0) {
            state.hang_after(None);
        }
    }
}

impl Hardware for Machine {
    fn identity(&self) -> Identity {
        Identity { device_id: self.device_id, revision: 1 }
    }

    fn read(&self, offset: u64) -> Result<u32, MmioError> {
        if offset == self.arch.misc_ram + REQUEST {
            let busy = self.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            return Ok(busy.is_ok().into());
        }
        let at = self.decode(offset);
        Ok(at.map_or(0, |(place, direction, register)| self.shared.state().read(place, direction, register)))
    }

    fn write(&self, offset: u64, value: u32) -> Result<(), MmioError> {
        if offset == self.arch.misc_ram + CORE_MAP {
            self.map.store(value, Ordering::SeqCst);
        } else if offset == self.arch.misc_ram + TRIGGER {
            self.reset();
            self.busy.store(thread_rng().gen_range(0..2), Ordering::SeqCst);
        } else if let Some((place, direction, register)) = self.decode(offset) {
            let going = self.shared.state().write(place, direction, register, value);
            if going {
                let _heard = self.bell.send(());
            }
        }
        Ok(())
    }

    fn bar_size(&self, _bar: u8) -> u64 {
        0
    }

    fn dma_alloc(&self, bytes: u64) -> Option<DmaMemory> {
        Some(self.shared.state().memory.allocate(bytes))
    }

    fn dma_free(&self, memory: &DmaMemory) {
        self.shared.state().memory.free(memory.address());
    }
}

/// Time: it passes while somebody waits, and others run meanwhile.
#[derive(Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    fn wait(&self, microseconds: u64) {
        self.0.fetch_add(microseconds, Ordering::SeqCst);
        thread::yield_now();
    }
}

impl hw::Clock for Clock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn delay(&self, microseconds: u64) {
        self.wait(microseconds);
    }

    /// A patient poll's budget passes within the looks that it makes at least.
    fn relax(&self, microseconds: u64) {
        self.wait(microseconds * 1000);
    }

    fn sleep(&self, microseconds: u64) {
        self.wait(microseconds);
    }
}
