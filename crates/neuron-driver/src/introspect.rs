//! What the driver knows of its queues, for people to look at: who has a queue, for which
//! core, and where software's cursors stand.
//!
//! Ours, and outside the ABI: the shipped driver shows none of this. Read-only. Registers
//! and ring memory are not read here; queue state and descriptors come through the ioctls
//! that show them.

use neuron_udma::{Direction, QueueStatus};

use crate::device::Device;
use crate::ring::context::CONTEXTS;
use crate::ring::{Addresses, Engine, Flavour, H2tRing, Queue};

/// What is on a queue (`spec/driver.md` 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlavourView {
    /// Nothing.
    Unused,
    /// The ring that the driver copies with for a core.
    DefaultH2t,
    /// A copy ring that a process asked for.
    RequestedH2t,
    /// Claimed by a process that manages the ring itself.
    Service,
    /// Bound by a process without a claim.
    Model,
}

impl FlavourView {
    pub(crate) const fn of(flavour: &Flavour) -> Self {
        match flavour {
            Flavour::Unused => Self::Unused,
            Flavour::H2t { requested_by: None, .. } => Self::DefaultH2t,
            Flavour::H2t { requested_by: Some(_), .. } => Self::RequestedH2t,
            Flavour::Service { .. } => Self::Service,
            Flavour::Model { .. } => Self::Model,
        }
    }
}

/// Software's side of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingView {
    /// Bus address it was programmed with, 0 for none.
    pub base: u64,
    /// Descriptors, 0 for a ring that was never programmed.
    pub size: u32,
    /// What software last did to the queue.
    pub status: QueueStatus,
    /// Whether the driver puts descriptors into it. If not, a process does: then `next`,
    /// `available` and `in_flight` say nothing of what is in the ring.
    pub driver_fills: bool,
    /// Index of the slot that is prepared next (`next_desc_idx`).
    pub next: u32,
    /// Index of the slot that is acknowledged next (`next_cdesc_idx`).
    pub completed: u32,
    /// Ring id, that is phase, of the slot at `next`.
    pub ring_id: u8,
    /// Slots that can be prepared now: all but those in flight and the gap of 16. `None`
    /// for a size that is no power of two, where this cannot be told.
    pub available: Option<u32>,
    /// Slots prepared and not acknowledged. `None` as for `available`.
    pub in_flight: Option<u32>,
}

/// The two words of a context's completion marker, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerView {
    /// Bus address of the word that is copied; the one that is polled lies 4 bytes behind.
    pub address: u64,
    /// Its value: 0xabcdef01 when armed.
    pub source: u32,
    /// Value of the word that is polled: 0, or 0xabcdef01 when the marker has landed.
    pub destination: u32,
}

/// One queue of an engine that was initialised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// Engine.
    pub engine: u32,
    /// Queue of the engine.
    pub queue: u32,
    /// What is on it.
    pub flavour: FlavourView,
    /// Process that owns the ring, 0 for the driver or nobody: also of H2T rings that a
    /// process asked for.
    pub owner: i32,
    /// Process whose exit ends it.
    pub held_by: Option<i32>,
    /// Core it belongs to, for H2T and service rings.
    pub core: Option<u32>,
    /// Whether it is a ring the driver copies with (`ndmar_h2t_ring_is_h2t`, seed 003 §2).
    pub is_h2t: bool,
    /// Whether a request claimed it (`ndmar_h2t_ring_is_allocated`). Default rings are not.
    pub is_allocated: bool,
    /// The core for which `ndmar_h2t_ring_is_owner` holds.
    pub is_owner_core: Option<u32>,
    /// Whether NX cores drive it: the driver never resets it.
    pub is_nx: bool,
    /// Where the rings are, as the driver shows it (`spec/driver.md` 6.1).
    pub shown: Addresses,
    /// TX ring.
    pub tx: RingView,
    /// RX ring.
    pub rx: RingView,
    /// Markers of the contexts SYNC, ASYNC1 and ASYNC2 of an H2T ring.
    pub markers: Option<[MarkerView; CONTEXTS]>,
}

impl Device {
    /// All queues of all initialised engines, engines and queues ascending.
    ///
    /// One engine is locked at a time and no ring's copy lock is taken: so nothing waits
    /// for a copy, queues of one engine fit each other, and those of different engines may
    /// be some time apart.
    pub fn introspect(&self) -> Vec<QueueView> {
        let mut views = Vec::new();
        for id in 0..self.arch().engines() {
            if let Ok(engine) = self.engines().lock(id) {
                let initialised = (0..engine.udma.num_queues()).zip(&engine.queues);
                views.extend(initialised.filter_map(|(qid, queue)| self.view(&engine, qid, queue)));
            }
        }
        views
    }

    fn view(&self, engine: &Engine, qid: u32, queue: &Queue) -> Option<QueueView> {
        Some(QueueView {
            engine: engine.id,
            queue: qid,
            flavour: FlavourView::of(&queue.flavour),
            owner: queue.owner(),
            held_by: queue.holder(),
            core: queue.core(),
            is_h2t: queue.h2t().is_some(),
            is_allocated: queue.is_claimed(),
            is_owner_core: queue.core().filter(|core| queue.is_h2t_of(*core)),
            is_nx: self.arch().is_nx_queue(engine.id, qid),
            shown: queue.shown,
            tx: ring(engine.udma.queue(Direction::Tx, qid).ok()?),
            rx: ring(engine.udma.queue(Direction::Rx, qid).ok()?),
            markers: queue.h2t().and_then(|ring| markers(ring)),
        })
    }
}

fn ring(queue: &neuron_udma::Queue) -> RingView {
    let cursor = queue.cursor();
    let (size, next, completed) = (cursor.size(), cursor.next(), cursor.completed());
    RingView {
        base: queue.base(),
        size,
        status: queue.status(),
        driver_fills: queue.allocatable(),
        next,
        completed,
        ring_id: cursor.ring_id(),
        available: cursor.available().ok(),
        in_flight: match size {
            0 => Some(0),
            size => size.is_power_of_two().then(|| next.wrapping_sub(completed) & (size - 1)),
        },
    }
}

fn markers(ring: &H2tRing) -> Option<[MarkerView; CONTEXTS]> {
    let view = |context| {
        let marker = ring.marker(context).ok()?;
        let (source, destination) = marker.words()?;
        Some(MarkerView { address: marker.copy().source, source, destination })
    };
    Some([view(0)?, view(1)?, view(2)?])
}
