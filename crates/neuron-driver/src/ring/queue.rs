//! One queue, and what is on it (`spec/driver.md` 2).
//!
//! The C code keeps a claim flag, a marker pointer and an owner side by side and asks
//! three predicates of them. Here the combinations that mean something are variants, and
//! the predicates are questions to ask of them.

use std::sync::Arc;

use super::H2tRing;
use crate::pool::ChunkRef;

/// One queue of an engine.
#[derive(Debug, Default)]
pub struct Queue {
    /// What is on it.
    pub flavour: Flavour,
    /// Where the registers point, if anywhere. Outlives the references: a queue whose
    /// hardware was not touched keeps showing what it was programmed with.
    pub shown: Addresses,
}

/// Bus addresses of both rings, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// TX ring.
    pub tx: u64,
    /// RX ring.
    pub rx: u64,
}

/// Memory of a ring that a process bound: held from bind to rebind, reset, release or
/// exit, so that an engine never fetches from memory that somebody else got.
#[derive(Debug, Default)]
pub struct Bound {
    /// TX ring's chunk.
    pub tx: Option<ChunkRef>,
    /// RX ring's chunk.
    pub rx: Option<ChunkRef>,
}

/// What a queue is used for.
#[derive(Debug, Default)]
pub enum Flavour {
    /// Nothing.
    #[default]
    Unused,
    /// A ring the driver copies with: the core's default one, or one that a process
    /// asked for. It owns its rings, marker and contexts.
    H2t {
        /// The ring.
        ring: Arc<H2tRing>,
        /// Process that asked for it; `None` for a default ring.
        requested_by: Option<i32>,
    },
    /// Claimed by a process that manages the ring itself. The driver owns nothing of it.
    Service {
        /// Core it was claimed for.
        core: u32,
        /// Process that claimed it.
        owner: i32,
        /// What it bound, if it did.
        bound: Bound,
    },
    /// A ring that a process bound without a claim.
    Model {
        /// Process that bound it.
        owner: i32,
        /// What it bound.
        bound: Bound,
    },
}

impl Queue {
    /// The H2T ring, if it is one (`ndmar_h2t_ring_is_h2t`).
    pub const fn h2t(&self) -> Option<&Arc<H2tRing>> {
        match &self.flavour {
            Flavour::H2t { ring, .. } => Some(ring),
            _ => None,
        }
    }

    /// Whether a request claimed it, H2T or service (`ndmar_h2t_ring_is_allocated`).
    /// Default rings are not claimed.
    pub const fn is_claimed(&self) -> bool {
        matches!(self.flavour, Flavour::H2t { requested_by: Some(_), .. } | Flavour::Service { .. })
    }

    /// Whether it is the H2T ring of this core (`ndmar_h2t_ring_is_owner`).
    pub fn is_h2t_of(&self, core: u32) -> bool {
        self.h2t().is_some_and(|ring| ring.core() == core)
    }

    /// Core it belongs to, for H2T and service rings.
    pub fn core(&self) -> Option<u32> {
        match &self.flavour {
            Flavour::H2t { ring, .. } => Some(ring.core()),
            Flavour::Service { core, .. } => Some(*core),
            Flavour::Unused | Flavour::Model { .. } => None,
        }
    }

    /// Process whose ring it is; 0 is the driver, or nobody. Requested H2T rings show the
    /// driver, which owns them; see [`holder`](Self::holder).
    pub const fn owner(&self) -> i32 {
        match self.flavour {
            Flavour::Unused | Flavour::H2t { .. } => 0,
            Flavour::Service { owner, .. } | Flavour::Model { owner, .. } => owner,
        }
    }

    /// Process whose exit ends it.
    pub const fn holder(&self) -> Option<i32> {
        match self.flavour {
            Flavour::Unused => None,
            Flavour::H2t { requested_by, .. } => requested_by,
            Flavour::Service { owner, .. } | Flavour::Model { owner, .. } => Some(owner),
        }
    }

    /// Whether the memory behind the RX ring is held: only then may a doorbell be rung.
    pub const fn has_rx(&self) -> bool {
        match &self.flavour {
            Flavour::Unused => false,
            Flavour::H2t { .. } => true,
            Flavour::Service { bound, .. } | Flavour::Model { bound, .. } => bound.rx.is_some(),
        }
    }

    /// The core is closed: a service ring of it is claimed no longer.
    pub(crate) fn drop_claim(&mut self, closed: u32) {
        if !matches!(self.flavour, Flavour::Service { core, .. } if core == closed) {
            return;
        }
        if let Flavour::Service { owner, bound, .. } = std::mem::take(&mut self.flavour) {
            self.flavour = Flavour::Model { owner, bound };
        }
    }
}
