//! The ring the driver copies with: two descriptor rings, a marker buffer, and the
//! contexts of copies in progress.

use std::sync::OnceLock;

use neuron_abi::errno::Errno;
use neuron_udma::RingBase;

use super::completion::{self, CompletionQueue};
use super::context::Contexts;
use super::context_queue::CAPACITY;
use super::marker::{self, Marker};
use super::queue::Addresses;
use super::{H2T_RING, H2T_RING_BYTES};
use crate::hw::DmaMemory;
use crate::pool::{ChunkRef, Lifespan, Pools, Request};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// A driver-owned copy ring. Dropping the last reference gives its chunks back; take it
/// off its queue and let copies end first.
#[derive(Debug)]
pub struct H2tRing {
    engine: u32,
    qid: u32,
    core: u32,
    memory: H2tMemory,
    /// Markers of zero-copy transfers, from the first one on.
    zero_copy_markers: OnceLock<ChunkRef>,
    /// The ring copy lock: held for the whole of a copy.
    contexts: Mutex<Contexts>,
}

/// Memory of an H2T ring that is on no queue yet.
#[derive(Debug)]
pub struct H2tMemory {
    tx: ChunkRef,
    rx: ChunkRef,
    markers: ChunkRef,
}

impl H2tMemory {
    /// Allocates RX, TX, marker, in this order, all host memory of device lifespan, zeroed
    /// so that no stale phase can be read. Programs nothing.
    ///
    /// # Errors
    /// ENOMEM; what was allocated is given back.
    pub fn allocate(pools: &Pools, core: u32) -> Result<Self, Errno> {
        let mut taken: Vec<ChunkRef> = Vec::with_capacity(3);
        for bytes in [H2T_RING_BYTES, H2T_RING_BYTES, marker::BUFFER_BYTES] {
            match pools.allocate(Request::driver_host(bytes, core, Lifespan::Device)) {
                Ok(chunk) => taken.push(chunk),
                Err(error) => {
                    taken.iter().for_each(|chunk| pools.discard(chunk));
                    return Err(error);
                }
            }
        }
        let Ok([rx, tx, markers]) = <[ChunkRef; 3]>::try_from(taken) else { return Err(Errno::ENOMEM) };
        for chunk in [&rx, &tx, &markers] {
            if let Some(memory) = chunk.host_memory() {
                memory.fill(0);
            }
        }
        Ok(Self { tx, rx, markers })
    }

    /// Takes the chunks off the pools' lists: they go when their last holder does.
    pub fn discard(&self, pools: &Pools) {
        for chunk in [&self.tx, &self.rx, &self.markers] {
            pools.discard(chunk);
        }
    }

    /// Where (TX, RX) are on the bus, for programming.
    pub fn bases(&self) -> (RingBase, RingBase) {
        (RingBase::new(self.tx.pa(), H2T_RING), RingBase::new(self.rx.pa(), H2T_RING))
    }
}

impl H2tRing {
    /// A ring of this memory on a queue, copying for a core.
    pub fn new(memory: H2tMemory, engine: u32, qid: u32, core: u32) -> Self {
        Self { engine, qid, core, memory, zero_copy_markers: OnceLock::new(), contexts: Mutex::default() }
    }

    /// Takes its chunks off the pools' lists: they go when the ring's last holder does.
    pub fn discard(&self, pools: &Pools) {
        self.memory.discard(pools);
        if let Some(markers) = self.zero_copy_markers.get() {
            pools.discard(markers);
        }
        if let Some(queue) = &self.lock().zero_copy.completions {
            pools.discard(queue.chunk());
        }
    }

    /// The completion queue of its asynchronous zero-copy requests, which `contexts` of this
    /// ring are to have. Made when it is first needed (our choice): what no recorded driver
    /// allocates moves none of the memory that it does.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn completions<'a>(
        &self,
        contexts: &'a mut Contexts,
        pools: &Pools,
    ) -> Result<&'a CompletionQueue, Errno> {
        let queue = &mut contexts.zero_copy.completions;
        if queue.is_none() {
            let request = Request::driver_host(completion::BYTES, self.core, Lifespan::Device);
            *queue = Some(CompletionQueue::new(pools.allocate(request)?));
        }
        queue.as_ref().ok_or(Errno::ENOMEM)
    }

    /// Makes the markers of zero-copy transfers, if the ring has none yet. Under the ring's
    /// copy lock.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn prepare_zero_copy(&self, pools: &Pools) -> Result<(), Errno> {
        if self.zero_copy_markers.get().is_none() {
            let bytes = (CAPACITY * marker::MARKER_BYTES) as u64;
            let markers = pools.allocate(Request::driver_host(bytes, self.core, Lifespan::Device))?;
            let _first = self.zero_copy_markers.set(markers);
        }
        Ok(())
    }

    /// The marker of a zero-copy transfer.
    ///
    /// # Errors
    /// EINVAL never, after [`prepare_zero_copy`](Self::prepare_zero_copy).
    pub fn zero_copy_marker(&self, slot: usize) -> Result<Marker<'_>, Errno> {
        let markers = self.zero_copy_markers.get().ok_or(Errno::EINVAL)?;
        Marker::new(markers.host_memory().ok_or(Errno::EINVAL)?.slice(), markers.pa(), slot)
    }

    /// Engine it is on.
    pub const fn engine(&self) -> u32 {
        self.engine
    }

    /// Queue it is on.
    pub const fn qid(&self) -> u32 {
        self.qid
    }

    /// Core it copies for.
    pub const fn core(&self) -> u32 {
        self.core
    }

    /// Where (TX, RX) are on the bus, for programming.
    pub fn bases(&self) -> (RingBase, RingBase) {
        self.memory.bases()
    }

    /// Bus addresses of both rings.
    pub fn addresses(&self) -> Addresses {
        Addresses { tx: self.memory.tx.pa(), rx: self.memory.rx.pa() }
    }

    /// Bus address of the marker buffer.
    pub fn marker_address(&self) -> u64 {
        self.memory.markers.pa()
    }

    /// Ring memory of (TX, RX).
    ///
    /// # Errors
    /// EINVAL never: the chunks are host memory.
    pub fn memory(&self) -> Result<(&DmaMemory, &DmaMemory), Errno> {
        self.memory.tx.host_memory().zip(self.memory.rx.host_memory()).ok_or(Errno::EINVAL)
    }

    /// The marker of a context.
    ///
    /// # Errors
    /// EINVAL never, for one of the three contexts.
    pub fn marker(&self, context: usize) -> Result<Marker<'_>, Errno> {
        let markers = &self.memory.markers;
        Marker::new(markers.host_memory().ok_or(Errno::EINVAL)?.slice(), markers.pa(), context)
    }

    /// Takes the copy lock.
    pub fn lock(&self) -> MutexGuard<'_, Contexts> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
