//! What is asked: the instance, the cores, how tensors get to them, and what there is besides
//! tensors.

use serde::Serialize;

use crate::costs::Costs;

/// The alignment at which holes are looked for unless another is asked for: what a page of
/// scratchpad asks for (`spec/dmem.md` 5.2).
pub const DEFAULT_ALIGN: u64 = 4 << 20;

/// How tensors get to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Each is split over all cores: see [`Tensor::shard`](crate::Tensor::shard).
    Shard,
    /// Each is on every core.
    Replicate,
    /// Each is on one core, the largest first to the core that has least: what `neuron-mem load`
    /// does ([`spread`](crate::spread)).
    RoundRobin,
}

/// A question. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Instance type.
    pub instance: String,
    /// Logical cores to use, over as many devices as that takes; `None`: those of the first device.
    pub tp: Option<u32>,
    /// Physical cores of a logical one, 1 or 2; `None`: 2, or 1 on generation V2 (`spec/ndl.md` 7), and 1
    /// where the placement is that of `load`, which knows physical cores only.
    pub lnc: Option<u32>,
    /// How tensors get to cores; `None`: [`Placement::Shard`] with a `tp`, else
    /// [`Placement::RoundRobin`].
    pub placement: Option<Placement>,
    /// Physical cores of the first device to use; `None`: see [`tp`](Self::tp).
    pub cores: Option<Vec<u32>>,
    /// KV cache, in all: split evenly over the cores, or whole on each with [`Placement::Replicate`].
    pub kv: u64,
    /// Shared scratchpad of each logical core.
    pub scratchpad_page: u64,
    /// Scratchpad that graphs do not share, of each logical core.
    pub scratchpad_private: u64,
    /// Instructions of each logical core; `None`: not known, and counted as none.
    pub code: Option<u64>,
    /// What each physical core costs.
    pub costs: Costs,
    /// The alignment at which holes are looked for.
    pub align: u64,
}

impl Ask {
    /// Whether models fit on this instance type, nothing else asked.
    #[must_use]
    pub fn on(instance: &str) -> Self {
        Self {
            instance: instance.to_owned(),
            tp: None,
            lnc: None,
            placement: None,
            cores: None,
            kv: 0,
            scratchpad_page: 0,
            scratchpad_private: 0,
            code: None,
            costs: Costs::default(),
            align: DEFAULT_ALIGN,
        }
    }

    /// The placement that counts.
    #[must_use]
    pub fn placement(&self) -> Placement {
        match (self.placement, self.tp) {
            (Some(placement), _) => placement,
            (None, Some(_)) => Placement::Shard,
            (None, None) => Placement::RoundRobin,
        }
    }
}
