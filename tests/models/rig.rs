//! A device on the machine, and what processes do with it.

use std::sync::Arc;

use neuron_abi::arch::{Generation, PAGE_SIZE};
use neuron_abi::errno::Errno;
use neuron_abi::memory::{Category, MemLocation};
use neuron_driver::dma::copy::ChunkCopy;
use neuron_driver::introspect::QueueView;
use neuron_driver::pool::{ChunkRef, Lifespan, PoolParams, Request};
use neuron_driver::user::{Access, PageRun, Pinned, UserBuffer};
use neuron_driver::{Device, OpenFile, OpenMode, Params};
use shuttle::sync::mpsc::channel;
use shuttle::thread::{self, JoinHandle};
use vm_memory::Bytes;

use crate::engine::Shared;
use crate::machine::{Clock, Machine};

/// `previous` of a copy that waits for nothing.
pub(crate) const NONE: u32 = u32::MAX;

/// A device, and the machine under it.
pub(crate) struct Rig {
    pub(crate) device: Arc<Device>,
    pub(crate) machine: Arc<Machine>,
    engine: JoinHandle<()>,
    /// Bytes that the driver itself holds.
    own: u64,
}

impl Rig {
    /// A device of `generation` with the cores of `map` up.
    pub(crate) fn new(generation: Generation, map: u32) -> Self {
        Self::with(generation, map, Params::default())
    }

    /// The same with other parameters.
    pub(crate) fn with(generation: Generation, map: u32, params: Params) -> Self {
        let (bell, bells) = channel();
        let shared = Arc::new(Shared::new(generation.geometry().host_base));
        let machine = Arc::new(Machine::new(generation, Arc::clone(&shared), bell));
        let pools = PoolParams { small_pool_size: 0, host_reserve: 0, ..PoolParams::default() };
        let params = Params { bring_up: false, pools, ..params };
        let device = Device::probe(Arc::clone(&machine) as _, Arc::new(Clock::default()), params).unwrap();
        device.init_cores(map).unwrap();
        let engine = thread::spawn(move || shared.run(bells));
        let own = machine.shared().state().memory.in_use().0;
        Self { device, machine, engine, own }
    }

    /// Everything that processes had is given back.
    pub(crate) fn all_is_back(&self) {
        assert_eq!(
            self.machine.shared().state().memory.in_use(),
            (self.own, 0),
            "bytes in use, pages pinned"
        );
    }

    /// Nobody uses the device any more: it gives back what it had.
    pub(crate) fn end(self) {
        let Self { device, machine, engine, .. } = self;
        let shared = Arc::clone(machine.shared());
        drop((device, machine));
        // The engine ends with the last holder of the machine.
        engine.join().unwrap();
        assert_eq!(shared.state().memory.in_use(), (0, 0), "bytes in use, pages pinned");
    }

    /// A queue as the driver shows it.
    pub(crate) fn view(&self, engine: u32, queue: u32) -> QueueView {
        let views = self.device.introspect();
        views.into_iter().find(|view| (view.engine, view.queue) == (engine, queue)).unwrap()
    }
}

/// A process that has the device open.
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) file: OpenFile,
    machine: Arc<Machine>,
}

impl Process {
    pub(crate) fn open(rig: &Rig, pid: i32) -> Self {
        Self::on(&rig.device, Arc::clone(&rig.machine), pid)
    }

    pub(crate) fn on(device: &Arc<Device>, machine: Arc<Machine>, pid: i32) -> Self {
        let file = OpenFile::open(device, pid, OpenMode::Full).unwrap();
        Self { pid, file, machine }
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        self.file.device()
    }

    /// Allocates host memory that `core` copies, with a handle.
    pub(crate) fn chunk(&self, bytes: u64, core: u32) -> (ChunkRef, u64) {
        let pools = self.device().pools();
        let chunk = pools
            .allocate(Request {
                size: bytes,
                align: 0,
                location: MemLocation::Host,
                channel: 0,
                core,
                category: Category::TensorsHost as u32,
                lifespan: Lifespan::CurrentProcess,
                pid: self.pid,
                usage: None,
            })
            .unwrap();
        let handle = pools.publish(&chunk).unwrap();
        (chunk, handle)
    }

    /// A buffer of the process, one page of memory for each of `pages`.
    pub(crate) fn buffer(&self, pages: usize) -> Arc<Pages> {
        let physical = (0..pages).map(|_| self.machine.shared().state().memory.user_page()).collect();
        Arc::new(Pages { machine: Arc::clone(&self.machine), physical })
    }
}

/// Copies all of one chunk over another one's start.
pub(crate) fn copy(source: &ChunkRef, destination: &ChunkRef, bytes: u64) -> ChunkCopy {
    ChunkCopy {
        source: Arc::clone(source),
        destination: Arc::clone(destination),
        source_offset: 0,
        destination_offset: 0,
        bytes,
    }
}

/// Bytes that tell whose they are.
pub(crate) fn fill(chunk: &ChunkRef, seed: u8) -> Vec<u8> {
    let bytes: Vec<u8> = (0..chunk.size()).map(|index| (index % 251) as u8 ^ seed).collect();
    chunk.host_slice().unwrap().write_slice(&bytes, 0).unwrap();
    bytes
}

/// What a chunk holds.
pub(crate) fn bytes(chunk: &ChunkRef, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    chunk.host_slice().unwrap().read_slice(&mut bytes, 0).unwrap();
    bytes
}

/// Whether an error is one of those that a copy may meet.
pub(crate) fn only(outcome: Result<(), Errno>, errors: &[Errno]) -> bool {
    assert!(outcome.is_ok() || outcome.is_err_and(|error| errors.contains(&error)), "{outcome:?}");
    outcome.is_ok()
}

/// A buffer of whole pages that lie apart.
pub(crate) struct Pages {
    machine: Arc<Machine>,
    physical: Vec<u64>,
}

impl Pages {
    pub(crate) fn len(&self) -> u64 {
        self.physical.len() as u64 * PAGE_SIZE
    }

    pub(crate) fn fill(&self, seed: u8) -> Vec<u8> {
        let bytes: Vec<u8> = (0..self.len()).map(|index| (index % 241) as u8 ^ seed).collect();
        let state = self.machine.shared().state();
        for (page, bytes) in self.physical.iter().zip(bytes.chunks(PAGE_SIZE as usize)) {
            state.memory.bytes(*page, bytes.len()).write_slice(bytes, 0).unwrap();
        }
        bytes
    }
}

impl UserBuffer for Pages {
    fn pin(&self, offset: u64, bytes: u64) -> Result<Pinned, Errno> {
        let touched = (offset / PAGE_SIZE) as usize..(offset + bytes).div_ceil(PAGE_SIZE) as usize;
        let pages = self.physical[touched].to_vec();
        let runs = pages.iter().map(|&address| PageRun { address, pages: 1 }).collect();
        Ok(Pinned::new(runs, Arc::new(Hold::new(&self.machine, pages))))
    }
}

/// Pages that stay pinned.
struct Hold {
    machine: Arc<Machine>,
    pages: Vec<u64>,
}

impl Hold {
    fn new(machine: &Arc<Machine>, pages: Vec<u64>) -> Self {
        let hold = Self { machine: Arc::clone(machine), pages };
        hold.set(true);
        hold
    }

    fn set(&self, pinned: bool) {
        let mut state = self.machine.shared().state();
        self.pages.iter().for_each(|page| state.memory.pin(*page, pinned));
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// The zero-copy of a buffer's bytes into a chunk or out of it.
pub(crate) fn operation(
    chunk: &ChunkRef,
    buffer: &Arc<Pages>,
    context: u64,
) -> neuron_driver::dma::zerocopy::Operation {
    neuron_driver::dma::zerocopy::Operation {
        chunk: Arc::clone(chunk),
        offset: 0,
        buffer: Arc::clone(buffer) as _,
        address: 0x5000_0000_0000,
        bytes: buffer.len(),
        context,
    }
}

/// To the device, as a zero-copy sees it.
pub(crate) const WRITE: Access = Access::Read;
